"""The token store: a training corpus as piece ids on disk, memory-mapped, built once.

Layout of the folder: `source.ids` and `target.ids` (all sentences end to end, uint16 or int32),
`source.offsets` and `target.offsets` (int64, one more than sentences), `order` (int64, the
sentences that are no duplicates), `meta.json`. Training reads through the memory map, so its
memory does not grow with the corpus beyond 16 bytes a pair of lengths.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from seq2seq.config import DataConfig
from seq2seq.data.filters import PairFilter, pair_hash
from seq2seq.data.tokenizer import Tokenizer
from seq2seq.errors import UserError

CHUNK = 10_000  # pairs tokenised at a time
SIDES = ("source", "target")
Pair = tuple[str, str]


@dataclass(frozen=True)
class TokenStore:
    """Random access to tokenised pairs, without begin and end of sentence.

    Attributes:
        ids: for each side, all ids end to end.
        offsets: for each side, where sentence i begins; [N + 1].
        order: the pairs in use, in corpus order.
        counts: how many pairs each filter dropped.
        name: of its folder, which tells stores of different content apart.
    """

    ids: tuple[NDArray[np.integer], NDArray[np.integer]]
    offsets: tuple[NDArray[np.int64], NDArray[np.int64]]
    order: NDArray[np.int64]
    counts: dict[str, int]
    name: str = ""

    def __len__(self) -> int:
        """Number of pairs in use."""
        return len(self.order)

    def lengths(self, side: int) -> NDArray[np.int64]:
        """Pieces of every pair in use on side 0 (source) or 1 (target), [N]."""
        return np.diff(self.offsets[side])[self.order]

    def sentence(self, side: int, index: int) -> NDArray[np.integer]:
        """The ids of pair `index` on one side."""
        row = self.order[index]
        return self.ids[side][self.offsets[side][row] : self.offsets[side][row + 1]]


def open_store(folder: Path) -> TokenStore:
    """Memory-map a store that `build_store` wrote."""
    meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
    ids, offsets = [], []
    for side in SIDES:
        ids.append(np.memmap(folder / f"{side}.ids", dtype=meta["dtype"], mode="r"))
        offsets.append(np.fromfile(folder / f"{side}.offsets", dtype=np.int64))
    order = np.fromfile(folder / "order", dtype=np.int64)
    return TokenStore(
        (ids[0], ids[1]), (offsets[0], offsets[1]), order, meta["counts"], folder.name
    )


def build_store(
    pairs: Iterable[Pair], tokenizer: Tokenizer, config: DataConfig, folder: Path
) -> TokenStore:
    """Filter and tokenise `pairs` into `folder`, unless it is there already.

    Raises:
        UserError: the filters leave no pair.
    """
    build_once(folder, lambda building: _write(pairs, tokenizer, config, building))
    return open_store(folder)


def build_once(folder: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill `folder`, unless it exists; it appears complete or not at all.

    Several processes may do so at the same time: the first to finish wins.
    """
    if folder.exists():
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    building = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        write(building)
        for path in building.iterdir():
            to_disk(path)
        building.chmod(0o755)
        try:
            building.rename(folder)
        except OSError:
            if not folder.exists():
                raise
    finally:
        shutil.rmtree(building, ignore_errors=True)


def to_disk(file: Path) -> None:
    """Wait until a file is on the disk and not only in memory."""
    with file.open("r+b") as stream:  # Windows flushes only what is open for writing
        os.fsync(stream.fileno())


def _write(pairs: Iterable[Pair], tokenizer: Tokenizer, config: DataConfig, folder: Path) -> None:
    filters = PairFilter(config)
    vocab = max(tokenizer.source_vocab, tokenizer.target_vocab)
    dtype = np.dtype(np.uint16 if vocab <= 1 << 16 else np.int32)
    lengths: tuple[list[int], list[int]] = ([], [])
    hashed: list[NDArray[np.uint64]] = []
    read = 0
    with (folder / "source.ids").open("wb") as source, (folder / "target.ids").open("wb") as target:
        for chunk in _chunks(pairs):
            read += len(chunk)
            kept = _write_chunk(chunk, tokenizer, filters, dtype, (source, target), lengths)
            hashed.append(np.array(kept, dtype=np.uint64))
    hashes = np.concatenate(hashed) if hashed else np.empty(0, dtype=np.uint64)
    order = np.arange(len(hashes), dtype=np.int64)
    if config.drop_duplicates:
        order = np.sort(np.unique(hashes, return_index=True)[1]).astype(np.int64)
        filters.counts["duplicate"] = len(hashes) - len(order)
    if len(order) == 0:
        raise UserError(_nothing_left(read, filters))
    order.tofile(folder / "order")
    for side, name in enumerate(SIDES):
        np.cumsum([0, *lengths[side]], dtype=np.int64).tofile(folder / f"{name}.offsets")
    counts = {reason: count for reason, count in filters.counts.items() if count}
    meta = {"dtype": dtype.name, "pairs": len(order), "counts": counts}
    (folder / "meta.json").write_text(json.dumps(meta), encoding="utf-8")


def _write_chunk(
    chunk: list[Pair],
    tokenizer: Tokenizer,
    filters: PairFilter,
    dtype: np.dtype[Any],
    files: tuple[BinaryIO, BinaryIO],
    lengths: tuple[list[int], list[int]],
) -> list[int]:
    """Append one chunk; returns the hash of every kept pair."""
    chunk = [pair for pair in chunk if filters.keeps_text(*pair)]
    sources = tokenizer.encode_source([source for source, _ in chunk])
    targets = tokenizer.encode_target([target for _, target in chunk])
    kept = []
    for pair, *sides in zip(chunk, sources, targets, strict=True):
        if filters.keeps_lengths(len(sides[0]), len(sides[1])):
            kept.append(pair_hash(*pair))
            for side, ids in enumerate(sides):
                files[side].write(np.array(ids, dtype=dtype).tobytes())
                lengths[side].append(len(ids))
    return kept


def _chunks(pairs: Iterable[Pair]) -> Iterator[list[Pair]]:
    iterator = iter(pairs)
    while chunk := list(islice(iterator, CHUNK)):
        yield chunk


def _nothing_left(read: int, filters: PairFilter) -> str:
    if read == 0:
        return "The training text has no sentence pairs."
    reasons = ", ".join(f"{count} {reason}" for reason, count in filters.counts.items() if count)
    return (
        f"The filters drop all {read} training pairs ({reasons}): check that the files hold text "
        "on both sides, or loosen data.max_length, data.max_ratio or data.drop_identical."
    )
