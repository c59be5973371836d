"""Finished runs side by side: what is measured, what is claimed, what is refused."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
import safetensors.torch
import torch
from attention_samples import SENTENCES, make_run

from seq2seq.analysis.head_id import HeadId
from seq2seq.analysis.similarity import Distances
from seq2seq.config_file import load_config, save_config
from seq2seq.errors import UserError
from seq2seq.lesson import heads, seeds, trained
from seq2seq.lesson.example import look
from seq2seq.lesson.part import Verdict
from seq2seq.lesson.runs import Pairs, compare, differences, load_runs, read_log, seconds_per_update
from seq2seq.model.transformer import Transformer
from seq2seq.scores import Score

PAIRS = Pairs(SENTENCES, "three sentences")
LOG = [
    {"kind": "train", "update": 1, "seconds": 1.0},
    {"kind": "train", "update": 11, "seconds": 3.0},
    {"kind": "dev", "update": 11, "seconds": 90.0, "bleu": 12.5},
    {"kind": "train", "update": 21, "seconds": 99.0},
    {"kind": "train", "update": 31, "seconds": 103.0},
]


def with_heads(folder, encoder, decoder, seed=0):
    """The run of `make_run` with other numbers of heads, of the same width, and a log."""
    make_run(folder)
    config = load_config(folder / "config.json")
    config.model.encoder_heads, config.model.decoder_heads = encoder, decoder
    config.seed = seed
    save_config(config, folder / "config.json")
    torch.manual_seed(seed)
    model = Transformer(config.model)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            parameter.data.mul_(1.5)  # peaked maps
    safetensors.torch.save_model(model, str(folder / "step-7" / "model.safetensors"))
    lines = "".join(json.dumps(line) + "\n" for line in LOG)
    (folder / "metrics.jsonl").write_text(lines + '{"torn', encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Runs of width 16 with 1 and 4 heads, and 4 heads of another seed."""
    torch.set_num_threads(1)
    place = tmp_path_factory.mktemp("runs")
    with_heads(place / "one", 1, 1)
    with_heads(place / "four", 4, 4)
    with_heads(place / "again", 4, 4, seed=5)
    return place


@pytest.fixture(scope="module")
def both(folder):
    runs = load_runs([folder / "one", folder / "four"], device="cpu")
    return runs, compare(runs, PAIRS)


def claim(part, words):
    return next(claim for claim in part.claims if words in claim.says)


def fake(found, **changes):
    """The same measurements with other numbers, to see the verdicts turn."""
    runs = [dataclasses.replace(run) for run in found.runs]
    for name, values in changes.items():
        runs = [
            dataclasses.replace(run, **{name: value})
            for run, value in zip(runs, values, strict=True)
        ]
    return dataclasses.replace(found, runs=runs)


def test_what_is_measured(both):
    (one, _), found = both
    first, second = found.runs
    assert [run.name for run in found.runs] == ["one", "four"]
    assert [run.heads for run in found.runs] == ["1", "4"]
    assert [run.width for run in found.runs] == [16, 4]
    assert first.parameters == second.parameters == sum(p.numel() for p in one.model.parameters())
    assert first.update == 7
    assert first.seconds == pytest.approx(0.3)  # median of 0.2 and 0.4; the validation is left out
    assert list(first.curve) == [(11, 12.5)]
    assert len(first.table.heads) == 2 + 3 + 3
    assert len(second.table.heads) == 4 * (2 + 3 + 3)
    assert first.mean_js() is None  # a layer has no second head
    pairs = [
        found.matrix[i, j]
        for found in second.distances.values()
        for i in range(len(found.heads))
        for j in range(i)
        if found.heads[i].layer == found.heads[j].layer
    ]
    assert len(pairs) == 8 * 6
    assert second.mean_js() == pytest.approx(np.mean(pairs))
    entropies = second.table.values("entropy").values()
    assert second.mean("entropy") == pytest.approx(sum(entropies) / 32)
    assert sum(second.roles().values()) == 32
    assert "3 sentence pairs of three sentences" in found.facts[0]
    assert any("nrefs:1" in fact for fact in found.facts)


