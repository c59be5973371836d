"""The run folder, the unit of sharing: how it is laid out and read.

config.json, corpus.json, tokenizer.model (or one a language), metrics.jsonl, samples/, step-N/ with
model.safetensors (weights) and, in the newest, training.pt (what resuming needs), best.json and
last.json (which step), finished.json. Reading needs neither Hydra nor pickled code.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open

from seq2seq.choices import Precision, choice
from seq2seq.config import RunConfig
from seq2seq.config_file import load_config
from seq2seq.data.tokenizer import Tokenizer
from seq2seq.device import DTYPES, resolve_device, resolve_precision, set_products
from seq2seq.errors import UserError
from seq2seq.model.transformer import Transformer

CONFIG, METRICS, FINISHED = "config.json", "metrics.jsonl", "finished.json"
CORPUS = "corpus.json"  # tells the training text from any other
WEIGHTS, TRAINING = "model.safetensors", "training.pt"
REMOVED = "removed_heads"  # metadata of weights: layers of one shape may hold different heads


@dataclass(frozen=True)
class LoadedRun:
    """A trained model with all that belongs to it; the model is in evaluation mode."""

    model: Transformer
    tokenizer: Tokenizer
    config: RunConfig
    path: Path
    step: int
    device: torch.device


def load_run(
    run: str | Path,
    *,
    device: str = "auto",
    checkpoint: str = "best",
    precision: str = "fp32",
) -> LoadedRun:
    """Read a run folder.

    Args:
        run: the folder.
        device: where to put the model.
        checkpoint: best, last, or a step folder's name such as step-500.
        precision: fp32; bf16 or fp16, to which the weights are rounded; auto, the fastest there.

    Raises:
        UserError: not a run folder, no such checkpoint, or files that do not belong together.
    """
    path = Path(run)
    if not path.is_dir():
        raise UserError(f"{path} is not a folder: give the run folder that training printed.")
    config = load_config(path / CONFIG)
    tokenizer = Tokenizer.load(path, config.tokenizer.normalization)
    check_vocabulary(config, tokenizer, path)
    folder = step_folder(path, checkpoint)
    target = resolve_device(device)
    model = Transformer(config.model)
    load_weights(model, folder / WEIGHTS)
    exact = resolve_precision(Precision(choice(Precision, precision, "--precision")), target)
    set_products(exact)
    model = model.to(target, DTYPES[exact]).eval()
    return LoadedRun(model, tokenizer, config, path, step_of(folder), target)


def check_vocabulary(config: RunConfig, tokenizer: Tokenizer, path: Path) -> None:
    """Refuse a tokenizer that the model was not trained with."""
    found = (tokenizer.source_vocab, tokenizer.target_vocab)
    trained = (config.model.source_vocab, config.model.target_vocab)
    if found != trained:
        raise UserError(
            f"The tokenizer in {path} has {found[0]} source and {found[1]} target pieces, but the "
            f"model was trained with {trained[0]} and {trained[1]}: put back the run's own files."
        )


def load_weights(model: Transformer, file: Path) -> None:
    """Fill `model` from a safetensors file.

    Raises:
        UserError: missing or damaged file, weights of another architecture or of other heads.
    """
    if not file.exists():
        raise UserError(f"{file} does not exist.")
    lacking, expected = removed_heads(file), " ".join(model.config.removed_heads or ())
    if lacking and lacking != expected:
        raise UserError(
            f"{file} lacks the heads {lacking}, but the model of config.json lacks "
            f"{expected or 'none'}: put back the run's own files."
        )
    try:
        safetensors.torch.load_model(model, file)
    except (SafetensorError, OSError):
        raise _damaged(file) from None
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[-1].strip()
        raise UserError(f"{file} does not fit the model of config.json ({reason}).") from None


def removed_heads(file: Path) -> str:
    """The names of the heads that the model of a weights file lacks; "" if it has all.

    Raises:
        UserError: the file is damaged.
    """
    try:
        with safe_open(file, framework="pt") as content:
            return str((content.metadata() or {}).get(REMOVED, ""))
    except (SafetensorError, OSError):
        raise _damaged(file) from None


def _damaged(file: Path) -> UserError:
    return UserError(f"{file} is damaged: copy it anew, or use another checkpoint.")


def step_folder(path: Path, checkpoint: str) -> Path:
    """The folder of one checkpoint: best, last, or by name.

    Raises:
        UserError: no such checkpoint; names those there are.
    """
    if checkpoint in {"best", "last"}:
        pointer = path / f"{checkpoint}.json"
        if not pointer.exists():
            raise UserError(f"{path} has no {checkpoint} checkpoint; {_checkpoints_there(path)}.")
        checkpoint = f"step-{_pointed_at(pointer)}"
    folder = path / (f"step-{checkpoint}" if checkpoint.isdecimal() else checkpoint)
    if not (folder / WEIGHTS).is_file():
        raise UserError(f"{path} has no checkpoint {checkpoint}; {_checkpoints_there(path)}.")
    return folder


def weights_hash(path: Path, checkpoint: str) -> str:
    """Twelve hexadecimal digits that tell a checkpoint's weights from any others.

    Raises:
        UserError: no such checkpoint.
    """
    with (step_folder(path, checkpoint) / WEIGHTS).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:12]


def trained_on(path: Path) -> str | None:
    """The fingerprint of the corpus that a run was trained on; None if it does not say."""
    try:
        fingerprint = json.loads((path / CORPUS).read_text(encoding="utf-8"))["fingerprint"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return str(fingerprint)


def _pointed_at(pointer: Path) -> int:
    try:
        return int(json.loads(pointer.read_text(encoding="utf-8"))["step"])
    except (OSError, ValueError, KeyError, TypeError):
        raise UserError(
            f"{pointer} is damaged: name a checkpoint, {_checkpoints_there(pointer.parent)}."
        ) from None


def _checkpoints_there(path: Path) -> str:
    steps = [folder.name for folder in step_folders(path)]
    others = sorted(file.parent.name for file in path.glob(f"*/{WEIGHTS}"))  # averages
    names = [*steps, *(name for name in others if name not in steps and name[0] != ".")]
    return f"there are: {', '.join(names)}" if names else "training has saved none yet"


def step_folders(path: Path) -> list[Path]:
    """All complete checkpoints of a run, oldest first."""
    folders = [f.parent for f in path.glob(f"step-*/{WEIGHTS}") if f.parent.name[5:].isdecimal()]
    return sorted(folders, key=step_of)


def step_of(folder: Path) -> int:
    """The number of updates after which a step folder was written; 0 for averages."""
    number = folder.name.removeprefix("step-")
    return int(number) if number.isdecimal() else 0
