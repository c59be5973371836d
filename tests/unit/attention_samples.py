"""Records, models and run folders that the tests of capture and pictures share."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import safetensors.torch
import torch

from seq2seq.attention_maps import KINDS, AttentionMaps, QueryKey
from seq2seq.choices import Activation, Tying
from seq2seq.config import ModelConfig, RunConfig
from seq2seq.config_file import save_config
from seq2seq.data.tokenizer import Tokenizer, train_tokenizer
from seq2seq.model.transformer import Transformer

SENTENCES = [
    (
        "The developer deployed the application because it was ready.",
        "Der Entwickler lieferte die Anwendung aus, weil sie bereit war.",
    ),
    ("The database rejected the request.", "Die Datenbank lehnte die Anfrage ab."),
    (
        "The animal crossed the road because it was frightened.",
        "Das Tier lief über die Straße, weil es Angst hatte.",
    ),
]


def softmax(scores: np.ndarray) -> np.ndarray:
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return (e / e.sum(-1, keepdims=True)).astype(np.float32)


def make_record(
    src: Sequence[str] = ("▁it", "▁appli", "cation"),
    tgt: Sequence[str] = ("▁die", "▁Anwen", "dung", "▁war"),
    *,
    shape: dict[str, tuple[int, int]] | None = None,  # kind → (layers, heads)
    seed: int = 0,
) -> AttentionMaps:
    """A record with random weights; by default encoder 2 × 4, decoder 3 × 2."""
    shape = shape or {"enc": (2, 4), "dec": (3, 2), "cross": (3, 2)}
    rng = np.random.default_rng(seed)
    s, t = len(src) + 1, len(tgt) + 1
    size = {"enc": (s, s), "dec": (t, t), "cross": (t, s)}
    arrays = {}
    for kind, (layers, heads) in shape.items():
        scores = rng.normal(size=(layers, heads, *size[kind])) * 2
        if kind == "dec":
            scores = np.where(np.tri(t, dtype=bool), scores, -np.inf)
        arrays[kind] = list(softmax(scores))
    return AttentionMaps(
        **arrays,
        layer_ids={kind: list(range(shape[kind][0])) for kind in KINDS},
        head_ids={kind: [list(range(shape[kind][1]))] * shape[kind][0] for kind in KINDS},
        src=[*src, "</s>"],
        tgt_in=["<s>", *tgt],
        tgt_out=[*tgt, "</s>"],
        special={
            "src": np.arange(s) == s - 1,
            "tgt_in": np.arange(t) == 0,
            "tgt_out": np.arange(t) == t - 1,
        },
        text={"source": "it application", "target": "die Anwendung war"},
        logprob=rng.normal(size=t).astype(np.float32) - 3,
        meta={"run": "demo", "step": 100, "how": "decoded", "decode": "beam 5", "level": "piece"},
    )


def with_more(maps: AttentionMaps, seed: int = 0, width: int = 4) -> AttentionMaps:
    """Other weights of the same shape, with the queries and keys they come from, and norms."""
    rng = np.random.default_rng(seed)
    arrays: dict[str, list[np.ndarray]] = {kind: [] for kind in KINDS}
    qk: dict[str, list[QueryKey]] = {kind: [] for kind in KINDS}
    norms: dict[str, list[np.ndarray]] = {kind: [] for kind in KINDS}
    for kind in KINDS:
        for old in maps.layers(kind):
            heads, queries, keys = old.shape
            query, key = (
                rng.normal(size=(heads, n, width)).astype("f") * 1.6 for n in (queries, keys)
            )
            both = QueryKey(query, key)
            scores = both.scores
            if kind == "dec":
                scores = np.where(np.tri(queries, dtype=bool), scores, -np.inf)
            qk[kind].append(both)
            arrays[kind].append(softmax(scores))
            length = rng.uniform(0.1, 3, size=(heads, 1, keys)).astype("f")
            norms[kind].append(arrays[kind][-1] * length)
    return replace(maps, **arrays, norms=norms, qk=qk)


def with_weights(maps: AttentionMaps, kind: str, layer: int, weights: np.ndarray) -> AttentionMaps:
    layers = maps.layers(kind)
    layers[layer] = weights
    return replace(maps, **{kind: layers})


def without_heads(maps: AttentionMaps, kind: str, layer: int, kept: list[int]) -> AttentionMaps:
    """As if all heads of a layer but `kept` had been pruned."""
    ids = [list(i) for i in maps.head_ids[kind]]
    pruned = with_weights(maps, kind, layer, maps.layers(kind)[layer][kept])
    ids[layer] = kept
    return replace(pruned, head_ids={**maps.head_ids, kind: ids})


def make_tokenizer() -> Tokenizer:
    config = RunConfig().tokenizer
    config.vocab_size = 90
    pairs = SENTENCES * 3
    return train_tokenizer(config, [s for s, _ in pairs], [t for _, t in pairs])


def make_model(tokenizer: Tokenizer, **changes: object) -> Transformer:
    """d 16, encoder 2 layers × 4 heads, decoder 3 layers × 2 heads, float64, seed 0."""
    torch.manual_seed(0)
    options: dict[str, object] = {
        "d_model": 16,
        "d_ff": 32,
        "encoder_layers": 2,
        "encoder_heads": 4,
        "decoder_layers": 3,
        "decoder_heads": 2,
        "activation": Activation.relu,
        "tying": Tying.all,
        "source_vocab": tokenizer.source_vocab,
        "target_vocab": tokenizer.target_vocab,
    }
    model = Transformer(ModelConfig(**(options | changes)))  # type: ignore[arg-type]
    for parameter in model.parameters():  # larger than at the start of training: peaked maps
        if parameter.dim() > 1:
            parameter.data.mul_(1.5)
    return model.double().eval()


@dataclass
class FakeTranslation:
    text: str
    tokens: list[str]
    hit_limit: bool = False
    cut: bool = False


def make_run(folder: Path) -> Path:
    """A run folder with an untrained model."""
    tokenizer = make_tokenizer()
    model = make_model(tokenizer).float()
    config = RunConfig(model=model.config)
    config.decode.max_len_b, config.decode.max_len_a = 5, 1.0
    (folder / "step-7").mkdir(parents=True)
    save_config(config, folder / "config.json")
    tokenizer.save(folder)
    safetensors.torch.save_model(model, str(folder / "step-7" / "model.safetensors"))
    for pointer in ("best", "last"):
        (folder / f"{pointer}.json").write_text(json.dumps({"step": 7}), encoding="utf-8")
    return folder
