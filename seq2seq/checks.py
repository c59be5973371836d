"""The checks that configuration dataclasses make on their options, and their one sentence."""

from __future__ import annotations

import dataclasses
import enum
import math

from seq2seq.choices import choice
from seq2seq.errors import UserError


def to_choices(owner: object) -> None:
    """Turn plain strings into choices: `"pre"` equals Norm.pre but is not the same object."""
    for option in dataclasses.fields(owner):  # type: ignore[arg-type]
        kind, name = type(option.default), option.name
        if issubclass(kind, enum.StrEnum):
            setattr(owner, name, choice(kind, getattr(owner, name), key(owner) + name))


def at_least(owner: object, low: float, *names: str) -> None:
    """Insist that options are `low` or more; None is let through, NaN and infinity are not."""
    for name in names:
        value = getattr(owner, name)
        if value is not None and not low <= value < math.inf:  # NaN is refused too
            raise UserError(f"{key(owner)}{name} is {value}, but must be at least {low}.")


def at_least_or_auto(owner: object, name: str) -> None:
    """Insist on a whole number of 1 or more, or the word auto."""
    value = getattr(owner, name)
    if value == "auto":
        return
    if isinstance(value, str):  # Hydra reads numbers as text where text is possible
        try:
            setattr(owner, name, int(value))
        except ValueError:
            message = f"{key(owner)}{name} is {value!r}, but must be a number or auto."
            raise UserError(message) from None
    at_least(owner, 1, name)


def share(owner: object, *names: str) -> None:
    """Insist that options are in [0, 1)."""
    for name in names:
        value = getattr(owner, name)
        if not 0.0 <= value < 1.0:
            raise UserError(f"{key(owner)}{name} is {value}, but must be in [0, 1).")


def key(owner: object) -> str:
    """The group of a configuration as the user writes it, as `model.`; nothing for the whole."""
    group = type(owner).__name__.removesuffix("Config").lower()
    return "" if group == "run" else group + "."
