"""The grammar probe on planted attention, with links read off the sentences by hand."""

from types import SimpleNamespace

import pytest
import torch
from attention_samples import make_model

from seq2seq.analysis.links import TO_DEPENDENT, TO_HEAD, probe_links
from seq2seq.config import RunConfig
from seq2seq.data.grammar import GrammarPair, Link
from seq2seq.data.tokenizer import train_tokenizer

# 0 The 1 old 2 dog 3 ate 4 it 5 .   /   0 Der 1 alte 2 Hund 3 fraß 4 es 5 .
PAIR = GrammarPair(
    "The old dog ate it.",
    "Der alte Hund fraß es.",
    frozenset((i, i) for i in range(6)),
    (
        Link("attributive", "source", 2, 1),
        Link("subject", "source", 3, 2),
        Link("subject", "target", 3, 2),
        Link("object", "target", 3, 4),
    ),
)


@pytest.fixture(scope="module")
def tokenizer():
    config = RunConfig().tokenizer
    config.vocab_size = 45
    return train_tokenizer(config, [PAIR.source] * 3, [PAIR.target] * 3)


def planted(tokenizer, links, kind, head):
    """Weights under which `head` of layer 1 looks along `links` as (from word, to word)."""
    source = tokenizer.source_pieces(tokenizer.encode_source([PAIR.source])[0])
    target = tokenizer.target_pieces(tokenizer.encode_target([PAIR.target])[0])
    s, t = len(source) + 1, len(target) + 1
    sizes = {"enc": (4, s, s), "dec": (2, t, t), "cross": (2, t, s)}
    maps = {
        k: [torch.full((1, *size), 1e-3) for _ in range(2 if k == "enc" else 3)]
        for k, size in sizes.items()
    }
    starts = {"enc": places(source, 0), "dec": places(target, 1)}[kind]
    for asked, answer in links:
        rows = starts[asked] if kind == "enc" else [starts[asked][0] - 1]
        for row in rows:
            maps[kind][1][0, head, row, starts[answer]] = 0.5
            maps[kind][1][0, head, row, starts[asked]] = 0.9  # itself does not count
    return SimpleNamespace(encoder=maps["enc"], decoder=maps["dec"], cross=maps["cross"])


def places(pieces, shift):
    """Positions of the pieces of each word, the full stop being a word."""
    found = []
    for place, piece in enumerate(pieces):
        if piece.startswith("▁") or piece == ".":
            found.append([])
        if piece != "▁":  # which spells nothing
            found[-1].append(place + shift)
    assert len(found) == 6
    return found


def answers(monkeypatch, tokenizer, links, kind, head):
    model = make_model(tokenizer)
    weights = planted(tokenizer, links, kind, head)
    monkeypatch.setattr(model, "attention_weights", lambda *_: weights)
    listing = probe_links(model, tokenizer, [PAIR])
    return {tuple(row[:3]): row[3:] for row in listing.rows}


def test_a_head_that_follows_a_link_is_found(monkeypatch, tokenizer):
    found = answers(monkeypatch, tokenizer, [(1, 2), (3, 2)], "enc", 2)
    assert found["attributive", TO_HEAD, "enc"][:2] == ["enc.1.2", 1]
    assert found["subject", TO_DEPENDENT, "enc"][:2] == ["enc.1.2", 1]
    assert found["subject", TO_HEAD, "enc"][1] == 0  # nobody looks from the dog to its deed


def test_the_decoder_is_asked_where_it_writes_and_only_about_what_is_written(
    monkeypatch, tokenizer
):
    found = answers(monkeypatch, tokenizer, [(3, 2), (4, 3)], "dec", 1)
    assert found["subject", TO_DEPENDENT, "dec"][:2] == ["dec.1.1", 1]
    assert found["object", TO_HEAD, "dec"][:2] == ["dec.1.1", 1]
    assert ("subject", TO_HEAD, "dec") not in found
    assert ("object", TO_DEPENDENT, "dec") not in found


def test_offsets_and_counts_stand_beside(monkeypatch, tokenizer):
    found = answers(monkeypatch, tokenizer, [], "enc", 0)
    assert found["attributive", TO_HEAD, "enc"][-3:] == [1, 1, 1]
    assert found["attributive", TO_DEPENDENT, "enc"][-3:] == [-1, 1, 1]


def test_sentences_that_the_pieces_do_not_spell_are_left_out(tokenizer):
    strange = GrammarPair("The ☃.", "Das ☃.", frozenset(), ())
    listing = probe_links(make_model(tokenizer), tokenizer, [strange])
    assert listing.rows == []
    assert listing.facts == ["0 sentences of the embedded grammar"]
