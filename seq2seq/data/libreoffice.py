"""A real parallel corpus from LibreOffice's help: pages in about 35 languages, aligned by id.

Debian packages the help of each language as HTML. A page has the same path in every language and
its paragraphs and headings the same ids, so alignment needs no guessing. The text is under the
Mozilla Public License 2.0; the folder that `build` writes says so and carries the notices.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path

from seq2seq.data.lines import check_new_folder, write_lines
from seq2seq.errors import UserError

PACKAGE = "libreoffice-help-"
ENGLISH = "en-us"
HELP = Path("usr/share/libreoffice/help")
BLOCKS = frozenset({"p", "h", "h1", "h2", "h3", "h4", "h5", "h6"})
SHARED_ID = re.compile(r"[a-z]+_i[di]")  # par_id3154664, hd_id…, par_idN1064A, par_ii…
BROKEN = re.compile(r"\[text/\S+ not found\]")  # left where embedding another page failed
PARTS = ("train", "dev", "test")
HELD_OUT = 3  # per cent of the pages for dev, and as many for test

NOTICE = """\
# English – {language}: sentences of the LibreOffice help

Made from the Debian packages {packages}.
The text is © its LibreOffice contributors and available under the Mozilla Public License 2.0
(https://www.mozilla.org/MPL/2.0/); what you distribute of it stays under that licence. The notices
of the packages are in copyright.* beside this file. The source is https://git.libreoffice.org/help.

Paragraphs of the same page and id were paired, markup removed and white space normalised; pairs
that are untranslated, without letters, or repeated were left out. Pages are held out whole: no
English sentence of dev or test occurs in train.

{counts}
"""


class _Page(HTMLParser):
    """Collects the text of each block that has an id shared between languages.

    Text that depends on the system or the application stands on the page in every variant, as
    spans within one of class "switchinline": the default variant is kept, or else the first.
    """

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[str, str]] = []
        self._id: str | None = None
        self._text: list[str] = []
        self._spans: list[tuple[str, int]] = []  # kind, and length of _text at the start
        self._variants: list[dict[str, str]] = []  # of each open switch: kind → text

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag in BLOCKS:
            self._close()
            name = values.get("id") or ""
            self._id = name if SHARED_ID.match(name) else None
        elif tag == "span":
            self._open_span(values)
        elif tag in ("br", "img"):
            self._text.append(" ")

    def handle_endtag(self, tag: str) -> None:
        if tag in BLOCKS:
            self._close()
        elif tag == "span" and self._spans:
            self._close_span()

    def handle_data(self, data: str) -> None:
        self._text.append(data)

    def _open_span(self, values: dict[str, str | None]) -> None:
        kind = ""
        if values.get("class") == "switchinline":
            kind = "switch"
            self._variants.append({})
        elif self._spans and self._spans[-1][0] == "switch":
            kind = "default" if (values.get("id") or "").startswith("default") else "first"
        self._spans.append((kind, len(self._text)))

    def _close_span(self) -> None:
        kind, start = self._spans.pop()
        if not kind:
            return
        text = "".join(self._text[start:])
        del self._text[start:]
        if kind == "switch":
            variants = self._variants.pop()
            self._text.append(variants.get("default", variants.get("first", "")))
        else:
            self._variants[-1].setdefault(kind, text)

    def _close(self) -> None:
        if self._id is not None:
            self.found.append((self._id, " ".join("".join(self._text).split())))
        self._id, self._text, self._spans, self._variants = None, [], [], []


def paragraphs(html: str) -> dict[tuple[str, int], str]:
    """The text of a help page's paragraphs and headings by (id, occurrence on the page).

    Markup, icons and code samples are gone, and white space is single spaces.
    """
    page = _Page()
    page.feed(html)
    page.close()
    seen: Counter[str] = Counter()
    result = {}
    for name, text in page.found:
        result[name, seen[name]] = text
        seen[name] += 1
    return result


def align(source: Path, target: Path) -> Iterator[tuple[str, str, str]]:
    """Yield (page, source text, target text) for every paragraph that both help folders have.

    A paragraph id that occurs a different number of times on the two pages is passed over.
    """
    for file in sorted(source.rglob("*.html")):
        page = file.relative_to(source)
        other = target / page
        if not other.is_file():
            continue
        ours = paragraphs(file.read_text(encoding="utf-8"))
        theirs = paragraphs(other.read_text(encoding="utf-8"))
        counts, other_counts = (Counter(name for name, _ in side) for side in (ours, theirs))
        for key, text in ours.items():
            if key in theirs and counts[key[0]] == other_counts[key[0]]:
                yield page.as_posix(), text, theirs[key]


def clean(
    pairs: Iterable[tuple[str, str, str]], dropped: Counter[str]
) -> Iterator[tuple[str, str, str]]:
    """Drop empty, untranslated, broken and repeated pairs and count them in `dropped` by reason."""
    seen = set()
    for page, source, target in pairs:
        if not _has_letters(source) or not _has_letters(target):
            dropped["without letters"] += 1
        elif source == target:
            dropped["untranslated"] += 1
        elif BROKEN.search(source) or BROKEN.search(target):
            dropped["broken"] += 1
        elif (source, target) in seen:
            dropped["repeated"] += 1
        else:
            seen.add((source, target))
            yield page, source, target


def divide(pairs: Iterable[tuple[str, str, str]]) -> dict[str, list[tuple[str, str]]]:
    """Put whole pages into train, dev and test, always the same pages.

    A training pair whose source sentence also stands in dev or test is left out, and so is a test
    pair whose source stands in dev.
    """
    parts: dict[str, list[tuple[str, str]]] = {part: [] for part in PARTS}
    for page, source, target in pairs:
        share = int(sha256(page.encode()).hexdigest(), 16) % 100
        part = "dev" if share < HELD_OUT else "test" if share < 2 * HELD_OUT else "train"
        parts[part].append((source, target))
    seen: set[str] = set()
    for part in ("dev", "test", "train"):
        parts[part] = [pair for pair in parts[part] if pair[0] not in seen]
        seen.update(source for source, _ in parts[part])
    return parts


def build(
    language: str,
    out: Path,
    *,
    debs: Path | None = None,
    report: Callable[[str], None] = print,
) -> dict[str, int]:
    """Build the corpus English → `language` in the new folder `out`.

    Args:
        language: Debian's code: de, fr, pt-br, zh-cn, …
        out: must not exist or be empty. Receives {train,dev,test}.{en,LANGUAGE} and README.md.
        debs: a folder with the two .deb files; they are downloaded with apt-get if not given.
        report: receives lines on what goes on.

    Returns:
        The number of pairs by part.

    Raises:
        UserError: `out` holds something, or the packages cannot be had.
    """
    check_new_folder(out, "--out")
    language = language.lower()
    with tempfile.TemporaryDirectory(prefix="libreoffice-help-") as name:
        work = Path(name)
        names = [PACKAGE + ENGLISH, PACKAGE + language]
        if debs is None:
            report(f"downloading {' and '.join(names)} with apt-get")
            download(names, work)
        files = [_deb(debs or work, package) for package in names]
        roots = [_unpack(file, work / package) for file, package in zip(files, names, strict=True)]
        report("reading and aligning the pages (a minute or so)")
        dropped: Counter[str] = Counter()
        parts = divide(clean(align(*roots), dropped))
        if not parts["train"]:
            raise UserError(f"{files[1].name} shares no translated paragraph with {files[0].name}.")
        report("left out: " + ", ".join(f"{n} {reason}" for reason, n in dropped.items()))
        counts = {part: len(pairs) for part, pairs in parts.items()}
        out.mkdir(parents=True, exist_ok=True)
        for code, package in zip(("en", language), names, strict=True):
            shutil.copy(
                work / package / "usr/share/doc" / package / "copyright", out / f"copyright.{code}"
            )
        for part, pairs in parts.items():
            write_lines(out / f"{part}.en", (source for source, _ in pairs))
            write_lines(out / f"{part}.{language}", (target for _, target in pairs))
        notice = NOTICE.format(
            language=language,
            packages=" and ".join(file.name.replace("%3a", ":") for file in files),
            counts=", ".join(f"{part}: {n} pairs" for part, n in counts.items()),
        )
        write_lines(out / "README.md", notice.rstrip("\n").split("\n"))
    return counts


def download(packages: list[str], folder: Path) -> None:
    """Fetch Debian packages into `folder` with apt-get, which needs no administrator.

    Raises:
        UserError: no apt-get here, no such package, or no connection.
    """
    if shutil.which("apt-get") is None:
        raise UserError(
            "There is no apt-get here, and this corpus is made of Debian packages: run the command "
            f"on Debian or Ubuntu, or give --debs a folder with the files {packages[0]}_*.deb and "
            f"{packages[1]}_*.deb."
        )
    done = _command(["apt-get", "download", *packages], folder)
    if done.returncode:
        errors = [line for line in done.stderr.split("\n") if line.startswith("E:")]
        raise UserError(
            f"apt-get could not download {' and '.join(packages)} "
            f"({'; '.join(errors) or 'no reason given'}); {_languages()}."
        )


def _languages() -> str:
    done = _command(["apt-cache", "--names-only", "search", f"^{PACKAGE}"], Path.cwd())
    names = re.findall(rf"^{PACKAGE}(\S+) ", done.stdout, re.MULTILINE)
    codes = sorted(set(names) - {ENGLISH, "common"})
    if not codes:
        return "apt knows no help package at all: `sudo apt-get update` may help"
    return f"apt knows these languages: {', '.join(codes)}"


def _command(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        arguments, cwd=folder, capture_output=True, encoding="utf-8", errors="replace", check=False
    )


def _deb(folder: Path, package: str) -> Path:
    found = sorted(folder.glob(f"{package}_*.deb"))
    if not found:
        raise UserError(f"{folder} holds no {package}_*.deb.")
    return found[-1]


def _unpack(deb: Path, folder: Path) -> Path:
    """Unpack a help package; returns the folder of its pages."""
    if shutil.which("dpkg-deb") is None:
        raise UserError("There is no dpkg-deb here to unpack Debian packages: install dpkg.")
    done = _command(["dpkg-deb", "-x", str(deb.absolute()), str(folder.absolute())], Path.cwd())
    if done.returncode:
        raise UserError(f"{deb} cannot be unpacked: {done.stderr.strip()}.")
    texts = sorted((folder / HELP).glob("*/text"))
    if not texts:
        raise UserError(f"{deb} holds no help pages ({HELP}/*/text).")
    return texts[0]


def _has_letters(text: str) -> bool:
    return any(character.isalpha() for character in text)
