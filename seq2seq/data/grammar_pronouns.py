"""Pronouns of the embedded grammar: words whose German form hangs on what they mean."""

from __future__ import annotations

from typing import Protocol

from seq2seq.data import grammar_german as german
from seq2seq.data.grammar_phrases import Draft, NounPhrase, Phrase, Token

_OBJECTS = {"he": "him", "she": "her", "they": "them", "it": "it"}
_COLUMNS = {"he": "m", "she": "f", "they": "p"}
_POSSESSIVES = {"he": "his", "she": "her", "they": "their", "we": "our"}


class Pronoun:
    """A personal pronoun; in German its gender is that of its antecedent's German noun."""

    pronominal = True

    def __init__(self, draft: Draft, word: str, antecedent: NounPhrase | None = None) -> None:
        self.word = word
        self.plural = word == "they"
        source = Token(word)
        self.heads = (source, Token("", (source,)))
        self.column = antecedent.column if antecedent else _COLUMNS[word]
        if antecedent:
            draft.link("antecedent", antecedent.heads, self.heads)

    @classmethod
    def of(cls, draft: Draft, antecedent: NounPhrase) -> Pronoun:
        """The pronoun that refers to a noun phrase."""
        return cls(draft, pronoun_for(antecedent), antecedent)

    def english(self, subject: bool) -> list[Token]:
        """The English word, in the nominative or as an object."""
        if not subject:
            self.heads[0].text = _OBJECTS[self.word]
        return [self.heads[0]]

    def german(self, case: str) -> list[Token]:
        """The German word in a case."""
        self.heads[1].text = german.pronoun(self.column, case)
        return [self.heads[1]]


class We:
    """The subject "we": third person plural forms in both languages."""

    pronominal = True
    plural = True
    word = "we"

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


class RelativePronoun:
    """The words "who" and "that": number and gender of the antecedent, case of their clause."""

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


class _VerbLast(Protocol):
    def english(self) -> list[Token]: ...

    def german_final(self) -> list[Token]: ...


class RelativeClause:
    """A clause behind its noun, between commas in German.

    A comma that turns out to stand next to another mark is dropped with the whole sentence.
    """

    def __init__(self, clause: _VerbLast) -> None:
        self.clause = clause

    def english(self) -> list[Token]:
        """The English words."""
        return self.clause.english()

    def german(self) -> list[Token]:
        """The German words."""
        return [Token(","), *self.clause.german_final(), Token(",")]


def pronoun_for(phrase: NounPhrase) -> str:
    """The English subject pronoun for a noun phrase."""
    return "they" if phrase.plural else phrase.noun.pronoun


def possessive_for(owner: Phrase) -> str:
    """The possessive determiner for a person or persons; "" where there is none."""
    if isinstance(owner, NounPhrase):
        return _POSSESSIVES.get(pronoun_for(owner), "") if owner.noun.personal else ""
    return _POSSESSIVES.get(getattr(owner, "word", ""), "")
