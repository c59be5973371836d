"""TMX, PO and XLIFF: only finished translations, in the languages asked for, one line each."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

from seq2seq.data.interchange import convert, read_units
from seq2seq.data.lines import read_lines
from seq2seq.errors import UserError

TMX = """\
<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"><header srclang="en-US"/><body>
<tu><tuv xml:lang="en-US"><seg>Open the <bpt i="1">&lt;b&gt;</bpt>file<ept i="1">&lt;/b&gt;</ept>
now\u2028<!-- a note -->&amp; here.</seg></tuv>
    <tuv xml:lang="fr-FR"><seg>Ouvrez</seg></tuv>
    <tuv xml:lang="de_DE"><seg>Öffnen Sie jetzt <hi>die</hi> Datei.</seg></tuv></tu>
<tu><tuv xml:lang="EN"><seg>English and French</seg></tuv>
    <tuv xml:lang="fr"><seg>anglais et français</seg></tuv></tu>
<tu><tuv lang="de"><seg>Deutsch zuerst</seg></tuv><tuv lang="en"><seg>German first</seg></tuv></tu>
<tu><tuv xml:lang="en"><seg>Empty</seg></tuv><tuv xml:lang="de"><seg> </seg></tuv></tu>
<tu><tuv xml:lang="en-GB"><seg>colour</seg></tuv><tuv xml:lang="en"><seg>color</seg></tuv>
    <tuv xml:lang="de"><seg>Farbe</seg></tuv></tu>
</body></tmx>
"""

PO = r"""
msgid ""
msgstr ""
"Language: de_DE\n"
"Content-Type: text/plain; charset=UTF-8\n"
"Plural-Forms: nplurals=2; plural=(n != 1);\n"

msgid "Open"
msgstr "Öffnen"

#, fuzzy
msgid "Close"
msgstr "Offen"

msgid "Save"
msgstr ""

msgid "%d file"
msgid_plural "%d files"
msgstr[0] "%d Datei"
msgstr[1] "%d Dateien"

msgid ""
"two\n"
"lines\tand tab"
msgstr "zwei\nZeilen\tund Tab"

#~ msgid "old"
#~ msgstr "alt"
"""

XLIFF = """\
<?xml version="1.0" encoding="utf-8"?>
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">
<file original="f" source-language="en-US" target-language="de" datatype="plaintext"><body>
<trans-unit id="1"><source>A <g id="1">dog</g><x id="2"/>.</source>
    <target>Ein <g id="1">Hund</g><x id="2"/>.</target></trans-unit>
<trans-unit id="2"><source>Cat</source><target state="needs-translation">Katze</target></trans-unit>
<trans-unit id="3"><source>Cow</source></trans-unit>
<trans-unit id="4" approved="no"><source>Horse</source><target>Pferd</target></trans-unit>
<trans-unit id="5" approved="no"><source>Bird</source>
    <target state="translated">Vogel</target></trans-unit>
<trans-unit id="6" translate="no"><source>X</source><target>Y</target></trans-unit>
</body></file></xliff>
"""

XLIFF_2 = """\
<?xml version="1.0" encoding="utf-8"?>
<xliff version="2.0" xmlns="urn:oasis:names:tc:xliff:document:2.0" srcLang="en" trgLang="de">
<file id="f1"><unit id="1"><segment state="final">
    <source>A <pc id="1">dog</pc><ph id="2"/>.</source>
    <target>Ein <pc id="1">Hund</pc><ph id="2"/>.</target></segment></unit>
