"""The typed configuration of a run: every option, its default, its unit, and the checks on it.

Plain dataclasses, so that neither Hydra nor OmegaConf is needed to read a run folder. They are not
frozen and not positional because Hydra's groups merge into them (see docs/architecture.md).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from seq2seq.checks import at_least, at_least_or_auto, share, to_choices
from seq2seq.choices import (
    Activation,
    DataKind,
    Metric,
    Norm,
    Normalization,
    Positions,
    Precision,
    Schedule,
    Search,
    Sharding,
    SubwordKind,
    Tying,
)
from seq2seq.errors import UserError
from seq2seq.head_names import head_name, removed_in_order

PAD, UNK, BOS, EOS = 0, 1, 2, 3  # the ids that every vocabulary begins with


@dataclass(kw_only=True, slots=True)
class DataConfig:
    """Which sentence pairs: the embedded grammar, the user's files, or a Multi30k folder."""

    kind: DataKind = DataKind.grammar
    source_lang: str = "en"
    target_lang: str = "de"
    root: str | None = None  # multi30k: folder with train/val/test_*.{lang}[.gz]
    train_source: str | None = None  # files: plain or .gz text, one sentence a line
    train_target: str | None = None
    train_tsv: str | None = None  # files: source TAB target, instead of the two above
    dev_source: str | None = None
    dev_target: str | None = None
    dev_tsv: str | None = None
    test_source: str | None = None
    test_target: str | None = None
    test_tsv: str | None = None
    dev_size: int = 1000  # pairs split off the training text where no dev files are given
    test_size: int = 1000  # (each at most 5 % of it)
    split_seed: int = 1
    limit: int | None = None  # use only the first N training pairs
    grammar_pairs: int = 200_000  # distinct training pairs of the embedded grammar
    grammar_seed: int = 1
    max_length: int = 256  # pieces; longer training pairs are dropped and counted
    max_ratio: float = 6.0  # longer side / shorter side in pieces; 0 = no limit
    drop_duplicates: bool = True
    drop_identical: bool = False  # source = target: right for a copy task, noise elsewhere
    cache: str | None = None  # folder of token stores; default: beside the run

    def __post_init__(self) -> None:
        """Check ranges."""
        to_choices(self)
        at_least(self, 0, "dev_size", "test_size", "max_ratio")
        at_least(self, 1, "limit", "grammar_pairs", "max_length")


@dataclass(kw_only=True, slots=True)
class TokenizerConfig:
    """The SentencePiece model, trained on the raw training text."""

    kind: SubwordKind = SubwordKind.unigram
    vocab_size: int = 8000  # lowered, with a warning, to what a small corpus allows
    joint: bool = True  # one model for both languages
    coverage: float = 1.0  # share of characters kept; the rest is <unk>
    byte_fallback: bool = False  # spell unknown characters in bytes instead of <unk>
    normalization: Normalization = Normalization.nfc
    sample: int = 2_000_000  # lines used to train it

    def __post_init__(self) -> None:
        """Check ranges."""
        to_choices(self)
        at_least(self, 1, "vocab_size", "sample")
        if not 0.0 < self.coverage <= 1.0:
            raise UserError(f"tokenizer.coverage is {self.coverage}, but must be in (0, 1].")


