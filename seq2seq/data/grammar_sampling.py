"""Random choices of the embedded grammar: words, noun phrases and clauses that make sense."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from random import Random
from typing import Generic, TypeVar

from seq2seq.data.grammar_clauses import Clause
from seq2seq.data.grammar_lexicon import Adjective, Frame, Lexicon, Noun, Property
from seq2seq.data.grammar_phrases import (
    Adverb,
    Draft,
    NounPhrase,
    Phrase,
    Predicative,
    Prepositional,
)
from seq2seq.data.grammar_pronouns import Pronoun, We, possessive_for

T = TypeVar("T")


class GiveUp(Exception):
    """What was drawn does not go together, or not into this split; draw again."""


class Weighted(Generic[T]):
    """Items with weights, ready to be drawn from."""

    def __init__(self, weights: Mapping[T, int]) -> None:
        self.items = list(weights)
        self.sums = list(accumulate(weights.values()))


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

    def draw(self, weighted: Weighted[T]) -> T:
        """One of the items, by weight."""
        return weighted.items[bisect(weighted.sums, self.random() * weighted.sums[-1])]


_AS_SUBJECT = Weighted({"the": 68, "a": 10, "this": 9, "my": 5, "our": 5})
_AS_OBJECT = Weighted({"the": 60, "a": 16, "this": 8, "my": 1, "our": 1, "own": 12})
_PLURAL = Weighted({"the": 66, "this": 16, "my": 5, "our": 5})
_PLURAL_OBJECT = Weighted({"the": 56, "this": 12, "my": 1, "our": 1, "own": 8, "": 18})
_TABLES = {  # (plural, whether it is an object)
    (False, False): _AS_SUBJECT,
    (False, True): _AS_OBJECT,
    (True, False): _PLURAL,
    (True, True): _PLURAL_OBJECT,
}
_INDEFINITE = ("a", "")
_QUANTIFIERS = ("every", "every", "no")
_APIECE = ("clothes", "things", "food", "drinks")  # of these, several people have several
_TENSES = Weighted(
    {"past": 50, "perfect": 24, "future": 12, "must": 5, "can": 3, "should": 3, "wanted": 3}
)
_BARE_SUBJECTS = ("he", "she", "they", "we")


class Sampler:
    """Draws phrases and clauses for one draft after another."""

    def __init__(self, words: Lexicon, dice: Dice, admit: Callable[[str, str, str], None]) -> None:
        self.lexicon = words
        self.dice = dice
        self.admit = admit
        self.draft = Draft(admit)

    def restart(self) -> None:
        """Begin a new sentence."""
        self.draft = Draft(self.admit)

    # -- noun phrases --------------------------------------------------------------------------

    def phrase(
        self,
        noun: Noun,
        *,
        owner: Phrase | None = None,
        said: str = "",
        definite: bool = False,
        plural: bool | None = None,
        adjectives: float = 0.2,
    ) -> NounPhrase:
        """A noun phrase around a noun.

        Args:
            noun: its head.
            owner: the subject, if this is an object, which may be called its own.
            said: the adjective that the sentence says of it; no epithet may touch its scale.
            definite: whether "a" and bare plurals are ruled out.
            plural: the number; None leaves it open.
            adjectives: how often an adjective stands before the noun.
        """
        if plural is None:
            plural = bool(noun.plural) and self.dice.chance(0.18)
        determiner = self._determiner(noun, plural, owner, definite)
        adjective = self._epithet(noun, said) if self.dice.chance(adjectives) else None
        if determiner == "own" and owner:
            determiner = possessive_for(owner)
            return NounPhrase(
                self.draft, noun, determiner, plural=plural, adjective=adjective, owner=owner
            )
        return NounPhrase(self.draft, noun, determiner, plural=plural, adjective=adjective)

    def _determiner(self, noun: Noun, plural: bool, owner: Phrase | None, definite: bool) -> str:
        table = _TABLES[plural, owner is not None]
        word = self.dice.draw(table)
        if word == "own":
            return "own" if owner and _belongs(noun, plural, owner) else "the"
        if word in ("my", "our"):
            return word if "ownable" in noun.tags and not isinstance(owner, We) else "the"
        if "kin" in noun.tags and word != "the":
            return "my"
        if definite and word in _INDEFINITE:
            return "the"
        return "" if word == "a" and "mass" in noun.tags else word

    def _epithet(self, noun: Noun, said: str) -> Adjective | None:
        epithets = self.lexicon.epithets[noun.name]
        if not epithets:
            return None
        found = self.dice.pick(epithets)
        about = self.lexicon.adjectives.get(said)
        return None if about and about.scale == found.scale else found

    def subject(self, noun: Noun, *, definite: bool = False) -> Phrase:
        """A subject: a noun phrase, for persons sometimes a bare pronoun."""
        if noun.personal and self.dice.chance(0.12):
            word = self.dice.pick(_BARE_SUBJECTS)
            return We() if word == "we" else Pronoun(self.draft, word)
        if noun.personal and "kin" not in noun.tags and not definite and self.dice.chance(0.04):
            return NounPhrase(self.draft, noun, self.dice.pick(_QUANTIFIERS))
        return self.phrase(noun, definite=definite)

    def place(self, entry: str) -> Prepositional:
        """A place such as "in front of house", with the definite article."""
        preposition, _, noun = entry.rpartition(" ")
        phrase = NounPhrase(self.draft, self.lexicon.nouns[noun])
        return Prepositional(self.lexicon.prepositions[preposition], phrase)

    # -- clauses -------------------------------------------------------------------------------

    def tense(self, frame: Frame) -> str:
        """A tense that suits a frame."""
        tense = self.dice.draw(_TENSES)
        while tense not in frame.tenses:
            tense = self.dice.draw(_TENSES)
        return tense

    def event(
        self,
        frame: Frame,
        nouns: tuple[Noun | None, Noun | None],
        subject: Phrase,
        target: Phrase | None,
        tense: str,
        *,
        negated: bool = False,
    ) -> Clause:
        """The bare clause of a frame.

        Args:
            frame: the deed.
            nouns: what subject and object mean; None for a pronoun that could be anybody.
            subject: who does it.
            target: the object, or what follows the frame's preposition.
            tense: see `Clause`.
            negated: whether it is denied.
        """
        for noun, relation in zip(nouns, ("subject", "object"), strict=True):
            if noun:
                self.admit(noun.name, relation, frame.verb.word)
        return Clause(
            draft=self.draft,
            subject=subject,
            verb=frame.verb,
            tense=tense,
            negated=negated or frame.negated,
            direct=None if frame.preposition else target,
            place=Prepositional(frame.preposition, target)
            if frame.preposition and isinstance(target, NounPhrase)
            else None,
        )

    def statement(
        self, subject: Phrase, noun: Noun, said: Property, *, past: bool, degree: str = ""
    ) -> Clause:
        """What a property says of a subject: "it was too slow", "it has crashed"."""
        adjective = self.lexicon.adjectives.get(said.name)
        if said.kind == "is" and adjective:
            return self.copula(
                subject, (noun,), adjective, tense="past" if past else "present", degree=degree
            )
        verb = self.lexicon.verbs[said.name]
        self.admit(noun.name, "subject", verb.word)
        return Clause(
            draft=self.draft,
            subject=subject,
            verb=verb,
            tense=_STATEMENT_TENSES[said.kind][past],
            negated=said.kind == "not",
        )

    def copula(
        self,
        subject: Phrase,
        nouns: tuple[Noun, ...],
        adjective: Adjective,
        *,
        tense: str = "past",
        degree: str = "",
        negated: bool = False,
    ) -> Clause:
        """An adjective said of a subject that means these nouns."""
        for noun in nouns:
            self.admit(noun.name, "is", adjective.name)
        return Clause(
            draft=self.draft,
            subject=subject,
            tense=tense,
            negated=negated,
            predicate=Predicative(adjective, degree),
        )

    def degree(self, said: Property, *, too: bool) -> str:
        """Sometimes "very" or, where it makes sense, "too"."""
        adjective = self.lexicon.adjectives.get(said.name)
        if adjective is None or "degree" not in adjective.tags or not self.dice.chance(0.3):
            return ""
        return "too" if too and said.too and self.dice.chance(0.7) else "very"

    def adverb(self, kind: str) -> Adverb | None:
        """An adverb of a kind (a tense, or "manner"), if there are any."""
        entries = self.lexicon.adverbs.get(kind)
        return Adverb(self.dice.pick(entries)) if entries else None


def _belongs(noun: Noun, plural: bool, owner: Phrase) -> bool:
    """Whether "his", "her" or "their" suits."""
    apiece = owner.plural and not plural and noun.kind in _APIECE
    return "belonging" in noun.tags and not apiece and bool(possessive_for(owner))


_STATEMENT_TENSES = {  # kind of property -> tense in a present and in a past sentence
    "done": ("perfect", "pluperfect"),
    "not": ("present", "past"),
    "stopped": ("stops", "stopped"),
}
