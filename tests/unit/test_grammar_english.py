"""English inflection against forms written down by hand."""

from __future__ import annotations

import pytest

from seq2seq.data.grammar_english import EnglishVerb, article, with_ed, with_s
from seq2seq.data.grammar_reader import lexicon


@pytest.mark.parametrize(
    ("word", "form"),
    [
        ("cat", "cats"),
        ("bus", "buses"),
        ("box", "boxes"),
        ("church", "churches"),
        ("city", "cities"),
        ("boy", "boys"),
        ("wash", "washes"),
        ("go", "goes"),
    ],
)
def test_s(word, form):
    assert with_s(word) == form


@pytest.mark.parametrize(
    ("word", "form"),
    [("test", "tested"), ("use", "used"), ("carry", "carried"), ("play", "played")],
)
def test_ed(word, form):
    assert with_ed(word) == form


def test_article():
    assert [article(w) for w in ("old", "umbrella", "new", "unstable")] == ["an", "an", "a", "an"]


def test_verbs():
    irregular = {"switch": "", "write": "wrote, written"}
    off = EnglishVerb.parse("switch off", irregular)
    assert (off.base, off.particle, off.preposition, off.past) == ("switch", "off", "", "switched")
    look = EnglishVerb.parse("look for", irregular)
    assert (look.particle, look.preposition, look.third) == ("", "for", "looks")
    write = EnglishVerb.parse("write/again", irregular)
    assert (write.base, write.past, write.participle) == ("write", "wrote", "written")


def test_irregular_forms_of_the_lexicon():
    known = lexicon()
    assert {known.nouns[n].plural for n in ("man", "woman", "child")} == {
        "men",
        "women",
        "children",
    }
    english = known.verbs["eat/animal"].english
    assert (english.past, english.participle, english.third) == ("ate", "eaten", "eats")
    assert known.verbs["stop"].english.past == "stopped"
    assert known.verbs["lift"].english.past == "lifted"
