"""How rare source pieces are, for the role of heads that look at the rarest (Voita et al. 2019)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from seq2seq.data.lines import read_lines
from seq2seq.data.tokenizer import Tokenizer
from seq2seq.decoding.lines import encode_lines
from seq2seq.errors import UserError


def count_pieces(tokenizer: Tokenizer, sources: Iterable[str]) -> Counter[str]:
    """How often each piece stands in source sentences."""
    counts: Counter[int] = Counter()
    for ids in encode_lines(tokenizer.encode_source, list(sources)):
        counts.update(ids)
    names = tokenizer.source_pieces(list(counts))
    return Counter(dict(zip(names, counts.values(), strict=True)))


def read_frequencies(path: str | Path, tokenizer: Tokenizer, option: str) -> Counter[str]:
    """Counts of pieces from a list of words: on each line a word, white space, and its count.

    The pieces of a word count as often as the word.

    Args:
        path: the file, plain or gzip.
        tokenizer: the model's.
        option: that named the file, for messages.

    Raises:
        UserError: a line that is no such pair, or none at all.
    """
    words: Counter[str] = Counter()
    for number, line in enumerate(read_lines(path, option), start=1):
        if not line.strip():
            continue
        word, _, count = line.strip().replace("\t", " ").rpartition(" ")
        if not word.strip() or not (count.isascii() and count.isdecimal()):
            raise UserError(
                f"{option}: {path}, line {number} is not a word and its count: {line[:40]!r}."
            )
        words[word.strip()] += int(count)
    if not words:
        raise UserError(f"{option}: {path} holds no word.")
    counts: Counter[str] = Counter()
    for ids, times in zip(tokenizer.encode_source(list(words)), words.values(), strict=True):
        for piece in tokenizer.source_pieces(ids):
            counts[piece] += times
    return counts


def ranks(counts: Counter[str]) -> dict[str, int]:
    """Piece → how many pieces are more common; pieces that never occur have none."""
    ordered = sorted(counts, key=lambda piece: (-counts[piece], piece))
    places: dict[str, int] = {}
    for place, piece in enumerate(ordered):
        before = ordered[place - 1]
        same = place > 0 and counts[before] == counts[piece]
        places[piece] = places[before] if same else place
    return places
