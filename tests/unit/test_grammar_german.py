"""German inflection against forms written down by hand from a school grammar."""

from __future__ import annotations

import pytest

from seq2seq.data.grammar_german import (
    GermanNoun,
    GermanVerb,
    adjective,
    determiner,
    pronoun,
    relative,
)
from seq2seq.data.grammar_phrases import Draft, NounPhrase, Prepositional
from seq2seq.data.grammar_reader import lexicon

CASES = ("nom", "acc", "dat")


def row(make) -> str:
    return " ".join(make(case) for case in CASES)


@pytest.mark.parametrize(
    ("stem", "column", "forms"),
    [
        ("der", "m", "der den dem"),
        ("der", "f", "die die der"),
        ("der", "n", "das das dem"),
        ("der", "p", "die die den"),
        ("dies", "m", "dieser diesen diesem"),
        ("dies", "f", "diese diese dieser"),
        ("dies", "n", "dieses dieses diesem"),
        ("dies", "p", "diese diese diesen"),
        ("jed", "m", "jeder jeden jedem"),
        ("jed", "f", "jede jede jeder"),
        ("jed", "n", "jedes jedes jedem"),
        ("ein", "m", "ein einen einem"),
        ("ein", "f", "eine eine einer"),
        ("ein", "n", "ein ein einem"),
        ("kein", "m", "kein keinen keinem"),
        ("mein", "m", "mein meinen meinem"),
        ("unser", "m", "unser unseren unserem"),
        ("unser", "f", "unsere unsere unserer"),
        ("ihr", "n", "ihr ihr ihrem"),
        ("sein", "p", "seine seine seinen"),
    ],
)
def test_determiners(stem, column, forms):
    assert row(lambda case: determiner(stem, column, case)) == forms


@pytest.mark.parametrize(
    ("stem", "column", "forms"),
    [
        ("der", "m", "alte alten alten"),
        ("der", "f", "alte alte alten"),
        ("der", "n", "alte alte alten"),
        ("der", "p", "alten alten alten"),
        ("dies", "n", "alte alte alten"),
        ("jed", "m", "alte alten alten"),
        ("ein", "m", "alter alten alten"),
        ("ein", "f", "alte alte alten"),
        ("ein", "n", "altes altes alten"),
        ("mein", "p", "alten alten alten"),
        ("kein", "n", "altes altes alten"),
        ("", "m", "alter alten altem"),
        ("", "f", "alte alte alter"),
        ("", "n", "altes altes altem"),
        ("", "p", "alte alte alten"),
    ],
)
def test_adjective_endings(stem, column, forms):
    assert row(lambda case: adjective("alt", stem, column, case)) == forms


@pytest.mark.parametrize(
    ("base", "form"),
    [
        ("hoch", "hohe"),
        ("dunkel", "dunkle"),
        ("teuer", "teure"),
        ("sauer", "saure"),
        ("müde", "müde"),
        ("sicher", "sichere"),
        ("schwer", "schwere"),
        ("sauber", "saubere"),
        ("trocken", "trockene"),
    ],
)
def test_stems_that_change_before_an_ending(base, form):
    assert adjective(base, "der", "f", "nom") == form


@pytest.mark.parametrize(
    ("column", "personal", "relatives"),
    [
        ("m", "er ihn ihm", "der den dem"),
        ("f", "sie sie ihr", "die die der"),
        ("n", "es es ihm", "das das dem"),
        ("p", "sie sie ihnen", "die die denen"),
    ],
)
def test_pronouns(column, personal, relatives):
    assert row(lambda case: pronoun(column, case)) == personal
    assert row(lambda case: relative(column, case)) == relatives


@pytest.mark.parametrize(
    ("noun", "singular", "plural"),
    [
        ("developer", "Entwickler Entwickler Entwickler", "Entwickler Entwickler Entwicklern"),
        ("customer", "Kunde Kunden Kunden", "Kunden Kunden Kunden"),
        ("neighbour", "Nachbar Nachbarn Nachbarn", "Nachbarn Nachbarn Nachbarn"),
        ("application", "Anwendung Anwendung Anwendung", "Anwendungen Anwendungen Anwendungen"),
        ("house", "Haus Haus Haus", "Häuser Häuser Häusern"),
        ("car", "Auto Auto Auto", "Autos Autos Autos"),
        ("cow", "Kuh Kuh Kuh", "Kühe Kühe Kühen"),
        ("egg", "Ei Ei Ei", None),
        ("bear", "Bär Bären Bären", None),
    ],
)
def test_nouns(noun, singular, plural):
    german = lexicon().nouns[noun].german
    assert row(lambda case: german.form(False, case)) == singular
    if plural:
        assert row(lambda case: german.form(True, case)) == plural
    else:
        with pytest.raises(ValueError, match="no plural"):
            german.form(True, "nom")


