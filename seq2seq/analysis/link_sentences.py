"""Minimal pairs of the embedded grammar for links other than "it".

The members of a pair differ in one English word. Their translations agree up to the German word
that the link decides, so that an answer can be moved from the one to the other:

- subject: its number decides the form of the verb, which German writes first.
  Yesterday the farmer / farmers fed the cow. – Gestern fütterte / fütterten …
- object: its verb, which German writes last, decides its case.
  The nurse has thanked / visited the teacher. – Die Krankenschwester hat dem / den …
- adjective: its noun decides its ending.
  My old dog / horse drank the water. – Mein alter / altes …
- particle: what belongs to the verb, German writes at the end.
  The man switched off / on the lamp. – Der Mann schaltete die Lampe aus / ein.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from itertools import islice

from seq2seq.data.grammar import Split, split_of
from seq2seq.data.grammar_lexicon import Adjective, Frame, Noun
from seq2seq.data.grammar_phrases import Adverb, NounPhrase
from seq2seq.data.grammar_reader import lexicon
from seq2seq.data.grammar_record import GrammarPair, finish
from seq2seq.data.grammar_sampling import Dice, GiveUp, Sampler
from seq2seq.errors import UserError

PATIENCE = 20_000  # draws in a row that bring nothing new: then there is no more
_COMPOUND = ("perfect", "future", "must", "can", "should", "wanted")  # the verb comes last
_MANY = ("the", "the", "my", "our")  # determiners that are the same word in the plural
_EIN = ("a", "my", "our")  # behind them, masculine and neuter differ in the adjective alone


@dataclass(frozen=True)
class _Phrase:
    noun: Noun
    determiner: str
    adjective: Adjective | None
    plural: bool = False

    def draft(self, sampler: Sampler) -> NounPhrase:
        return NounPhrase(
            sampler.draft,
            self.noun,
            self.determiner,
            plural=self.plural,
            adjective=self.adjective,
        )


@dataclass(frozen=True)
class _Deed:
    """All that is chosen of a sentence."""

    frame: Frame
    subject: _Phrase
    target: _Phrase
    tense: str
    time: str = ""  # an adverb in front

    def written(self, sampler: Sampler) -> GrammarPair:
        sampler.restart()
        clause = sampler.event(
            self.frame,
            (self.subject.noun, self.target.noun),
            self.subject.draft(sampler),
            self.target.draft(sampler),
            self.tense,
        )
        if self.time:
            clause.time, clause.time_first = Adverb(self.time), True
        return finish(clause.english(), clause.german_main(), ".", sampler.draft)


def link_pairs(
    link: str, count: int, *, split: Split = "train", seed: int = 1
) -> Iterator[tuple[GrammarPair, GrammarPair]]:
    """Distinct minimal pairs of a link, made as they are taken; the same for a seed everywhere.

    Args:
        link: of `LINKS`.
        count: at most how many.
        split: "train" for combinations of the training sentences; in "dev" and "test" each member
            holds a combination that training never shows.
        seed: of the random choices.

    Raises:
        UserError: no such link.
    """
    if link not in LINKS:
        raise UserError(f"There are no pairs for {link!r}: choose {', '.join(LINKS)}.")
    return islice(_distinct(link, split, seed), count)


def _distinct(link: str, split: Split, seed: int) -> Iterator[tuple[GrammarPair, GrammarPair]]:
    number = sha256(f"{link} {split} {seed}".encode()).digest()[:8]
    writer = _Writer(split, Dice(int.from_bytes(number, "big")))
    seen: set[str] = set()
    misses = 0
    while misses < PATIENCE:
        misses += 1
        try:
            first, second = (writer.write(deed) for deed in LINKS[link](writer.sampler))
        except GiveUp:
            continue
        if first.source not in seen:
            misses = 0
            seen.add(first.source)
            yield first, second


class _Writer:
    """Writes sentences that belong to one split."""

    def __init__(self, split: Split, dice: Dice) -> None:
        self.split = split
        self.homes: set[Split] = set()
        self.sampler = Sampler(lexicon(), dice, self._admit)

    def _admit(self, noun: str, relation: str, word: str) -> None:
        self.homes.add(split_of(noun, relation, word))

    def write(self, deed: _Deed) -> GrammarPair:
        self.homes = set()
        pair = deed.written(self.sampler)
        if self.homes - {"train"} != {self.split} - {"train"}:
            raise GiveUp
        return pair


def _subject(sampler: Sampler) -> tuple[_Deed, _Deed]:
    deed = _deed(sampler, sampler.dice.pick(_plain_frames()), ("past", "past", "future"))
    if not deed.subject.noun.plural or not deed.time or deed.subject.determiner not in _MANY:
        raise GiveUp
    return deed, replace(deed, subject=replace(deed.subject, plural=True))


def _object(sampler: Sampler) -> tuple[_Deed, _Deed]:
    first, second = sampler.dice.pick(_case_frames())
    return _same_but_verb(sampler, first, second, _COMPOUND)


def _particle(sampler: Sampler) -> tuple[_Deed, _Deed]:
    first, second = sampler.dice.pick(_prefix_frames())
    return _same_but_verb(sampler, first, second, ("past",))


def _adjective(sampler: Sampler) -> tuple[_Deed, _Deed]:
    dice = sampler.dice
    deed = _deed(sampler, dice.pick(_plain_frames()), ("past", "past", "perfect", "future"))
    determiner = dice.pick(_EIN)
    noun = deed.subject.noun
    others = [n for n in deed.frame.subjects if {n.german.gender, noun.german.gender} == {"m", "n"}]
    epithets = sampler.lexicon.epithets
    if not others:
        raise GiveUp
    other = dice.pick(others)
    shared = [found for found in epithets[noun.name] if found in epithets[other.name]]
    if not shared or not all(_suits(determiner, each) for each in (noun, other)):
        raise GiveUp
    said = _Phrase(noun, determiner, dice.pick(shared))
    deed = replace(deed, subject=said, time="")
    return deed, replace(deed, subject=replace(said, noun=other))


LINKS: dict[str, Callable[[Sampler], tuple[_Deed, _Deed]]] = {
    "subject": _subject,
    "object": _object,
    "adjective": _adjective,
    "particle": _particle,
}
"""Link → what draws both members of a pair, or gives up."""


def _deed(sampler: Sampler, frame: Frame, tenses: Sequence[str]) -> _Deed:
    """A deed of a frame with everything drawn, half of the time with an adverb in front."""
    dice = sampler.dice
    tense = dice.pick(tenses)
    actor, thing = dice.pick(frame.subjects), dice.pick(frame.objects)
    if actor == thing or tense not in frame.tenses:
        raise GiveUp
    times = sampler.lexicon.adverbs.get(tense, ())
    time = dice.pick(times) if times and dice.chance(0.5) else ""
    return _Deed(frame, _phrase(sampler, actor), _phrase(sampler, thing), tense, time)


def _phrase(sampler: Sampler, noun: Noun) -> _Phrase:
    dice = sampler.dice
    epithets = sampler.lexicon.epithets[noun.name]
    adjective = dice.pick(epithets) if epithets and dice.chance(0.4) else None
    determiner = dice.pick(_MANY)
    return _Phrase(noun, determiner if _suits(determiner, noun) else "the", adjective)


def _suits(determiner: str, noun: Noun) -> bool:
    if determiner == "a":
        return not noun.tags & {"kin", "mass"}
    return determiner == "the" or "ownable" in noun.tags


def _same_but_verb(
    sampler: Sampler, first: Frame, second: Frame, tenses: Sequence[str]
) -> tuple[_Deed, _Deed]:
    deed = _deed(sampler, first, tenses)
    in_both = deed.subject.noun in second.subjects and deed.target.noun in second.objects
    if not in_both or deed.tense not in second.tenses:
        raise GiveUp
    return deed, replace(deed, frame=second)


@cache
def _plain_frames() -> tuple[Frame, ...]:
    """Deeds with a subject and an object, and no more."""
    return tuple(
        frame
        for frame in lexicon().frames
        if frame.objects and not (frame.recipients or frame.negated or frame.preposition)
    )


@cache
def _case_frames() -> tuple[tuple[Frame, Frame], ...]:
    """Two verbs of one word each, the first with a dative object, the second with an accusative."""
    found = [f for f in _plain_frames() if " " not in f.verb.name]
    return _sharing(
        (a, b)
        for a in found
        for b in found
        if (a.verb.german.object_case, b.verb.german.object_case) == ("dat", "acc")
        and a.verb.german.auxiliary == b.verb.german.auxiliary
    )


@cache
def _prefix_frames() -> tuple[tuple[Frame, Frame], ...]:
    """Two verbs that differ in one English word, and in German in their prefix alone."""
    return _sharing(
        (a, b)
        for a in _plain_frames()
        for b in _plain_frames()
        if a.verb.german.prefix > b.verb.german.prefix
        and a.verb.german.finite("past", False) == b.verb.german.finite("past", False)
        and _one_word_apart(a.verb.word, b.verb.word)
    )


def _one_word_apart(a: str, b: str) -> bool:
    first, second = a.split(), b.split()
    apart = sum(x != y for x, y in zip(first, second, strict=False))
    return len(first) == len(second) and apart == 1


def _sharing(pairs: Iterator[tuple[Frame, Frame]]) -> tuple[tuple[Frame, Frame], ...]:
    """Those that have subjects and objects in common."""
    return tuple(
        (a, b) for a, b in pairs if {*a.subjects} & {*b.subjects} and {*a.objects} & {*b.objects}
    )
