"""From `group=choice key=value` arguments to a typed configuration: Hydra, and its errors in words.

Hydra composes the YAML files of `conf/` over the schema of a command (a dataclass of
`seq2seq.config`), so that an unknown key in any file or argument is an error. What it composed
becomes plain dataclasses here; nothing below the command line knows of Hydra or OmegaConf.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import itertools
import re
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from hydra import compose as hydra_compose
from hydra import initialize_config_module
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException, OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml.error import MarkedYAMLError

from seq2seq.cli.options import CONFIG_MODULE, groups
from seq2seq.config_file import from_dict, to_dict
from seq2seq.errors import UserError

T = TypeVar("T")

_ASSIGNMENT = re.compile(r"(?P<key>[A-Za-z_][\w./@]*)=(?P<value>.*)", re.DOTALL)


def compose(
    entry: str,
    schema: type[T],
    overrides: list[str],
    values: dict[str, object] | None = None,
    *,
    start: T | None = None,
    config_dir: str | None = None,
) -> T:
    """Compose the configuration of a command.

    Args:
        entry: The entry file: `conf/{entry}.yaml`, whose first default is `{entry}_schema`.
        schema: The dataclass to be filled.
        overrides: `group=choice` and `key=value` arguments in Hydra's grammar. The value of a text
            option is taken literally, so that it may hold any character without quotes.
        values: Dotted key → value set last and as they are: what ordinary flags gave.
        start: The values that the YAML files and overrides start from; default: the schema's.
        config_dir: A folder of the user's own YAML files, searched after ours.

    Raises:
        UserError: an unknown key or choice (the nearest one is named), or a value of a wrong type.
    """
    overrides = _quote_texts(_normalize(overrides), schema)
    if config_dir is not None:
        overrides.append(_search_path(config_dir))
    composed = _compose(entry, start or schema, overrides, option_names(schema))
    for key, value in (values or {}).items():
        *sections, name = key.split(".")
        section = composed
        for part in sections:
            section = section[part]
        section[name] = value
    return from_dict(schema, composed)


def _compose(entry: str, schema: object, overrides: list[str], known: list[str]) -> dict[str, Any]:
    ConfigStore.instance().store(name=f"{entry}_schema", node=schema)
    with in_words(known), initialize_config_module(CONFIG_MODULE, version_base="1.3"):
        composed = hydra_compose(entry, overrides)
        plain = OmegaConf.to_container(composed, resolve=True, enum_to_str=True)
    return typing.cast(dict[str, Any], plain)


def as_yaml(config: object) -> str:
    """The configuration as YAML, for `--cfg job`."""
    return OmegaConf.to_yaml(DictConfig(to_dict(config)))


def sweep(overrides: list[str]) -> list[list[str]]:
    """Expand `a=1,2 b=3,4`, `range(…)` and `glob(…)` into one list of overrides for each point.

    Raises:
        UserError: an override that Hydra cannot parse.
    """
    axes: list[list[str]] = []
    with in_words([]):
        for override in OverridesParser.create().parse_overrides(_normalize(overrides)):
            if override.is_discrete_sweep():
                points = override.sweep_string_iterator()
                axes.append([f"{override.key_or_group}={point}" for point in points])
            else:
                axes.append([str(override.input_line)])
    return [list(point) for point in itertools.product(*axes)]


def option_names(schema: type, prefix: str = "") -> list[str]:
    """The dotted names of all options of a schema, in order."""
    names = []
    for name, hint in typing.get_type_hints(schema).items():
        if dataclasses.is_dataclass(hint):
            names += option_names(typing.cast(type, hint), f"{prefix}{name}.")
        else:
            names.append(prefix + name)
    return names


def is_choice(override: str, group: str | None = None) -> bool:
    """Whether an override chooses a file of a group (`experiment=multi30k`) rather than a value."""
    found = _ASSIGNMENT.fullmatch(override)
    name = found["key"] if found else ""
    return name == group if group else name in groups()


def _text_names(schema: type, prefix: str = "") -> set[str]:
    """The options whose type is text: `str` or `str | None`."""
    names: set[str] = set()
    for name, hint in typing.get_type_hints(schema).items():
        if dataclasses.is_dataclass(hint):
            names |= _text_names(typing.cast(type, hint), f"{prefix}{name}.")
        elif hint is str or str in typing.get_args(hint):
            names.add(prefix + name)
    return names


def _normalize(overrides: list[str]) -> list[str]:
    """Check the form of overrides; drop Hydra's `+`, since no key can be added to a schema.

    Raises:
        UserError: not of the form key=value, or a setting of Hydra itself, which has no effect.
    """
    stripped = [re.sub(r"^\+{1,2}", "", override) for override in overrides]
    for override in stripped:
        if not _ASSIGNMENT.fullmatch(override):
            raise UserError(f"Cannot read {override!r}: give --flags and key=value.")
        if override.startswith(("hydra.", "hydra/")):
            raise UserError(f"{override}: Hydra's own settings are for --multirun.")
    return stripped


def _quote_texts(overrides: list[str], schema: type) -> list[str]:
    """Quote the values of text options, which Hydra's grammar would otherwise refuse or alter.

    It stumbles over non-ASCII letters, `=`, `,`, `~` and `(`, and reads 007 as 7. Quoted values,
    interpolations `${…}`, `null` and nothing at all keep their meaning.
    """
    names = _text_names(schema)
    quoted = []
    for override in overrides:
        key, _, value = override.partition("=")
        if key in names and value not in ("", "null") and not re.match(r"""["']|.*\$\{""", value):
            value = str(Path(value).expanduser()) if value.startswith("~/") else value
            override = f"{key}={quote(value)}"
        quoted.append(override)
    return quoted


