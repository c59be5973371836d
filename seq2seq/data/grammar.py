"""The embedded corpus: a synchronous English-German grammar that knows the truth of its sentences.

Every pair comes with its word alignment, the antecedents of its pronouns and its grammatical
links, so that attention maps can be held against them.  The translation is a function of the
English sentence.  Train, dev and test differ in *combinations* (noun × predicate), never merely in
sentences; docs/grammar.md describes all of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from itertools import islice, product
from typing import Literal

from seq2seq.data.grammar_lexicon import Frame, Noun, Reason
from seq2seq.data.grammar_patterns import compose
from seq2seq.data.grammar_reader import lexicon
from seq2seq.data.grammar_reasons import because_of
from seq2seq.data.grammar_record import GrammarPair, Link, finish, words
from seq2seq.data.grammar_sampling import Dice, GiveUp, Sampler
from seq2seq.errors import UserError

__all__ = [
    "GrammarPair",
    "Link",
    "Split",
    "generate",
    "lesson_sentences",
    "minimal_pairs",
    "split_of",
    "words",
]

Split = Literal["train", "dev", "test"]
HELD_OUT_PERCENT = 3  # of all combinations, for dev and for test each
_SPLITS = ("train", "dev", "test")
_PATIENCE = 5_000  # sentences in a row that bring nothing new: then the grammar is exhausted


@cache
def split_of(noun: str, relation: str, word: str) -> Split:
    """Where a combination belongs: in "train" it may occur everywhere, else only there.

    A pure function of the three words, about 3 % each for dev and test.

    Args:
        noun: English noun.
        relation: "subject" or "object" of a verb, or "is" (also for attributes).
        word: the English verb ("switch off") or adjective.
    """
    place = _number(f"{noun} {relation} {word}") % 100
    if place < HELD_OUT_PERCENT:
        return "dev"
    return "test" if place < 2 * HELD_OUT_PERCENT else "train"


def generate(count: int, *, split: Split, seed: int = 1) -> Iterator[GrammarPair]:
    """Distinct sentence pairs of one split, the same for a seed on every machine.

    Args:
        count: how many pairs; a longer run begins with the shorter one.
        split: "train", "dev" or "test".
        seed: of the random choices.

    Raises:
        UserError: no such split, or the grammar does not yield so many pairs.
    """
    _check(split)
    return islice(_generate(count, split, seed), count)


def _check(split: str) -> None:
    if split not in _SPLITS:
        raise UserError(f"The grammar has no split {split!r}; choose train, dev or test.")


def _number(text: str) -> int:
    return int.from_bytes(sha256(text.encode()).digest()[:8], "big")


def _generate(count: int, split: Split, seed: int) -> Iterator[GrammarPair]:
    maker = _Maker(split, Dice(_number(f"{split} {seed}")))
    seen: set[bytes] = set()
    misses = 0
    while misses < _PATIENCE:
        pair = maker.draw()
        if pair is None:
            continue
        digest = sha256(pair.source.encode()).digest()[:12]
        if digest in seen:
            misses += 1
            continue
        misses = 0
        seen.add(digest)
        yield pair
    raise UserError(
        f"The embedded grammar yields only {len(seen)} distinct {split} pairs, not {count}: "
        "ask for fewer."
    )


class _Maker:
    """Draws pairs that belong to one split."""

    def __init__(self, split: Split, dice: Dice) -> None:
        self.split = split
        self.held_out = 0
        self.sampler = Sampler(lexicon(), dice, self._admit)

    def _admit(self, noun: str, relation: str, word: str) -> None:
        home = split_of(noun, relation, word)
        if home == "train":
            return
        if home != self.split:
            raise GiveUp
        self.held_out += 1

    def draw(self) -> GrammarPair | None:
        """A pair, or None if what was drawn belongs elsewhere."""
        self.held_out = 0
        try:
            (source, target), mark = compose(self.sampler)
        except GiveUp:
            return None
        if self.split != "train" and not self.held_out:
            return None
        return finish(source, target, mark, self.sampler.draft)


def minimal_pairs(
    count: int | None = None, *, split: Split = "train", seed: int = 1
) -> list[tuple[GrammarPair, GrammarPair]]:
    """Pairs of sentences that differ in their last word, which decides what "it" means.

    "The database rejected the request because it was slow." and "... long.": in the first member
    "it" is the subject, in the second the object, and their German nouns differ in gender, so the
    German pronouns differ too.  Both members belong to the split.

    Args:
        count: at most how many; None for all.
        split: "train" for combinations of the training sentences; in "dev" and "test" each member
            holds a combination that training never shows.
        seed: of the order.
    """
    _check(split)
    found = [plan for plan in _rivalries() if _splits_of(plan) == {split}]
    dice = Dice(_number(f"minimal pairs {seed}"))
    for last in range(len(found) - 1, 0, -1):  # Fisher-Yates, stable on every Python version
        other = int(dice.random() * (last + 1))
        found[last], found[other] = found[other], found[last]
    return [
        (_because(frame, nouns, first), _because(frame, nouns, second))
        for frame, nouns, first, second in found[:count]
    ]


def lesson_sentences() -> list[GrammarPair]:
    """The three example sentences of the lesson on multi-head attention, with their truth.

    They are sentences of this grammar, so their translations follow its rules.
    """
    plans = (
        ("deploy", "developer", "application", "ready"),
        ("cross", "animal", "road", "frightened"),
        ("fix", "engineer", "server", "respond"),
    )
    return [_lesson(*plan) for plan in plans]


def _lesson(verb: str, subject: str, target: str, said: str) -> GrammarPair:
    known = lexicon()
    nouns = (known.nouns[subject], known.nouns[target])
    for frame in known.frames:
        if frame.verb.name == verb and nouns[0] in frame.subjects and nouns[1] in frame.objects:
            for reason in frame.reasons:
                if reason.property.name == said:
                    return _because(frame, nouns, reason)
    raise ValueError(f"the lexicon does not know why the {subject} would {verb} the {target}")


_Rivalry = tuple[Frame, tuple[Noun, Noun], Reason, Reason]


def _rivalries() -> Iterator[_Rivalry]:
    """Deeds whose subject and object are both "it", with a reason that picks out each."""
    seen = set()  # two frames of a verb may overlap
    for frame in lexicon().frames:
        reasons = [reason for reason in frame.reasons if reason.property.kind == "is"]
        for first, second in product(reasons, reasons):
            if (first.role, second.role) != ("subject", "object"):
                continue
            if first.supports != second.supports:
                continue
            for subject, target in product(first.antecedents, second.antecedents):
                said = first.property.name, second.property.name
                key = (frame.verb.name, subject.name, target.name, *said)
                if key not in seen and _rivals(first, second, subject, target):
                    seen.add(key)
                    yield frame, (subject, target), first, second


def _rivals(first: Reason, second: Reason, subject: Noun, target: Noun) -> bool:
    """Whether both are "it" in English and told apart by gender in German, by either reason."""
    return (
        subject.pronoun == target.pronoun == "it"
        and subject.german.gender != target.german.gender
        and subject in second.others
        and target in first.others
    )


def _splits_of(plan: _Rivalry) -> set[Split | None]:
    frame, nouns, first, second = plan
    deed = [
        (nouns[0].name, "subject", frame.verb.word),
        (nouns[1].name, "object", frame.verb.word),
    ]
    return {
        _home([*deed, (noun.name, "is", reason.property.name)])
        for noun, reason in zip(nouns, (first, second), strict=True)
    }


def _home(combinations: list[tuple[str, str, str]]) -> Split | None:
    """The split of a sentence with these combinations; None if they belong to several."""
    homes = {split_of(*combination) for combination in combinations} - {"train"}
    if len(homes) > 1:
        return None
    return homes.pop() if homes else "train"


def _because(frame: Frame, nouns: tuple[Noun, Noun], reason: Reason) -> GrammarPair:
    sampler = Sampler(lexicon(), Dice(0), lambda *_: None)
    source, target = because_of(sampler, frame, nouns, reason)
    return finish(source, target, ".", sampler.draft)
