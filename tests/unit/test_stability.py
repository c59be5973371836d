"""What several models do alike: heads are matched by what they do, whatever their numbers."""

import csv
import io

import pytest
from attention_samples import make_model
from test_head_permutation import ORDER, PLACE, shuffle

from seq2seq.analysis.head_id import HeadId
from seq2seq.analysis.interchange import Interchange
from seq2seq.analysis.intervene import all_heads
from seq2seq.analysis.link_probe import PROBES, ROW, looks, probe_pairs
from seq2seq.analysis.link_sentences import LINKS, link_pairs
from seq2seq.analysis.minimal_pair import both_ways, place_weights, places
from seq2seq.analysis.probe import FIRST, PRONOUN, SECOND, oriented, pronoun_pairs
from seq2seq.analysis.stability import (
    Model,
    Stability,
    Way,
    follow,
    listing,
    report,
    verdict,
)
from seq2seq.analysis.study import Study, measure
from seq2seq.config import RunConfig
from seq2seq.data.grammar import minimal_pairs
from seq2seq.data.tokenizer import train_tokenizer
from seq2seq.errors import UserError
from viz.stability import names

A = Way("cross", 0, ROW, "noun")
B = Way("enc", 1, "adjective", "noun")


@pytest.fixture(scope="module")
def tokenizer():
    config = RunConfig().tokenizer
    config.vocab_size = 700
    pairs = [member for link in LINKS for pair in link_pairs(link, 200) for member in pair]
    pairs += [member for pair in minimal_pairs(200) for member in pair]
    return train_tokenizer(config, [pair.source for pair in pairs], [pair.target for pair in pairs])


def asked(model, tokenizer):
    """The probe of adjectives in an untrained model, those pairs that it tells apart most."""
    made = probe_pairs(tokenizer, "adjective", link_pairs("adjective", 60))
    runs = Interchange(model, both_ways(made))
    gaps = (runs.before.delta - runs.goal.delta)[: len(made)]
    kept = [made[i] for i in gaps.argsort(descending=True)[:8].tolist()]
    runs = Interchange(model, both_ways(kept))
    found = looks(model, "adjective", kept)
    what = PROBES["adjective"].what
    answer = measure(Study("adjective", what, runs, places(kept), ["few"], kept, found))
    return Model("x", {"adjective": answer})


@pytest.fixture(scope="module")
def model(tokenizer):
    return asked(make_model(tokenizer), tokenizer)


def test_the_heads_of_a_way_are_those_that_look_so(model):
    study = model.answers["adjective"].study
    weights = place_weights(study.runs.model, study.pairs)
    seen = []
    for end in (*weights.names["source"],):
        for head in model.heads("adjective", A._replace(end=end, layer=None)):
            means = {
                name: float(weights.between(head.place, ROW, name)[:, head.head].mean())
                for name in weights.names["source"]
            }
            assert max(means, key=means.get) == end
            seen.append(head)
    assert sorted(seen) == sorted(h for h in all_heads(study.runs.model) if h.kind == "cross")


def test_the_effect_of_a_way_is_that_of_its_heads_at_its_place(model):
    study = model.answers["adjective"].study
    for way in (A, B, *model.ways("adjective")):
        heads = model.heads("adjective", way)
        side = "source" if way.kind == "enc" else "target"
        expected = study.runs.effect(heads, study.places[side][way.start]).effect if heads else 0
        assert model.effect("adjective", way) == pytest.approx(expected)
    assert model.effect("adjective", Way("cross", 9, ROW, "noun")) == 0
    assert model.heads("adjective", Way("cross", 0, "moon", "noun")) == []


def test_a_model_with_its_heads_shuffled_takes_the_same_ways(model, tokenizer):
    other = make_model(tokenizer)
    shuffle(other)
    second = asked(other, tokenizer)
    second.name = "y"
    models = [model, second]
    assert model.ways("adjective") == second.ways("adjective")
    rows = follow(models, "adjective")
    assert rows
    for row in rows:
        assert row.effects["x"] == pytest.approx(row.effects["y"], abs=1e-9)
        renamed = [
            head._replace(head=ORDER[head.head]) if head.place == PLACE else head
            for head in row.heads["y"]
        ]
        assert sorted(renamed) == sorted(row.heads["x"])
    before, after = (m.answers["adjective"].table.values("effect") for m in models)
    for number, old in enumerate(ORDER):
        mine = after[HeadId(*PLACE, number)]
        assert mine == pytest.approx(before[HeadId(*PLACE, old)], abs=1e-9)
        assert mine != pytest.approx(before[HeadId(*PLACE, number)], abs=1e-9)


