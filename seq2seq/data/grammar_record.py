"""The record of a sentence pair of the embedded grammar, and how it is made from tokens."""

from __future__ import annotations

import re
from dataclasses import dataclass

from seq2seq.data.grammar_phrases import Draft, Token

_WORD = re.compile(r"[^\s.,?]+|[.,?]")


@dataclass(frozen=True, slots=True)
class Link:
    """A grammatical link between two words of one side; indexes are those of `words`.

    Attributes:
        kind: "subject" and "object" (head: the verb that carries the meaning, or the adjective
            behind "be"), "attributive" (head: the noun), "particle" (head: the verb that it
            belongs to), "antecedent" (head: the noun that the dependent pronoun means).
        side: "source" or "target".
        head: index of the head word.
        dependent: index of the dependent word.
    """

    kind: str
    side: str
    head: int
    dependent: int


@dataclass(frozen=True, slots=True)
class GrammarPair:
    """An English sentence, its German translation and the truth about both.

    Attributes:
        source: English text.
        target: German text.
        alignment: (source word, target word) by index in `words`, punctuation included.
        links: the grammatical links of both sides, in the order of the words.
    """

    source: str
    target: str
    alignment: frozenset[tuple[int, int]]
    links: tuple[Link, ...]


def words(text: str) -> list[str]:
    """The words of a sentence: split at spaces, and each of ``. , ?`` is a word of its own."""
    return _WORD.findall(text)


def finish(source: list[Token], target: list[Token], mark: str, draft: Draft) -> GrammarPair:
    """Number the words, write the texts and read alignment and links off the tokens."""
    end = Token(mark)
    source = [*source, end]
    target = _one_mark_at_a_time([*target, Token(mark, (end,))])
    for side in (source, target):
        for index, token in enumerate(side):
            token.index = index
    links = sorted(
        (side, dependent.index, kind, head.index) for kind, side, head, dependent in draft.links
    )
    return GrammarPair(
        source=_text(source),
        target=_text(target),
        alignment=frozenset(
            (word.index, token.index) for token in target for word in token.sources
        ),
        links=tuple(Link(kind, side, head, dep) for side, dep, kind, head in links),
    )


def _one_mark_at_a_time(tokens: list[Token]) -> list[Token]:
    """Drop a comma that another mark follows at once."""
    return [
        token
        for token, following in zip(tokens, [*tokens[1:], None], strict=True)
        if not (token.text == "," and following and following.text in ",.?")
    ]


def _text(tokens: list[Token]) -> str:
    line = " ".join([token.text for token in tokens])
    line = line.replace(" ,", ",").replace(" .", ".").replace(" ?", "?")
    return line[0].upper() + line[1:]
