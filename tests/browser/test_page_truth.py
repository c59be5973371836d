"""What the page shows is what the record holds."""

from __future__ import annotations

import csv
import io
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from attention_samples import make_record, with_more, with_weights, without_heads

from seq2seq.analysis.heads import summarise
from seq2seq.analysis.words import to_words
from seq2seq.attention_maps import KINDS, AttentionMaps

HOSTILE = ["</script><img src=x onerror=alert(1)>", "<s>", "&lt;b&gt;", "$$", "$x_1$", "_", '"']
HOSTILE += ["\\", "\u200b", "\u2028", "", "x" * 40, "שלום", "مرحبا", "彼女", "the", "the"]
MINUS = str.maketrans("−", "-")


def planted(kind: str, row: int, column: int, maps: AttentionMaps, layer: int = 0) -> AttentionMaps:
    weights = np.zeros_like(maps.layers(kind)[layer])
    weights[..., 0] = 1
    weights[:, row] = 0
    weights[:, row, column] = 1
    return with_weights(maps, kind, layer, weights)


def stored(weight: float) -> float:
    """A weight as a page holds it."""
    return round(float(weight) * 65535) / 65535


def asymmetric() -> AttentionMaps:
    """Encoder 2 × 4 with layer 1 cut to head 2, decoder 3 × 2; S = 7, T = 4."""
    maps = make_record([f"▁s{i}" for i in range(6)], [f"▁t{i}" for i in range(3)])
    return without_heads(maps, "enc", 1, [2])


def test_nothing_is_requested_but_the_page(visit) -> None:
    page = visit(with_more(make_record()), with_more(make_record(seed=1)))
    page.press("?", "Escape", "v", "v", "v", "k", "k", "w", "w", "s", "r", "n", "x")
    page.change(other=1, compare="diff", view="map")
    assert len(page.requests) == 1


def test_the_pages_numbers_are_the_records(visit) -> None:
    maps = asymmetric()
    page = visit(maps)
    rng = np.random.default_rng(0)
    heads = [(k, i, h) for k in KINDS for i in maps.layer_ids[k] for h in maps.layer(k, i)[1]]
    for place in rng.integers(len(heads), size=40):
        kind, layer, head = heads[place]
        expected = maps.head(kind, layer, head)
        found = np.array(page.weights(f"{kind}.{layer}.{head}"))
        assert found.shape == expected.shape
        for _ in range(5):
            i, j = rng.integers(expected.shape[0]), rng.integers(expected.shape[1])
            assert abs(found[i, j] - expected[i, j]) <= 1 / 65535


def test_words_are_those_of_the_analysis(visit) -> None:
    maps = make_record(["▁it", "▁appli", "cation"], ["▁die", "▁Anwen", "dung", "▁war"])
    words, page = to_words(maps), visit(maps)
    for kind in KINDS:
        found = np.array(page.weights(f"{kind}.1.1", "word"))
        assert found == pytest.approx(words.head(kind, 1, 1), abs=1e-4)
    page.change(level="word")
    assert page.texts(".keys bdi") == [
        "it",
        "application",
        "</s>",
    ]


