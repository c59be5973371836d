"""Minimal pairs of grammatical links: one word apart in English, one form apart in German."""

from itertools import pairwise

import pytest

from seq2seq.analysis import link_sentences
from seq2seq.analysis.link_sentences import LINKS, link_pairs
from seq2seq.data.grammar import words
from seq2seq.data.grammar_reader import lexicon
from seq2seq.errors import UserError

COUNT = 40


def both(link, split="train"):
    found = list(link_pairs(link, COUNT, split=split))
    assert len(found) == COUNT
    return found


def differing(a, b):
    """The words at the first place where two texts differ."""
    return next(pair for pair in zip(words(a), words(b), strict=False) if len(set(pair)) == 2)


@pytest.mark.parametrize("split", ["train", "dev", "test"])
@pytest.mark.parametrize("link", LINKS)
def test_one_english_word_differs(link, split):
    for a, b in both(link, split):
        pairs = list(zip(words(a.source), words(b.source), strict=True))
        assert sum(x != y for x, y in pairs) == 1
        assert a.target != b.target


def test_the_subjects_number_decides_the_form_of_the_verb():
    plurals = {noun.name: noun.plural for noun in lexicon().nouns.values()}
    for a, b in both("subject"):
        singular, plural = differing(a.source, b.source)
        assert plurals[singular] == plural
        verb, verbs = differing(a.target, b.target)
        assert (verb, verbs) in {("wird", "werden"), (verb, verb + "n"), (verb, verb + "en")}
        for pair, form in ((a, verb), (b, verbs)):
            sides = {link.side: link for link in pair.links if link.kind == "subject"}
            assert words(pair.source)[sides["source"].dependent] in (singular, plural)
            if form not in ("wird", "werden"):
                assert words(pair.target)[sides["target"].head] == form


def test_the_verb_decides_the_case_of_the_object():
    dative = ("dem", "der", "meinem", "meiner", "unserem", "unserer")
    accusative = ("den", "die", "meinen", "meine", "unseren", "unsere")
    for a, b in both("object"):
        assert {*differing(a.source, b.source)} <= {
            *("help", "helped", "thank", "thanked", "visit", "visited", "call", "called")
        }
        assert differing(a.target, b.target) in list(zip(dative, accusative, strict=True))


def test_the_noun_decides_the_ending_of_its_adjective():
    genders = {noun.name: noun.german.gender for noun in lexicon().nouns.values()}
    for a, b in both("adjective"):
        assert {genders[noun] for noun in differing(a.source, b.source)} == {"m", "n"}
        said = differing(a.target, b.target)
        assert {form[-2:] for form in said} == {"er", "es"}
        assert len({form[:-2] for form in said}) == 1
        links = [li for li in a.links if (li.kind, li.side) == ("attributive", "target")]
        assert words(a.target)[links[0].dependent] == said[0]


def test_the_verb_decides_the_prefix():
    for a, b in both("particle"):
        heads = [li for li in a.links if (li.kind, li.side) == ("particle", "target")]
        prefix, other = differing(a.target, b.target)
        assert (prefix, other) in {("ab", "."), ("ein", "aus")}
        assert words(a.target)[heads[0].dependent] == prefix
        assert words(a.target)[heads[0].head] in ("schloss", "schaltete")


def test_a_seed_gives_the_same_pairs_and_none_twice():
    found = [list(link_pairs("object", 30, split="dev", seed=2)) for _ in range(2)]
    assert found[0] == found[1]
    assert list(link_pairs("object", 10, split="dev", seed=2)) == found[0][:10]
    assert list(link_pairs("object", 10, split="dev", seed=3)) != found[0][:10]
    sources = sorted(a.source for a, _ in found[0])
    assert all(x != y for x, y in pairwise(sources))


def test_held_out_sentences_hold_a_held_out_combination(monkeypatch):
    def home(noun, relation, word):
        if (noun, relation) == ("nurse", "subject"):
            return "test"
        return "dev" if (noun, relation) == ("doctor", "subject") else "train"

    monkeypatch.setattr(link_sentences, "split_of", home)
    for split, present, absent in (("test", "nurse", "doctor"), ("dev", "doctor", "nurse")):
        for a, b in both("object", split):
            subjects = [
                words(pair.source)[link.dependent]
                for pair in (a, b)
                for link in pair.links
                if (link.kind, link.side) == ("subject", "source")
            ]
            assert subjects == [present] * 2 != [absent] * 2
    monkeypatch.setattr(link_sentences, "split_of", lambda *_: "train")
    monkeypatch.setattr(link_sentences, "PATIENCE", 50)
    assert list(link_pairs("object", 1, split="test")) == []


def test_there_are_no_pairs_of_other_links():
    with pytest.raises(UserError, match="no pairs for 'genitive': choose subject, object"):
        link_pairs("genitive", 1)
