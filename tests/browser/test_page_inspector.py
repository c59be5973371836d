"""Norms, scores and the inspector: what the page says of a cell beyond its weight."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from attention_samples import make_record, with_more, without_heads
from test_page_truth import MINUS, pixels

from seq2seq.analysis.words import to_words
from seq2seq.attention_maps import KINDS, AttentionMaps


def sample(seed: int = 0, **options) -> AttentionMaps:
    return with_more(make_record(seed=seed, **options), seed=seed, width=6)


def norms_of(page, head: str, level: str = "piece") -> np.ndarray:
    found = page.js(
        """([head, level]) => {
            const { n, m, a } = attention.matrix(attention.records[0], head, level, "norm");
            return Array.from({ length: n }, (_, i) => [...a.slice(i * m, i * m + m)]);
        }""",
        [head, level],
    )
    return np.array(found)


def inspector(page) -> dict[str, list[str]]:
    """Lines of the inspector: name → cells."""
    rows = page.js(
        """[...document.querySelectorAll('#cell tbody tr')]
            .map((row) => [...row.children].map((cell) => cell.textContent))"""
    )
    return {name: [cell.translate(MINUS) for cell in cells] for name, *cells in rows}


@pytest.mark.parametrize("packed", [False, True])
def test_norms_and_scores_are_the_records(visit, packed) -> None:
    """Also where a layer was pruned, and where a page is large enough to be deflated."""
    pieces = [f"▁w{i}" for i in range(79 if packed else 4)]
    maps = with_more(without_heads(make_record(pieces, pieces), "enc", 1, [2]), width=6)
    page = visit(*[maps] * (10 if packed else 1))
    assert page.js("attention.packed") is packed
    for kind in KINDS:
        head = maps.head_ids[kind][1][0]
        name = f"{kind}.1.{head}"
        expected = maps.norms[kind][1][0]
        assert norms_of(page, name) == pytest.approx(expected, abs=2e-4)
        scores = maps.qk[kind][1].scores[0]
        for i, j in [(0, 0), (3, 1), (4, 2)]:
            terms = page.js(
                "([id, q, k]) => [...attention.terms(attention.records[0], id, q, k)]",
                [name, i, j],
            )
            assert sum(terms) == pytest.approx(scores[i, j], abs=2e-3)
            assert terms == pytest.approx(maps.qk[kind][1].terms(0, i, j), abs=1e-3)


def test_norms_of_words_are_those_of_the_analysis(visit) -> None:
    maps = sample(src=["▁it", "▁appli", "cation"], tgt=["▁die", "▁Anwen", "dung"])
    page, words = visit(maps), to_words(maps)
    for kind in KINDS:
        expected = words.norms[kind][0][1]
        assert norms_of(page, f"{kind}.0.1", "word") == pytest.approx(expected, abs=2e-4)
    page.change(level="word", weight="norm")
    assert "score" not in " ".join(inspector(page))  # no score gives the weight of a word


@pytest.mark.parametrize("kind", KINDS)
def test_the_inspector_tells_all_of_a_cell(visit, kind) -> None:
    maps = sample()
    head, (i, j) = 1, (3, 2)
    page = visit(maps, link=f"#head={kind}.1.{head}")
    page.page.mouse.move(*page.centre(i, j))
    page.settled()
    found = inspector(page)
    weights, norms = maps.head(kind, 1, head), maps.norms[kind][1][head]
    seen = i + 1 if kind == "dec" else weights.shape[1]
    row = weights[i]
    assert float(found["weight α"][0]) == pytest.approx(row[j], abs=7e-5)
    rank = 1 + int((row > row[j]).sum())
    assert found["rank in the row"] == [f"{rank} of {seen}"]
    entropy = -(row[row > 0] * np.log(row[row > 0])).sum()
    first, most = map(float, found["entropy of the row, nats"][0].split(" of "))
    assert (first, most) == pytest.approx((entropy, np.log(seen)), abs=6e-3)
    assert float(found["norm ‖α f(x)‖"][0]) == pytest.approx(norms[i, j], abs=2e-4)
    length = norms[i, j] / row[j]
    assert float(found["norm ‖f(x)‖ of the key"][0]) == pytest.approx(length, abs=2e-3)
    score, total = (
        float(found[name][0]) for name in ("score q·k/√d", "ln Σ exp(score) of the row")
    )
    assert score == pytest.approx(maps.qk[kind][1].scores[head, i, j], abs=2e-3)
    assert np.exp(score - total) == pytest.approx(row[j], abs=3e-3)
    if kind == "enc":
        assert found["query"] == [f"{i} “{maps.src[i]}”"]
    else:
        assert found["query: token read"] == [f"{i} “{maps.tgt_in[i]}”"]
        assert found["while writing"] == [f"“{maps.tgt_out[i]}”"]
    assert found["key"] == [f"{j} “{maps.labels(maps.key_side(kind))[j]}”"]
    bars = page.attributes("#cell svg", "aria-label")[0].translate(MINUS)
    shown = [float(x) for x in re.findall(r"d\d+ ([+-][\d.]+)", bars)]
    terms = sorted(maps.qk[kind][1].terms(head, i, j), key=abs, reverse=True)
    assert shown == pytest.approx(terms, abs=2e-3)
    said = page.text("#status").translate(MINUS)
    assert f"norm {norms[i, j]:.3f}"[:-1] in said
    assert f"score {score:+.3f}" in said


def test_what_the_future_holds_has_no_score(visit) -> None:
    page = visit(sample(), link="#head=dec.0.0&q=1&k=3")
    found = inspector(page)
    assert found["weight α"] == ["0.0000"]
    assert "score q·k/√d" not in found


def test_a_record_without_norms_and_scores(visit) -> None:
    page = visit(make_record(), link="#weight=norm")
    assert page.js("attention.state.weight") == "alpha"
    found = inspector(page)
    assert "weight α" in found
    assert not [name for name in found if "norm" in name or "score" in name]
    assert page.page.locator("#cell svg").count() == 0
    assert not page.page.locator("[data-value=norm]").is_visible()
    assert "added" not in page.attributes("#sort option", "value")
    page.press("n")
    assert page.js("attention.state.weight") == "alpha"


def test_norms_in_place_of_weights(visit) -> None:
    pieces = [f"w{i}" for i in range(29)]
    maps = sample(src=pieces, tgt=pieces)
    page = visit(maps, link="#head=cross.2.1&weight=norm&scale=linear")
    norms = maps.norms["cross"][2][1]
    page.page.mouse.move(*page.centre(4, 7))
    page.settled()
    said = page.text("#status")
    assert "‖α f(x)‖" in said
    value = float(re.search(r"= (\d+\.\d+)", said)[1])
    assert value == pytest.approx(norms[4, 7], abs=2e-4)
    weight = float(re.search(r"weight (\d+\.\d+)", said)[1])
    assert weight == pytest.approx(maps.head("cross", 2, 1)[4, 7], abs=7e-5)
    assert "rows do not sum to 1" in page.text("#note")
    limit = float(page.texts("#legend .ticks span")[-1])
    most = max(layer.max() for layer in maps.norms["cross"])
    assert most <= limit <= 1.2 * most
    table = matplotlib.colormaps["cividis"]
    cells = [(0, 0), (3, 17), (29, 29)]
    for (i, j), found in zip(cells, pixels(page, cells), strict=True):
        expected = table(norms[i, j] / limit, bytes=True)[:3]
        assert np.abs(np.subtract(found, np.array(expected, int))).max() <= 3
    page.change(special="drop")
    sums = norms[:, -1]
    assert f"hidden norm: mean {sums.mean():.2f}, max {sums.max():.2f}" in page.text("#note")
    page.press("n")
    assert page.js("attention.state.weight") == "alpha"


def test_heads_by_what_they_add(visit) -> None:
    maps = sample()
    page = visit(maps, link="#sort=added")
    norms = maps.norms["cross"]
    used = ~maps.special["tgt_out"]
    sizes = {f"cross.{i}.{h}": norms[i][h][used].sum(-1).mean() for i in range(3) for h in range(2)}
    found = page.js("[...document.querySelectorAll('#grid button')].map((x) => x.dataset.id)")
    assert found == sorted(sizes, key=sizes.get, reverse=True)
    of_special = (norms[2][0][used, -1] / norms[2][0][used].sum(-1)).mean()
    page.change(heads={"cross": "cross.2.0", "enc": "enc.0.0", "dec": "dec.0.0"})
    assert f"norm {sizes['cross.2.0']:.2f}, special {of_special:.0%} of it".replace(
        "%", " %"
    ) in page.text("#facts")


@pytest.mark.parametrize("view", ["lines", "steps"])
def test_norms_in_the_other_views(visit, view) -> None:
    maps = sample()
    page = visit(maps, link=f"#view={view}&weight=norm&head=cross.1.1&step=2")
    assert "‖α f(x)‖" in page.text("#note")
    tips = page.texts("#stage title")
    norm = maps.norms["cross"][1][1][2]
    best = int(norm.argmax())
    key = f"{maps.src[best]}" if view == "lines" else f"key {best} “{maps.src[best]}”"
    values = [float(tip.split(" = ")[1]) for tip in tips if f"{key} = " in tip]
    assert min(abs(value - norm[best]) for value in values) < 2e-4
    assert not page.page.locator("#cell").is_visible()


@pytest.mark.parametrize(
    ("kind", "labels", "sides"),
    [
        ("cross", "auto", ["tgt_out"]),
        ("cross", "in", ["tgt_in"]),
        ("cross", "both", ["tgt_in", "tgt_out"]),
        ("dec", "auto", ["tgt_in"]),
        ("dec", "out", ["tgt_out"]),
        ("enc", "both", ["src"]),
    ],
)
def test_rows_are_labelled_as_asked(visit, kind, labels, sides) -> None:
    maps = make_record()
    page = visit(maps, link=f"#head={kind}.0.0&labels={labels}")
    lists = [maps.labels(side) for side in sides]
    assert page.texts(".queries > span") == [
        " → ".join(names) for names in zip(*lists, strict=True)
    ]
    assert page.texts(".keys > span") == maps.labels(maps.key_side(kind))
    names = {"tgt_in": "as read", "tgt_out": "being written", "src": "source"}
    assert all(names[side] in page.text("#note") for side in sides)
    page.page.mouse.move(*page.centre(1, 0))
    page.settled()
    if kind != "enc":  # both tokens, whatever the label
        assert f"“{maps.tgt_in[1]}” writing “{maps.tgt_out[1]}”" in page.text("#status")


def test_rows_of_words_have_one_label(visit) -> None:
    page = visit(make_record(), link="#head=cross.0.0&level=word&labels=both")
    assert page.texts(".queries bdi") == ["die", "Anwendung", "war", "</s>"]
    button = page.page.locator("[data-name=labels] [data-value=both]")
    assert button.get_attribute("aria-disabled") == "true"
    assert "mean over pieces" in button.get_attribute("title")
    page.press("r")
    assert page.js("attention.state.labels") == "both"


def test_links_keep_cells_rows_table_and_search(visit, tmp_path: Path) -> None:
    page = visit(sample())
    page.change(weight="norm", labels="both", table="yes")
    page.page.fill("#search", "appli")
    link = page.js("location.hash")
    again = visit(path=tmp_path / "page-0.html", link=link)
    again.page.wait_for_selector('html[data-ready="1"]')
    state = again.js("attention.state")
    assert (state["weight"], state["labels"], state["table"]) == ("norm", "both", "yes")
    assert again.page.input_value("#search") == "appli"
    assert again.js("document.querySelectorAll('.hit').length") == 1
    assert again.page.locator("#table table").is_visible()
    assert again.js("location.hash") == link


def test_two_records_are_inspected_side_by_side(visit) -> None:
    a, b = sample(), sample(seed=1)
    for compare in ("both", "diff"):
        page = visit(a, b, paired=True, link=f"#head=enc.0.3&compare={compare}&q=2&k=1")
        found = inspector(page)
        weights = [maps.head("enc", 0, 3)[2, 1] for maps in (a, b)]
        assert list(map(float, found["weight α"])) == pytest.approx(weights, abs=7e-5)
        assert page.page.locator("#cell svg").count() == 2
    page.change(weight="norm")
    said = page.text("#status").translate(MINUS)
    values = [maps.norms["enc"][0][3][2, 1] for maps in (a, b)]
    assert float(re.search(r"= (-?\d\.\d+)", said)[1]) == pytest.approx(
        values[1] - values[0], abs=3e-4
    )


def test_only_one_of_two_records_has_norms(visit) -> None:
    page = visit(sample(), make_record(), paired=True, link="#compare=both")
    button = page.page.locator("[data-value=norm]")
    assert button.get_attribute("aria-disabled") == "true"
    assert "not captured" in button.get_attribute("title")
    assert inspector(page)["norm ‖α f(x)‖"][1] == "–"


def rows_of_csv(page) -> list[dict[str, str]]:
    with page.page.expect_download() as waiting:
        page.page.get_by_role("button", name="Save these weights as CSV").click()
    text = Path(waiting.value.path()).read_text("utf-8")
    return list(csv.DictReader(line for line in text.split("\n") if not line.startswith("# ")))


def test_norms_and_scores_are_in_the_csv(visit) -> None:
    maps = sample()
    page = visit(maps, link="#head=dec.0.1")
    rows = rows_of_csv(page)
    assert len(rows) == len(maps.tgt_in) ** 2
    for row in rows:
        i, j = int(row["query"]), int(row["key"])
        assert float(row["weight"]) == pytest.approx(maps.head("dec", 0, 1)[i, j], abs=2e-5)
        assert float(row["norm"]) == pytest.approx(maps.norms["dec"][0][1][i, j], abs=2e-4)
        if j > i:
            assert row["score"] == ""  # there is none before the mask that counts
        else:
            expected = maps.qk["dec"][0].scores[1, i, j]
            assert float(row["score"]) == pytest.approx(expected, abs=2e-3)
    page.change(level="word")
    assert "score" not in rows_of_csv(page)[0]


def test_a_csv_of_two_records_of_which_one_has_norms(visit) -> None:
    a, b = sample(), make_record(seed=1)
    page = visit(a, b, paired=True, link="#head=enc.1.0&compare=both")
    rows = rows_of_csv(page)
    assert {row["record"] for row in rows} == {"A", "B"}
    assert all((row["norm"] == "") == (row["record"] == "B") for row in rows)
    page.change(compare="diff")
    rows = rows_of_csv(page)
    assert {row["record"] for row in rows} == {"B-A"}
    for row in rows:
        at = int(row["query"]), int(row["key"])
        delta = b.head("enc", 1, 0)[at] - a.head("enc", 1, 0)[at]
        assert float(row["weight"]) == pytest.approx(delta, abs=4e-5)
        assert row["norm"] == row["score"] == ""