def test_merged_by_hand(visit) -> None:
    rows = [[0.5, 0.2, 0.2, 0.1], [0.1, 0.6, 0.2, 0.1], [0.3, 0.3, 0.3, 0.1], [0.25] * 4]
    maps = make_record(["▁it", "▁appli", "cation"])
    maps = with_weights(maps, "enc", 0, np.array([rows] * 4, np.float32))
    found = np.array(visit(maps).weights("enc.0.0", "word"))
    expected = [[0.5, 0.4, 0.1], [0.2, 0.7, 0.1], [0.25, 0.5, 0.25]]
    assert found == pytest.approx(np.array(expected), abs=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_hovering_tells_tokens_and_weight(visit, kind) -> None:
    maps = asymmetric()
    page = visit(maps, link=f"#head={kind}.1.{2 if kind == 'enc' else 1}")
    weights = maps.head(kind, 1, 2 if kind == "enc" else 1)
    for i, j in [(0, 0), (1, 2), (weights.shape[0] - 1, weights.shape[1] - 1)]:
        page.page.mouse.move(*page.centre(i, j))
        page.settled()
        said = page.text("#status").translate(MINUS)
        value = float(re.search(r"= (\d\.\d+)", said)[1])
        assert value == pytest.approx(stored(weights[i, j]), abs=5.01e-5)
        query, key = (
            maps.labels({"enc": "src"}.get(kind, "tgt_in"))[i],
            maps.labels(maps.key_side(kind))[j],
        )
        assert f"query {i} “{query}”" in said
        assert f"key {j} “{key}”" in said
        assert ("writing" in said) == (kind != "enc")
        if kind != "enc":
            assert f"writing “{maps.tgt_out[i]}”" in said
        assert f"layer 1 head {2 if kind == 'enc' else 1}" in said
        assert f"{stored(weights[i, j]):.4f}" in page.text("#readout")


def test_rows_are_queries_and_columns_are_keys(visit) -> None:
    maps = planted("cross", 2, 5, asymmetric(), layer=1)
    page = visit(maps, link="#head=cross.1.0")
    sides = [".queries bdi", ".keys bdi"]
    rows, columns = (page.texts(side) for side in sides)
    assert (rows, columns) == (maps.tgt_out, maps.src)
    assert page.text("#heading") == "cross-attention, layer 1 of 3, head 0"
    page.page.mouse.move(*page.centre(2, 5))
    page.settled()
    assert "writing “▁t2” → key 5 “▁s5” = 1.0000" in page.text("#status")


def test_no_decoder_query_sees_a_later_key_read_from_the_page(visit) -> None:
    page = visit(make_record(["a"] * 9, ["b"] * 9), link="#head=dec.0.0")
    above = page.js(
        """() => {
            let most = 0;
            for (const { id } of attention.records[0].list.dec) {
                const { n, m, a } = attention.matrix(attention.records[0], id, "piece");
                for (let i = 0; i < n; i++)
                    for (let j = i + 1; j < m; j++) most = Math.max(most, a[i * m + j]);
            }
            return most;
        }"""
    )
    assert above == 0
    darkest = list(matplotlib.colormaps["cividis"](0, bytes=True))[:3]
    assert pixels(page, [(0, 5)]) == [darkest]


def pixels(page, cells: list[tuple[int, int]]) -> list[list[int]]:
    """The colours in the middle of cells (long maps have no digits there), read at once."""
    return page.js(
        """(cells) => {
            const { canvas, pitch } = attention.plots()[0];
            const { width, height } = canvas;
            const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
            const middle = (i) => Math.floor((i + 0.5) * pitch * devicePixelRatio);
            const at = ([i, j]) => 4 * (middle(i) * width + middle(j));
            return cells.map((cell) => [...data.slice(at(cell), at(cell) + 3)]);
        }""",
        cells,
    )


@pytest.mark.parametrize("scale", ["linear", "sqrt"])
def test_cells_have_the_colour_of_their_weight(visit, scale) -> None:
    pieces = [f"w{i}" for i in range(29)]
    maps = make_record(pieces, pieces)
    page = visit(maps, link=f"#head=cross.2.1&scale={scale}")
    assert page.js("attention.plots()[0].pitch") < 30
    table = matplotlib.colormaps["cividis"]
    weights = maps.head("cross", 2, 1)
    highest = np.unravel_index(weights.argmax(), weights.shape)
    cells = [(0, 0), (3, 17), (29, 29), (int(highest[0]), int(highest[1]))]
    for (i, j), found in zip(cells, pixels(page, cells), strict=True):
        share = stored(weights[i, j])
        expected = table(share**0.5 if scale == "sqrt" else share, bytes=True)[:3]
        assert np.abs(np.subtract(found, np.array(expected, int))).max() <= 3  # one step


def test_hostile_tokens_are_shown_as_they_are(visit) -> None:
    maps = make_record(src=HOSTILE, tgt=HOSTILE)
    maps.text.update(source=" ".join(HOSTILE), target="<b>bold</b>")
    page = visit(maps)
    shown = {"\u200b": "⟨U+200B⟩", "\u2028": "⟨U+2028⟩", "": "⟨empty⟩"}
    expected = [shown.get(token, token) for token in [*HOSTILE, "</s>"]]
    for view in ("map", "lines", "steps"):
        page.change(view=view)
        assert page.js("document.querySelectorAll('img, b b, script[src]').length") == 0
    page.change(view="map")
    assert page.texts(".keys bdi") == expected
    assert page.text("#texts .target") == "<b>bold</b>"
    page.page.get_by_role("button", name="Show the weights as a table").click()
    page.settled()
    assert page.texts("#table thead th") == expected


def test_models_of_any_shape(visit) -> None:
    page = visit(asymmetric())
    rows = """[...document.querySelectorAll('#grid .row')]
        .map((row) => row.querySelectorAll('button').length)"""
    for kind, counts in (("enc", [4, 1]), ("dec", [2, 2, 2]), ("cross", [2, 2, 2])):
        page.page.click(f"[data-kind={kind}]")
        page.settled()
        assert page.js(rows) == counts
        assert page.js("document.querySelectorAll('#grid button.current').length") == 1
    page.page.click("[data-kind=enc]")
    labels = page.js("[...document.querySelectorAll('#grid button')].map((x) => x.dataset.id)")
    assert labels == ["enc.0.0", "enc.0.1", "enc.0.2", "enc.0.3", "enc.1.2"]


def test_a_record_with_one_kind_only(visit) -> None:
    page = visit(make_record().select(["enc"]))
    assert page.js("document.querySelectorAll('[role=tab]').length") == 1
    page.press("v", "v")
    assert page.js("attention.state.view") == "map"  # no decoding to step through


@pytest.mark.parametrize("special", ["show", "mute", "drop"])
def test_hidden_mass_is_told_and_nothing_is_shared_out(visit, special) -> None:
    """One row puts 0.9 on </s>: three columns are left when it is dropped, with their weights."""
    maps = make_record(["a", "b", "c"], ["x"])
    row = np.array([0.04, 0.03, 0.03, 0.90], np.float32)
    maps = with_weights(maps, "cross", 2, np.broadcast_to(row, (2, 2, 4)).copy())
    page = visit(maps, link=f"#head=cross.2.0&special={special}")
    assert page.js("document.querySelectorAll('.keys > span').length") == (
        3 if special == "drop" else 4
    )
    assert ("hidden mass: mean 0.90, max 0.90" in page.text("#note")) == (special != "show")
    page.page.mouse.move(*page.centre(0, 0))
    page.settled()
    assert "= 0.0400" in page.text("#status")


def test_statistics_are_those_of_the_analysis(visit) -> None:
    maps = make_record(["▁a", "▁b", "c", "▁d"], ["▁e", "f", "▁g"])
    page = visit(maps)
    for kind in KINDS:
        for layer in maps.layer_ids[kind]:
            for head, expected in summarise(maps, kind, layer).items():
                found = page.js(
                    "(id) => attention.statistics(attention.records[0], id, 'piece')",
                    f"{kind}.{layer}.{head}",
                )
                assert found["entropy"] == pytest.approx(expected.entropy, abs=1e-3)
                assert found["special"] == pytest.approx(expected.special, abs=1e-4)
                assert found["offset"] == expected.offset
                if expected.offset is not None:
                    assert found["share"] == pytest.approx(expected.offset_share)


def test_lines_drop_faint_weights_and_say_how_much(visit) -> None:
    maps = make_record(["a", "b"], ["x"])
    weights = np.array([[[0.93, 0.04, 0.03], [0.5, 0.49, 0.01]]] * 2, np.float32)
    page = visit(with_weights(maps, "cross", 2, weights), link="#head=cross.2.0&view=lines")
    drawn = page.texts("#stage path title")
    assert len(drawn) == 3
    assert "0.04 not drawn" in page.text("#stage svg")  # (0.07 + 0.01) / 2


def test_steps_show_the_row_of_each_step(visit) -> None:
    maps = make_record()
    maps.meta["alternatives"] = [[["▁die", -0.1], ["▁das", -2.5]]] * 5
    page = visit(maps, link="#view=steps&step=2&head=cross.1.1")
    assert "reads “▁Anwen”, writes “dung”" in page.text("#status")
    said = page.text("#status").translate(MINUS)
    assert f"log-probability {maps.logprob[2]:.4f}" in said
    tips = page.texts("#stage rect title")
    for head in (0, 1):
        for j, token in enumerate(maps.src):
            assert (
                f"head {head}: key {j} “{token}” = {maps.head('cross', 1, head)[2, j]:.4f}" in tips
            )
    assert "the 3 tokens read so far" in page.text("#stage")
    assert "most probable next tokens" in page.text("#stage")
    page.press(".")
    assert page.js("attention.state.step") == 3
    assert page.page.input_value("#step") == "3"


def test_differences(visit) -> None:
    a, b = make_record(), make_record(seed=1)
    page = visit(a, b, paired=True, link="#compare=diff&head=dec.1.0&q=2&k=1")
    expected = b.head("dec", 1, 0)[2, 1] - a.head("dec", 1, 0)[2, 1]
    said = page.text("#status").translate(MINUS)
    assert float(re.search(r"= (-?\d\.\d+)", said)[1]) == pytest.approx(expected, abs=5e-5)
    assert f"A {a.head('dec', 1, 0)[2, 1]:.4f}, B {b.head('dec', 1, 0)[2, 1]:.4f}" in said
    page.change(compare="both")
    assert page.js("attention.plots().length") == 2
    longer = visit(make_record(), make_record(src=["a"] * 9), paired=True, link="#compare=diff")
    assert longer.js("attention.state.compare") == "both"  # nothing to subtract
    button = longer.page.locator("[data-value=diff]")
    assert button.get_attribute("title") == "the two sentences differ in length"
    assert button.get_attribute("aria-disabled") == "true"


def test_tokens_that_differ_are_both_named(visit) -> None:
    page = visit(
        make_record(), make_record(src=["▁it", "▁appli", "er"]), paired=True, link="#compare=diff"
    )
    labels = page.texts(".keys bdi")
    assert labels == ["▁it", "▁appli", "cation | er", "</s>"]


def test_packed_pages_and_150_tokens(visit) -> None:
    pieces = [f"▁w{i}" for i in range(149)]
    maps = make_record(pieces, pieces, shape=dict.fromkeys(KINDS, (6, 8)))
    page = visit(maps, link="#head=cross.5.7")
    expected = maps.head("cross", 5, 7)
    assert np.abs(np.array(page.weights("cross.5.7")) - expected).max() <= 1 / 65535
    page.page.mouse.move(*page.centre(0, 3))
    page.settled()
    assert f"key 3 “▁w3” = {stored(expected[0, 3]):.4f}" in page.text("#status")


def downloaded(page, name: str) -> bytes:
    with page.page.expect_download() as waiting:
        page.page.get_by_role("button", name=name).click()
    return Path(waiting.value.path()).read_bytes()


@pytest.mark.parametrize("view", ["map", "lines", "steps"])
def test_pictures_of_every_view(visit, view) -> None:
    maps = make_record(src=["<b>", "&", "שלום"])
    page = visit(maps, link=f"#view={view}")
    root = ET.fromstring(downloaded(page, "Save this view as SVG").decode("utf-8"))
    texts = ["".join(node.itertext()) for node in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"<b>", "&", "שלום"} <= set(texts)
    assert any(maps.meta["run"] in text for text in texts)
    assert any(text == "Cross-attention, layer 2 of 3, head 0" for text in texts)
    assert downloaded(page, "Save this view as PNG").startswith(b"\x89PNG")
    assert len(page.requests) == len(
        [url for url in page.requests if url.startswith(("file:", "data:", "blob:"))]
    )


def test_the_numbers_of_a_view(visit) -> None:
    maps = make_record(src=['say "a,b"', "c"])
    page = visit(maps, link="#head=cross.0.1")
    text = downloaded(page, "Save these weights as CSV").decode("utf-8")
    first, *lines = text.split("\n")
    assert first.startswith("# run demo")
    rows = list(csv.DictReader(io.StringIO("\n".join(lines))))
    weights = maps.head("cross", 0, 1)
    assert len(rows) == weights.size
    for row in rows:
        assert float(row["weight"]) == pytest.approx(
            weights[int(row["query"]), int(row["key"])], abs=1e-4
        )
        assert row["key_token"] == maps.src[int(row["key"])]
        assert row["query_token"] == maps.tgt_out[int(row["query"])]


def test_what_is_saved_says_which_models_it_is_of(visit) -> None:
    off = {"without_heads": "cross.1.0", "notices": ["heads switched off: cross.1.0"]}
    a, b = (replace(maps, meta={**maps.meta, **more}) for maps, more in
            ((make_record(), off), (make_record(seed=1), {})))  # fmt: skip
    page = visit(a, b, paired=True, link="#compare=diff&head=cross.0.1")
    facts = [line for line in downloaded(page, "Save these weights as CSV").decode().split("\n")
             if line.startswith("# ")]  # fmt: skip
    assert facts[0].startswith("# A: run demo")
    assert "# A: Note: heads switched off: cross.1.0." in facts
    assert facts[-1].startswith("# B: run demo")
    text = downloaded(page, "Save this view as SVG").decode("utf-8")
    assert "A: Note: heads switched off: cross.1.0." in text
    assert "without cross.1.0" in text


def test_the_table_for_screen_readers(visit) -> None:
    maps = make_record()
    page = visit(maps, link="#head=enc.1.3")
    page.page.get_by_role("button", name="Show the weights as a table").click()
    page.settled()
    rows = page.js(
        """[...document.querySelectorAll('#table tbody tr')]
            .map((row) => [...row.children].map((cell) => cell.textContent))"""
    )
    assert [row[0] for row in rows] == maps.src
    found = np.array([[float(x) for x in row[1:]] for row in rows])
    assert found == pytest.approx(maps.head("enc", 1, 3), abs=6e-5)
    assert page.text("#table caption").startswith("encoder self-attention, layer 1 of 2, head 3")


def test_a_page_of_words_only(visit) -> None:
    maps = to_words(make_record())
    page = visit(maps)
    assert (
        page.page.locator("[data-value=piece]").get_attribute("title")
        == "this record holds words only"
    )
    assert page.js("document.querySelectorAll('.keys > span').length") == len(maps.src)


def test_no_log_probabilities_no_bars(visit) -> None:
    page = visit(replace(make_record(), logprob=None), link="#view=steps")
    assert "log-probability" not in page.text("#status")
