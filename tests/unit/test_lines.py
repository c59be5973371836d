"""Lines end at "\\n" and nowhere else; whatever would misalign a corpus stops with a sentence."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq.data.lines import (
    PairFiles,
    check_new_folder,
    count_lines,
    is_blank,
    read_lines,
    write_lines,
)
from seq2seq.errors import UserError

# Every character that str.splitlines or universal newlines would break a line at, "\n" apart.
BREAKERS = "\v\f\x1c\x1d\x1e\x85\u2028\u2029"


def test_line_breaks_of_other_kinds_stay_in_the_line(tmp_path: Path) -> None:
    source, target = tmp_path / "s", tmp_path / "t"
    source.write_bytes("one\ntwo\u2028half\nthree\r\nfour\r\nfive".encode())
    target.write_bytes(b"1\n2\n3\n4\n5\n")
    pairs = list(PairFiles(str(source), str(target)))
    assert pairs == [
        ("one", "1"),
        ("two\u2028half", "2"),
        ("three", "3"),
        ("four", "4"),
        ("five", "5"),
    ]


@pytest.mark.parametrize("breaker", [*BREAKERS, "\r"])
def test_each_breaker_inside_a_line(tmp_path: Path, breaker: str) -> None:
    path = tmp_path / "text"
    path.write_bytes(f"a{breaker}b\nc\n".encode())
    assert list(read_lines(path)) == [f"a{breaker}b", "c"]
    assert count_lines(path) == 2


@given(
    st.lists(
        st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=8)
        | st.text(BREAKERS + "\r\t\ufeff\u200b ", max_size=4)
    ),
    st.booleans(),
    st.booleans(),
)
@settings(deadline=None, derandomize=True, max_examples=150)
def test_reading_gives_back_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], zipped: bool, ended: bool
) -> None:
    path = tmp_path_factory.mktemp("lines") / "text"
    content = "".join(line + "\n" for line in lines)
    if not ended and lines and lines[-1] not in ("", "\ufeff"):
        content = content[:-1]  # a last line without its end is a line all the same
    path.write_bytes(gzip.compress(content.encode()) if zipped else content.encode())
    expected = [line.removesuffix("\r") for line in lines]
    if lines:
        expected[0] = lines[0].removeprefix("\ufeff").removesuffix("\r")
    assert list(read_lines(path)) == expected
    assert count_lines(path) == len(lines)


def test_write_lines_is_read_back(tmp_path: Path) -> None:
    lines = ["", "ä\u2028b", " c "]
    assert write_lines(tmp_path / "text", lines) == 3
    assert (tmp_path / "text").read_bytes() == "\nä\u2028b\n c \n".encode()
    assert list(read_lines(tmp_path / "text")) == lines


def test_byte_order_mark_goes_from_the_first_line_only(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"\xef\xbb\xbfone\n\xef\xbb\xbftwo\n")
    assert list(read_lines(path)) == ["one", "\ufefftwo"]
    path.write_bytes(b"\xef\xbb\xbf")
    assert list(read_lines(path)) == []
    path.write_bytes(b"\xef\xbb\xbf\nx")
    assert list(read_lines(path)) == ["", "x"]


def test_gzip_is_told_by_content_not_by_name(tmp_path: Path) -> None:
    zipped, plain = tmp_path / "text.txt", tmp_path / "text.gz"
    zipped.write_bytes(gzip.compress(b"a\n") + gzip.compress(b"b\n"))  # two members, as pigz makes
    plain.write_bytes(b"a\nb\n")
    assert list(read_lines(zipped)) == list(read_lines(plain)) == ["a", "b"]


def test_reading_is_lazy(tmp_path: Path) -> None:
    """The first lines of a file come although a later one cannot be decoded."""
    path = tmp_path / "text"
    path.write_bytes(b"a\nb\n" + b"c" * 100_000 + b"\n\xff\n")
    assert list(islice(read_lines(path), 3))[:2] == ["a", "b"]
    with pytest.raises(UserError, match="line 4"):
        list(read_lines(path))


def test_a_named_pipe_is_read_as_it_comes(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["sh", "-c", f"printf 'a\\nb\\n' > '{pipe}'"]):
        assert list(read_lines(pipe)) == ["a", "b"]


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    text = io.TextIOWrapper(io.BytesIO("\ufeffä\u2028b\r\nc".encode()))
    monkeypatch.setattr(sys, "stdin", text)
    assert list(read_lines("-")) == ["ä\u2028b", "c"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"good\ncaf\xe9\n", ["line 2", "byte 4", "0xe9", "iconv -f LATIN1"]),
        ("a\nb\n".encode("utf-16"), ["line 1", "byte 1", "UTF-16"]),
        (gzip.compress(b"a\n" * 99)[:-9], ["damaged gzip"]),
        (b"\x1f\x8b not gzip at all", ["damaged gzip"]),
    ],
)
def test_unreadable_content_is_named(tmp_path: Path, content: bytes, words: list[str]) -> None:
    path = tmp_path / "text"
    path.write_bytes(content)
    with pytest.raises(UserError) as error:
        list(read_lines(path, "--input"))
    for word in ["--input", str(path), *words]:
        assert word in str(error.value)


def test_gzip_on_standard_input_is_recognised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(gzip.compress(b"a\n"))))
    with pytest.raises(UserError, match="zcat"):
        list(read_lines("-"))


def test_missing_file_and_folder_are_refused_at_once(tmp_path: Path) -> None:
    for reader in (read_lines, count_lines):
        with pytest.raises(UserError, match=r"--input: .*absent does not exist"):
            reader(tmp_path / "absent", "--input")
        with pytest.raises(UserError, match="is a folder"):
            reader(tmp_path)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may read everything")
def test_file_without_permission(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("a\n", encoding="utf-8")
    path.chmod(0)
    with pytest.raises(UserError, match="cannot be read"):
        read_lines(path)


@pytest.mark.parametrize("shorter", ["source", "target"])
def test_different_numbers_of_lines_name_files_and_counts(tmp_path: Path, shorter: str) -> None:
    for name in ("source", "target"):
        write_lines(tmp_path / name, ["x"] * (9 if name == shorter else 10))
    files = PairFiles(str(tmp_path / "source"), str(tmp_path / "target"))
    with pytest.raises(UserError) as error:
        list(files)
    counts = {"source": 10, "target": 10, shorter: 9}
    assert f"{tmp_path / 'source'} has {counts['source']} lines" in str(error.value)
    assert f"{tmp_path / 'target'} has {counts['target']}:" in str(error.value)


def test_both_sides_from_one_stream_are_refused() -> None:
    with pytest.raises(UserError, match="--source and --target cannot both be standard input"):
        list(PairFiles("-", "-", ("--source", "--target")))


def test_tsv(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_bytes(b"\xef\xbb\xbfa b\tA B\r\n\tB\nc\t\n")
    assert list(PairFiles(str(path))) == [("a b", "A B"), ("", "B"), ("c", "")]


@pytest.mark.parametrize(("line", "columns"), [("a", "1 column;"), ("a\tb\tc", "3 columns;")])
def test_tsv_needs_exactly_one_tab(tmp_path: Path, line: str, columns: str) -> None:
    path = tmp_path / "pairs.tsv"
    write_lines(path, ["a\tA", line])
    with pytest.raises(UserError) as error:
        list(PairFiles(str(path), None, ("--train-tsv",)))
    assert f"--train-tsv: {path}, line 2 has {columns}" in str(error.value)


def test_check_refuses_streams_and_empty_files(tmp_path: Path) -> None:
    good, empty, pipe = tmp_path / "good", tmp_path / "empty", tmp_path / "pipe"
    write_lines(good, ["a"])
    empty.touch()
    os.mkfifo(pipe)
    PairFiles(str(good), str(good)).check()
    for bad, words in ((empty, "is empty"), (pipe, "is a stream"), ("-", "is a stream")):
        with pytest.raises(UserError, match=rf"target: .*{words}"):
            PairFiles(str(good), str(bad)).check()


def test_names_of_the_files() -> None:
    assert str(PairFiles("a.en", "a.de")) == "a.en + a.de"
    assert str(PairFiles("a.tsv")) == "a.tsv"


@pytest.mark.parametrize("text", ["", " ", "\t", "\u00a0", "\u200b", " \u200b \u200b\ufeff"])
def test_blank(text: str) -> None:
    assert is_blank(text)
    assert not is_blank(text + "." + text)


def test_new_folder(tmp_path: Path) -> None:
    check_new_folder(tmp_path / "absent", "--out")
    check_new_folder(tmp_path, "--out")
    write_lines(tmp_path / "file", ["a"])
    for taken in (tmp_path, tmp_path / "file"):
        with pytest.raises(UserError, match=r"--out: .* exists already"):
            check_new_folder(taken, "--out")