def test_weak_nouns_are_all_marked():
    weak = {
        n.german.singular
        for n in lexicon().nouns.values()
        if n.german.form(False, "acc") != n.german.singular
    }
    assert " ".join(sorted(weak)) == "Bauer Bär Elefant Junge Kollege Kunde Nachbar Student"


@pytest.mark.parametrize(
    ("entry", "past", "present"),
    [
        ("lesen, liest, las, hat gelesen", "las lasen", "liest lesen"),
        ("testen, testet, testete, hat getestet", "testete testeten", "testet testen"),
        ("gehen, geht, ging, ist gegangen", "ging gingen", "geht gehen"),
        ("ab|lehnen, lehnt, lehnte, hat abgelehnt", "lehnte lehnten", "lehnt lehnen"),
    ],
)  # fmt: skip
def test_finite_verbs(entry, past, present):
    verb = GermanVerb.parse(entry)
    assert " ".join(verb.finite("past", plural) for plural in (False, True)) == past
    assert " ".join(verb.finite("present", plural) for plural in (False, True)) == present


def test_verb_entries():
    apart = GermanVerb.parse("neu starten, startet, startete, hat neu gestartet")
    assert (apart.prefix, apart.joined, apart.participle) == ("neu", False, "gestartet")
    joined = GermanVerb.parse("zu|hören, hört, hörte, hat zugehört, dat")
    assert (joined.prefix, joined.joined, joined.object_case) == ("zu", True, "dat")
    assert joined.final("hörte") == "zuhörte"
    assert GermanNoun.parse("der Bär; Bären") == GermanNoun("m", "Bär", None, "Bären")


@pytest.mark.parametrize(
    ("preposition", "noun", "determiner_word", "text"),
    [
        ("in", "garden", "the", "im Garten"),
        ("in", "kitchen", "the", "in der Küche"),
        ("in", "garden", "this", "in diesem Garten"),
        ("at", "station", "the", "am Bahnhof"),
        ("near", "house", "the", "beim Haus"),
        ("by", "boy", "the", "vom Jungen"),
        ("by", "boy", "a", "von einem Jungen"),
        ("to", "church", "the", "zur Kirche"),
        ("to", "lake", "the", "zum See"),
        ("with", "cat", "the", "mit der Katze"),
        ("out of", "forest", "the", "aus dem Wald"),
        ("through", "gate", "the", "durch das Tor"),
        ("into", "suitcase", "the", "in den Koffer"),
        ("over", "fence", "the", "über den Zaun"),
        ("for/wait", "bus", "the", "auf den Bus"),
        ("after", "meeting", "the", "nach der Besprechung"),
        ("in front of", "house", "our", "vor unserem Haus"),
    ],
)
def test_prepositions_and_contractions(preposition, noun, determiner_word, text):
    known = lexicon()
    phrase = NounPhrase(Draft(lambda *_: None), known.nouns[noun], determiner_word)
    tokens = Prepositional(known.prepositions[preposition], phrase).german()
    assert " ".join(token.text for token in tokens) == text


def test_strong_participles_and_pasts_of_the_lexicon():
    verbs = lexicon().verbs
    forms = {
        "read": "las gelesen",
        "write": "schrieb geschrieben",
        "leave": "verließ verlassen",
        "eat/animal": "fraß gefressen",
        "eat": "aß gegessen",
        "carry": "trug getragen",
        "lift": "hob gehoben",
        "pull": "zog gezogen",
        "push": "schob geschoben",
        "avoid": "mied gemieden",
        "drink": "trank getrunken",
        "break": "zerbrach zerbrochen",
        "throw away": "warf weggeworfen",
        "pick up": "hob aufgehoben",
        "bring along": "brachte mitgebracht",
        "put on": "zog angezogen",
        "call": "rief angerufen",
        "help": "half geholfen",
        "know": "wusste gewusst",
        "lose": "verlor verloren",
        "sign": "unterschrieb unterschrieben",
        "translate": "übersetzte übersetzt",
        "understand": "verstand verstanden",
        "sit": "saß gesessen",
        "stop": "hielt angehalten",
        "arrive": "kam angekommen",
        "crash": "stürzte abgestürzt",
        "restart": "startete gestartet",
        "paint": "strich gestrichen",
        "wash": "wusch gewaschen",
    }
    assert {k: f"{verbs[k].german.past} {verbs[k].german.participle}" for k in forms} == forms