@dataclass(kw_only=True, slots=True)
class ModelConfig:
    """The Transformer of "Attention Is All You Need"; names as in its section 3."""

    d_model: int = 256
    d_ff: int = 1024
    encoder_layers: int = 3
    decoder_layers: int = 3
    encoder_heads: int = 4
    decoder_heads: int = 4
    d_k: int | None = None  # width of a head's queries and keys; default d_model / heads
    d_v: int | None = None  # width of a head's values; default d_model / heads
    removed_heads: list[str] | None = None  # as kind.layer.head; the others keep their numbers
    norm: Norm = Norm.post
    positions: Positions = Positions.sinusoidal
    max_positions: int = 512  # rows of the learned table; sinusoids have no limit
    activation: Activation = Activation.relu
    tying: Tying = Tying.all
    dropout: float = 0.1  # on each sublayer's output, before the residual sum
    attention_dropout: float = 0.0  # on attention weights
    ff_dropout: float = 0.0  # inside the feed-forward network
    embedding_dropout: float = 0.1  # on embeddings + positions
    source_vocab: int = 0  # filled in from the tokenizer
    target_vocab: int = 0

    def __post_init__(self) -> None:
        """Check ranges and that the heads divide the width unless d_k and d_v are given."""
        to_choices(self)
        at_least(self, 1, "d_model", "d_ff", "encoder_layers", "decoder_layers")
        at_least(self, 1, "encoder_heads", "decoder_heads", "d_k", "d_v", "max_positions")
        share(self, "dropout", "attention_dropout", "ff_dropout", "embedding_dropout")
        for name in ("encoder_heads", "decoder_heads"):
            heads = getattr(self, name)
            if self.d_model % heads and (self.d_k is None or self.d_v is None):
                raise UserError(
                    f"model.d_model={self.d_model} is not divisible by model.{name}={heads}: "
                    "choose another number of heads, or give model.d_k and model.d_v."
                )
        self.removed_heads = removed_in_order(self.removed_heads, self.heads()) or None

    def heads(self) -> dict[str, tuple[int, int]]:
        """Kind of attention → its layers, and the heads of each before any is removed."""
        decoder = self.decoder_layers, self.decoder_heads
        return {"enc": (self.encoder_layers, self.encoder_heads), "dec": decoder, "cross": decoder}

    def head_ids(self, kind: str, layer: int) -> list[int]:
        """The numbers of the heads that are left in one attention, in order."""
        removed = self.removed_heads or ()
        return [h for h in range(self.heads()[kind][1]) if head_name(kind, layer, h) not in removed]


@dataclass(kw_only=True, slots=True)
class OptimConfig:
    """Adam, its learning-rate schedule and the loss it minimises (paper, sections 5.3 and 5.4)."""

    schedule: Schedule = Schedule.inverse_sqrt
    lr: float | None = None  # peak; default (d_model · warmup)^-0.5, the paper's formula
    warmup: int = 4000  # updates of linear rise
    beta1: float = 0.9
    beta2: float = 0.98
    eps: float = 1e-9
    weight_decay: float = 0.0
    clip_norm: float = 1.0  # 0 = no clipping
    label_smoothing: float = 0.1

    def __post_init__(self) -> None:
        """Check ranges."""
        to_choices(self)
        at_least(self, 0, "lr", "warmup", "eps", "weight_decay", "clip_norm")
        share(self, "beta1", "beta2", "label_smoothing")


@dataclass(kw_only=True, slots=True)
class TrainConfig:
    """How long, in which batches, how often to validate, what to keep."""

    max_updates: int | None = None  # whichever of the three comes first; the schedule knows
    max_minutes: float | None = None
    max_epochs: int | None = None
    max_tokens: int | str | None = None  # positions of a batch, each side; default: by the text and
    # device; auto: the most that fits the memory of a GPU
    accumulate: int = 1  # batches per update
    validate_every: int = 500  # updates
    patience: int | None = None  # validations without a better metric before stopping
    metric: Metric = Metric.bleu
    dev_limit: int = 500  # sentences translated (greedily) at each validation
    samples: int = 3  # of them shown
    keep_last: int = 1  # newest step folders kept besides the best
    ema: float = 0.0  # decay of a moving average of the weights, used instead of them; 0 = off
    log_every: int = 50  # updates
    max_skips: int = 10  # non-finite updates in a row before giving up
    sharding: Sharding = Sharding.none  # full: several GPUs share one model too big for each
    snapshots: int = 0  # dev sentences whose attention is kept while training; 0 = none
    snapshot_file: str | None = None  # and your own: source, or source TAB target
    snapshot_pairs: int = 100  # dev pairs that the statistics of a snapshot are over

    def __post_init__(self) -> None:
        """Check ranges."""
        to_choices(self)
        at_least(self, 0, "max_minutes", "dev_limit", "samples", "snapshots")
        at_least(self, 1, "max_updates", "max_epochs", "accumulate")
        at_least_or_auto(self, "max_tokens")
        at_least(self, 1, "validate_every", "patience", "keep_last", "log_every", "max_skips")
        at_least(self, 1, "snapshot_pairs")
        share(self, "ema")

    @property
    def watched(self) -> bool:
        """Whether attention is kept while training."""
        return self.snapshots > 0 or self.snapshot_file is not None

    @property
    def has_end(self) -> bool:
        """Whether the length of training is known beforehand."""
        return (self.max_updates, self.max_minutes, self.max_epochs) != (None, None, None)


