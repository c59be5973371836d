"""Random choices of the embedded grammar: words, noun phrases and clauses that make sense."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Sequence
from functools import cache
from itertools import accumulate
from random import Random
from typing import TypeVar

from seq2seq.data.grammar_clauses import Clause
from seq2seq.data.grammar_lexicon import Adjective, Frame, Lexicon, Noun, Property
from seq2seq.data.grammar_phrases import (
    Adverb,
    Draft,
    NounPhrase,
    Phrase,
    Predicative,
    PrepositionalPhrase,
    Pronoun,
    We,
)

T = TypeVar("T")

_SUBJECT_DETERMINERS = {"the": 70, "a": 10, "this": 10, "my": 5, "our": 5}
_OBJECT_DETERMINERS = {"the": 62, "a": 18, "this": 8, "my": 3, "our": 3, "own": 6}
_PLURAL_DETERMINERS = {"the": 60, "this": 14, "my": 5, "our": 5, "": 16}
_TENSES = {"past": 46, "perfect": 22, "future": 12, "must": 6, "can": 5, "should": 4, "wanted": 5}
MODALS = frozenset({"must", "can", "should", "wanted"})


class Dice:
    """Choices that depend on the seed alone, on every machine and Python version.

    Only `Random.random` is used, whose sequence Python guarantees for a given seed.
    """

    def __init__(self, seed: int) -> None:
        self.random = Random(seed).random

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self.random() < probability

    def pick(self, items: Sequence[T]) -> T:
        """One of the items."""
        return items[int(self.random() * len(items))]

    def weighted(self, weights: dict[T, int]) -> T:
        """One of the keys, by weight."""
        keys, sums = _cumulative(tuple(weights.items()))
        return keys[bisect(sums, self.random() * sums[-1])]


@cache
def _cumulative(items: tuple[tuple[T, int], ...]) -> tuple[list[T], list[int]]:
    return [key for key, _ in items], list(accumulate(weight for _, weight in items))


class GiveUp(Exception):
    """The sentence in the making is not wanted; another is tried."""


class Sampler:
    """Builds phrases and clauses for one draft after another."""

    def __init__(self, words: Lexicon, dice: Dice, admit: Callable[[str, str, str], None]) -> None:
        self.lexicon = words
        self.dice = dice
        self.admit = admit
        self.draft = Draft(admit)
        self.described = {noun.name: words.described(noun) for noun in words.nouns.values()}
        self.epithets = {
            name: tuple(word for word in described if "epithet" in word.tags)
            for name, described in self.described.items()
        }

    # -- noun phrases --------------------------------------------------------------------------

    def phrase(
        self,
        noun: Noun,
        *,
        owner: Phrase | None = None,
        said: str = "",
        plain: bool = False,
        plural: bool | None = None,
        adjectives: float = 0.2,
    ) -> NounPhrase:
        """A noun phrase around a noun.

        Args:
            noun: its head.
            owner: the subject, if this is an object that may be called its own.
            said: the adjective that the sentence says of it, which its epithet must not touch.
            plain: definite and singular or plural, so that negation is "nicht".
            plural: fixed number; None leaves it open.
            adjectives: how often an adjective stands before the noun.
        """
        dice = self.dice
        if plural is None:
            plural = bool(noun.plural) and dice.chance(0.18)
        determiner = self._determiner(noun, plural, plain, owner)
        adjective = self._epithet(noun, said) if dice.chance(adjectives) else None
        if determiner == "own" and owner:
            return NounPhrase(
                self.draft,
                noun,
                _possessive(owner),
                plural=plural,
                adjective=adjective,
                owner=owner,
            )
        return NounPhrase(self.draft, noun, determiner, plural=plural, adjective=adjective)

    def _determiner(self, noun: Noun, plural: bool, plain: bool, owner: Phrase | None) -> str:
        if plural:
            table = _PLURAL_DETERMINERS
        elif owner is not None:
            table = _OBJECT_DETERMINERS
        else:
            table = _SUBJECT_DETERMINERS
        determiner = self.dice.weighted(table)
        if plain and determiner in ("a", ""):
            return "the"
        if determiner in ("my", "our") and not noun.ownable:
            return "the"
        if determiner == "own" and (
            owner is None or not noun.belonging or not _possessive(owner) or noun.personal
        ):
            return "the"
        return determiner

    def _epithet(self, noun: Noun, said: str) -> Adjective | None:
        epithets = self.epithets[noun.name]
        if not epithets:
            return None
        found = self.dice.pick(epithets)
        if said in self.lexicon.adjectives and self.lexicon.adjectives[said].scale == found.scale:
            return None
        return found

    def place(self, entry: str) -> PrepositionalPhrase:
        """A place such as "in front of house", with the definite article."""
        preposition, _, noun = entry.rpartition(" ")
        phrase = NounPhrase(self.draft, self.lexicon.nouns[noun])
        return PrepositionalPhrase(self.lexicon.prepositions[preposition], phrase)

    def located(self, phrase: NounPhrase, probability: float) -> NounPhrase:
        """The same phrase, sometimes with a place behind its noun: "the key on the table"."""
        places = self.lexicon.located.get(phrase.noun.name)
        if places and self.dice.chance(probability):
            phrase.after = self.place(self.dice.pick(places))
        return phrase

    # -- clauses -------------------------------------------------------------------------------

    def tense(self, frame: Frame) -> str:
        """A tense that suits a frame."""
        for _ in range(20):
            tense = self.dice.weighted(_TENSES)
            if not frame.only or tense in frame.only:
                return tense
        return "past"

    def subject(self, noun: Noun, *, plain: bool = False) -> Phrase:
        """A subject: mostly a noun phrase, for persons sometimes a bare pronoun."""
        if noun.personal and self.dice.chance(0.12):
            word = self.dice.pick(("he", "she", "they", "we"))
            self.admitted_pronoun = True
            return We() if word == "we" else Pronoun(self.draft, word)
        return self.phrase(noun, plain=plain)

    def event(
        self,
        frame: Frame,
        subject: Phrase,
        target: Phrase | None,
        tense: str,
        *,
        nouns: tuple[Noun | None, Noun | None],
        negated: bool = False,
    ) -> Clause:
        """The bare clause of a frame; `nouns` are what subject and object stand for."""
        name = frame.verb.name
        if nouns[0]:
            self.admit(nouns[0].name, "subject", name)
        if nouns[1]:
            self.admit(nouns[1].name, "object", name)
        clause = Clause(
            draft=self.draft,
            subject=subject,
            verb=frame.verb,
            tense=tense,
            negated=negated or frame.negated,
            direct=None if frame.preposition else target,
        )
        if frame.preposition and isinstance(target, NounPhrase):
            clause.places = (PrepositionalPhrase(frame.preposition, target),)
        return clause

    def statement(
        self,
        subject: Phrase,
        said: Property,
        noun: Noun,
        *,
        past: bool,
        degree: str | None = None,
    ) -> Clause:
        """What a property says of a subject: "it was too slow", "it has crashed".

        Without a degree, chance decides whether there is one.
        """
        if said.kind == "is":
            adjective = self.lexicon.adjectives[said.name]
            self.admit(noun.name, "is", said.name)
            if degree is None:
                degree = self._degree(adjective, said)
            return Clause(
                draft=self.draft,
                subject=subject,
                tense="past" if past else "present",
                predicate=Predicative(adjective, degree),
            )
        self.admit(noun.name, "subject", said.name)
        tense = {
            "done": ("perfect", "pluperfect"),
            "not": ("present", "past"),
            "stopped": ("stops", "stopped"),
        }[said.kind][past]
        return Clause(
            draft=self.draft,
            subject=subject,
            verb=self.lexicon.verbs[said.name],
            tense=tense,
            negated=said.kind == "not",
        )

    def _degree(self, adjective: Adjective, said: Property) -> str:
        if "degree" not in adjective.tags or not self.dice.chance(0.3):
            return ""
        return "too" if said.too and self.dice.chance(0.7) else "very"

    def adverb(self, tense: str) -> Adverb | None:
        """A time adverb that suits a tense, if there is one."""
        entries = self.lexicon.adverbs.get("modal" if tense in MODALS - {"wanted"} else tense)
        return Adverb(self.dice.pick(entries)) if entries else None


def _possessive(owner: Phrase) -> str:
    word = owner.word if isinstance(owner, Pronoun) else ""
    if isinstance(owner, NounPhrase):
        word = "they" if owner.plural else owner.noun.pronoun
    return {"he": "his", "she": "her", "they": "their"}.get(word, "")