def test_nouns_are_told_by_what_they_are_to_the_sentence(tokenizer):
    model = make_model(tokenizer)
    pairs = pronoun_pairs(tokenizer, minimal_pairs(60), 5)
    weights = place_weights(model, pairs)
    found = oriented(weights, ("cross", 1), PRONOUN)
    first, second = (weights.between(("cross", 1), PRONOUN, name) for name in (FIRST, SECOND))
    assert found["antecedent"][2].tolist() == first[2].tolist()
    assert found["antecedent"][7].tolist() == second[7].tolist()
    assert found["rival"][7].tolist() == first[7].tolist()
    assert FIRST not in found


class Told(Model):
    """A model whose ways and effects are given."""

    def __init__(self, name, effects, asked=True):
        super().__init__(name, {"it": None} if asked else {})
        self.given = effects

    def ways(self, probe):
        return [way for way, effect in self.given.items() if effect >= 0.1]

    def effect(self, probe, way):
        same = [e for w, e in self.given.items() if way.layer is None and w.anywhere == way]
        return self.given.get(way, sum(same))

    def heads(self, probe, way):
        return [HeadId(way.kind, way.layer or 0, 3)] if self.effect(probe, way) else []


LOW, HIGH = Way("cross", 0, PRONOUN, "predicate"), Way("cross", 1, PRONOUN, "predicate")
ONCE = Way("dec", 1, PRONOUN, PRONOUN)


@pytest.fixture
def rows():
    models = [Told("a", {LOW: 0.9, ONCE: 0.2}), Told("b", {HIGH: 0.8, LOW: 0.05}),
              Told("c", {LOW: 0.4}), Told("d", {}, asked=False)]  # fmt: skip
    return follow(models, "it")


def test_a_way_that_moves_between_layers_is_stable_in_any(rows):
    assert [(row.way, row.taken, row.stable) for row in rows] == [
        (LOW.anywhere, 3, True),
        (LOW, 2, False),
        (HIGH, 1, False),
        (ONCE, 1, False),
    ]
    assert rows[0].effects == {"a": 0.9, "b": pytest.approx(0.85), "c": 0.4}


def test_the_verdict_counts_what_is_stable_and_what_is_not(rows):
    assert verdict(rows, "it", 4) == (
        "it: stable in all 3 runs: cross, any layer: predicate → answer (effect 0.40 to 0.90); "
        "1 other way carried only in some."
    )
    assert verdict(rows[1:], "it", 4) == (
        "it: nothing is stable: none of 3 ways carries 0.1 or more in all 3 runs."
    )
    alone = [Stability("it", LOW, {"a": 0.9}, {})]
    assert "only 1 of 3 runs can be asked" in verdict(alone, "it", 3)
    assert not alone[0].stable


def test_the_report_fits_a_terminal_and_marks_what_was_not_asked(rows):
    lines = report(rows, ["a", "b", "c", "d"])
    assert max(map(len, lines)) <= 80
    assert lines[1].split() == ["cross,", "any", "layer:", "predicate", "→", "answer",
                                "3/3", "0.90", "0.85", "0.40", "–"]  # fmt: skip
    assert "dec, layer 1: last token → answer" in lines[-1]


def test_the_table_has_effects_and_heads_of_every_run(rows):
    table = list(csv.DictReader(io.StringIO(listing(rows, ["a", "b", "c", "d"]).to_csv())))
    assert table[1]["effect a"] == "0.9"
    assert table[1]["heads a"] == "cross.0.3"
    assert (table[1]["effect d"], table[1]["heads d"]) == ("", "")
    assert [row["layer"] for row in table] == ["any", "0", "1", "1"]
    assert (table[0]["taken"], table[0]["asked"], table[0]["least"]) == ("3", "3", "0.4")


def test_runs_are_named_by_what_tells_them_apart(tmp_path):
    paths = [str(tmp_path / name) for name in ("one/run", "two/run", "two/other")]
    assert names(paths) == ["one/run", "two/run", "two/other"]
    assert names(paths[1:]) == ["run", "other"]
    with pytest.raises(UserError, match="run is given twice"):
        names([paths[0], paths[0] + "/"])
