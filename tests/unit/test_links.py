"""The grammar probe on planted attention, with links read off the sentences by hand."""

import numpy as np
import pytest
from attention_samples import make_model, make_record, with_weights

from seq2seq.analysis import links as links_module
from seq2seq.analysis.head_id import HeadId
from seq2seq.analysis.links import (
    TO_DEPENDENT,
    TO_HEAD,
    LinkCounts,
    Question,
    grammar_annotation,
    probe_links,
)
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
SOURCE = ["▁The", "▁o", "ld", "▁dog", "▁a", "te", "▁it", "."]
TARGET = ["▁Der", "▁al", "te", "▁Hund", "▁fraß", "▁", "es", "."]
PLACES = {  # of the pieces that spell each word; the decoder reads <s> before them
    "enc": [[0], [1, 2], [3], [4, 5], [6], [7]],
    "dec": [[1], [2, 3], [4], [5], [7], [8]],
}


def planted(kind, layer, head, looks, weight=0.5):
    """A record in which one head looks from words to words, and all others look everywhere."""
    maps = make_record(SOURCE, TARGET)
    for other in ("enc", "dec"):
        for number, weights in enumerate(maps.layers(other)):
            even = np.full_like(weights, 1e-3)
            if (other, number) == (kind, layer):
                for asked, answer in looks:
                    pieces = PLACES[kind][asked]
                    rows = pieces if kind == "enc" else [pieces[0] - 1]
                    for row in rows:
                        even[head, row, PLACES[kind][answer]] = weight
                        even[head, row, pieces] = 0.4 / len(pieces)
            maps = with_weights(maps, other, number, even)
    return maps


def counted(maps, **options):
    counts = LinkCounts(**options)
    assert counts.add(maps, grammar_annotation(PAIR))
    return counts


def test_a_head_that_follows_a_link_is_found():
    counts = counted(planted("enc", 1, 2, [(1, 2), (3, 2)]))
    planted_head = HeadId("enc", 1, 2)
    found = counts.shares(Question("attributive", TO_HEAD, "enc"))
    assert found[planted_head] == 1
    assert len(found) == 8
    assert counts.shares(Question("subject", TO_DEPENDENT, "enc"))[planted_head] == 1
    # Nobody looks from the dog to its deed: even weights choose the word of most pieces, the first.
    assert counts.shares(Question("subject", TO_HEAD, "enc"))[planted_head] == 0


def test_the_decoder_is_asked_where_it_writes_and_only_about_what_is_written():
    counts = counted(planted("dec", 2, 1, [(3, 2), (4, 3)]))
    planted_head = HeadId("dec", 2, 1)
    assert counts.shares(Question("subject", TO_DEPENDENT, "dec"))[planted_head] == 1
    assert counts.shares(Question("object", TO_HEAD, "dec"))[planted_head] == 1
    assert Question("subject", TO_HEAD, "dec") not in counts.offsets
    assert Question("object", TO_DEPENDENT, "dec") not in counts.offsets


def test_the_asking_word_counts_only_if_it_may():
    """The head puts 0.4 on the asking word and 0.3 on the other: wrong by Voita's rule."""
    maps = planted("enc", 1, 2, [(3, 2)], weight=0.3)
    question, head = Question("subject", TO_DEPENDENT, "enc"), HeadId("enc", 1, 2)
    assert counted(maps).shares(question)[head] == 1
    assert counted(maps, itself=True).shares(question)[head] == 0


def test_offsets_and_counts_stand_beside():
    counts = counted(planted("enc", 0, 0, []))
    counts.add(planted("enc", 0, 0, []), grammar_annotation(PAIR))
    assert counts.sentences == 2
    assert counts.count(Question("attributive", TO_HEAD, "enc")) == 2
    assert counts.best_offset(Question("attributive", TO_HEAD, "enc")) == (1, 1)
    assert counts.best_offset(Question("attributive", TO_DEPENDENT, "enc")) == (-1, 1)


def test_links_may_have_other_names_and_keep_their_side():
    found = grammar_annotation(PAIR, {"subject": "nsubj"})
    assert found["source"].links == [("attributive", 2, 1), ("nsubj", 3, 2)]
    assert found["target"].links == [("nsubj", 3, 2), ("object", 3, 4)]


def test_the_table_names_the_best_head_of_each_question(monkeypatch):
    record = planted("enc", 1, 2, [(1, 2)])
    monkeypatch.setattr(links_module, "capture_each", lambda *_: iter([record, record]))
    listing = probe_links(None, None, [PAIR, PAIR])
    rows = {tuple(row[:3]): row[3:] for row in listing.rows}
    best, right, low, high, *others = rows["attributive", TO_HEAD, "enc"]
    assert (best, right, high) == ("enc.1.2", 1, 1)
    assert low == pytest.approx(0.342, abs=1e-3)  # Wilson, 2 of 2
    assert others == [1, 1, 2]
    assert listing.facts == ["2 sentences of the embedded grammar"]


def test_sentences_that_the_pieces_do_not_spell_are_left_out():
    config = RunConfig().tokenizer
    config.vocab_size = 45
    tokenizer = train_tokenizer(config, [PAIR.source] * 3, [PAIR.target] * 3)
    strange = GrammarPair("The ☃.", "Das ☃.", frozenset(), ())
    listing = probe_links(make_model(tokenizer), tokenizer, [strange])
    assert listing.rows == []
    assert listing.facts == ["0 sentences of the embedded grammar"]
