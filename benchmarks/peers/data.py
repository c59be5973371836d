"""The work that all systems share: "m30k-small", Multi30k English to German as 8k joint pieces."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from inside import LENGTH

from seq2seq.choices import DataKind, SubwordKind
from seq2seq.config import DataConfig, TokenizerConfig
from seq2seq.data.corpus import open_corpus
from seq2seq.data.tokenizer import Tokenizer, train_tokenizer

LANGUAGES = ("en", "de")


def prepare(root: str, work: Path) -> dict[str, Any]:
    """Write raw sentences and pieces of train, dev and test, once; returns what they measure."""
    figures = work / "figures.json"
    if figures.exists():
        return dict(json.loads(figures.read_text(encoding="utf-8")))
    work.mkdir(parents=True, exist_ok=True)
    corpus = open_corpus(DataConfig(kind=DataKind.multi30k, root=root))
    parts = {"train": list(corpus.train()), "dev": corpus.dev, "test": corpus.test}
    tokenizer = train_tokenizer(
        TokenizerConfig(kind=SubwordKind.bpe, vocab_size=8000),
        [source for source, _ in parts["train"]],
        [target for _, target in parts["train"]],
    )
    tokenizer.save(work)
    pieces = tokenizer.target_pieces(list(range(tokenizer.target_vocab)))
    _write(work / "vocabulary.txt", [_solid(piece) for piece in pieces])
    means: list[float] = []
    for part, pairs in parts.items():
        for side, language in enumerate(LANGUAGES):
            texts = [pair[side] for pair in pairs]
            _write(work / f"{part}.raw.{language}", texts)
            pieces = _pieces(tokenizer, texts)
            _write(work / f"{part}.{language}", [" ".join(line) for line in pieces])
            means.append(sum(len(line) + 1 for line in pieces) / len(pieces))
    found = {
        "pairs": len(parts["train"]),
        "vocabulary": tokenizer.target_vocab,
        "source_length": round(means[0], 2),  # of training pairs, end of sentence included
        "target_length": round(means[1], 2),
        "test_source_length": round(means[4], 2),
        "output_length": LENGTH,
    }
    # Last of all, so that it stands for the others.
    figures.write_text(json.dumps(found), encoding="utf-8")
    return found


def _pieces(tokenizer: Tokenizer, texts: list[str]) -> list[list[str]]:
    # A vocabulary of both languages: the pieces of a side are those of the other.
    lines = (tokenizer.target_pieces(ids) for ids in tokenizer.encode_target(texts))
    return [[_solid(piece) for piece in line] for line in lines]


def _solid(piece: str) -> str:
    """A piece without blanks of any kind, for some systems split lines at all of them."""
    return "".join(f"<U+{ord(sign):04X}>" if sign.isspace() else sign for sign in piece)


def _write(file: Path, lines: list[str]) -> None:
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
