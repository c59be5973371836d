"""Sentence pairs out of translators' files: TMX, PO and XLIFF, read by translate-toolkit.

The toolkit is an optional dependency and keeps a whole file in memory while it is read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from seq2seq.data.lines import Pair, check_file, is_blank, write_lines
from seq2seq.errors import UserError

XML_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
# Elements whose text is markup of the original document, not words. TMX and XLIFF share the names.
CODES = frozenset({"bpt", "ept", "ph", "it", "ut", "x", "bx", "ex"})
LINE_BREAKS = re.compile("[\t\n\v\f\r\x1c-\x1e\x85\u2028\u2029]+")

Reader = Callable[[Path, str, str, "Counter[str]"], Iterator[tuple[str | None, str | None]]]


def convert(
    files: list[Path], source_lang: str, target_lang: str, prefix: Path
) -> tuple[int, Counter[str]]:
    """Write all sentence pairs of `files` to PREFIX.source_lang and PREFIX.target_lang.

    Units that are fuzzy, untranslated or obsolete, and those without one of the languages, are
    left out. Line breaks and tabs within a unit become spaces; inline markup is removed.

    Args:
        files: .tmx, .po, .xlf, .xliff files, in any mixture.
        source_lang: language code; `en` also finds `en-US`.
        target_lang: language code.
        prefix: path of the two files without the language; neither may exist.

    Returns:
        The number of pairs written, and of units left out by reason.

    Raises:
        UserError: translate-toolkit is missing; a file cannot be read, is of another kind, or is
            in other languages; nothing was found; the output exists.
    """
    if source_lang == target_lang:
        raise UserError(f"--source-lang and --target-lang are both {source_lang}: give two.")
    outputs = [prefix.with_name(f"{prefix.name}.{code}") for code in (source_lang, target_lang)]
    for path in outputs:
        if path.exists():
            raise UserError(f"--out: {path} exists already; choose another prefix.")
    dropped: Counter[str] = Counter()
    pairs = [pair for file in files for pair in read_units(file, source_lang, target_lang, dropped)]
    if not pairs:
        reasons = ", ".join(f"{count} {reason}" for reason, count in dropped.items())
        raise UserError(
            f"No {source_lang}–{target_lang} pair in {', '.join(map(str, files))} "
            f"(left out: {reasons or 'nothing'})."
        )
    prefix.parent.mkdir(parents=True, exist_ok=True)
    for side, path in enumerate(outputs):
        write_lines(path, (pair[side] for pair in pairs))
    return len(pairs), dropped


def read_units(
    path: Path, source_lang: str, target_lang: str, dropped: Counter[str]
) -> Iterator[Pair]:
    """Yield the translated pairs of one file; count the other units in `dropped` by reason.

    Raises:
        UserError: see `convert`.
    """
    check_file(path)
    readers: dict[str, Reader] = {
        ".tmx": _tmx_units,
        ".po": _po_units,
        ".xlf": _xliff_units,
        ".xliff": _xliff_units,
    }
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise UserError(f"{path} is none of the kinds {', '.join(readers)}, by its name.")
    for source, target in reader(path, source_lang, target_lang, dropped):
        pair = (_one_line(source), _one_line(target))
        if is_blank(pair[0]) or is_blank(pair[1]):
            dropped["untranslated"] += 1
        else:
            yield pair


def _load(path: Path, module: str, name: str) -> Any:
    """Parse `path` with the class `name` of translate.storage.`module`."""
    try:
        storage = __import__(f"translate.storage.{module}", fromlist=[name])
    except ImportError:
        raise UserError(
            f"Reading {path} needs translate-toolkit: pip install 'seq2seq-attention[formats]'."
        ) from None
    try:
        return getattr(storage, name).parsefile(str(path))
    except Exception as error:  # its parsers raise whatever their libraries do
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UserError(f"{path} cannot be read as {path.suffix[1:].upper()}: {reason}.") from None


def _tmx_units(
    path: Path, source_lang: str, target_lang: str, dropped: Counter[str]
) -> Iterator[tuple[str | None, str | None]]:
    languages: set[str] = set()
    found = False
    for unit in _load(path, "tmx", "tmxfile").units:
        nodes = unit.getlanguageNodes()
        texts = {(node.get(XML_LANG) or node.get("lang") or "").lower(): node for node in nodes}
        languages.update(texts)
        source, target = (_choose(texts, code) for code in (source_lang, target_lang))
        if source is None or target is None:
            dropped["in other languages"] += 1
            continue
        found = True
        yield _segment(source), _segment(target)
    if not found:
        raise UserError(
            f"{path} has no unit in both {source_lang} and {target_lang}; its languages are "
            f"{', '.join(sorted(languages)) or 'none'}."
        )


def _choose(texts: dict[str, Any], code: str) -> Any | None:
    """The text in a language: of exactly this code, or else the first of its variants."""
    code = code.lower().replace("_", "-")
    if code in texts:
        return texts[code]
    return next((node for name, node in texts.items() if _same_language(name, code)), None)


def _same_language(first: str, second: str) -> bool:
    """Whether two codes name one language: en is also en-US, but en-GB is not."""
    first, second = (code.lower().replace("_", "-") for code in (first, second))
    return first == second or first.startswith(second + "-") or second.startswith(first + "-")


def _segment(variant: Any) -> str:
    return "".join(_visible(node) for node in variant.iterdescendants("{*}seg"))


def _visible(node: Any) -> str:
    """The text of an XML element without the markup of the original document in it."""
    parts = [node.text or ""]
    for child in node:
        # Comments and processing instructions have a function for a tag.
        name = child.tag.rpartition("}")[2] if isinstance(child.tag, str) else "x"
        if name not in CODES:
            parts.append(_visible(child))
        parts.append(child.tail or "")
    return "".join(parts)


def _po_units(
    path: Path, source_lang: str, target_lang: str, dropped: Counter[str]
) -> Iterator[tuple[str | None, str | None]]:
    store = _load(path, "pypo", "pofile")
    header = store.parseheader()
    _check_language(path, header.get("X-Source-Language"), source_lang)
    _check_language(path, header.get("Language"), target_lang)
    for unit in store.units:
        if unit.isheader():
            continue
        if unit.isobsolete():
            dropped["obsolete"] += 1
        elif unit.isfuzzy():
            dropped["fuzzy"] += 1
        elif unit.hasplural():
            sources, targets = unit.source.strings, unit.target.strings
            yield str(sources[0]), str(targets[0])
            yield str(sources[-1]), str(targets[-1])
        else:
            yield str(unit.source), str(unit.target)


def _xliff_units(
    path: Path, source_lang: str, target_lang: str, dropped: Counter[str]
) -> Iterator[tuple[str | None, str | None]]:
    with path.open("rb") as file:
        second = re.search(rb"<xliff[^>]*\sversion=[\"']2", file.read(4096))
    store = _load(path, "xliff2", "Xliff2File") if second else _load(path, "xliff", "xlifffile")
    _check_language(path, store.sourcelanguage, source_lang)
    _check_language(path, store.targetlanguage, target_lang)
    for unit in store.units:
        target = unit.target_dom
        if unit.isheader() or not unit.istranslatable():
            dropped["not translatable"] += 1
        elif target is None:
            dropped["untranslated"] += 1
        elif _unfinished(unit.xmlelement, target):
            dropped["fuzzy"] += 1
        else:
            yield _visible(unit.source_dom), _visible(target)


def _unfinished(unit: Any, target: Any) -> bool:
    """Whether a unit of XLIFF 1 (state of the target) or 2 (of the segment) awaits work.

    Few tools write approved="yes", so its absence alone says nothing.
    """
    state = target.get("state") or unit.get("state")
    if state:
        return bool(state.startswith("needs-") or state in ("new", "initial"))
    return bool(unit.get("approved") == "no")


def _check_language(path: Path, found: str | None, wanted: str) -> None:
    if found and not _same_language(found, wanted):
        raise UserError(
            f"{path} says that it is in {found}, not in {wanted}: check --source-lang and "
            "--target-lang."
        )


def _one_line(text: str | None) -> str:
    return LINE_BREAKS.sub(" ", text or "").strip()