def _search_path(config_dir: str) -> str:
    if not Path(config_dir).is_dir():
        raise UserError(f"--config-dir {config_dir} is not a folder (looked from {Path.cwd()}).")
    return f"hydra.searchpath=[{quote('file://' + str(Path(config_dir).resolve()))}]"


def quote(text: str) -> str:
    """Quote a text so that Hydra's grammar and OmegaConf's interpolation leave it alone."""
    escaped = re.sub(r"(\\*)'", lambda found: found[1] * 2 + r"\'", text)
    return "'" + re.sub(r"(\\+)$", lambda found: found[1] * 2, escaped) + "'"


@contextlib.contextmanager
def in_words(known: list[str]) -> Iterator[None]:
    """Turn what Hydra and OmegaConf raise into one sentence."""
    try:
        yield
    except (HydraException, OmegaConfBaseException) as error:
        raise UserError(_explain(error, known)) from None
    except MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"{mark.name}, line {mark.line + 1}" if mark else "A configuration file"
        raise UserError(f"{place}: not valid YAML ({error.problem}).") from None


def _explain(error: Exception, known: list[str]) -> str:
    message = f"{error}\n{error.__cause__ or ''}"
    if found := re.search(r"Could not find '([^']+)/([^']+)'", message):
        if found[1] == "hydra/launcher":
            return (
                f"There is no hydra/launcher={found[2]}: pip install 'seq2seq-attention[cluster]' "
                "brings joblib, submitit_local and submitit_slurm."
            )
        return f"There is no {found[1]}={found[2]}: {_nearest_choice(found[1], found[2])}"
    key = _first(r"full_key: (\S+)", message)
    if key and "not in '" in message:
        file = _first(r"^In '([^']+)'", message)
        return f"Unknown key {key}{f' in {file}.yaml' if file else ''}: {nearest(key, known)}"
    if isinstance(error, OverrideParseException):
        return _unreadable(error.override)
    if found := re.search(r"Ambiguous value for argument '([^']*)'", message, re.DOTALL):
        return f"{found[1]} gives several values: choose one, or try each in turn with --multirun."
    cause = str(error.__cause__ or error).split("\n")[0].rstrip(".")
    return f"{key}: {cause}." if key else f"Configuration: {cause}."


def _first(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    return found[1] if found else ""


def _unreadable(override: str) -> str:
    key, _, value = override.partition("=")
    quoted = f"{key}={quote(value)}"
    return (
        f"Cannot read {override!r}: a value with special characters needs quotes, which the shell "
        f'must not take away: "{quoted}".'
    )


def nearest(key: str, known: list[str]) -> str:
    """A hint for a key that does not exist: the option or group that was probably meant."""
    if key in groups():
        return "this command does not set it; see --help."
    same_leaf = [name for name in known if name.rpartition(".")[2] == key.rpartition(".")[2]]
    near = same_leaf or difflib.get_close_matches(key, [*known, *groups()], 1)
    return f"did you mean {near[0]}?" if near else "see --help for all of them."


def _nearest_choice(group: str, choice: str) -> str:
    choices = list(groups().get(group, {}))
    near = difflib.get_close_matches(choice, choices, 1)
    hint = f"did you mean {near[0]}? " if near else ""
    return f"{hint}Choices: {', '.join(choices) or 'none'}."
