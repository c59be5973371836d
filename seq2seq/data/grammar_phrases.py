"""Phrases of the embedded grammar: each builds its English and its German words together.

Every German token knows the English tokens that it translates, so the word alignment needs no
search: it is read off at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from seq2seq.data import grammar_english as english
from seq2seq.data import grammar_german as german
from seq2seq.data.grammar_lexicon import Adjective, Noun, Preposition

STEMS = {  # English determiner -> German stem
    "the": "der",
    "this": "dies",
    "every": "jed",
    "a": "ein",
    "no": "kein",
    "my": "mein",
    "our": "unser",
    "his": "sein",
    "her": "ihr",
    "their": "ihr",
    "": "",
}
DEGREES = {"": "", "very": "sehr", "too": "zu"}


class Token:
    """One word of one side; its place in the sentence is known only at the end."""

    __slots__ = ("index", "sources", "text")

    def __init__(self, text: str, sources: tuple[Token, ...] = ()) -> None:
        self.text = text
        self.sources = sources
        self.index = -1


@dataclass(slots=True)
class Draft:
    """What a sentence in the making collects besides its words.

    Attributes:
        admit: called with each combination (noun, relation, word); raises to give the draft up.
        links: (kind, side, head, dependent).
    """

    admit: Callable[[str, str, str], None]
    links: list[tuple[str, str, Token, Token]] = field(default_factory=list)

    def link(self, kind: str, heads: tuple[Token, Token], dependents: tuple[Token, Token]) -> None:
        """Record a link that exists on both sides; each argument is (English, German)."""
        self.links.append((kind, "source", heads[0], dependents[0]))
        self.links.append((kind, "target", heads[1], dependents[1]))


class Phrase(Protocol):
    """What can be subject or object of a clause."""

    plural: bool
    pronominal: bool
    heads: tuple[Token, Token]  # the English and the German head word

    def english(self, subject: bool) -> list[Token]:
        """The English words, as subject or as object."""

    def german(self, case: str) -> list[Token]:
        """The German words in a case."""


class Part(Protocol):
    """What a clause or a noun takes along besides subject and object."""

    def english(self) -> list[Token]:
        """The English words."""

    def german(self) -> list[Token]:
        """The German words."""


class NounPhrase:
    """Determiner, adjective, noun and what follows the noun.

    Args:
        draft: takes the links and the combination of noun and adjective.
        noun: the head.
        determiner: a key of `STEMS`; "a" becomes "an", "this" becomes "these" as needed.
        plural: the number.
        adjective: stands before the noun.
        owner: whom a possessive determiner means.
    """

    pronominal = False

    def __init__(
        self,
        draft: Draft,
        noun: Noun,
        determiner: str = "the",
        *,
        plural: bool = False,
        adjective: Adjective | None = None,
        owner: Phrase | None = None,
    ) -> None:
        self.noun = noun
        self.plural = plural
        self.column = "p" if plural else noun.german.gender
        self.stem = STEMS[determiner]
        self.adjective = adjective
        self.after: Part | None = None
        self.heads = (Token(noun.plural if plural else noun.name), Token(""))
        self.article = self._article(determiner)
        self.modifier = (Token(adjective.name), Token("")) if adjective else None
        if adjective and self.modifier:
            draft.admit(noun.name, "is", adjective.name)
            draft.link("attributive", self.heads, self.modifier)
        if owner and self.article:
            draft.link("antecedent", owner.heads, self.article)

    def _article(self, determiner: str) -> tuple[Token, Token] | None:
        if not determiner:
            return None
        if determiner == "a":
            determiner = english.article((self.adjective or self.noun).name)
        elif determiner == "this" and self.plural:
            determiner = "these"
        return _pair(determiner)

    def english(self, subject: bool) -> list[Token]:  # noqa: ARG002 - English nouns have no case
        """The English words."""
        parts = (self.article, self.modifier, self.heads)
        words = [part[0] for part in parts if part]
        return words + self.after.english() if self.after else words

    def german(self, case: str) -> list[Token]:
        """The German words in a case."""
        words = []
        if self.article:
            words.append(_said(self.article, german.determiner(self.stem, self.column, case)))
        if self.adjective and self.modifier:
            form = german.adjective(self.adjective.german, self.stem, self.column, case)
            words.append(_said(self.modifier, form))
        words.append(_said(self.heads, self.noun.german.form(self.plural, case)))
        return words + self.after.german() if self.after else words


def _pair(text: str) -> tuple[Token, Token]:
    """An English word and the German one that translates it, whose form is not known yet."""
    source = Token(text)
    return source, Token("", (source,))


def _said(pair: tuple[Token, Token], text: str) -> Token:
    source, target = pair
    target.text = text
    target.sources = (source,)
    return target


class Coordination:
    """Two noun phrases joined by "and"."""

    pronominal = False
    plural = True

    def __init__(self, first: NounPhrase, second: NounPhrase) -> None:
        self.parts = (first, second)
        self.heads = first.heads
        self.conjunction = _pair("and")

    def english(self, subject: bool) -> list[Token]:
        """The English words."""
        first, second = self.parts
        return [*first.english(subject), self.conjunction[0], *second.english(subject)]

    def german(self, case: str) -> list[Token]:
        """The German words in a case."""
        first, second = self.parts
        return [*first.german(case), _said(self.conjunction, "und"), *second.german(case)]


class Prepositional:
    """A preposition and its noun phrase, contracted in German where usage demands it."""

    def __init__(self, preposition: Preposition, phrase: NounPhrase) -> None:
        self.preposition = preposition
        self.phrase = phrase
        self.words = tuple(Token(word) for word in preposition.english)

    def english(self) -> list[Token]:
        """The English words."""
        return [*self.words, *self.phrase.english(False)]

    def german(self) -> list[Token]:
        """The German words."""
        first = Token(self.preposition.german, self.words)
        inner = self.phrase.german(self.preposition.case)
        if self.phrase.stem == "der" and not self.phrase.plural:
            contracted = german.CONTRACTIONS.get((first.text, inner[0].text))
            if contracted:
                return [Token(contracted, self.words + inner[0].sources), *inner[1:]]
        return [first, *inner]


class Predicative:
    """An adjective behind "be", perhaps with "very" or "too"."""

    def __init__(self, adjective: Adjective, degree: str = "") -> None:
        source, degree_source = Token(adjective.name), Token(degree)
        self.heads = (source, Token(adjective.german, (source,)))
        self.degree = (degree_source, Token(DEGREES[degree], (degree_source,)))

    def english(self) -> list[Token]:
        """The English words."""
        return self._words(0)

    def german(self) -> list[Token]:
        """The German words."""
        return self._words(1)

    def _words(self, side: int) -> list[Token]:
        head, degree = self.heads[side], self.degree[side]
        return [degree, head] if degree.text else [head]


class Adverb:
    """A fixed adverbial of the lexicon, such as "in the evening = am Abend"."""

    def __init__(self, entry: str) -> None:
        source, _, target = entry.partition(" = ")
        self.words = [Token(word) for word in source.split(" ")]
        forms = target.split(" ")
        extra = len(self.words) - len(forms) + 1  # the first German word takes what is over: am
        groups = [tuple(self.words[:extra]), *((word,) for word in self.words[extra:])]
        self.targets = [Token(form, group) for form, group in zip(forms, groups, strict=True)]

    def english(self) -> list[Token]:
        """The English words."""
        return self.words

    def german(self) -> list[Token]:
        """The German words."""
        return self.targets