def test_the_loss_is_that_of_the_references(both):
    (one, _), found = both
    total = tokens = 0.0
    for source, target in SENTENCES:
        ids = one.tokenizer.encode_source([source])[0], one.tokenizer.encode_target([target])[0]
        target_in, target_out = [2, *ids[1]], [*ids[1], 3]
        with torch.no_grad():
            logits = one.model(torch.tensor([[*ids[0], 3]]), torch.tensor([target_in]))
        logs = logits.log_softmax(-1)[0]
        total -= sum(float(logs[t, i]) for t, i in enumerate(target_out))
        tokens += len(target_out)
    assert found.runs[0].loss == pytest.approx(total / tokens, abs=1e-5)


def test_single_says_who_is_better_and_by_what(both):
    _, found = both
    part = trained.single_part(found)
    assert "1 head against 4 heads, both 16 wide" in part.about
    assert claim(part, "costs no parameters").verdict == Verdict.holds
    assert claim(part, "translate better").verdict == Verdict.open  # both know nothing
    assert "no more than chance" in claim(part, "translate better").measured
    assert len(part.tables[1].listing.rows) == 8 + 32
    references = [target for _, target in SENTENCES]
    better = fake(found, outputs=[["x"] * 3, references])
    # three sentences cannot be significant: 2 of 2³ ways to swap them give as much
    assert claim(trained.single_part(better), "translate better").verdict == Verdict.open


@pytest.mark.parametrize(("right", "verdict"), [(1, Verdict.holds), (0, Verdict.fails)])
def test_the_verdict_follows_the_significance_test(both, right, verdict):
    _, found = both
    pairs = SENTENCES * 4
    outputs = [["ein Hund"] * 12, ["ein Hund"] * 12]
    outputs[right] = [target for _, target in pairs]
    other = dataclasses.replace(fake(found, outputs=outputs), pairs=pairs)
    assert claim(trained.single_part(other), "translate better").verdict == verdict


@pytest.mark.parametrize(
    ("seconds", "verdict"),
    [((1, 2), Verdict.holds), ((2, 1), Verdict.fails), ((1, 1.05), Verdict.open)],
)
def test_the_price_in_time_is_what_the_logs_say(both, seconds, verdict):
    _, found = both
    assert claim(trained.single_part(fake(found, seconds=seconds)), "some time").verdict == verdict
    none = trained.single_part(fake(found, seconds=(None, None)))
    assert not any("some time" in one.says for one in none.claims)


def score(value):
    return Score(value, "signature", value - 1, value + 1)


@pytest.mark.parametrize(
    ("bleu", "verdict"),
    [((10, 20), Verdict.fails), ((20, 10), Verdict.holds), ((20, 19), Verdict.open)],
)
def test_s15_more_heads_are_not_always_better(both, bleu, verdict):
    _, found = both
    part = trained.sweep_part(fake(found, bleu=[score(value) for value in bleu]))
    assert claim(part, "not better without end").verdict == verdict
    assert claim(part, "narrower").measured == "h = 1: d_k = 16; h = 4: d_k = 4"
    rows = part.tables[0].listing.rows
    assert [row[1] for row in rows] == ["1", "4"]


def test_what_differs_beside_heads_is_said(both):
    _, found = both
    assert trained.cautions(found.runs) == []
    config = dataclasses.replace(found.runs[1].config, seed=9)
    other = fake(found, config=[found.runs[0].config, config], update=[7, 8])
    assert trained.cautions(other.runs) == [
        "caution: the runs also differ in seed",
        "updates of the measured checkpoints: one 7, four 8",
    ]
    assert differences([config, config]) == []


def test_runs_of_as_many_heads_or_other_width_are_refused(both):
    _, found = both
    with pytest.raises(UserError, match="All runs have 1 heads"):
        trained.single_part(dataclasses.replace(found, runs=[found.runs[0]] * 2))
    config = dataclasses.replace(found.runs[1].config)
    config.model = dataclasses.replace(config.model, d_model=32)
    wide = fake(found, config=[found.runs[0].config, config])
    with pytest.raises(UserError, match="16 and 32 wide"):
        trained.sweep_part(wide)


def test_the_same_run_twice_or_other_text_is_refused(folder, tmp_path):
    with pytest.raises(UserError, match="one run twice"):
        load_runs([folder / "one", folder / "four" / ".." / "one"])
    other = with_heads(tmp_path / "other", 2, 2)
    (other / "corpus.json").write_text('{"fingerprint": "else"}', encoding="utf-8")
    with pytest.raises(UserError, match="different text"):
        load_runs([folder / "one", other])


