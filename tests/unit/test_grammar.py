"""The embedded grammar against sentences, alignments and links written by hand."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from hashlib import sha256
from itertools import islice

import pytest

from seq2seq.data import grammar
from seq2seq.data.grammar import GrammarPair, Link, generate, split_of, words
from seq2seq.data.grammar_clauses import Clause, joined, joined_in_front
from seq2seq.data.grammar_lexicon import Noun
from seq2seq.data.grammar_patterns import PATTERNS, compose
from seq2seq.data.grammar_phrases import Adverb, NounPhrase, Prepositional, Token
from seq2seq.data.grammar_pronouns import Pronoun, RelativeClause, RelativePronoun
from seq2seq.data.grammar_reader import lexicon
from seq2seq.data.grammar_record import finish
from seq2seq.data.grammar_sampling import Dice, GiveUp, Sampler
from seq2seq.errors import UserError

SAMPLE = 4000
DRAWS = 5000


@pytest.fixture(scope="module")
def train() -> list[GrammarPair]:
    return list(generate(SAMPLE, split="train"))


@pytest.fixture(scope="module")
def held_out() -> dict[str, list[GrammarPair]]:
    return {split: list(generate(600, split=split)) for split in ("dev", "test")}


@pytest.fixture(scope="module")
def many(train) -> list[GrammarPair]:
    """What a short training sees."""
    return [*train, *generate(20_000, split="train", seed=4)]


def spelled(pair: GrammarPair) -> set[str]:
    """The alignment in words: "rejected-lehnte"."""
    source, target = words(pair.source), words(pair.target)
    return {f"{source[i]}-{target[j]}" for i, j in pair.alignment}


def links(pair: GrammarPair, side: str) -> set[tuple[str, str, str]]:
    """The links of one side in words: (kind, head, dependent)."""
    text = words(pair.source if side == "source" else pair.target)
    return {
        (link.kind, text[link.head], text[link.dependent])
        for link in pair.links
        if link.side == side
    }


def a_pair(build) -> GrammarPair:
    """A sentence that `build(sampler, nouns)` puts together, no combination refused."""
    known = lexicon()
    sampler = Sampler(known, Dice(0), lambda *_: None)
    source, target = build(sampler, known.nouns)
    return finish(source, target, ".", sampler.draft)


# -- words -------------------------------------------------------------------------------------


def test_words_split_at_spaces_and_before_punctuation():
    assert words("Has she gone? Yes, now.") == ["Has", "she", "gone", "?", "Yes", ",", "now", "."]


# -- whole sentences by hand -------------------------------------------------------------------


def test_lesson_sentences():
    assert [(pair.source, pair.target) for pair in grammar.lesson_sentences()] == [
        (
            "The developer deployed the application because it was ready.",
            "Der Entwickler installierte die Anwendung, weil sie bereit war.",
        ),
        (
            "The animal crossed the road because it was frightened.",
            "Das Tier überquerte die Straße, weil es verängstigt war.",
        ),
        (
            "The engineer fixed the server because it had stopped responding.",
            "Der Ingenieur reparierte den Server, weil er nicht mehr reagierte.",
        ),
    ]


def test_lesson_sentence_completely():
    # 0 The 1 developer 2 deployed 3 the 4 application 5 because 6 it 7 was 8 ready 9 .
    # 0 Der 1 Entwickler 2 installierte 3 die 4 Anwendung 5 , 6 weil 7 sie 8 bereit 9 war 10 .
    pair = grammar.lesson_sentences()[0]
    assert pair.alignment == {
        (0, 0),
        (1, 1),
        (2, 2),
        (3, 3),
        (4, 4),
        (5, 6),
        (6, 7),
        (7, 9),
        (8, 8),
        (9, 10),
    }
    assert set(pair.links) == {
        Link("subject", "source", 2, 1),
        Link("object", "source", 2, 4),
        Link("subject", "source", 8, 6),
        Link("antecedent", "source", 4, 6),
        Link("subject", "target", 2, 1),
        Link("object", "target", 2, 4),
        Link("subject", "target", 8, 7),
        Link("antecedent", "target", 4, 7),
    }


def test_what_it_means_in_the_other_lesson_sentences():
    _, animal, server = grammar.lesson_sentences()
    assert ("antecedent", "animal", "it") in links(animal, "source")
    assert ("antecedent", "Tier", "es") in links(animal, "target")
    assert ("antecedent", "server", "it") in links(server, "source")
    assert ("antecedent", "Server", "er") in links(server, "target")
    assert {"had-reagierte", "stopped-nicht", "stopped-mehr", "responding-reagierte"} <= spelled(
        server
    )


def test_separable_verb_in_a_minimal_pair():
    start = "The database rejected the request because it was "
    slow, long = next(
        pair
        for split in ("test", "dev", "train")
        for pair in grammar.minimal_pairs(split=split)
        if (pair[0].source, pair[1].source) == (start + "slow.", start + "long.")
    )
    assert slow.target == "Die Datenbank lehnte den Antrag ab, weil sie langsam war."
    assert long.target == "Die Datenbank lehnte den Antrag ab, weil er lang war."
    assert {"rejected-lehnte", "rejected-ab"} <= spelled(slow)
    assert links(slow, "target") == {
        ("subject", "lehnte", "Datenbank"),
        ("object", "lehnte", "Antrag"),
        ("particle", "lehnte", "ab"),
        ("subject", "langsam", "sie"),
        ("antecedent", "Datenbank", "sie"),
    }
    assert ("antecedent", "request", "it") in links(long, "source")
    assert ("antecedent", "Antrag", "er") in links(long, "target")


def test_particle_verb_split_and_joined():
    def build(sampler: Sampler, nouns: dict[str, Noun]):
        draft, verbs = sampler.draft, sampler.lexicon.verbs
        woman, lamp = NounPhrase(draft, nouns["woman"]), NounPhrase(draft, nouns["lamp"], "a")
        main = Clause(draft=draft, subject=woman, verb=verbs["switch off"], direct=lamp)
        again = Clause(
            draft=draft,
            subject=NounPhrase(draft, nouns["father"], "my"),
            verb=verbs["switch on"],
            tense="pluperfect",
            direct=Pronoun.of(draft, lamp),
        )
        return joined(main, "because", again)

    pair = a_pair(build)
    assert pair.source == ("The woman switched off a lamp because my father had switched it on.")
    assert pair.target == (
        "Die Frau schaltete eine Lampe aus, weil mein Vater sie eingeschaltet hatte."
    )
    assert spelled(pair) == {
        "The-Die",
        "woman-Frau",
        "switched-schaltete",
        "off-aus",
        "a-eine",
        "lamp-Lampe",
        "because-weil",
        "my-mein",
        "father-Vater",
        "had-hatte",
        "switched-eingeschaltet",
        "it-sie",
        "on-eingeschaltet",
        ".-.",
    }
    assert links(pair, "source") == {
        ("subject", "switched", "woman"),
        ("object", "switched", "lamp"),
        ("particle", "switched", "off"),
        ("subject", "switched", "father"),
        ("object", "switched", "it"),
        ("particle", "switched", "on"),
        ("antecedent", "lamp", "it"),
    }
    assert links(pair, "target") == {
        ("subject", "schaltete", "Frau"),
        ("object", "schaltete", "Lampe"),
        ("particle", "schaltete", "aus"),
        ("subject", "eingeschaltet", "Vater"),
        ("object", "eingeschaltet", "sie"),
        ("antecedent", "Lampe", "sie"),
    }


def test_fronted_clause_with_a_relative_clause_and_inversion():
    def build(sampler: Sampler, nouns: dict[str, Noun]):
        draft, known = sampler.draft, sampler.lexicon
        boy = NounPhrase(draft, nouns["boy"], adjective=known.adjectives["tired"])
        relative = RelativePronoun(draft, boy)
        cake = NounPhrase(draft, nouns["cake"])
        boy.after = RelativeClause(
            Clause(draft=draft, subject=relative, verb=known.verbs["eat"], direct=cake)
        )
        sleeping = Clause(
            draft=draft,
            subject=boy,
            verb=known.verbs["sleep"],
            place=Prepositional(known.prepositions["in"], NounPhrase(draft, nouns["garden"])),
        )
        mother = NounPhrase(draft, nouns["mother"])
        main = Clause(
            draft=draft,
            subject=mother,
            verb=known.verbs["help"],
            direct=NounPhrase(draft, nouns["customer"], "her", owner=mother),
            time=Adverb("in the evening = am Abend"),
        )
        return joined_in_front(main, "while", sleeping)

    pair = a_pair(build)
    assert pair.source == (
        "While the tired boy who ate the cake slept in the garden, "
        "the mother helped her customer in the evening."
    )
    assert pair.target == (
        "Während der müde Junge, der den Kuchen aß, im Garten schlief, "
        "half die Mutter am Abend ihrem Kunden."
    )
    assert {"who-der", "in-im", "the-im", "garden-Garten", "in-am", "evening-Abend"} <= spelled(
        pair
    )
    assert links(pair, "target") == {
        ("attributive", "Junge", "müde"),
        ("antecedent", "Junge", "der"),
        ("subject", "aß", "der"),
        ("object", "aß", "Kuchen"),
        ("subject", "schlief", "Junge"),
        ("subject", "half", "Mutter"),
        ("object", "half", "Kunden"),
        ("antecedent", "Mutter", "ihrem"),
    }


@pytest.mark.parametrize(
    ("verb", "tense", "negated", "source", "main", "final"),
    [
        ("test", "past", True, "did not test it", "testete sie nicht", "sie nicht testete"),
        ("test", "present", False, "tests it", "testet sie", "sie testet"),
        ("test", "future", False, "will test it", "wird sie testen", "sie testen wird"),
        ("test", "wanted", False, "wanted to test it", "wollte sie testen", "sie testen wollte"),
        ("reject", "past", False, "rejected it", "lehnte sie ab", "sie ablehnte"),
        ("reject", "must", False, "must reject it", "muss sie ablehnen", "sie ablehnen muss"),
        ("reject", "perfect", True, "has not rejected it", "hat sie nicht abgelehnt",
         "sie nicht abgelehnt hat"),
        ("restart", "past", False, "restarted it", "startete sie neu", "sie neu startete"),
        ("restart", "perfect", False, "has restarted it", "hat sie neu gestartet",
         "sie neu gestartet hat"),
        ("look for", "past", False, "looked for it", "suchte sie", "sie suchte"),
        ("put on", "past", False, "put it on", "zog sie an", "sie anzog"),
    ],
)  # fmt: skip
def test_verbs_in_both_word_orders(verb, tense, negated, source, main, final):
    known = lexicon()
    draft = Sampler(known, Dice(0), lambda *_: None).draft

    def clause() -> Clause:
        return Clause(
            draft=draft,
            subject=Pronoun(draft, "he"),
            verb=known.verbs[verb],
            tense=tense,
            negated=negated,
            direct=Pronoun.of(draft, NounPhrase(draft, known.nouns["machine"])),
        )

    def text(tokens: list[Token]) -> str:
        return " ".join(token.text for token in tokens)

    assert text(clause().english()) == "he " + source
    assert text(clause().german_main()) == "er " + main
    assert text(clause().german_final()) == "er " + final


def test_intransitive_verbs_take_sein():
    known = lexicon()
    assert {name for name, verb in known.verbs.items() if verb.german.auxiliary == "sein"} == {
        "arrive",
        "come",
        "go",
        "jump",
        "crash",
    }


# -- minimal pairs -----------------------------------------------------------------------------


@pytest.mark.parametrize("split", ["train", "dev", "test"])
def test_minimal_pairs_flip_the_pronoun_by_one_word(split):
    pairs = grammar.minimal_pairs(200, split=split)
    assert len(pairs) == 200
    for first, second in pairs:
        one, two = words(first.source), words(second.source)
        assert one[:-2] == two[:-2]
        assert one[-2] != two[-2]
        pronouns = [
            next(n.dependent for n in p.links if (n.kind, n.side) == ("antecedent", "target"))
            for p in (first, second)
        ]
        assert pronouns[0] == pronouns[1]
        assert words(first.target)[pronouns[0]] != words(second.target)[pronouns[1]]
        nouns = [
            next(n.head for n in p.links if (n.kind, n.side) == ("antecedent", "source"))
            for p in (first, second)
        ]
        assert nouns == [1, one.index("because" if "because" in one else "although") - 1]


def test_minimal_pairs_are_shuffled_by_seed_and_differ_between_splits():
    everything = grammar.minimal_pairs(split="dev")
    assert grammar.minimal_pairs(5, split="dev") == everything[:5]
    assert grammar.minimal_pairs(5, split="dev", seed=2) != everything[:5]
    assert not set(everything) & set(grammar.minimal_pairs(split="test"))
    sources = [first.source + second.source for first, second in everything]
    assert len(set(sources)) == len(sources)


# -- the corpus as a whole ---------------------------------------------------------------------


def test_same_pairs_in_every_process():
    code = (
        "from seq2seq.data.grammar import generate; from hashlib import sha256;"
        "print(sha256('\\n'.join(f'{p.source}|{p.target}|{sorted(p.alignment)}|{p.links}'"
        " for p in generate(300, split='train', seed=7)).encode()).hexdigest())"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("0", "12345")
    }
    here = "\n".join(
        f"{p.source}|{p.target}|{sorted(p.alignment)}|{p.links}"
        for p in generate(300, split="train", seed=7)
    )
    assert digests == {sha256(here.encode()).hexdigest() + "\n"}


def test_longer_runs_begin_with_shorter_ones_and_seeds_differ(train):
    assert list(generate(50, split="train")) == train[:50]
    assert list(generate(50, split="train", seed=2)) != train[:50]


def test_pairs_are_distinct_and_end_where_they_should(train):
    assert len({pair.source for pair in train}) == len(train) == SAMPLE
    assert max(len(words(pair.source)) for pair in train) <= 20
    assert 8.5 < sum(len(words(pair.source)) for pair in train) / SAMPLE < 10.5


def test_several_hundred_thousand_pairs_are_there():
    """Birthday estimate: n draws with c repeats come from about n² / 2c equally likely ones."""
    sampler = Sampler(lexicon(), Dice(3), lambda *_: None)
    seen: Counter[str] = Counter()
    while seen.total() < DRAWS:
        try:
            (source, _), _ = compose(sampler)
        except GiveUp:
            continue
        seen[" ".join(token.text for token in source)] += 1
    repeats = sum(count - 1 for count in seen.values())
    assert DRAWS**2 / (2 * max(repeats, 1)) > 60_000  # and the rare ones are many more
    assert len(list(islice(generate(10**6, split="dev"), 3000))) == 3000


def test_one_english_sentence_has_one_translation():
    """Drawn without removing repeats, and over all splits."""
    sampler = Sampler(lexicon(), Dice(5), lambda *_: None)
    translations: dict[str, str] = {}
    repeats = 0
    for _ in range(15_000):
        try:
            (source, target), mark = compose(sampler)
        except GiveUp:
            continue
        pair = finish(source, target, mark, sampler.draft)
        repeats += pair.source in translations
        assert translations.setdefault(pair.source, pair.target) == pair.target
    assert repeats > 100  # else this would prove nothing


def test_every_word_is_aligned(train):
    for pair in train:
        source, target = words(pair.source), words(pair.target)
        rows, columns = zip(*pair.alignment, strict=True)
        assert set(rows) == set(range(len(source))), pair
        unaligned = set(range(len(target))) - set(columns)
        assert {target[index] for index in unaligned} <= {","}, pair


def test_links_are_sound(train):
    for pair in train:
        sides = {"source": words(pair.source), "target": words(pair.target)}
        for link in pair.links:
            assert 0 <= link.head < len(sides[link.side])
            assert 0 <= link.dependent < len(sides[link.side])
            assert link.head != link.dependent
        kinds = Counter((link.kind, link.side) for link in pair.links)
        for kind in ("subject", "object", "attributive", "antecedent"):
            assert kinds[kind, "source"] == kinds[kind, "target"], pair
        assert kinds["subject", "source"] >= 1


def test_linked_words_are_aligned_with_each_other(train):
    """A link of the source and its partner in the target join words that translate each other."""
    for pair in train:
        for kind in ("subject", "object", "attributive", "antecedent"):
            ends = {
                side: {
                    (k.head, k.dependent) for k in pair.links if (k.kind, k.side) == (kind, side)
                }
                for side in ("source", "target")
            }
            for head, dependent in ends["source"]:
                assert any(
                    (head, h) in pair.alignment and (dependent, d) in pair.alignment
                    for h, d in ends["target"]
                ), (pair, kind)


def test_share_of_pronouns(train):
    def share(*wanted: str) -> float:
        return sum(bool(set(wanted) & set(words(p.source.lower()))) for p in train) / SAMPLE

    assert 0.25 < share("it") < 0.4
    assert share("he", "she", "they", "him", "her", "them") > 0.15


def test_size_of_the_vocabulary(many):
    types = Counter(word.lower() for pair in many for word in words(pair.source))
    assert 400 <= len(types) <= 600
    assert min(types.values()) >= 5  # and so 30 times and more in a short training


# -- splits ------------------------------------------------------------------------------------


def combinations(pair: GrammarPair) -> set[tuple[str, str, str]]:
    """What is said of which noun, read off the links of the English side."""
    known = lexicon()
    forms: dict[str, set[str]] = {}
    for name, verb in known.verbs.items():
        english = verb.english
        for form in (english.base, english.third, english.past, english.participle):
            forms.setdefault(form, set()).add(name)
        forms.setdefault(english.base + "ing", set()).add(name)
    nouns = {noun.name: noun.name for noun in known.nouns.values()}
    nouns.update({noun.plural: noun.name for noun in known.nouns.values() if noun.plural})
    text = [word.lower() for word in words(pair.source)]
    mine = [link for link in pair.links if link.side == "source"]
    meaning = {link.dependent: link.head for link in mine if link.kind == "antecedent"}
    particles = {link.head: text[link.dependent] for link in mine if link.kind == "particle"}
    found = set()
    for link in mine:
        if link.kind not in ("subject", "object", "attributive"):
            continue
        bearer, said = link.dependent, link.head
        if link.kind == "attributive":
            bearer, said = said, bearer
        noun = nouns.get(text[meaning.get(bearer, bearer)])
        if noun is None or "by" in text:  # a bare pronoun; the passive swaps the roles
            continue
        word = text[said]
        before = [w for w in text[:said] if w not in ("not", "very", "too")][-1:]
        predicative = link.kind == "subject" and before[0] in ("was", "were", "is", "are", "be")
        if word in known.adjectives and (predicative or link.kind == "attributive"):
            found.add((noun, "is", word))
            continue
        for name in forms.get(word, ()):
            follower = known.verbs[name].english.particle
            if follower == particles.get(said, ""):
                found.add((noun, link.kind, name.split("/")[0]))
    return found


def test_training_never_shows_a_held_out_combination(train):
    seen = [combination for pair in train for combination in combinations(pair)]
    assert len(set(seen)) > 2000
    assert {split_of(*combination) for combination in seen} == {"train"}


@pytest.mark.parametrize(("split", "other"), [("dev", "test"), ("test", "dev")])
def test_held_out_sentences_hold_new_combinations(held_out, split, other):
    homes = [{split_of(*c) for c in combinations(pair)} for pair in held_out[split]]
    assert not any(other in found for found in homes)
    # What follows a preposition or is passive has no link to be read back.
    assert sum(split in found for found in homes) > 0.8 * len(homes)


def test_splits_share_no_sentence(train, held_out):
    dev, test = ({pair.source for pair in held_out[split]} for split in ("dev", "test"))
    assert not dev & test
    assert not (dev | test) & {pair.source for pair in train}


def test_words_of_held_out_sentences_occur_in_training(held_out, many):
    known = {w for p in many for w in words(p.source)}
    new = {w for pairs in held_out.values() for p in pairs for w in words(p.source)} - known
    assert not new


def test_a_few_per_cent_of_all_combinations_are_held_out():
    places = Counter(
        split_of(noun, "is", adjective.name)
        for adjective in lexicon().adjectives.values()
        for noun in (n.name for n in adjective.nouns)
    )
    for split in ("dev", "test"):
        assert 0.015 < places[split] / places.total() < 0.05


# -- errors ------------------------------------------------------------------------------------


def test_unknown_split():
    with pytest.raises(UserError, match="no split 'valid'"):
        generate(1, split="valid")


def test_exhausted_grammar(monkeypatch):
    monkeypatch.setattr(grammar, "_PATIENCE", 1)
    with pytest.raises(UserError, match=r"yields only \d+ distinct train pairs, not 50000"):
        list(generate(50_000, split="train"))


def test_every_pattern_can_be_drawn():
    sampler = Sampler(lexicon(), Dice(1), lambda *_: None)
    for pattern in PATTERNS.items:
        made = 0
        for _ in range(300):
            sampler.restart()
            try:
                source, target = pattern(sampler)
            except GiveUp:
                continue
            made += 1
            assert source
            assert target
        assert made > 10, pattern.__name__
