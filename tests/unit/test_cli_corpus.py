"""`seq2seq corpus`: each kind writes parallel text and prints the command that trains on it."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from seq2seq.cli.corpus import KINDS, main, train_command
from seq2seq.data import libreoffice, multi30k
from seq2seq.data.lines import read_lines
from seq2seq.errors import UserError


def test_usage_lists_all_kinds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    usage = capsys.readouterr().out
    assert all(f"  {kind} " in usage for kind in KINDS)
    assert main([]) == 2
    with pytest.raises(UserError, match="libreoffice-help, multi30k, convert, grammar"):
        main(["wikipedia"])


@pytest.mark.parametrize("kind", KINDS)
def test_help_of_each_kind(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main([kind, "--help"])
    assert stop.value.code == 0
    assert "--out" in capsys.readouterr().out
    with pytest.raises(UserError, match="--out"):
        main([kind])


def test_convert(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("translate.storage", reason="needs translate-toolkit")
    file = tmp_path / "a.po"
    file.write_text('msgid "a"\nmsgstr "A"\n\nmsgid "b"\nmsgstr ""\n', encoding="utf-8")
    prefix = tmp_path / "my text"
    languages = ["--source-lang", "en", "--target-lang", "de"]
    assert main(["convert", *languages, str(file), "--out", str(prefix)]) == 0
    printed = capsys.readouterr()
    assert list(read_lines(f"{prefix}.de")) == ["A"]
    assert "pairs written: 1; units left out: 1 untranslated" in printed.err
    assert shlex.split(printed.out) == [
        *("seq2seq", "train", "data=files", "data.source_lang=en", "data.target_lang=de"),
        *("--train-source", f"{prefix}.en", "--train-target", f"{prefix}.de"),
    ]


def test_grammar(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "grammar"
    sizes = ["--pairs", "50", "--dev-size", "4", "--test-size", "3"]
    assert main(["grammar", "--out", str(out), *sizes]) == 0
    for part, size in (("train", 50), ("dev", 4), ("test", 3)):
        texts = [list(read_lines(out / f"{part}.{code}")) for code in ("en", "de")]
        assert [len(text) for text in texts] == [size, size]
        assert texts[0] != texts[1]
    assert capsys.readouterr().out.strip() == train_command(out, "en", "de")
    with pytest.raises(UserError, match=r"--out: .*exists already"):
        main(["grammar", "--out", str(out)])


def test_train_command_names_all_six_files() -> None:
    words = shlex.split(train_command(Path("a b"), "en", "pt-br"))
    assert words[3:5] == ["data.source_lang=en", "data.target_lang=pt-br"]
    assert words[5:9] == ["--train-source", "a b/train.en", "--train-target", "a b/train.pt-br"]
    assert words[-2:] == ["--test-target", "a b/test.pt-br"]


@pytest.mark.parametrize("pair", ["de-en", "en", "en-", "en-us", "ende"])
def test_libreoffice_pairs_start_in_english(tmp_path: Path, pair: str) -> None:
    with pytest.raises(UserError, match="must be en-XX"):
        main(["libreoffice-help", "--pair", pair, "--out", str(tmp_path / "out")])


def test_libreoffice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = {}

    def build(language: str, out: Path, **options: object) -> dict[str, int]:
        asked.update(language=language, out=out, debs=options["debs"])
        return {"train": 3}

    monkeypatch.setattr(libreoffice, "build", build)
    main(["libreoffice-help", "--pair", "en-zh-CN", "--out", "new", "--debs", "d"])
    assert asked == {"language": "zh-cn", "out": Path("new"), "debs": Path("d")}
    assert capsys.readouterr().out.strip() == train_command(Path("new"), "en", "zh-cn")


def test_multi30k(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fetched: list[Path] = []
    monkeypatch.setattr(multi30k, "fetch", lambda out, report: fetched.append(out))
    main(["multi30k", "--out", "m30k"])
    assert fetched == [Path("m30k")]
    assert capsys.readouterr().out == "seq2seq train experiment=multi30k data.root=m30k\n"
