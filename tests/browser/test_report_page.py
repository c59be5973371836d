"""The report on heads in a real browser: quiet, sortable, usable by keyboard, narrow and dark."""

from __future__ import annotations

import pytest
from head_tables import make_distances, make_table

from viz.report_files import files


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "heads.html"
    path.write_bytes(files(make_table(), make_distances(), title="Heads of demo")["heads.html"])
    return path


@pytest.fixture
def watched(visit, report):
    """The report, opened offline; it may not complain of anything."""
    found = visit(path=report, size=(1200, 900))
    found.page.wait_for_selector('html[data-ready="1"]')
    return found


@pytest.fixture
def page(watched):
    return watched.page


def cells(page, column):
    names = page.eval_on_selector_all("thead th", "cells => cells.map(c => c.dataset.name)")
    return page.eval_on_selector_all(
        "tbody tr:not([hidden])",
        f"rows => rows.map(r => r.cells[{names.index(column)}].textContent)",
    )


def test_it_asks_for_nothing(watched, page):
    assert [url for url in watched.requests if not url.startswith("data:")] == [page.url]
    assert page.evaluate("[...document.images].every(i => i.complete && i.naturalWidth > 100)")


def test_sorting_and_filtering(page):
    page.click('th[data-name="importance"] button')
    found = [float(text) for text in cells(page, "importance")]
    assert found == sorted(found, reverse=True)
    assert page.get_attribute('th[data-name="importance"]', "aria-sort") == "descending"
    page.click('th[data-name="importance"] button')
    assert [float(text) for text in cells(page, "importance")] == sorted(found)
    page.click('th[data-name="distance"] button')
    found = cells(page, "distance")
    assert found[-8:] == [""] * 8  # cross-attention has none, whichever way
    page.click('th[data-name="distance"] button')
    assert cells(page, "distance")[-8:] == [""] * 8
    page.select_option("#kind", "dec")
    assert len(cells(page, "head")) == 8
    assert page.text_content("#status") == "8 of 24 heads"
    page.click('th[data-name="head"] button')
    assert cells(page, "head")[:2] == ["dec.0.0", "dec.0.1"]


def test_all_columns_on_demand_by_keyboard(page):
    hidden = 'th[data-name="uniform_entropy"]'
    assert not page.is_visible(hidden)
    page.focus("#all")
    page.keyboard.press("Space")
    assert page.is_visible(hidden)
    page.focus('th[data-name="entropy"] button')
    page.keyboard.press("Enter")
    assert page.get_attribute('th[data-name="entropy"]', "aria-sort") == "descending"


def test_a_phone_needs_no_sideways_scrolling_of_the_page(page):
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_dark_is_dark_and_as_readable(page):
    def contrast(selector):
        return page.evaluate(
            """selector => {
              const light = c => { const v = c.match(/[\\d.]+/g).slice(0, 3).map(x => x / 255)
                .map(x => x <= .03928 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4);
                return .2126 * v[0] + .7152 * v[1] + .0722 * v[2]; };
              const a = light(getComputedStyle(document.querySelector(selector)).color);
              const b = light(getComputedStyle(document.body).backgroundColor);
              return (Math.max(a, b) + .05) / (Math.min(a, b) + .05); }""",
            selector,
        )

    seen = {}
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        seen[scheme] = page.evaluate("getComputedStyle(document.body).backgroundColor")
        for selector in ("body", ".facts", ".caution", "figcaption", "dd"):
            assert contrast(selector) >= 4.5, (scheme, selector)
    assert seen["light"] != seen["dark"]


def test_axe_finds_nothing(page):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    found = axe.Axe().run(page)
    assert [v["id"] for v in found.response["violations"]] == []
