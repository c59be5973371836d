"""The original Transformer for your own parallel text: train, translate, evaluate, look inside.

Only the version is loaded at once. The names of `_PUBLIC` are imported when they are first used
(PEP 562), so that `import seq2seq` and `seq2seq --help` do not wait for PyTorch.
"""

from __future__ import annotations

import importlib
from typing import Any

from seq2seq.version import __version__

_PUBLIC = {
    "AttentionMaps": "seq2seq.attention_maps",
    "RunConfig": "seq2seq.config",
    "ModelConfig": "seq2seq.config",
    "DecodeConfig": "seq2seq.config",
    "UserError": "seq2seq.errors",
    "Transformer": "seq2seq.model.transformer",
    "Tokenizer": "seq2seq.data.tokenizer",
    "open_corpus": "seq2seq.data.corpus",
    "Translator": "seq2seq.decoding.translator",
    "Translation": "seq2seq.decoding.translator",
    "evaluate": "seq2seq.evaluation",
    "load_run": "seq2seq.run_folder",
    "train": "seq2seq.training.run",
    "capture": "seq2seq.analysis.capture",
}

__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name not in _PUBLIC:
        raise AttributeError(f"module 'seq2seq' has no attribute {name!r}")
    value = getattr(importlib.import_module(_PUBLIC[name]), name)
    globals()[name] = value  # next time without a detour
    return value


def __dir__() -> list[str]:
    """List the lazy names too."""
    return sorted({*globals(), *_PUBLIC})
