"""The slider through training: what is on display is the snapshot of that update."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from attention_samples import make_record
from head_tables import make_table

from seq2seq.analysis.snapshots import Snapshots
from seq2seq.attention_maps import KINDS, AttentionMaps
from viz.page_training import training

UPDATES = [0, 4, 500, 1000]


def record(sentence: int, update: int) -> AttentionMaps:
    """Sentences of different length whose weights differ at every update."""
    maps = make_record([f"▁s{i}" for i in range(3 + sentence)], seed=100 * sentence + update)
    text = {"source": f"sentence {sentence}", "target": "Satz"}
    return replace(maps, text=text, meta={**maps.meta, "run": "demo", "step": update})


@pytest.fixture
def snapshots(tmp_path: Path) -> Snapshots:
    kept = Snapshots(tmp_path / "snapshots")
    for update in UPDATES:
        records = [record(sentence, update) for sentence in range(2)]
        kept.write(update, records, make_table(3, 4, seed=update))
    return kept


@pytest.fixture
def page(visit, snapshots):
    """Opens the page of the snapshots as they lie on disk."""
    records = [maps for update in snapshots.updates for maps in snapshots.records(update)]
    tables = {update: snapshots.table(update) for update in snapshots.updates}

    def open_page(**options):
        return visit(*records, training=training(records, tables), **options)

    return open_page


def slide(page, place: int) -> None:
    page.page.locator("#update").fill(str(place))
    page.settled()


def on_display(page) -> dict[str, np.ndarray]:
    """Every head of the record that is shown."""
    number = page.js("attention.state.record")
    heads = page.js("attention.records[attention.state.record].list")
    ids = [one["id"] for kind in KINDS for one in heads[kind]]
    return {head: np.array(page.weights(head, record=number)) for head in ids}


def test_every_update_shows_its_own_weights(page, snapshots) -> None:
    shown = page()
    for sentence in range(2):
        shown.page.locator("#record").select_option(index=sentence)
        shown.settled()
        for place, update in enumerate(UPDATES):
            slide(shown, place)
            maps = snapshots.records(update)[sentence]
            found = on_display(shown)
            assert len(found) == 2 * 4 + 3 * 2 + 3 * 2
            for head, weights in found.items():
                kind, layer, number = head.split(".")
                expected = maps.head(kind, int(layer), int(number))
                assert np.abs(weights - expected).max() <= 1 / 65535
            after = f"after {update} updates" if update else "before training"
            assert shown.text("#update-text").startswith(after)
            assert shown.text("#status").startswith(f"{after}: cross, layer 2 head 0:")
            value = float(re.search(r"= (\d\.\d+)", shown.text("#status"))[1])
            assert value == pytest.approx(maps.head("cross", 2, 0)[0, 0], abs=6e-5)
            assert shown.attributes("#update", "aria-valuetext") == [after]


def test_keys_and_links_lead_through_training(page) -> None:
    shown = page(link="#head=enc.1.2")
    shown.press(">", ">")
    assert shown.text("#update-text").startswith("after 500 updates")
    assert shown.text("#heading") == "encoder self-attention, layer 1 of 2, head 2"
    shown.press("<")
    link = shown.js("location.hash")
    assert shown.text("#update-text").startswith("after 4 updates")
    shown.press("<", "<", "<")
    assert shown.text("#update-text").startswith("before training")
    again = page(link=link)
    assert again.text("#update-text").startswith("after 4 updates")
    again.page.locator("#record").select_option(index=1)
    again.settled()
    assert again.text("#update-text").startswith("after 4 updates")
    assert again.text("#texts .source") == "sentence 1"
    again.press("?")
    assert "play through the updates, or stop" in again.text("#keys")


def test_play_goes_to_the_end_and_stops(page) -> None:
    shown = page()
    shown.page.locator("#play").click()
    assert shown.text("#play") == "Stop"
    shown.page.get_by_role("button", name="Play", exact=True).wait_for()
    assert shown.text("#update-text").startswith("after 1000 updates")
    shown.page.locator("#play").click()  # from the beginning again
    shown.settled()
    assert shown.text("#update-text").startswith("before training")
    shown.press("p")
    assert shown.text("#play") == "Play"


def test_nothing_plays_for_those_who_asked_for_little_motion(page) -> None:
    shown = page(context={"reduced_motion": "reduce"})
    assert shown.attributes("#play", "aria-disabled") == ["true"]
    shown.page.locator("#play").dispatch_event("click")
    shown.page.wait_for_timeout(1000)
    assert shown.text("#update-text").startswith("before training")
    assert "little motion" in shown.text("#readout")


def test_two_updates_can_be_compared(page, snapshots) -> None:
    shown = page(link="#head=dec.0.1")
    shown.page.locator("#other").select_option(label="after 1000 updates")
    shown.settled()
    shown.change(compare="diff")
    difference = np.array(shown.js("[...attention.plots()[0].map.a]"))
    first, last = (snapshots.records(u)[0].head("dec", 0, 1).ravel() for u in (0, 1000))
    assert difference == pytest.approx(last - first, abs=4e-5)
    slide(shown, 3)  # the same update: nothing differs, and the comparison stays
    assert not any(shown.js("[...attention.plots()[0].map.a]"))
    slide(shown, 1)
    assert any(shown.js("[...attention.plots()[0].map.a]"))
    shown.page.locator("#record").select_option(index=1)
    shown.settled()
    assert shown.js("attention.records[attention.state.other].update") == 1000


def test_numbers_over_many_sentences_are_those_of_the_update(page, snapshots) -> None:
    shown = page(link="#head=enc.0.0")
    shown.page.locator("#sort").select_option("corpus: confidence [weight]")
    shown.settled()
    for place, update in enumerate(UPDATES):
        slide(shown, place)
        values = snapshots.table(update).values("confidence")
        expected = sorted((v for head, v in values.items() if head.kind == "enc"), reverse=True)
        found = [float(text) for text in shown.texts("#grid b")]
        held = [value for head, value in values.items() if head.kind == "enc" and head.layer < 2]
        assert found == pytest.approx(sorted(held, reverse=True), abs=6e-3)
        assert len(found) < len(expected)  # the record holds two layers of the table's three


def test_the_curve_is_the_statistic_of_the_head_over_training(page, snapshots) -> None:
    from seq2seq.analysis.heads import summarise

    shown = page(link="#head=enc.1.2")
    shown.page.wait_for_selector("#curve svg")
    values = [summarise(snapshots.records(u)[0], "enc", 1)[2].entropy for u in UPDATES]
    said = shown.text("#curve-text")
    numbers = [float(x) for x in re.findall(r"\d\.\d\d", said)]
    assert "entropy" in said
    assert numbers == pytest.approx([values[0], values[0], values[-1]], abs=6e-3)
    assert shown.js("document.querySelectorAll('#curve path').length") == 1 + 4


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_accessibility_rule_is_broken(page, scheme) -> None:
    from axe_playwright_python.sync_playwright import Axe

    shown = page(context={"color_scheme": scheme})
    slide(shown, 2)
    found = Axe().run(shown.page)
    assert found.violations_count == 0, found.generate_report()
    narrow = page(size=(390, 844))
    assert narrow.js("document.documentElement.scrollWidth") <= 390


def test_a_page_without_training_has_no_slider(visit) -> None:
    shown = visit(make_record(), make_record(seed=1))
    assert not shown.page.is_visible("#training")
    assert not shown.text("#status").startswith("after")
    shown.press(">", "p")
    assert shown.js("attention.state.record") == 0
