from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pytest
from attention_samples import make_record, with_more, with_weights, without_heads

from seq2seq.analysis.head_id import HeadId
from seq2seq.analysis.tables import Column, HeadTable
from seq2seq.analysis.words import to_words
from seq2seq.attention_maps import KINDS, AttentionError, AttentionMaps
from seq2seq.errors import UserError
from viz import page
from viz.page import Notebook, html, shell, write
from viz.page_data import entry

HOSTILE = ["</script><img src=x onerror=alert(1)>", "<s>", "&lt;b&gt;", "$$", '"', "\\", "\u2028"]
HOSTILE += ["\u200b", "<!--", "]]>", "", "שלום", "彼女", "\ud800"]
LARGE = {"enc": (6, 8), "dec": (6, 8), "cross": (6, 8)}


class Parsed(HTMLParser):
    """The page as a parser sees it: tags with attributes, and the text of each script by id."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: dict[str, str] = {}
        self.styles: list[str] = []
        self.inside = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.inside = True

    def handle_endtag(self, tag: str) -> None:
        self.inside = False

    def handle_data(self, data: str) -> None:
        if not self.inside:
            return
        tag, attributes = self.tags[-1]
        if tag == "script":
            self.scripts[attributes.get("id") or "loader"] = data
        elif tag == "style":
            self.styles.append(data)

    @property
    def data(self) -> dict:
        return json.loads(self.scripts["data"])

    def weights(self, number: int = 0) -> np.ndarray:
        raw = base64.b64decode(self.scripts[f"weights-{number}"], validate=True)
        return np.frombuffer(zlib.decompress(raw) if self.data["packed"] else raw, "<u2")

    @property
    def policy(self) -> str:
        attributes = next(a for _, a in self.tags if a.get("http-equiv"))
        return str(attributes["content"])


def long_record(
    tokens: int, shape: dict[str, tuple[int, int]] | None = None, seed: int = 0
) -> AttentionMaps:
    pieces = [f"▁w{i}" for i in range(tokens - 1)]
    return make_record(pieces, pieces, shape=shape, seed=seed)


def test_a_page_refers_to_nothing_outside_itself() -> None:
    text = html([make_record(), make_record(seed=1)])
    parsed = Parsed(text)
    body = Parsed("")
    body.feed(zlib.decompress(base64.b64decode(parsed.scripts["program"])).split(b"\0")[1].decode())
    for _, attributes in parsed.tags + body.tags:
        assert not {"src", "href", "srcset", "action"} & set(attributes)
    packed = base64.b64decode(parsed.scripts["program"])
    inside = zlib.decompress(packed).decode().replace("http://www.w3.org/2000/svg", "")
    shell_text = "".join(shell()) + inside
    assert "http:" not in shell_text
    assert "https:" not in shell_text
    assert "@import" not in shell_text
    assert "url(" not in shell_text


def test_weights_are_whole_and_near_and_zeros_stay_zero() -> None:
    maps = make_record()
    parsed = Parsed(html([maps]))
    expected = np.concatenate([w.ravel() for kind in KINDS for w in maps.layers(kind)])
    encoded = parsed.scripts["weights-0"]
    assert len(base64.b64decode(encoded)) == 2 * expected.size
    found = parsed.weights().astype(np.float64) / 65535
    assert np.abs(found - expected).max() <= 0.5 / 65535 + 1e-9
    assert np.array_equal(found == 0, np.rint(expected * 65535.0) == 0)
    assert (found[expected == 0] == 0).all()
    assert (expected == 0).any()


def test_kinds_layers_heads_and_labels_are_those_of_the_record() -> None:
    maps = without_heads(make_record(src=["a"], tgt=["b", "c", "d", "e"]), "enc", 1, [2])
    (facts,) = Parsed(html([maps])).data["records"]
    assert facts["layers"] == {"enc": [0, 1], "dec": [0, 1, 2], "cross": [0, 1, 2]}
    assert facts["heads"]["enc"] == [[0, 1, 2, 3], [2]]
    assert facts["tokens"] == {"src": maps.src, "tgt_in": maps.tgt_in, "tgt_out": maps.tgt_out}
    assert facts["special"] == {"src": [1], "tgt_in": [0], "tgt_out": [4]}
    assert facts["logprob"] == pytest.approx(maps.logprob, abs=5e-5)
    size = 4 * 2 * 2 + 1 * 2 * 2 + 6 * 5 * 5 + 6 * 5 * 2
    assert Parsed(html([maps])).weights().size == size


def test_each_datum_stands_once() -> None:
    maps = make_record(src=["▁xylophone"], tgt=["▁zephyrs"])
    text = html([maps, make_record(seed=1)])
    parsed = Parsed(text)
    assert text.count("xylophone") == 2  # the piece, and the word
    assert text.count(parsed.scripts["weights-0"]) == 1
    assert sum(name.startswith("weights") for name in parsed.scripts) == 2


def test_hostile_tokens_cannot_leave_the_data() -> None:
    maps = make_record(src=HOSTILE, tgt=HOSTILE)
    maps.text.update(source="</script><img src=x>", target="<!--<script>")
    text = html([maps])
    parsed = Parsed(text)
    assert parsed.data["records"][0]["tokens"]["src"] == [*HOSTILE, "</s>"]
    assert parsed.data["records"][0]["text"]["source"] == "</script><img src=x>"
    plain = Parsed(html([make_record()]))
    assert [tag for tag, _ in parsed.tags] == [tag for tag, _ in plain.tags]
    block = parsed.scripts["data"]
    assert block.isascii()
    assert not set("<>&") & set(block)
    shown = parsed.data["records"][0]["shown"]
    assert shown["\u200b"] == "⟨U+200B⟩"
    assert shown[""] == "⟨empty⟩"
    text.encode("utf-8")  # a lone surrogate is escaped, too


def test_the_policy_allows_these_very_scripts_and_nothing_else() -> None:
    parsed = Parsed(html([make_record()]))
    inside = zlib.decompress(base64.b64decode(parsed.scripts["program"]))
    style, _, program = inside.split(b"\0")

    def digest(content: bytes) -> str:
        return base64.b64encode(hashlib.sha256(content).digest()).decode()

    rules = dict(rule.strip().split(" ", 1) for rule in parsed.policy.split(";"))
    assert rules["default-src"] == "'none'"
    scripts = {digest(parsed.scripts["loader"].encode()), digest(program)}
    assert set(rules["script-src"].split()) == {f"'sha256-{d}'" for d in scripts}
    assert rules["style-src"] == f"'sha256-{digest(style)}'"
    assert parsed.styles == []
    assert rules["img-src"] == "data:"
    assert "unsafe" not in parsed.policy


def test_sizes() -> None:
    assert sum(len(part.encode()) for part in shell()) <= 40_000
    plain = long_record(60, LARGE)
    assert len(html([plain])) <= 2_000_000
    more = with_more(plain, width=64)
    assert len(html([replace(more, qk=None)])) <= 2_000_000  # norms take a number for each key
    assert len(html([more])) <= 5_000_000


def test_norms_and_scores_lie_behind_the_weights() -> None:
    maps = with_more(without_heads(make_record(), "enc", 1, [2]), width=3)
    parsed = Parsed(html([maps]))
    (facts,) = parsed.data["records"]
    raw = parsed.weights()
    count = sum(w.size for kind in KINDS for w in maps.layers(kind))
    rest = raw[count:]
    for kind in KINDS:  # ‖f(x)‖ of every key
        for weights, norms in zip(maps.layers(kind), maps.norms[kind], strict=True):
            heads, _, keys = weights.shape
            lengths = rest[: heads * keys].reshape(heads, 1, keys) / 65535 * facts["norms"]
            assert weights * lengths == pytest.approx(norms, abs=1e-4)
            rest = rest[heads * keys :]
    rest = rest.view("<i2")
    assert facts["qk"]["width"] == {"enc": [3, 3], "dec": [3] * 3, "cross": [3] * 3}
    for name in ("query", "key"):
        for kind in KINDS:
            for both in maps.qk[kind]:
                vectors = getattr(both, name)
                found = rest[: vectors.size].reshape(vectors.shape) / 32767 * facts["qk"][name]
                assert found == pytest.approx(vectors, abs=2e-4)
                rest = rest[vectors.size :]
    assert not len(rest)


def test_words_have_no_norms_in_a_page() -> None:
    (facts,) = Parsed(html([to_words(with_more(make_record()))])).data["records"]
    assert not {"norms", "qk"} & set(facts)


def test_many_weights_are_deflated_and_the_same() -> None:
    records = [long_record(60, LARGE), long_record(60, LARGE)]
    parsed = Parsed(html(records))
    assert parsed.data["packed"]
    assert not Parsed(html(records[:1])).data["packed"]
    expected = np.concatenate([w.ravel() for kind in KINDS for w in records[0].layers(kind)])
    assert np.array_equal(parsed.weights(1), np.rint(expected * 65535).astype("u2"))
    with pytest.raises(UserError, match=r"more than 0\.5: .*--kinds, --layers, --heads"):
        html(records, max_mb=0.5)


def test_equal_records_give_equal_pages(tmp_path) -> None:
    write([make_record()], tmp_path / "a.html")
    write([make_record()], tmp_path / "b.html")
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()
    assert html([make_record()]) == (tmp_path / "a.html").read_text("utf-8")
    assert html([make_record()]) != html([make_record(seed=1)])


def test_what_is_no_record_is_refused() -> None:
    with pytest.raises(UserError, match="at least one record"):
        html([])
    with pytest.raises(UserError, match="not a tuple: its enc"):
        html([((),)])  # type: ignore[list-item]
    maps = make_record()
    batch = np.stack([maps.cross[0]] * 2)
    with pytest.raises(AttentionError, match="never a batch"):
        html([with_weights(maps, "cross", 0, batch)])
    with pytest.raises(UserError, match=r"A, B, A, B …, not 1"):
        html([maps], paired=True)
    bad = maps.cross[1].copy()
    bad[0, 0, 0] = np.nan
    with pytest.raises(AttentionError, match="layer 1 head 0"):
        html([with_weights(maps, "cross", 1, bad)])


def test_numbers_that_browsers_cannot_read_are_left_out_or_refused() -> None:
    maps = replace(make_record(), logprob=np.array([-1.0, -np.inf, -2, -3, -4]))
    assert Parsed(html([maps])).data["records"][0]["logprob"] == [-1, None, -2, -3, -4]
    table = HeadTable([Column("effect")], {HeadId("enc", 0, 0): {"effect": float("nan")}})
    with pytest.raises(UserError, match="must be finite"):
        html([maps], table=table)


def merged(words: dict, kind: str, maps: AttentionMaps, weights: np.ndarray) -> np.ndarray:
    rows, columns = (words[s]["starts"] for s in (maps.query_side(kind), maps.key_side(kind)))
    queries, keys = list(pairwise(rows)), list(pairwise(columns))
    return np.array(
        [[[w[a:b, c:d].sum(1).mean() for c, d in keys] for a, b in queries] for w in weights]
    )


@pytest.mark.parametrize("src", [["▁it", "▁appli", "cation"], ["彼女", "は"]])
def test_words_of_the_page_are_those_of_the_analysis(src) -> None:
    maps = make_record(src=src)
    expected = to_words(maps)
    words = Parsed(html([maps])).data["records"][0]["words"]
    for side in ("src", "tgt_in", "tgt_out"):
        assert words[side]["labels"] == expected.labels(side)
    for kind in KINDS:
        for weights, target in zip(maps.layers(kind), expected.layers(kind), strict=True):
            assert merged(words, kind, maps, weights) == pytest.approx(target, abs=1e-6)
    assert words["src"].get("unspaced", False) == (src[0] == "彼女")
    assert Parsed(html([expected])).data["records"][0]["words"] == {}


def test_a_table_of_heads_stands_beside_the_weights() -> None:
    columns = [Column("roles"), Column("loss_change", "nats"), Column("entropy", "nats")]
    head, other = HeadId("cross", 2, 1), HeadId("enc", 0, 3)
    rows = {
        head: {"roles": "previous token 0.95; broad 0.91", "loss_change": 0.25, "entropy": 1.5},
        other: {"roles": "none", "loss_change": None, "entropy": 0.5},
    }
    data = Parsed(html([make_record()], table=HeadTable(columns, rows))).data
    assert data["roles"] == {"cross.2.1": "previous token"}
    assert data["statistics"] == {
        "Δloss [nats]": {"cross.2.1": 0.25},
        "corpus: entropy [nats]": {"cross.2.1": 1.5, "enc.0.3": 0.5},
    }
    assert data["evidence"] == ["Δloss [nats]"]


def test_alternatives_go_into_pages_of_pieces_only() -> None:
    maps = make_record()
    maps.meta["alternatives"] = [[["▁die", -0.1], ["\u200b", -2.5]]] * 5
    (facts,) = Parsed(html([maps])).data["records"]
    assert facts["alternatives"][0] == [["▁die", -0.1], ["\u200b", -2.5]]
    assert facts["shown"]["\u200b"] == "⟨U+200B⟩"
    (facts,) = Parsed(html([to_words(maps)])).data["records"]
    assert facts["alternatives"] == []


def test_a_record_shows_itself_in_notebooks() -> None:
    maps = make_record()
    output = maps._repr_html_()  # type: ignore[attr-defined]
    assert output == Notebook(maps)._repr_html_()
    (attributes,) = [a for tag, a in Parsed(output).tags if tag == "iframe"]
    assert attributes["srcdoc"] == html([maps])
    assert attributes["sandbox"] == "allow-scripts allow-downloads"  # nothing of the notebook's
    assert unescape(re.search('srcdoc="([^"]*)"', output)[1]) == html([maps])
    two = Notebook([maps, make_record(seed=1)], paired=True, height=500)
    assert "height:500px" in two._repr_html_()
    assert Parsed(two.page).data["paired"]


def test_comments_and_indentation_stay_at_home() -> None:
    source = "// c\n  a = 1; // kept\n\n/* x\n y */\n\tb('//');\n"
    assert page._compact(source) == "a = 1; // kept\nb('//');"


def test_an_entry_knows_its_size() -> None:
    one = entry(make_record())
    assert one.size >= len(base64.b64encode(one.packed))
