"""The LibreOffice help corpus: paragraphs paired by id, clean text, pages held out whole."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from seq2seq.data import libreoffice
from seq2seq.data.libreoffice import align, build, clean, divide, download, paragraphs
from seq2seq.data.lines import read_lines
from seq2seq.errors import UserError

needs_dpkg = pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="needs dpkg-deb")

PAGE = """\
<!DOCTYPE html><html lang="en-US"><head><title>No text</title>
<script>var par_id1 = "<p id='par_id0'>no</p>";</script></head>
<body><p dir="auto">No id, so no text</p>
<h1 id="hd_id1" dir="auto">
<a name="x"></a>Check   Spelling</h1>
<p id="par_id2" class="paragraph">Choose <span class="emph">Tools</span> &amp; more,<br>then
 <img src="i.svg" alt="no"> <b>OK</b>.</p>
<div class="bascode"><pre><code>Dim no As Integer</code></pre></div>
<li><p id="par_idN3">Press <span id="swlnsys1" class="switchinline"><span hidden="true" id="MACx"
 class="MAC"><span class="key">Command</span></span> <span hidden="true" id="defaultx">Ctrl
</span></span>+C.</p></li>
<p id="par_id4">In <span class="switchinline"><span id="WRITERx">Writer</span><span id="CALCx">Calc
</span></span>: <i>yes</i></p>
<p id="par_id5">unclosed <span>tags
<p id="par_id5">second 5</p>
<p id="bm_module">no</p>
</body></html>
"""


def test_paragraphs() -> None:
    assert paragraphs(PAGE) == {
        ("hd_id1", 0): "Check Spelling",
        ("par_id2", 0): "Choose Tools & more, then OK.",
        ("par_idN3", 0): "Press Ctrl +C.",
        ("par_id4", 0): "In Writer: yes",
        ("par_id5", 0): "unclosed tags",
        ("par_id5", 1): "second 5",
    }


def test_stray_end_tags_do_no_harm() -> None:
    assert paragraphs('</span></p><p id="par_id1">a</span> b</p></p>c') == {("par_id1", 0): "a b"}


def pages(folder: Path, texts: dict[str, dict[str, str]]) -> Path:
    for name, blocks in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        html = "".join(f'<p id="{key.split("/")[0]}">{text}</p>' for key, text in blocks.items())
        path.write_text(f"<html><body>{html}</body></html>", encoding="utf-8")
    return folder


def test_align_pairs_by_page_and_id_not_by_order(tmp_path: Path) -> None:
    source = pages(
        tmp_path / "en",
        {
            "a/1.html": {"par_id1": "one", "par_id2": "two", "par_id3": "three"},
            "2.html": {"par_id1": "other page"},
            "only-english.html": {"par_id1": "alone"},
        },
    )
    target = pages(
        tmp_path / "de",
        {
            "a/1.html": {"par_id3": "drei", "par_id1": "eins", "par_id9": "neun"},
            "2.html": {"par_id1": "andere Seite"},
        },
    )
    assert list(align(source, target)) == [
        ("2.html", "other page", "andere Seite"),
        ("a/1.html", "one", "eins"),
        ("a/1.html", "three", "drei"),
    ]


def test_align_repeated_ids_only_where_their_number_agrees(tmp_path: Path) -> None:
    twice = {"par_id1/a": "first", "par_id1/b": "second", "par_id2/a": "x", "par_id2/b": "y"}
    source = pages(tmp_path / "en", {"1.html": twice})
    target = pages(
        tmp_path / "de",
        {"1.html": {"par_id1/a": "erstens", "par_id1/b": "zweitens", "par_id2/a": "?"}},
    )
    assert [pair[1:] for pair in align(source, target)] == [
        ("first", "erstens"),
        ("second", "zweitens"),
    ]


def test_clean_drops_and_counts() -> None:
    dropped: Counter[str] = Counter()
    pairs = [
        ("1", "Open", "Öffnen"),
        ("1", "Undo", "Undo"),
        ("1", "", "Text"),
        ("1", "=1+2;", "=1+2"),
        ("1", "ISOWEEKNUM", "[text/scalc/01/func.xhp#iso not found]."),
        ("2", "Open", "Öffnen"),
        ("2", "Open", "Aufmachen"),
    ]
    assert list(clean(pairs, dropped)) == [("1", "Open", "Öffnen"), ("2", "Open", "Aufmachen")]
    assert dropped == {"untranslated": 1, "without letters": 2, "broken": 1, "repeated": 1}


def test_divide_holds_out_pages_and_keeps_their_sentences_from_training() -> None:
    pairs = [(f"page {i // 2}", f"sentence {i}", f"Satz {i}") for i in range(10_000)]
    pairs += [(f"page {i}", "Contents", f"Inhalt {i}") for i in range(5000)]
    parts = divide(pairs)
    sources = {part: {source for source, _ in rows} for part, rows in parts.items()}
    assert not sources["dev"] & sources["test"]
    assert not sources["train"] & (sources["dev"] | sources["test"])
    assert set.union(*sources.values()) == {source for _, source, _ in pairs}
    numbers = {
        part: {int(source.split()[1]) for source in rows - {"Contents"}}
        for part, rows in sources.items()
    }
    for part in ("dev", "test"):
        assert 200 < len(numbers[part]) < 400  # about 3 % of 10,000
        assert numbers[part] == {number ^ 1 for number in numbers[part]}  # both of each page
    assert divide(pairs) == parts


def package(folder: Path, code: str, help_code: str, word: str) -> None:
    """Build a .deb with a hundred help pages."""
    root = folder / f"root-{code}"
    name = f"libreoffice-help-{code}"
    texts = {f"{i}.html": {"par_id1": f"{word} {i}", "par_id2": f"{i}"} for i in range(100)}
    pages(root / "usr/share/libreoffice/help" / help_code / "text", texts)
    (root / "usr/share/doc" / name).mkdir(parents=True)
    (root / "usr/share/doc" / name / "copyright").write_text(f"MPL {code}\n", encoding="utf-8")
    (root / "DEBIAN").mkdir()
    (root / "DEBIAN/control").write_text(
        f"Package: {name}\nVersion: 1\nArchitecture: all\nMaintainer: a <a@b.c>\nDescription: x\n",
        encoding="utf-8",
    )
    command = ["dpkg-deb", "--build", str(root), str(folder / f"{name}_1_all.deb")]
    subprocess.run(command, check=True, capture_output=True)


@needs_dpkg
def test_build_from_packages(tmp_path: Path) -> None:
    package(tmp_path, "en-us", "en-US", "word")
    package(tmp_path, "pt-br", "pt-BR", "palavra")
    out, lines = tmp_path / "new" / "out", []
    counts = build("PT-BR", out, debs=tmp_path, report=lines.append)
    assert sum(counts.values()) == 100
    for part, count in counts.items():
        sources = list(read_lines(out / f"{part}.en"))
        targets = list(read_lines(out / f"{part}.pt-br"))
        assert len(sources) == count
        assert targets == [source.replace("word", "palavra") for source in sources]
    notice = (out / "README.md").read_text(encoding="utf-8")
    assert "Mozilla Public License 2.0" in notice
    assert "libreoffice-help-pt-br_1_all.deb" in notice
    assert (out / "copyright.pt-br").read_text(encoding="utf-8") == "MPL pt-br\n"
    assert "100 without letters" in lines[-1]
    with pytest.raises(UserError, match="exists already"):
        build("pt-br", out, debs=tmp_path)


@needs_dpkg
def test_build_leaves_nothing_behind_when_it_fails(tmp_path: Path) -> None:
    package(tmp_path, "en-us", "en-US", "word")
    package(tmp_path, "xx", "xx", "word")  # not translated at all
    with pytest.raises(UserError, match="no translated paragraph"):
        build("xx", tmp_path / "out", debs=tmp_path, report=lambda _: None)
    with pytest.raises(UserError, match=r"holds no libreoffice-help-yy_\*\.deb"):
        build("yy", tmp_path / "out", debs=tmp_path, report=lambda _: None)
    (tmp_path / "libreoffice-help-zz_1_all.deb").write_bytes(b"not a package")
    with pytest.raises(UserError, match="cannot be unpacked"):
        build("zz", tmp_path / "out", debs=tmp_path, report=lambda _: None)
    assert not (tmp_path / "out").exists()


def test_without_apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(UserError, match=r"no apt-get here.*--debs"):
        download(["libreoffice-help-en-us", "libreoffice-help-de"], tmp_path)
    (tmp_path / "libreoffice-help-en-us_1.deb").touch()
    (tmp_path / "libreoffice-help-de_1.deb").touch()
    with pytest.raises(UserError, match="no dpkg-deb here"):
        build("de", tmp_path / "out", debs=tmp_path, report=lambda _: None)


@pytest.mark.parametrize(
    ("known", "words"),
    [
        ("libreoffice-help-fr - x\nlibreoffice-help-common - x\nlibreoffice-help-de - x", "de, fr"),
        ("", "apt-get update"),
    ],
)
def test_unknown_language_lists_those_that_apt_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: str, words: str
) -> None:
    def command(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
        if arguments[0] == "apt-cache":
            return subprocess.CompletedProcess(arguments, 0, known, "")
        return subprocess.CompletedProcess(arguments, 100, "", "W: x\nE: Unable to locate\n")

    monkeypatch.setattr(libreoffice, "_command", command)
    monkeypatch.setattr(shutil, "which", lambda name: name)
    with pytest.raises(UserError) as error:
        download(["libreoffice-help-en-us", "libreoffice-help-tlh"], tmp_path)
    assert "libreoffice-help-tlh (E: Unable to locate)" in str(error.value)
    assert words in str(error.value)
