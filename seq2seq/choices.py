"""The named choices that options offer; a member's name is its value, as Hydra needs it."""

from __future__ import annotations

import enum
from typing import Any

from seq2seq.errors import UserError


class Norm(enum.StrEnum):
    """Where layer normalisation stands: after the residual sum (paper) or before the sublayer."""

    post = "post"
    pre = "pre"


class Positions(enum.StrEnum):
    """How positions enter the embeddings (paper, section 3.5 and Table 3 row E)."""

    sinusoidal = "sinusoidal"
    learned = "learned"


class Tying(enum.StrEnum):
    """Which embeddings are one matrix: none, decoder input = output, or all (section 3.4)."""

    none = "none"
    decoder = "decoder"
    all = "all"


class Sharding(enum.StrEnum):
    """What each of several processes keeps: a copy of the model, or a piece of every matrix."""

    none = "none"
    full = "full"


class Activation(enum.StrEnum):
    """The non-linearity of the feed-forward network."""

    relu = "relu"
    gelu = "gelu"


class SubwordKind(enum.StrEnum):
    """The SentencePiece model type."""

    unigram = "unigram"
    bpe = "bpe"
    char = "char"


class Normalization(enum.StrEnum):
    """What happens to Unicode before subword splitting.

    nfc: canonical composition only, so that é typed in two ways is one letter. nfkc:
    SentencePiece's nmt_nfkc rules, which also rewrite ½, full-width letters and ligatures.
    identity: nothing.
    """

    nfc = "nfc"
    nfkc = "nfkc"
    identity = "identity"


class Schedule(enum.StrEnum):
    """The learning rate after warm-up: ∝ 1/√update (paper), linear to 0 at the end, or constant."""

    inverse_sqrt = "inverse_sqrt"
    linear = "linear"
    constant = "constant"


class Precision(enum.StrEnum):
    """Arithmetic of forward and backward; auto takes bf16 where the device is fast at it."""

    auto = "auto"
    fp32 = "fp32"
    tf32 = "tf32"  # fp32 whose matrix products are rounded to ten binary digits
    bf16 = "bf16"
    fp16 = "fp16"


class Metric(enum.StrEnum):
    """What decides which checkpoint is best and when to stop, measured on the dev set."""

    bleu = "bleu"
    chrf = "chrf"
    loss = "loss"
    exact = "exact"


class DataKind(enum.StrEnum):
    """Where sentence pairs come from."""

    grammar = "grammar"
    files = "files"
    multi30k = "multi30k"


class Search(enum.StrEnum):
    """How a translation is looked for: beam search (beam=1 is greedy) or sampling."""

    beam = "beam"
    sample = "sample"


def choice(kind: type[enum.StrEnum], value: Any, where: str) -> enum.StrEnum:
    """The member of `kind` that `value` names.

    Raises:
        UserError: there is none; names the option `where` and the choices.
    """
    try:
        return kind(value)
    except ValueError:
        choices = ", ".join(kind)
        raise UserError(f"{where} is {value!r}, but must be one of {choices}.") from None
