"""Splitting dev and test pairs off a training text that comes without them."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import islice

from seq2seq.data.lines import Pair, is_blank

SMALLEST = 20  # different pairs from which on something is split off
SHARE = 0.05  # of the different pairs, at most, in dev and in test each
COUNT_EXACTLY = 100_000  # different pairs; beyond, duplicates hardly matter and memory does


@dataclass(frozen=True)
class Scan:
    """What one pass over training text finds out.

    Attributes:
        pairs: how many there are.
        usable: how many have text on both sides.
        distinct: different usable pairs, counted exactly up to 100,000; beyond, `usable`.
        known: pairs that also stand in dev or test text given by the user.
        digest: SHA-256 of the text, independent of compression and line-end style.
    """

    pairs: int
    usable: int
    distinct: int
    known: int
    digest: str


@dataclass(frozen=True)
class Split:
    """Pairs held out of the training text, and how many training pairs go with them.

    Attributes:
        dev: pairs for validation.
        test: pairs for the final evaluation; none equals a dev pair.
        removed: training pairs left out: the held-out ones and all that equal them.
        memory: whether dev is the training text itself, which was too small to split.
    """

    dev: list[Pair] = field(default_factory=list)
    test: list[Pair] = field(default_factory=list)
    removed: int = 0
    memory: bool = False

    @property
    def held_out(self) -> frozenset[Pair]:
        """What training must not see."""
        return frozenset() if self.memory else frozenset(self.dev + self.test)


def scan(pairs: Iterable[Pair], given: frozenset[Pair]) -> Scan:
    """Read all pairs once; `given` holds the dev and test pairs of the user's own files."""
    count = usable = known = 0
    distinct: set[int] = set()
    digest = sha256()
    for pair in pairs:
        count += 1
        known += pair in given
        digest.update(f"{pair[0]}\n{pair[1]}\n".encode())
        if is_blank(pair[0]) or is_blank(pair[1]):
            continue
        usable += 1
        if len(distinct) < COUNT_EXACTLY:
            distinct.add(hash(pair))
    saturated = len(distinct) >= COUNT_EXACTLY
    return Scan(count, usable, usable if saturated else len(distinct), known, digest.hexdigest())


def split_off(
    pairs: Iterable[Pair], found: Scan, *, dev_size: int, test_size: int, seed: int
) -> Split:
    """Choose dev and test pairs at random places of `pairs`, each at most 5 % of the text.

    Which lines are drawn, and in which order, follows from the seed and the number of lines alone.
    Only pairs with text on both sides are taken, and none twice. A text with fewer than 20
    different pairs is not split: dev is then the text itself and test is empty.

    Args:
        pairs: the training text; read twice.
        found: what `scan` said about it.
        dev_size: dev pairs wanted; 0 = none.
        test_size: test pairs wanted; 0 = none.
        seed: of the random draw.
    """
    if found.distinct < SMALLEST:
        usable = (pair for pair in pairs if not (is_blank(pair[0]) or is_blank(pair[1])))
        return Split(dev=list(dict.fromkeys(usable))[:dev_size], memory=dev_size > 0)
    cap = max(1, int(found.distinct * SHARE))
    dev_size, test_size = min(dev_size, cap), min(test_size, cap)
    # Some places hold blank or repeated pairs, so more are drawn than needed.
    draws = 2 * (dev_size + test_size) * found.pairs // found.distinct + SMALLEST
    places = dict.fromkeys(islice(draw_places(found.pairs, seed), draws))
    texts = {place: pair for place, pair in enumerate(pairs) if place in places}
    drawn = (texts[place] for place in places)
    fresh = iter(dict.fromkeys(p for p in drawn if not (is_blank(p[0]) or is_blank(p[1]))))
    dev, test = list(islice(fresh, dev_size)), list(islice(fresh, test_size))
    held_out = frozenset(dev + test)
    return Split(dev, test, removed=sum(pair in held_out for pair in pairs))


def draw_places(count: int, seed: int) -> Iterator[int]:
    """Yield each index below `count` once, in an order that seed and count decide."""
    draw = random.Random(f"{seed}/{count}")
    seen: set[int] = set()
    while len(seen) < count:
        place = draw.randrange(count)
        if place not in seen:
            seen.add(place)
            yield place
