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

# English determiner -> German stem; "its" depends on the possessor.
STEMS = {
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
_OBJECT_PRONOUNS = {"he": "him", "she": "her", "they": "them", "it": "it"}


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
        """Record a link that exists on both sides; each pair is (English, German)."""
        self.links.append((kind, "source", heads[0], dependents[0]))
        self.links.append((kind, "target", heads[1], dependents[1]))


class Phrase(Protocol):
    """What can be subject or object of a clause."""

    plural: bool
    pronominal: bool
    heads: tuple[Token, Token]  # the English and the German head word

    def english(self, subject: bool) -> list[Token]:
        """The English words."""

    def german(self, case: str) -> list[Token]:
        """The German words in a case."""


class NounPhrase:
    """Determiner, adjective, noun and what follows the noun."""

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
        self.determiner = self._english_determiner(determiner, adjective)
        self.adjective = adjective
        self.after: PrepositionalPhrase | RelativeClause | None = None
        self.heads = (Token(noun.plural if plural else noun.name), Token(""))
        self.modifiers = (Token(adjective.name), Token("")) if adjective else None
        if self.modifiers and adjective:
            draft.admit(noun.name, "is", adjective.name)
            draft.link("attributive", self.heads, self.modifiers)
        if owner and self.determiner:
            self.article = Token("", (self.determiner,))
            draft.link("antecedent", owner.heads, (self.determiner, self.article))
        else:
            self.article = Token("", (self.determiner,) if self.determiner else ())

    def _english_determiner(self, determiner: str, adjective: Adjective | None) -> Token | None:
        if determiner == "a":
            return Token(english.article(adjective.name if adjective else self.noun.name))
        if determiner == "this" and self.plural:
            return Token("these")
        return Token(determiner) if determiner else None

    def english(self, subject: bool) -> list[Token]:  # noqa: ARG002 - English nouns have no case
        """The English words."""
        words = [self.determiner] if self.determiner else []
        if self.modifiers:
            words.append(self.modifiers[0])
        words.append(self.heads[0])
        if self.after:
            words += self.after.english()
        return words

    def german(self, case: str) -> list[Token]:
        """The German words in a case."""
        words = []
        if self.determiner:
            self.article.text = german.determiner(self.stem, self.column, case)
            words.append(self.article)
        if self.modifiers and self.adjective:
            source, target = self.modifiers
            target.text = german.adjective(self.adjective.german, self.stem, self.column, case)
            target.sources = (source,)
            words.append(target)
        source, target = self.heads
        target.text = self.noun.german.form(self.plural, case)
        target.sources = (source,)
        words.append(target)
        if self.after:
            words += self.after.german()
        return words


class Pronoun:
    """A personal pronoun; in German its gender is that of its antecedent's German noun."""

    pronominal = True

    def __init__(self, draft: Draft, word: str, antecedent: NounPhrase | None = None) -> None:
        self.word = word
        self.plural = word == "they"
        self.column = {"he": "m", "she": "f", "they": "p"}.get(word, "")
        self.heads = (Token(word), Token(""))
        if antecedent:
            self.column = antecedent.column
            draft.link("antecedent", antecedent.heads, self.heads)
        elif word == "it":
            raise ValueError("without an antecedent 'it' has no German translation")

    @classmethod
    def of(cls, draft: Draft, antecedent: NounPhrase) -> Pronoun:
        """The pronoun that refers to a noun phrase."""
        return cls(draft, pronoun_word(antecedent), antecedent)

    def english(self, subject: bool) -> list[Token]:
        """The English word, in the nominative or as an object."""
        if not subject:
            self.heads[0].text = _OBJECT_PRONOUNS[self.word]
        return [self.heads[0]]

    def german(self, case: str) -> list[Token]:
        """The German word in a case."""
        source, target = self.heads
        target.text = german.pronoun(self.column, case)
        target.sources = (source,)
        return [target]


def pronoun_word(phrase: NounPhrase) -> str:
    """The English subject pronoun for a noun phrase."""
    return "they" if phrase.plural else phrase.noun.pronoun


class We:
    """The subject "we": third person plural forms in both languages."""

    pronominal = True
    plural = True

    def __init__(self) -> None:
        source = Token("we")
        self.heads = (source, Token("wir", (source,)))

    def english(self, subject: bool) -> list[Token]:  # noqa: ARG002 - only ever a subject
        """The English word."""
        return [self.heads[0]]

    def german(self, case: str) -> list[Token]:  # noqa: ARG002 - only ever a subject
        """The German word."""
        return [self.heads[1]]


class Elided:
    """The unspoken subject of "and closed the door"; its links point at the spoken one."""

    pronominal = True

    def __init__(self, spoken: Phrase) -> None:
        self.plural = spoken.plural
        self.heads = spoken.heads

    def english(self, subject: bool) -> list[Token]:  # noqa: ARG002 - nothing to say
        """No words."""
        return []

    def german(self, case: str) -> list[Token]:  # noqa: ARG002 - nothing to say
        """No words."""
        return []


class Coordination:
    """Two noun phrases joined by "and"."""

    pronominal = False
    plural = True

    def __init__(self, first: NounPhrase, second: NounPhrase) -> None:
        self.parts = (first, second)
        self.heads = first.heads
        source = Token("and")
        self.conjunction = (source, Token("und", (source,)))

    def english(self, subject: bool) -> list[Token]:
        """The English words."""
        first, second = self.parts
        return [*first.english(subject), self.conjunction[0], *second.english(subject)]

    def german(self, case: str) -> list[Token]:
        """The German words in a case."""
        first, second = self.parts
        return [*first.german(case), self.conjunction[1], *second.german(case)]


class RelativePronoun:
    """ "who" or "that", which agrees with its antecedent and takes its case from its own clause."""

    pronominal = True

    def __init__(self, draft: Draft, antecedent: NounPhrase) -> None:
        self.plural = antecedent.plural
        self.column = antecedent.column
        source = Token("who" if antecedent.noun.personal else "that")
        self.heads = (source, Token("", (source,)))
        draft.link("antecedent", antecedent.heads, self.heads)

    def english(self, subject: bool) -> list[Token]:  # noqa: ARG002 - "that" has no case
        """The English word."""
        return [self.heads[0]]

    def german(self, case: str) -> list[Token]:
        """The German word in a case."""
        self.heads[1].text = german.relative(self.column, case)
        return [self.heads[1]]


class Embeddable(Protocol):
    """A clause that can follow a noun."""

    def english(self) -> list[Token]:
        """The English words."""

    def german_final(self) -> list[Token]:
        """The German words with the verb at the end."""


@dataclass(slots=True)
class RelativeClause:
    """A clause behind its noun, between commas in German."""

    clause: Embeddable

    def english(self) -> list[Token]:
        """The English words."""
        return self.clause.english()

    def german(self) -> list[Token]:
        """The German words; a comma that meets other punctuation is dropped at the end."""
        return [Token(","), *self.clause.german_final(), Token(",")]


class PrepositionalPhrase:
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
                first = Token(contracted, self.words + inner[0].sources)
                inner = inner[1:]
        return [first, *inner]


class Predicative:
    """An adjective behind "be", perhaps with "very" or "too"."""

    DEGREES = {"very": "sehr", "too": "zu"}

    def __init__(self, adjective: Adjective, degree: str = "") -> None:
        source = Token(adjective.name)
        self.heads = (source, Token(adjective.german, (source,)))
        self.degree: tuple[Token, Token] | None = None
        if degree:
            word = Token(degree)
            self.degree = (word, Token(self.DEGREES[degree], (word,)))

    def english(self) -> list[Token]:
        """The English words."""
        return [self.degree[0], self.heads[0]] if self.degree else [self.heads[0]]

    def german(self) -> list[Token]:
        """The German words."""
        return [self.degree[1], self.heads[1]] if self.degree else [self.heads[1]]


class Adverb:
    """An adverb or fixed adverbial of the lexicon, "in the evening = am Abend"."""

    def __init__(self, entry: str) -> None:
        source, _, target = entry.partition(" = ")
        self.words = [Token(word) for word in source.split(" ")]
        targets = target.split(" ")
        extra = len(self.words) - len(targets)  # "in the" -> "am": the first takes what is over
        groups = [self.words[: extra + 1], *([word] for word in self.words[extra + 1 :])]
        self.targets = [
            Token(word, tuple(group)) for word, group in zip(targets, groups, strict=True)
        ]

    def english(self) -> list[Token]:
        """The English words."""
        return self.words

    def german(self) -> list[Token]:
        """The German words."""
        return self.targets
