from __future__ import annotations

import gc
import hashlib
import re
import subprocess
import sys
import weakref
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from attention_samples import make_record
from matplotlib.image import imread

from seq2seq.errors import UserError
from viz import grid
from viz.style import Look, colours, norm, render, save

LONG = "▁Donaudampfschifffahrtsgesellschaft"


def test_equal_pictures_have_equal_bytes() -> None:
    """Also in another process, at another time: no dates, no random names."""
    code = (
        "import hashlib; from attention_samples import make_record; from viz import grid;"
        "from viz.style import render;"
        "figure = grid.layer(make_record(), 'cross', 0);"
        "print([hashlib.sha256(render(figure, e)).hexdigest() for e in ('png', 'svg', 'pdf')])"
    )
    out = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parent,
        env={"SOURCE_DATE_EPOCH": "86400", "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        check=True,
    ).stdout
    figure = grid.layer(make_record(), "cross", 0)
    ours = [hashlib.sha256(render(figure, e)).hexdigest() for e in ("png", "svg", "pdf")]
    assert out == f"{ours}\n".encode()


def test_a_figure_may_be_saved_several_times() -> None:
    figure = grid.layer(make_record(), "enc", 0)
    assert render(figure, "png") == render(figure, "png")
    assert render(figure, "svg") == render(figure, "svg")


def test_the_ending_decides_the_format(tmp_path) -> None:
    figure = grid.layer(make_record(), "enc", 0)
    for extension, magic in (("png", b"\x89PNG"), ("pdf", b"%PDF"), ("SVG", b"<?xml")):
        save(figure, tmp_path / f"a.{extension}")
        assert (tmp_path / f"a.{extension}").read_bytes().startswith(magic)
    with pytest.raises(UserError, match=r"'jpg': take png, svg, pdf"):
        save(figure, tmp_path / "a.jpg")
    with pytest.raises(UserError, match="Cannot write"):
        save(figure, tmp_path / "none" / "a.png")


@pytest.mark.parametrize(("tokens", "dpi"), [(19, 150), (20, 200)])
def test_resolution_grows_with_the_sentence(tmp_path, tokens, dpi) -> None:
    figure = grid.layer(make_record(["a"] * tokens), "enc", 0)  # and </s>
    save(figure, tmp_path / "a.png")
    height, width = imread(tmp_path / "a.png").shape[:2]
    assert (width, height) == pytest.approx(figure.get_size_inches() * dpi, abs=1)


def test_pdf_embeds_truetype_fonts() -> None:
    content = render(grid.layer(make_record(), "enc", 0), "pdf")
    assert b"/CIDFontType2" in content or b"/Subtype /TrueType" in content
    assert b"/Type3" not in content
    assert b"CreationDate" not in content


def test_svg_gives_clipped_labels_in_full() -> None:
    full = f"{LONG} & <b>"
    svg = render(grid.layer(make_record([full]), "enc", 0), "svg").decode("utf-8")
    name = "{http://www.w3.org/2000/svg}"
    groups = ElementTree.fromstring(svg).iter(f"{name}g")
    titles = [[title.text for title in group.findall(f"{name}title")] for group in groups]
    assert titles.count([full]) == 5  # above each of four heads, and once at the left
    assert sum(map(bool, titles)) == 5
    names = re.findall(r'<g id="([^"]+)"', svg)
    assert len(names) == len(set(names))


def test_heads_share_one_scale_from_zero_to_one() -> None:
    for sqrt in (True, False):
        assert [float(norm(sqrt)(x)) for x in (0, 1)] == [0, 1]
    assert float(norm(True)(0.09)) == pytest.approx(0.3)


def test_lighter_is_always_more() -> None:
    from viz.heatmap import luminance

    light = [luminance(colours()(x)[:3]) for x in np.linspace(0, 1, 256)]
    assert all(b > a - 1e-4 for a, b in pairwise(light))
    assert light[-1] > light[0] + 0.5


@pytest.mark.parametrize("name", ["scale", "special", "labels"])
def test_unknown_choices_are_refused(name) -> None:
    with pytest.raises(UserError, match=f"{name} is 'x', but must be one of"):
        Look(**{name: "x"})


def test_pictures_do_not_pile_up() -> None:
    """Nothing keeps a figure alive once it is written, unlike figures of pyplot."""
    figure = grid.layer(make_record(), "enc", 0)
    render(figure, "png")
    alive = weakref.ref(figure)
    del figure
    gc.collect()
    assert alive() is None
