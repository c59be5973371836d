"""Syntactic roles by Voita's rule, on heads that are planted on links and on offsets."""

import numpy as np
import pytest
from attention_samples import make_record, with_weights

from seq2seq.analysis.head_id import HeadId
from seq2seq.analysis.links import TO_HEAD, LinkCounts, Parsed, Question
from seq2seq.analysis.roles import Role, with_roles
from seq2seq.analysis.statistics import HeadStatistics
from seq2seq.analysis.syntax import (
    LEAST,
    from_grammar,
    from_trees,
    relations,
    syntactic_roles,
    syntax_table,
)
from seq2seq.data.conllu import Tree
from seq2seq.data.grammar import generate

FOLLOWER, NEXT, MIXED = (HeadId("enc", 1, head) for head in range(3))
WORDS = ("a", "b", "c", "d", "e")
# The subject stands in turn 1, 2 and 3 words before its verb: no offset finds more than a third.
LINKS = [[("nsubj", 3, 2)], [("nsubj", 3, 1)], [("nsubj", 3, 0)]]


def record(link, number):
    """FOLLOWER looks from the subject to its verb; NEXT at the next word; MIXED in turn."""
    maps = make_record(["▁a", "▁b", "▁c", "▁d", "▁e"], ["▁x"])
    for layer in range(2):
        weights = np.full_like(maps.layers("enc")[layer], 1e-3)
        weights[:, :, -1] = 0.9  # the end of sentence, which does not count
        if layer == 1:
            _, head, dependent = link
            weights[0, dependent, head] = 0.05
            for row in range(4):
                weights[1, row, row + 1] = 0.05
            weights[2, dependent, head if number % 5 == 0 else dependent] = 0.05
        maps = with_weights(maps, "enc", layer, weights)
    return maps


@pytest.fixture(scope="module")
def counts():
    found = LinkCounts(itself=True)
    for number in range(60):
        links = LINKS[number % 3]
        assert found.add(record(links[0], number), {"source": Parsed(WORDS, links)})
    return found


def test_who_follows_the_link_has_the_role_and_an_offset_has_none(counts):
    found = syntactic_roles(counts)
    assert found == {FOLLOWER: [Role("nsubj→head", 1.0)]}
    rows = syntax_table(counts).rows
    assert rows[FOLLOWER] == {
        "syntactic": 1,
        "syntactic_link": "nsubj→head",
        "syntactic_offset": pytest.approx(1 / 3),
    }
    shares = counts.shares(Question("nsubj", TO_HEAD, "enc"))
    assert shares[NEXT] == rows[NEXT]["syntactic"] == pytest.approx(1 / 3)
    assert shares[MIXED] == pytest.approx(1 / 5)


def test_the_margin_decides(counts):
    assert FOLLOWER in syntactic_roles(counts, margin=2 / 3 - 1e-9)
    assert FOLLOWER not in syntactic_roles(counts, margin=2 / 3 + 1e-9)
    assert NEXT in syntactic_roles(counts, margin=0)


def test_every_head_and_link_is_listed_the_best_first(counts):
    listing = relations(counts)
    first = dict(zip([c.name for c in listing.columns], listing.rows[0], strict=True))
    of_link = [row for row in listing.rows if row[1] == "nsubj→head"]
    assert [row[0] for row in of_link][:3] == ["enc.1.0", "enc.1.1", "enc.1.2"]
    assert len(listing.rows) == 2 * 8
    assert {row[1] for row in listing.rows} == {"nsubj→head", "head→nsubj"}
    assert [row[-1] for row in of_link][:2] == ["yes", ""]
    assert of_link[0][5] in (1, 2, 3)
    assert first["links"] == 60


def test_few_links_give_no_role():
    found = LinkCounts(itself=True)
    for number in range(LEAST - 1):
        found.add(record(LINKS[number % 3][0], number),
                  {"source": Parsed(WORDS, LINKS[number % 3])})  # fmt: skip
    assert syntactic_roles(found) == {}
    assert relations(found).rows == []
    assert syntax_table(found).rows == {}


def test_roles_of_all_sorts_stand_in_one_column(counts):
    statistics = HeadStatistics()
    statistics.add(record(LINKS[0][0], 1))
    table = with_roles(statistics.table(), syntactic=syntactic_roles(counts))
    assert table.texts("roles")[FOLLOWER] == "nsubj→head 1.00; separator 0.90"
    assert table.texts("roles")[NEXT].startswith("separator 0.9")


def test_trees_are_found_by_their_letters_and_other_relations_are_left_out():
    tree = Tree(("It", "'s", "old"), (("nsubj", 2, 0), ("cop", 2, 1)))
    annotate = from_trees([tree])
    assert annotate("It's  old") == {"source": Parsed(tree.tokens, [("nsubj", 2, 0)])}
    assert annotate("It's new") is None


def test_the_grammar_knows_both_sides():
    pairs = list(generate(20, split="dev"))
    annotate = from_grammar(pairs)
    found = annotate(pairs[3].source)
    assert set(found) == {"source", "target"}
    known = {"nsubj", "obj", "amod", "compound:prt", "antecedent"}
    links = [li for p in pairs for side in annotate(p.source).values() for li in side.links]
    assert {name for name, _, _ in links} <= known
    assert len(links) == sum(len(pair.links) for pair in pairs)
    assert annotate("Nobody says this.") is None
