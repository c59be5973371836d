"""Where the letters of a figure really are: no text covers another or a map, or leaves the page."""

from __future__ import annotations

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg

from viz.style import drawing


def drawn_texts(figure):
    """Every text that the figure shows; of ticks, only those within the axes' limits."""
    found = list(figure.texts)
    for axes in figure.axes:
        found += [*axes.texts, axes.title]
        if axes.get_legend():
            found += axes.get_legend().get_texts()
        if not axes.axison:
            continue
        for axis in (axes.xaxis, axes.yaxis):
            found.append(axis.label)
            low, high = sorted(axis.get_view_interval())
            room = 1e-9 * (high - low)
            for tick in axis.get_major_ticks():
                if low - room <= tick.get_loc() <= high + room:
                    found += [tick.label1, tick.label2]
    return [text for text in found if text.get_visible() and text.get_text()]


def maps_of(figure):
    return [axes for axes in figure.axes if axes.images]


def text_boxes(figure):
    """Every text that the figure shows, and [N, 4]: its left, low, right, high in pixels."""
    with drawing():  # as it is saved
        renderer = FigureCanvasAgg(figure).get_renderer()
        figure.draw_without_rendering()  # lays everything out
        texts = drawn_texts(figure)
        return texts, np.array([text.get_window_extent(renderer).extents for text in texts])


def assert_tidy(figure):
    """No text leaves the page, meets another text, or lies on a map that it is not part of."""
    texts, boxes = text_boxes(figure)
    names = [text.get_text() for text in texts]
    assert names
    inside = (boxes[:, :2] >= figure.bbox.min).all(1) & (boxes[:, 2:] <= figure.bbox.max).all(1)
    assert inside.all(), (
        f"outside the page: {[n for n, ok in zip(names, inside, strict=True) if not ok]}"
    )
    overlap = np.triu(_shared(boxes, boxes), 1)
    first, second = np.unravel_index(overlap.argmax(), overlap.shape)
    assert overlap.max() <= 0.5, (names[first], names[second], overlap.max())
    for axes in maps_of(figure):
        frame = np.array([axes.get_window_extent().extents])
        foreign = np.array([text.axes is not axes or text not in axes.texts for text in texts])
        covers = foreign & (_shared(boxes, frame)[:, 0] > 0)
        assert not covers.any(), (np.array(names)[covers].tolist(), axes.get_label())


def _shared(boxes, others):
    """[N, M]: how far each two boxes reach into each other, in pixels; negative: their distance."""
    low = np.maximum(boxes[:, None, :2], others[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], others[None, :, 2:])
    return (high - low).min(-1)