def test_runs_of_one_name_are_told_apart(folder, tmp_path):
    twin = with_heads(tmp_path / "one", 2, 2)
    runs = load_runs([folder / "one", twin], device="cpu")
    assert [run.name for run in compare(runs, PAIRS).runs] == [str(folder / "one"), str(twin)]


def test_a_missing_log_is_no_error(folder):
    assert read_log(folder / "nowhere") == []
    assert seconds_per_update([]) is None
    assert len(read_log(folder / "one")) == len(LOG)  # the torn line is left out


def test_seeds_match_the_heads_of_two_runs(folder):
    runs = load_runs([folder / "four", folder / "again"], device="cpu")
    found = seeds.match_runs(runs, compare(runs, PAIRS))
    part = seeds.part(found)
    assert len(part.tables[0].listing.rows) == 32
    for matching in found.places.values():
        assert sum(matching.matched) <= sum(matching.by_number) + 1e-12
    assert "32 heads" in claim(part, "number means nothing").measured
    assert not any("caution" in fact for fact in part.facts)  # the seed may differ here


def test_seeds_refuse_other_numbers_of_heads(both):
    runs, found = both
    with pytest.raises(UserError, match="as many heads"):
        seeds.match_runs(runs, found)
    with pytest.raises(UserError, match="two runs, not 1"):
        seeds.match_runs(runs[:1], found)


@pytest.fixture(scope="module")
def studied(folder):
    run = load_runs([folder / "four"], device="cpu")[0]
    source, target = SENTENCES[0]
    shown = look(run.model, run.tokenizer, source, target=target, name="four")
    return heads.study(run, PAIRS, shown.maps), shown


def test_heads_of_a_run(studied):
    found, _ = studied
    part = heads.part(found)
    assert len(part.tables[0].listing.rows) == 32
    alike = claim(part, "resemble").measured
    nearest = found.table.values("nearest_js")
    assert f"{min(nearest.values()):.4f}" in alike
    changes = found.table.values("loss_change")
    assert f"{max(changes.values()):+.4f}" in claim(part, "switched off").measured


def test_where_it_looks_by_words(studied):
    """Against the pieces' weights added up by hand."""
    found, shown = studied
    table = next(t for t in heads.part(found).tables if t.name == "heads_it")
    words: list[list[int]] = []
    for place, piece in enumerate(shown.maps.src):
        if piece.startswith("▁") or piece == "</s>":
            words.append([])
        words[-1].append(place)
    texts = ["".join(shown.maps.src[i] for i in word) for word in words]
    rows = shown.maps.enc[1][2][words[texts.index("▁it")]].mean(0)
    weights = [float(rows[word].sum()) for word in words]
    line = next(row for row in table.listing.rows if row[0] == "enc.1.2")
    assert line[2] == pytest.approx(max(weights), abs=1e-6)
    assert len(table.listing.rows) == 8


def test_a_sentence_without_it_has_no_such_table(studied, folder):
    found, _ = studied
    run = load_runs([folder / "four"], device="cpu")[0]
    source, target = SENTENCES[1]
    other = look(run.model, run.tokenizer, source, target=target, name="four").maps
    part = heads.part(dataclasses.replace(found, maps=other))
    assert [t.name for t in part.tables] == ["heads"]


def test_a_sentence_that_becomes_nothing_is_refused(folder):
    run = load_runs([folder / "four"], device="cpu")[0]
    with pytest.raises(UserError, match="becomes nothing in four"):
        look(run.model, run.tokenizer, "The", target="", name="four")


def test_a_single_head_has_nobody_to_resemble(both):
    """One layer with one head each: no divergence to speak of."""
    (one, _), _ = both
    source, target = SENTENCES[0]
    shown = look(one.model, one.tokenizer, source, target=target, name="one")
    found = heads.study(one, PAIRS, shown.maps)
    alone = {"enc": Distances([HeadId("enc", 0, 0)], np.zeros((1, 1)))}
    survey = dataclasses.replace(found.survey, distances=alone)
    part = heads.part(dataclasses.replace(found, survey=survey))
    assert not any("different things" in one.says for one in part.claims)
