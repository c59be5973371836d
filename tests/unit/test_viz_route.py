"""The picture of the route: what is written where, and that nothing covers anything."""

from itertools import combinations

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from seq2seq.analysis.head_id import HeadId
from seq2seq.analysis.route import Route, Step
from seq2seq.errors import UserError
from viz.route import route
from viz.style import render

SOURCE = ["▁The", "▁database", "▁rejected", "▁it", "▁because", "▁of", "▁$x$", "</s>"]
TARGET = ["<s>", "▁Die", "▁Datenbank", "▁weil"]


def make_route(**changes):
    even = [1 / 8] * 8
    steps = [
        Step(HeadId("enc", 0, 3), 0.48, 0.5, 3, [0, 0.9, 0, 0, 0, 0.1, 0, 0]),
        Step(HeadId("dec", 0, 1), -0.2, 0.0, 3, [0, 0, 0.8, 0.2]),
        Step(HeadId("cross", 1, 0), 1.2, 1.0, 3, even),
    ]
    given = {"source": SOURCE, "target": TARGET, "answer": "▁sie", "other": "▁er", "steps": steps}
    return Route(**{**given, "facts": ["run demo · checkpoint step 7"], **changes})


@pytest.mark.parametrize("count", [1, 2, 3])
def test_no_text_covers_another_or_leaves_the_picture(count):
    found = make_route()
    figure = route(make_route(steps=found.steps[:count]))
    FigureCanvasAgg(figure).draw()
    texts = [t for t in [*figure.texts, *figure.axes[0].texts] if t.get_text()]
    boxes = [(t.get_text(), t.get_window_extent()) for t in texts]
    width, height = figure.bbox.width, figure.bbox.height
    for text, box in boxes:
        assert 0 <= box.x0 < box.x1 <= width, text
        assert 0 <= box.y0 < box.y1 <= height, text
    for (a, first), (b, second) in combinations(boxes, 2):
        apart = (
            first.x1 <= second.x0 + 1
            or second.x1 <= first.x0 + 1
            or first.y1 <= second.y0 + 1
            or second.y1 <= first.y0 + 1
        )
        assert apart, (a, b)


def test_rings_stand_where_heads_write():
    figure = route(make_route())
    axes = figure.axes[0]
    where = {t.get_text(): t.get_position()[0] for t in axes.texts}
    rings = [c for c in axes.collections if len(c.get_facecolor()) == 0]
    columns = [float(ring.get_offsets()[0][0]) for ring in rings]
    assert columns == pytest.approx([where["it"], where["sie"], where["sie"]])


def test_dots_stand_on_what_is_attended_to_and_are_as_large():
    figure = route(make_route())
    axes = figure.axes[0]
    where = {t.get_text(): t.get_position()[0] for t in axes.texts}
    dots = [c for c in axes.collections if len(c.get_facecolor())]
    assert len(dots) == 2 + 2 + 8  # weights of 0 have none
    first, second = dots[:2]
    assert first.get_offsets()[0][0] == pytest.approx(where["database"])
    assert second.get_offsets()[0][0] == pytest.approx(where["of"])
    assert first.get_sizes()[0] / second.get_sizes()[0] == pytest.approx(9)  # area, not width
    assert dots[2].get_offsets()[0][0] == pytest.approx(where["Datenbank"])


def test_the_same_route_gives_the_same_bytes():
    for extension in ("png", "svg"):
        assert render(route(make_route()), extension) == render(route(make_route()), extension)


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"steps": []}, "no route to draw"), ({"source": ["▁a"] * 40}, "45 tokens together")],
)
def test_what_cannot_be_drawn_is_refused(changes, message):
    with pytest.raises(UserError, match=message):
        route(make_route(**changes))
