"""The file of attention records: named arrays without pickle, beside a header in JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from seq2seq.attention_checks import Array
from seq2seq.errors import UserError

FORMAT_VERSION = 1  # raised when an older reader would misread a newer file


def to_header(facts: Mapping[str, Any]) -> Array:
    """The header, as an array among the others."""
    text = json.dumps({"format_version": FORMAT_VERSION, **facts})
    return np.frombuffer(text.encode("ascii"), dtype=np.uint8)


def from_header(arrays: Mapping[str, Array], name: str | Path) -> dict[str, Any]:
    """The facts in the header of a file's arrays.

    Raises:
        UserError: there is none, or it is of another format.
    """
    try:
        facts: dict[str, Any] = json.loads(arrays["header"].tobytes())
        version = facts.pop("format_version", None)
    except (KeyError, ValueError, AttributeError):
        raise UserError(f"{name} is not an attention record written by this program.") from None
    if version != FORMAT_VERSION:
        ours = f"this program reads version {FORMAT_VERSION}: capture the sentence anew"
        raise UserError(f"{name} has format version {version}; {ours}.")
    return facts


def named(layers: Mapping[str, Iterable[Array]], prefix: str = "") -> dict[str, Array]:
    """The arrays of kinds and layers under their names in a file, such as enc_0."""
    return {
        f"{prefix}{kind}_{i}": array
        for kind, held in layers.items()
        for i, array in enumerate(held)
    }


def gathered(
    layer_ids: Mapping[str, list[int]], arrays: Mapping[str, Array], prefix: str = ""
) -> dict[str, list[Array]]:
    """What `named` wrote.

    Raises:
        KeyError: an array is missing.
    """
    return {
        kind: [arrays[f"{prefix}{kind}_{i}"] for i in range(len(ids))]
        for kind, ids in layer_ids.items()
    }


def read_arrays(path: str | Path) -> dict[str, Array]:
    """All arrays of a .npz file, without unpickling anything.

    Raises:
        UserError: the file is missing, or no such file.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except FileNotFoundError:
        raise UserError(f"{path} does not exist.") from None
    except Exception:  # zip and NumPy each have their own
        raise UserError(f"{path} is not an attention record written by this program.") from None