@dataclass(kw_only=True, slots=True)
class DecodeConfig:
    """How to translate."""

    search: Search = Search.beam
    beam: int = 5  # 1 = greedy
    alpha: float = 1.0  # length penalty ((5 + |y|) / 6)^alpha of Wu et al. 2016; 0 = none
    n_best: int = 1
    max_len_a: float = 2.0  # at most a · source pieces + b target pieces
    max_len_b: int = 50
    min_len: int = 0  # pieces before the end is allowed
    max_source: int = 1024  # longer inputs are cut, with a warning that names the line
    batch_tokens: int = 4096  # source tokens times beam held in one batch
    temperature: float = 1.0  # sampling
    top_k: int = 0  # sampling: 0 = all
    top_p: float = 1.0  # sampling: nucleus
    seed: int = 1  # sampling

    def __post_init__(self) -> None:
        """Check ranges and that n-best fits the beam."""
        to_choices(self)
        at_least(self, 1, "beam", "n_best", "max_source", "batch_tokens")
        at_least(self, 0, "alpha", "max_len_a", "max_len_b", "min_len", "top_k", "temperature")
        if not 0.0 < self.top_p <= 1.0:
            raise UserError(f"decode.top_p is {self.top_p}, but must be in (0, 1].")
        if self.search is Search.beam and self.n_best > self.beam:
            raise UserError(
                f"decode.n_best={self.n_best} is more than decode.beam={self.beam}: "
                "raise the beam or ask for fewer translations."
            )


@dataclass(kw_only=True, slots=True)
class RunConfig:
    """Everything that decides a training run; stored as config.json in its folder."""

    name: str | None = None  # runs/NAME; default: date and time
    runs: str = "runs"
    resume: bool = False
    seed: int = 1
    device: str = "auto"  # auto, cpu, cuda, cuda:1, mps
    precision: Precision = Precision.auto
    threads: int | None = None  # CPU threads; default: PyTorch's choice
    data: DataConfig = field(default_factory=DataConfig)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    decode: DecodeConfig = field(default_factory=DecodeConfig)

    def __post_init__(self) -> None:
        """Check ranges, and what several groups decide together."""
        to_choices(self)
        at_least(self, 0, "seed")
        at_least(self, 1, "threads")
        longest = self.data.max_length + 1  # with begin or end of sentence
        if self.model.positions is Positions.learned and longest > self.model.max_positions:
            raise UserError(
                f"data.max_length={self.data.max_length} pieces and an end of sentence do not fit "
                f"model.max_positions={self.model.max_positions} learned positions: raise "
                f"model.max_positions, or set data.max_length={self.model.max_positions - 1}."
            )
        if self.model.tying is Tying.all and not self.tokenizer.joint:
            raise UserError(
                "model.tying=all shares one embedding between both languages and needs "
                "tokenizer.joint=true; use model.tying=decoder or none with separate vocabularies."
            )
        if self.optim.schedule is Schedule.linear and not self.train.has_end:
            raise UserError(
                "optim.schedule=linear falls to 0 at the end of training: set train.max_updates, "
                "train.max_minutes or train.max_epochs."
            )
