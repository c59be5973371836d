"""The link probes: places are the words they are named for, planted heads are found."""

from types import SimpleNamespace

import pytest
import torch
from attention_samples import make_model

from seq2seq.analysis.head_id import HeadId
from seq2seq.analysis.link_probe import PROBES, ROW, VERB, looks, probe_pairs
from seq2seq.analysis.link_sentences import LINKS, link_pairs
from seq2seq.analysis.minimal_pair import ELSEWHERE, END, place_weights
from seq2seq.config import RunConfig
from seq2seq.data.grammar import words
from seq2seq.data.tokenizer import train_tokenizer

COUNT = 12
SHAPES = {"enc": (2, 4), "dec": (3, 2), "cross": (3, 2)}


@pytest.fixture(scope="module")
def tokenizer():
    config = RunConfig().tokenizer
    config.vocab_size = 700  # so small that words fall into pieces
    pairs = [member for link in LINKS for pair in link_pairs(link, 300) for member in pair]
    return train_tokenizer(config, [pair.source for pair in pairs], [pair.target for pair in pairs])


@pytest.fixture(scope="module")
def samples(tokenizer):
    return {
        link: probe_pairs(tokenizer, link, link_pairs(link, 40 * COUNT), COUNT) for link in PROBES
    }


def said(pieces, at):
    return "".join(pieces[place] for place in at).replace("▁", "")


def test_every_link_has_sentences_and_a_probe():
    assert list(PROBES) == list(LINKS)


@pytest.mark.parametrize("link", PROBES)
def test_places_hold_the_words_that_they_are_named_for(tokenizer, samples, link):
    truth = {a.source: (a, b) for a, b in link_pairs(link, 40 * COUNT)}
    assert len(samples[link]) == COUNT
    for pair in samples[link]:
        a, b = truth[pair.text[0]]
        differing = [
            (x, y) for x, y in zip(words(a.source), words(b.source), strict=True) if x != y
        ]
        sources = [
            tokenizer.source_pieces(ids) for ids in (pair.contrast.source, pair.contrast.other)
        ]
        named = [said(pieces, pair.source[PROBES[link].decider]) for pieces in sources]
        assert [tuple(named)] == differing
        asked = PROBES[link].asked
        if asked:  # the word whose translation is the answer
            english = words(a.source).index(said(sources[0], pair.source[asked]))
            german = {target for source, target in a.alignment if source == english}
            answer = min(i for i, word in enumerate(words(a.target)) if word != words(b.target)[i])
            assert answer in german
        everywhere = sorted(at for positions in pair.source.values() for at in positions)
        assert everywhere == list(range(len(pair.contrast.source)))
        assert pair.target[ROW] == [len(pair.contrast.target_in) - 1]


def test_the_verb_of_a_prefix_is_written_before_it(tokenizer, samples):
    for pair in samples["particle"]:
        read = tokenizer.target_pieces(pair.contrast.target_in)
        assert said(read, pair.target[VERB]) in ("schloss", "schaltete")
    assert VERB not in samples["object"][0].target


def test_the_object_has_its_article_and_its_noun(tokenizer, samples):
    for pair in samples["object"]:
        pieces = tokenizer.source_pieces(pair.contrast.source)
        assert said(pieces, pair.source["article"]) in ("the", "my", "our")
        text = words(pair.text[0])
        assert said(pieces, pair.source["object"]) == text[-2]


def plant(monkeypatch, model, pairs, query, key):
    """Enc 1.2 and cross 2.1 look at `key` from `query`; all others at the end of sentence."""
    by_ids = {tuple(c): pair for pair in pairs for c in (pair.contrast.source, pair.contrast.other)}

    def weights(source, target_in):
        (rows, s), t = source.shape, target_in.shape[1]
        sizes = {"enc": (s, s), "dec": (t, t), "cross": (t, s)}
        maps = {
            kind: [torch.zeros(rows, heads, *sizes[kind]) for _ in range(layers)]
            for kind, (layers, heads) in SHAPES.items()
        }
        for row, ids in enumerate(source.tolist()):
            pair = by_ids[tuple(i for i in ids if i)]
            for kind in ("enc", "cross"):
                for layer in maps[kind]:
                    layer[row, :, :, len(pair.contrast.source) - 1] = 1
            places = pair.source[key]
            for layer, head, at in ((1, 2, pair.source.get(query, [])), (2, 1, pair.target[ROW])):
                kind = "enc" if layer == 1 else "cross"
                for position in at:
                    maps[kind][layer][row, head, position] = 0
                    maps[kind][layer][row, head, position, places] = 1 / len(places)
        return SimpleNamespace(encoder=maps["enc"], decoder=maps["dec"], cross=maps["cross"])

    monkeypatch.setattr(model, "attention_weights", weights)


@pytest.mark.parametrize("link", ["subject", "object", "adjective"])
def test_planted_heads_are_right_and_others_are_not(tokenizer, samples, monkeypatch, link):
    model, probe = make_model(tokenizer), PROBES[link]
    plant(monkeypatch, model, samples[link], probe.asked, probe.decider)
    table = looks(model, link, samples[link])
    right = table.values("right")
    for name in ("enc.1.2", "cross.2.1"):
        assert right[HeadId.parse(name)] == 1
        assert table.texts("looks_at")[HeadId.parse(name)] == f"{probe.decider} 1.00"
    assert table.texts("looks_at")[HeadId.parse("enc.1.1")] == f"{END} 1.00"
    # Zeros on all words: the first word is taken, which is never the one that decides.
    assert sum(share > 0 for share in right.values()) == 2
    assert not any(head.kind == "dec" for head in right)


def test_a_prefix_is_asked_of_cross_and_decoder_heads(tokenizer, samples, monkeypatch):
    model = make_model(tokenizer)
    plant(monkeypatch, model, samples["particle"], "", PROBES["particle"].decider)
    table = looks(model, "particle", samples["particle"])
    assert {head.kind for head in table.values("right")} == {"dec", "cross"}
    assert table.values("right")[HeadId("cross", 2, 1)] == 1
    assert "blind rule: none" in table.facts[0]


def test_the_blind_rule_is_the_best_offset(samples, tokenizer):
    pairs = samples["adjective"]
    (fact,) = looks(make_model(tokenizer), "adjective", pairs).facts
    assert fact == "blind rule: noun at offset +1 from adjective in 1.00 of the sentences"


def test_weights_between_places_are_means_over_queries_and_sums_over_keys(tokenizer, samples):
    model, pairs = make_model(tokenizer), samples["object"]
    found = place_weights(model, pairs)
    pair = pairs[2]
    with torch.no_grad():
        source = torch.tensor([pair.contrast.other])
        target = torch.tensor([pair.contrast.target_in])
        weights = model.attention_weights(source, target)
    by_hand = (
        weights.encoder[1][0].float()[:, pair.source["verb"]].mean(1)[:, pair.source["object"]]
    )
    row = len(pairs) + 2  # turned round
    assert torch.allclose(
        found.between(("enc", 1), "verb", "object")[row], by_hand.sum(-1), atol=1e-5
    )
    whole = sum(found.between(("cross", 0), ROW, name)[row] for name in pair.source)
    assert whole == pytest.approx([1.0, 1.0], abs=1e-5)
    assert ELSEWHERE in found.names["source"]