<unit id="2"><segment state="initial"><source>Cat</source><target>Katze</target></segment></unit>
<unit id="3"><segment><source>Cow</source></segment></unit></file></xliff>
"""

CASES = {
    "m.tmx": (
        TMX,
        [
            ("Open the file now & here.", "Öffnen Sie jetzt die Datei."),
            ("German first", "Deutsch zuerst"),
            ("color", "Farbe"),
        ],
        {"in other languages": 1, "untranslated": 1},
    ),
    "m.po": (
        PO,
        [
            ("Open", "Öffnen"),
            ("%d file", "%d Datei"),
            ("%d files", "%d Dateien"),
            ("two lines and tab", "zwei Zeilen und Tab"),
        ],
        {"fuzzy": 1, "untranslated": 1, "obsolete": 1},
    ),
    "m.xlf": (
        XLIFF,
        [("A dog.", "Ein Hund."), ("Bird", "Vogel")],
        {"fuzzy": 2, "untranslated": 1, "not translatable": 1},
    ),
    "m.XLIFF": (XLIFF_2, [("A dog.", "Ein Hund.")], {"fuzzy": 1, "untranslated": 1}),
}


def written(folder: Path, name: str) -> Path:
    (folder / name).write_text(CASES[name][0], encoding="utf-8", newline="\n")
    return folder / name


@pytest.fixture(autouse=True)
def _toolkit() -> None:
    pytest.importorskip("translate.storage", reason="needs translate-toolkit")


@pytest.mark.parametrize("name", CASES)
def test_finished_units_of_the_languages_asked_for(tmp_path: Path, name: str) -> None:
    dropped: Counter[str] = Counter()
    pairs = list(read_units(written(tmp_path, name), "en", "de", dropped))
    assert pairs == CASES[name][1]
    assert dropped == CASES[name][2]


def test_languages_may_be_asked_for_the_other_way_round(tmp_path: Path) -> None:
    pairs = list(read_units(written(tmp_path, "m.tmx"), "de", "fr", Counter()))
    assert pairs == [("Öffnen Sie jetzt die Datei.", "Ouvrez")]


@pytest.mark.parametrize(
    ("name", "languages", "words"),
    [
        ("m.tmx", ("en", "fi"), "no unit in both en and fi; its languages are de, de_de, en"),
        ("m.tmx", ("en-au", "pt"), "no unit in both"),
        ("m.po", ("en", "fr"), "says that it is in de_DE, not in fr"),
        ("m.xlf", ("de", "en"), "says that it is in en-US, not in de"),
        ("m.XLIFF", ("en", "fr"), "says that it is in de, not in fr"),
    ],
)
def test_other_languages_are_refused(
    tmp_path: Path, name: str, languages: tuple[str, str], words: str
) -> None:
    with pytest.raises(UserError, match=words):
        list(read_units(written(tmp_path, name), *languages, Counter()))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.tmx", "<tmx><body><tu>"),
        ("a.po", 'msgid "a\nmsgstr "b"\n'),
        ("a.xlf", "<html/>"),
        ("a.xliff", ""),
        ("a.txt", "text"),
    ],
)
def test_what_is_no_such_file_is_named(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match=name):
        convert([tmp_path / name], "en", "de", tmp_path / "out")
    with pytest.raises(UserError, match="does not exist"):
        convert([tmp_path / f"absent-{name}"], "en", "de", tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_convert_writes_parallel_files(tmp_path: Path) -> None:
    paths = [written(tmp_path, name) for name in CASES]
    count, dropped = convert(paths, "en", "de", tmp_path / "new" / "my.corpus")
    expected = [pair for _, pairs, _ in CASES.values() for pair in pairs]
    sources = list(read_lines(tmp_path / "new" / "my.corpus.en"))
    targets = list(read_lines(tmp_path / "new" / "my.corpus.de"))
    assert list(zip(sources, targets, strict=True)) == expected
    assert count == len(expected)
    assert dropped["fuzzy"] == 4
    with pytest.raises(UserError, match=r"my\.corpus\.en exists already"):
        convert(paths, "en", "de", tmp_path / "new" / "my.corpus")


def test_convert_refuses_one_language_and_nothing_found(tmp_path: Path) -> None:
    path = written(tmp_path, "m.po")
    with pytest.raises(UserError, match="both de"):
        convert([path], "de", "de", tmp_path / "out")
    path.write_text('msgid "Save"\nmsgstr ""\n', encoding="utf-8")
    with pytest.raises(UserError, match=r"No en–de pair in .*m\.po .*1 untranslated"):
        convert([path], "en", "de", tmp_path / "out")
    assert not (tmp_path / "out.en").exists()


def test_external_entities_are_not_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("password", encoding="utf-8")
    path = tmp_path / "m.tmx"
    entity = f'<!DOCTYPE tmx [<!ENTITY s SYSTEM "{secret.as_uri()}">]>'
    path.write_text(
        TMX.replace('<!DOCTYPE tmx SYSTEM "tmx14.dtd">', entity)
        .replace("Empty", "&s;x")
        .replace("<seg> </seg>", "<seg>leer</seg>"),
        encoding="utf-8",
    )
    try:
        pairs = list(read_units(path, "en", "de", Counter()))
    except UserError:
        return
    assert "password" not in str(pairs)


def test_without_the_toolkit_the_message_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, "m.po")
    for module in ("translate", "translate.storage", "translate.storage.pypo"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UserError, match=r"pip install 'seq2seq-attention\[formats\]'"):
        convert([path], "en", "de", tmp_path / "out")
