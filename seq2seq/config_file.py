"""Configurations as dictionaries and as config.json, read and written without Hydra."""

from __future__ import annotations

import dataclasses
import difflib
import enum
import json
import types
import typing
from pathlib import Path
from typing import Any, TypeVar

from seq2seq.choices import choice
from seq2seq.config import RunConfig
from seq2seq.errors import UserError

FORMAT_VERSION = 1  # of config.json; raised when an older reader would misread a newer file

T = TypeVar("T")


def to_dict(config: object) -> dict[str, Any]:
    """A JSON-ready dictionary of a config dataclass."""
    return dataclasses.asdict(config)  # type: ignore[call-overload]


def from_dict(cls: type[T], values: dict[str, Any], where: str = "") -> T:
    """Build `cls` from a dictionary; missing keys take defaults, unknown keys are refused.

    Raises:
        UserError: an unknown key (with the nearest known one) or a value of the wrong type.
    """
    hints = typing.get_type_hints(cls)
    names = [f.name for f in dataclasses.fields(cls)]  # type: ignore[arg-type]
    arguments = {}
    for key, value in values.items():
        if key not in names:
            near = difflib.get_close_matches(key, names, 1)
            hint = f"; did you mean {where}{near[0]}?" if near else "."
            raise UserError(f"Unknown key {where}{key} in the configuration{hint}")
        arguments[key] = _convert(hints[key], value, where + key)
    return cls(**arguments)


def _convert(hint: Any, value: Any, where: str) -> Any:
    if isinstance(hint, types.UnionType):
        hints = [h for h in typing.get_args(hint) if h is not types.NoneType]
        if value is None or type(value) in hints:
            return value
        hint = hints[0]
    if dataclasses.is_dataclass(hint) and isinstance(value, dict):
        return from_dict(typing.cast(type, hint), value, where + ".")
    if isinstance(hint, type) and issubclass(hint, enum.StrEnum):
        return choice(hint, value, where)
    if typing.get_origin(hint) is list and isinstance(value, list):
        (item,) = typing.get_args(hint)
        return [_convert(item, entry, f"{where}[{i}]") for i, entry in enumerate(value)]
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is not hint:
        raise UserError(f"{where} is {value!r}, but must be of type {hint.__name__}.")
    return value


def save_config(config: RunConfig, path: Path) -> None:
    """Write config.json, replacing an older one in one step."""
    content = {"format_version": FORMAT_VERSION, **to_dict(config)}
    temporary = path.with_suffix(".json.new")
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


def load_config(path: Path) -> RunConfig:
    """Read config.json.

    Raises:
        UserError: the file is missing, unreadable, of a newer format, or holds an unknown key.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path} does not exist: is {path.parent} a run folder?") from None
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from None
    except ValueError as error:  # not UTF-8, or not JSON
        raise UserError(f"{path} is not valid JSON ({error}).") from None
    if not isinstance(content, dict):
        raise UserError(f"{path} does not hold a configuration: copy the run's own file anew.")
    version = content.pop("format_version", None)
    if version != FORMAT_VERSION:
        raise UserError(
            f"{path} has format version {version}; this program reads version {FORMAT_VERSION}. "
            "Use the version of the program that wrote it, or train anew."
        )
    return from_dict(RunConfig, content)
