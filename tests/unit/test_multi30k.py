"""Multi30k from a folder, and fetching it: complete, verified, never half."""

from __future__ import annotations

import gzip
import re
from hashlib import sha256
from pathlib import Path

import pytest

from seq2seq.choices import DataKind
from seq2seq.config import DataConfig
from seq2seq.data import multi30k
from seq2seq.data.corpus import named_split, open_corpus
from seq2seq.data.multi30k import CHECKSUMS, SPLITS, fetch, text_checksum
from seq2seq.errors import UserError


def text(split: str, language: str) -> bytes:
    return "".join(f"{split} {language} {i}\u2028\n" for i in range(3)).encode()


def folder(path: Path, *languages: str) -> Path:
    """A small corpus of the same shape, half of it compressed."""
    path.mkdir(parents=True, exist_ok=True)
    for split in SPLITS:
        for language in languages:
            name = path / f"{split}.{language}"
            if language == "en":
                name.with_name(name.name + ".gz").write_bytes(gzip.compress(text(split, language)))
            else:
                name.write_bytes(text(split, language))
    return path


def config(root: Path | None, target: str = "de") -> DataConfig:
    return DataConfig(
        kind=DataKind.multi30k, root=None if root is None else str(root), target_lang=target
    )


def test_standard_splits(tmp_path: Path) -> None:
    corpus = open_corpus(config(folder(tmp_path, "en", "de")))
    assert list(corpus.train())[2] == ("train en 2\u2028", "train de 2\u2028")
    assert corpus.dev[0] == ("val en 0\u2028", "val de 0\u2028")
    assert corpus.test[0] == ("test_2016_flickr en 0\u2028", "test_2016_flickr de 0\u2028")
    assert corpus.size == len(corpus.dev) == len(corpus.test) == 3


def test_text_that_is_not_the_published_one_is_noted(tmp_path: Path) -> None:
    notes = open_corpus(config(folder(tmp_path, "en", "de"))).notes
    assert len(notes) == 6
    assert all("differs from the published" in note for note in notes)


def test_a_clone_of_the_repository_is_understood(tmp_path: Path) -> None:
    folder(tmp_path / "data" / "task1" / "raw", "en", "fr")
    assert open_corpus(config(tmp_path, "fr")).size == 3


@pytest.mark.parametrize("split", ["test_2017_flickr", "test_2017_mscoco", "val", "train"])
def test_named_splits(tmp_path: Path, split: str) -> None:
    pairs = named_split(config(folder(tmp_path, "en", "de")), split)
    assert pairs[1] == (f"{split} en 1\u2028", f"{split} de 1\u2028")


def test_named_split_aliases_and_unknown_names(tmp_path: Path) -> None:
    root = folder(tmp_path, "en", "de")
    assert named_split(config(root), "test") == named_split(config(root), "test_2016_flickr")
    assert named_split(config(root), "dev") == named_split(config(root), "val")
    with pytest.raises(UserError, match="choose test, dev, train, val, test_2016_flickr"):
        named_split(config(root), "test_2019")
    (root / "test_2018_flickr.de").unlink()
    with pytest.raises(UserError, match=r"lacks test_2018_flickr\.de\.gz"):
        named_split(config(root), "test_2018_flickr")


def test_missing_root_and_files_are_named_with_the_command_that_fetches(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"needs data\.root.*seq2seq corpus multi30k --out"):
        open_corpus(config(None))
    with pytest.raises(UserError, match=r"absent is not a folder.*--out .*absent"):
        open_corpus(config(tmp_path / "absent"))
    root = folder(tmp_path, "en", "de")
    (root / "train.en.gz").unlink()
    (root / "val.de").unlink()
    with pytest.raises(UserError, match=r"lacks train\.en\.gz, val\.de\.gz; fetch"):
        open_corpus(config(root))
    with pytest.raises(UserError, match=r"train\.xx\.gz"):
        open_corpus(config(root, "xx"))


def test_every_split_has_a_checksum_in_three_languages() -> None:
    assert list(CHECKSUMS) == [f"{split}.{code}" for split in SPLITS for code in ("en", "de", "fr")]
    assert all(re.fullmatch("[0-9a-f]{64}", checksum) for checksum in CHECKSUMS.values())
    assert len(set(CHECKSUMS.values())) == len(CHECKSUMS)


def served(path: Path) -> tuple[str, dict[str, str]]:
    """A public home on this disk, and the checksums of its files."""
    path.mkdir()
    for name in ("train.en", "train.de"):
        (path / f"{name}.gz").write_bytes(gzip.compress(name.encode()))
    return path.as_uri(), {
        name: sha256(name.encode()).hexdigest() for name in ("train.en", "train.de")
    }


def test_fetch(tmp_path: Path) -> None:
    home, checksums = served(tmp_path / "home")
    lines: list[str] = []
    target = tmp_path / "a" / "b"
    fetch(target, home=home, checksums=checksums, report=lines.append)
    assert sorted(path.name for path in target.iterdir()) == ["train.de.gz", "train.en.gz"]
    assert gzip.decompress((target / "train.en.gz").read_bytes()) == b"train.en"
    assert len(lines) == 2
    fetch(target, home="file:///nowhere", checksums=checksums, report=lines.append)
    assert "is there already" in lines[-1]


def test_fetch_keeps_nothing_that_is_not_the_published_text(tmp_path: Path) -> None:
    home, checksums = served(tmp_path / "home")
    checksums["train.de"] = "0" * 64
    with pytest.raises(UserError, match=r"train\.de\.gz is not the published text"):
        fetch(tmp_path / "out", home=home, checksums=checksums)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["train.en.gz"]
    (tmp_path / "home" / "train.de.gz").write_bytes(b"<html>moved</html>")
    with pytest.raises(UserError, match="damaged gzip"):
        fetch(tmp_path / "out", home=home, checksums=checksums)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["train.en.gz"]


def test_fetch_does_not_overwrite(tmp_path: Path) -> None:
    home, checksums = served(tmp_path / "home")
    mine = tmp_path / "train.en.gz"
    mine.write_bytes(gzip.compress(b"mine"))
    with pytest.raises(UserError, match="not the published text"):
        fetch(tmp_path, home=home, checksums=checksums)
    assert gzip.decompress(mine.read_bytes()) == b"mine"


@pytest.mark.parametrize("home", ["http://localhost:9", "file:///nowhere"])
def test_no_connection_says_what_to_get_where_and_how(tmp_path: Path, home: str) -> None:
    with pytest.raises(UserError) as error:
        fetch(tmp_path, home=home)
    for word in (f"{home}/train.en.gz", multi30k.REPOSITORY, "data/task1/raw", str(tmp_path)):
        assert word in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_text_checksum_does_not_depend_on_compression(tmp_path: Path) -> None:
    plain, zipped = tmp_path / "a", tmp_path / "a.gz"
    plain.write_bytes(b"abc")
    zipped.write_bytes(gzip.compress(b"abc", 1))
    expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # FIPS 180-2
    assert text_checksum(plain) == text_checksum(zipped) == expected
