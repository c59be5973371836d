"""A model and a sentence pair to look at: of a trained run, or random and tiny.

What a mask forbids and where queries come from does not depend on training, so that these parts of
the lesson need no run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from seq2seq.analysis.capture import capture
from seq2seq.analysis.pairs import PieceTokenizer, Translate, read_pairs
from seq2seq.attention_maps import AttentionMaps
from seq2seq.config import BOS, EOS, PAD, UNK, ModelConfig
from seq2seq.errors import UserError
from seq2seq.model.transformer import Transformer

SOURCE = "Ich baue gern gute Programme ."
TARGET = "I love building software ."


@dataclass(frozen=True)
class Example:
    """What to look at.

    Attributes:
        model: in evaluation mode.
        source: piece ids and EOS.
        target_in: BOS and the target's pieces.
        maps: all weights of that pair.
        name: of the model, for people.
        facts: where model and sentences come from.
    """

    model: Transformer
    source: list[int]
    target_in: list[int]
    maps: AttentionMaps
    name: str
    facts: Sequence[str] = field(default=())


class Words:
    """A tokenizer of the words of two sentences, for models that know nothing else."""

    def __init__(self, *sentences: str) -> None:
        words = dict.fromkeys(word for sentence in sentences for word in sentence.split())
        self.names = ["<pad>", "<unk>", "<s>", "</s>", *words]
        self.ids = {name: number for number, name in enumerate(self.names)}

    @property
    def target_vocab(self) -> int:
        """Number of words, control ids included."""
        return len(self.names)

    def encode_source(self, texts: list[str]) -> list[list[int]]:
        """Ids of words; UNK for others."""
        return [[self.ids.get(word, UNK) for word in text.split()] for text in texts]

    encode_target = encode_source

    def source_pieces(self, ids: list[int]) -> list[str]:
        """The words of ids."""
        return [self.names[number] for number in ids]

    target_pieces = source_pieces


def random_example(seed: int = 0) -> Example:
    """A tiny model with random weights, and a sentence pair; no state of PyTorch's is moved."""
    words = Words(SOURCE, TARGET)
    config = ModelConfig(
        d_model=32,
        d_ff=64,
        encoder_layers=2,
        decoder_layers=2,
        source_vocab=words.target_vocab,
        target_vocab=words.target_vocab,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Transformer(config).eval()
    return look(
        model,
        words,
        SOURCE,
        target=TARGET,
        name="a random model (2 + 2 layers, 4 heads of 8)",
        facts=["random weights: these rules do not depend on training"],
    )


def look(
    model: Transformer,
    tokenizer: PieceTokenizer,
    source: str,
    *,
    target: str | None = None,
    translate: Translate | None = None,
    name: str,
    facts: Sequence[str] = (),
) -> Example:
    """Capture one sentence with its given translation, or the model's own.

    Args:
        model: in evaluation mode.
        tokenizer: the model's.
        source: the sentence.
        target: its translation; None: by `translate`.
        translate: such as `Translator.translate`.
        name: of the model, for people.
        facts: where it comes from.

    Raises:
        UserError: as of `seq2seq.analysis.capture.capture`, or the translation is empty.
    """
    targets = None if target is None else [target]
    pair = next(read_pairs(tokenizer, [source], targets, translate, 1))
    if len(pair.target_in) < 2:
        raise UserError(f"“{source}” becomes nothing in {name}: give another sentence (--text).")
    maps = capture(model, tokenizer, source, targets, translate=translate)[0]
    return Example(model, pair.source, pair.target_in, maps, name, facts)


def replaced(ids: Sequence[int], place: int) -> list[int]:
    """The ids with another one of the same sentence at `place`, so that it surely differs.

    A sentence of equal ids gets UNK there.
    """
    others = [i for i in ids if i != ids[place] and i not in (PAD, BOS, EOS)]
    changed = list(ids)
    changed[place] = others[0] if others else UNK
    return changed
