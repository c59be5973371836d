"""The list of all configuration options, for `--help`: read from where they are defined.

Names, defaults and comments come from the source of `seq2seq.config`, the choices of each group
from `conf/`, so that the help cannot fall behind either.
"""

from __future__ import annotations

import enum
import inspect
import re
import typing
from dataclasses import fields, is_dataclass
from importlib import resources

CONFIG_MODULE = "seq2seq.conf"
_FIELD = re.compile(r"    (\w+): [^#=]+(?: = [^#]*?)?(?:  # (.*))?$")
_CONTINUED = re.compile(r"^    # (.*)$")


def groups() -> dict[str, dict[str, str]]:
    """The groups of `conf/`: name → choice → first sentence of that file."""
    found: dict[str, dict[str, str]] = {}
    for folder in sorted(resources.files(CONFIG_MODULE).iterdir(), key=lambda entry: entry.name):
        if folder.is_dir():
            files = sorted((f for f in folder.iterdir() if f.name.endswith(".yaml")), key=str)
            if files:
                found[folder.name] = {
                    f.name.removesuffix(".yaml"): _headline(f.read_text(encoding="utf-8"))
                    for f in files
                }
    return found


def describe(schema: type, chosen: typing.Collection[str]) -> str:
    """The help on `key=value` arguments: choices of some groups, and all options of a schema."""
    lines = ["\ngroups (group=choice takes a file of settings):"]
    for group, choices in groups().items():
        if group in chosen:
            width = max(len(f"{group}={choice}") for choice in choices)
            lines += [f"  {f'{group}={name}':<{width}}  {text}" for name, text in choices.items()]
    lines += ["\noptions (key=value; what holds where neither a group nor the run says otherwise):"]
    return "\n".join([*lines, describe_options(schema), ""])


def describe_options(schema: type) -> str:
    """Every option of a schema with its default and its comment, a block for each section.

    Args:
        schema: A configuration dataclass; its sections are fields that are dataclasses themselves.
    """
    hints = typing.get_type_hints(schema)
    sections = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    blocks = [_block("", schema, skip=set(sections))]
    blocks += [_block(f"{name}.", typing.cast(type, hint)) for name, hint in sections.items()]
    return "\n\n".join(block for block in blocks if block)


def _block(prefix: str, schema: type, skip: typing.Collection[str] = ()) -> str:
    comments = _comments(schema)
    rows = []
    for field in fields(schema):
        if field.name not in skip:
            value = "null" if field.default is None else str(field.default)
            value = value.lower() if isinstance(field.default, bool) else value
            comment = comments.get(field.name, "")
            if isinstance(field.default, enum.StrEnum):
                comment = f"{comment} ({' | '.join(type(field.default))})".lstrip()
            rows.append((f"{prefix}{field.name}={value}", comment))
    if not rows:
        return ""
    title = (inspect.getdoc(schema) or "").split("\n")[0]
    lines = [f"  {left:<34}  {comment}".rstrip() for left, comment in rows]
    return "\n".join([f"  # {title}", *lines])


def _comments(schema: type) -> dict[str, str]:
    """The comment behind each field in the source, joined with one that goes on below it."""
    found: dict[str, str] = {}
    last = ""
    for line in inspect.getsource(schema).split("\n"):
        if field := _FIELD.match(line):
            last = field[1]
            found[last] = field[2] or ""
        elif (more := _CONTINUED.match(line)) and last:
            found[last] = f"{found[last]} {more[1]}".strip()
    return found


def _headline(text: str) -> str:
    """The first comment of a YAML file that is not a directive to Hydra."""
    comments = (line[2:] for line in text.split("\n") if line.startswith("# "))
    return next((line for line in comments if not line.startswith("@")), "")
