"""The lesson in a real browser: offline, quiet, narrow, dark; its arithmetic equals the module."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from seq2seq.lesson.watch import watch
from seq2seq.lesson.worked import divergence, picking_attention
from viz.lesson_files import files
from viz.lesson_parts import Wishes, build

PARTS = ("shapes", "worked", "mask", "cross", "parameters", "complexity")


@pytest.fixture(scope="module")
def lesson(tmp_path_factory):
    torch.set_num_threads(1)
    wishes = Wishes(d_model=32, length=6, counts=(1, 2, 4))
    path = tmp_path_factory.mktemp("lesson") / "lesson.html"
    path.write_bytes(files([build(name, wishes) for name in PARTS], ["facts"])["lesson.html"])
    return path


@pytest.fixture
def watched(visit, lesson):
    """The page, opened offline; it may not complain of anything."""
    found = visit(path=lesson, size=(1200, 900))
    found.page.wait_for_selector('html[data-ready="1"]')
    return found


@pytest.fixture
def page(watched):
    return watched.page


def matrix(page, name):
    rows = "(rows) => rows.map((row) => [...row.querySelectorAll('td')].map((td) => +td.dataset.v))"
    return np.array(page.eval_on_selector_all(f"#m-{name} tbody tr", rows))


def enter(page, values):
    for place, value in enumerate(np.ravel(values)):
        page.locator("#m-x input").nth(place).fill(repr(float(value)))


def test_it_asks_for_nothing_and_shows_the_numbers(watched, page):
    assert [url for url in watched.requests if not url.startswith("data:")] == [page.url]
    assert page.evaluate("[...document.images].every(i => i.complete && i.naturalWidth > 100)")
    assert page.evaluate("[...document.images].every(i => i.alt.length > 20)")
    assert page.locator("#m-weights0 td").all_inner_texts() == [
        "0.6698", "0.3302", "0.3302", "0.6698"]  # fmt: skip
    concat = page.locator("#m-concat td").all_inner_texts()
    assert concat == ["0.6698", "0.3302"] * 2 + ["0.3302", "0.6698"] * 2
    assert "0.669761549327 and 0.669761549327" in page.inner_text("#readout")
    assert "JS(head 1, head 2) = 0.000000" in page.inner_text("#readout")


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("scaled", [True, False])
def test_after_a_change_it_computes_what_the_module_computes(page, heads, scaled):
    x = np.random.default_rng(heads).normal(size=(2, 4)).round(3)
    page.check(f"[name=heads][value='{heads}']")
    page.set_checked("#scaled", scaled)
    enter(page, x)
    wanted = watch(picking_attention(heads), torch.tensor(x), scaled=scaled)
    for head in range(heads):
        pairs = {"w": wanted.w_q, "query": wanted.query, "divided": wanted.scores}
        pairs |= {"weights": wanted.weights, "output": wanted.heads}
        for name, values in pairs.items():
            np.testing.assert_allclose(matrix(page, f"{name}{head}"), values[head], atol=1e-12)
        products = wanted.query[head] @ wanted.query[head].T
        np.testing.assert_allclose(matrix(page, f"scores{head}"), products, atol=1e-12)
    np.testing.assert_allclose(matrix(page, "concat"), wanted.concat, atol=1e-12)
    np.testing.assert_allclose(matrix(page, "out"), wanted.out, atol=1e-12)
    assert page.is_visible("#head1") == (heads == 2)
    readout = page.inner_text("#readout")
    assert f"{wanted.weights[0, 0, 0]:.12f}" in readout
    if heads == 2:
        assert f"{divergence(wanted):.6f} nats" in readout


def test_what_the_lesson_asks_the_class_to_try(page):
    page.locator("#m-x input").nth(2).fill("0")
    assert matrix(page, "weights1")[0].tolist() == [0.5, 0.5]
    assert matrix(page, "weights0")[0, 0] == pytest.approx(0.6697615493266569, abs=1e-12)
    assert "= 0.007460 nats" in page.inner_text("#readout")
    page.click("#reset")
    assert "= 0.000000 nats" in page.inner_text("#readout")
    page.uncheck("#scaled")
    assert f"{1 / (1 + math.exp(-1)):.12f}" in page.inner_text("#readout")
    assert page.inner_text("#m-divided0 caption") == "not divided"
    page.check("#scaled")
    page.check("[name=heads][value='1']")
    assert page.inner_text("#m-divided0 caption") == "÷ √4"
    assert matrix(page, "scores0").tolist() == [[2, 0], [0, 2]]


def test_an_entry_that_is_no_number_is_said_and_changes_nothing(page):
    before = matrix(page, "weights0").tolist()
    page.locator("#m-x input").nth(0).fill("")
    assert page.inner_text("#readout") == "Every entry of X needs a number."
    assert matrix(page, "weights0").tolist() == before
    page.click("#reset")
    assert "0.669761549327" in page.inner_text("#readout")


def test_by_keyboard_alone(page):
    page.focus("[name=heads]")
    page.keyboard.press("ArrowRight")
    assert "÷ √4" in page.inner_text("#m-divided0 caption")
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    assert page.inner_text("#m-divided0 caption") == "not divided"


def test_a_phone_needs_no_sideways_scrolling_of_the_page(page):
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.check("[name=heads][value='1']")  # the widest matrices
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.evaluate(
        "[...document.querySelectorAll('#lab input, #lab button, nav a, summary')]"
        ".every((one) => one.closest('.m') || one.getBoundingClientRect().height >= 18)"
    )


def test_without_its_script_the_page_still_says_everything(browser, lesson):
    context = browser.new_context(offline=True, java_script_enabled=False)
    page = context.new_page()
    page.goto(lesson.as_uri())
    assert page.locator("#m-weights0 td").all_inner_texts()[0] == "0.6698"
    assert not page.is_visible("#lab .bar")
    assert page.locator(".claims li").count() > 20
    context.close()


def test_dark_is_dark_and_as_readable(page):
    def contrast(selector):
        return page.evaluate(
            """selector => {
              const parse = (c) => c.match(/[0-9.]+/g).map(Number);
              const light = (c) => { const v = parse(c).slice(0, 3).map((x) => x / 255)
                .map((x) => x <= .03928 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4);
                return .2126 * v[0] + .7152 * v[1] + .0722 * v[2]; };
              const one = document.querySelector(selector);
              let behind = one;
              while (parse(getComputedStyle(behind).backgroundColor)[3] === 0)
                behind = behind.parentElement;
              const a = light(getComputedStyle(one).color);
              const b = light(getComputedStyle(behind).backgroundColor);
              return (Math.max(a, b) + .05) / (Math.min(a, b) + .05); }""",
            selector,
        )

    seen = {}
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        seen[scheme] = page.evaluate("getComputedStyle(document.body).backgroundColor")
        for selector in ("body", ".about", ".says", ".measured", ".look", ".verdict", "nav a"):
            assert contrast(selector) >= 4.5, (scheme, selector)
    assert seen["light"] != seen["dark"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(page, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    page.emulate_media(color_scheme=scheme)
    found = axe.Axe().run(page)
    assert [v["id"] for v in found.response["violations"]] == []
