"""Opening a corpus: every kind of it, every contradiction among its options, no silent loss."""

from __future__ import annotations

import gzip
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from seq2seq.choices import DataKind
from seq2seq.config import DataConfig
from seq2seq.data import splits
from seq2seq.data.corpus import FILE_OPTIONS, named_split, open_corpus
from seq2seq.data.lines import write_lines
from seq2seq.errors import UserError

Pairs = list[tuple[str, str]]


def numbered(count: int, start: int = 0) -> Pairs:
    return [(f"source {i}", f"Ziel {i}") for i in range(start, start + count)]


def files(folder: Path, **parts: Pairs) -> DataConfig:
    """Write pairs to files and return the configuration that names them."""
    options = {}
    for part, pairs in parts.items():
        for side, kind in enumerate(("source", "target")):
            path = folder / f"{part}.{kind}"
            write_lines(path, (pair[side] for pair in pairs))
            options[f"{part}_{kind}"] = str(path)
    return DataConfig(kind=DataKind.files, **options)  # type: ignore[arg-type]


def test_given_files_are_taken_as_they_are(tmp_path: Path) -> None:
    """Nothing is filtered, least of all in dev and test; no test set is split off beside dev."""
    train = [("a", "A"), ("b", ""), ("", "C"), ("d", "D")]
    dev = [("x", ""), ("", "Y"), ("x", "")]
    corpus = open_corpus(files(tmp_path, train=train, dev=dev))
    assert list(corpus.train()) == train
    assert corpus.size == 4
    assert corpus.dev == dev
    assert corpus.test == []
    corpus = open_corpus(files(tmp_path, train=train, dev=dev, test=train))
    assert corpus.test == train
    assert "train.source" in corpus.description


def test_training_text_can_be_read_again_and_again(tmp_path: Path) -> None:
    corpus = open_corpus(files(tmp_path, train=numbered(5), dev=numbered(2)))
    first, second = corpus.train(), corpus.train()
    assert next(first) == next(second) == ("source 0", "Ziel 0")
    assert list(first) == list(second) == numbered(4, 1)


def test_split_off(tmp_path: Path) -> None:
    pairs = numbered(400) + numbered(3)
    config = files(tmp_path, train=pairs)
    corpus = open_corpus(config)
    train = list(corpus.train())
    assert len(corpus.dev) == len(corpus.test) == 20  # 5 % of 400 different pairs
    assert corpus.size == len(train) == 403 - 40 - len({*numbered(3)} - {*train})
    parts = (set(train), set(corpus.dev), set(corpus.test))
    assert set.union(*parts) == set(pairs)
    assert sum(map(len, parts)) == 400  # disjoint
    assert train == [pair for pair in pairs if pair in parts[0]]  # in the order of the text
    assert "20 dev and 20 test pairs split off" in corpus.notes[0]
    assert open_corpus(config).dev == corpus.dev


def test_repeats_of_held_out_pairs_leave_training_and_are_counted(tmp_path: Path) -> None:
    pairs = numbered(100) * 3
    corpus = open_corpus(files(tmp_path, train=pairs))
    assert not set(corpus.train()) & set(corpus.dev + corpus.test)
    assert corpus.size == 270
    assert "20 more training pairs equal to them left out" in corpus.notes[0]


def test_test_files_alone_still_leave_dev_to_be_split_off(tmp_path: Path) -> None:
    corpus = open_corpus(files(tmp_path, train=numbered(100), test=numbered(2, 200)))
    assert corpus.test == numbered(2, 200)
    assert len(corpus.dev) == 5
    assert corpus.size == 95


def test_dev_and_test_text_that_also_stands_in_train_is_noted(tmp_path: Path) -> None:
    corpus = open_corpus(files(tmp_path, train=numbered(10), dev=numbered(4, 8)))
    assert corpus.size == 10
    assert corpus.notes == [
        "2 training pairs also stand in the dev or test text, so scores on it flatter a little."
    ]


@pytest.mark.parametrize("count", [1, 19])
def test_text_too_small_to_split_validates_on_itself(tmp_path: Path, count: int) -> None:
    corpus = open_corpus(files(tmp_path, train=[("", "x"), *numbered(count)]))
    assert corpus.dev == numbered(count)
    assert corpus.test == []
    assert corpus.size == count + 1
    assert list(corpus.train())[1:] == numbered(count)
    assert corpus.notes[0].startswith("dev set = training set")


def test_no_dev_set_asked_for(tmp_path: Path) -> None:
    config = files(tmp_path, train=numbered(5))
    config.dev_size = 0
    corpus = open_corpus(config)
    assert (corpus.dev, corpus.test, corpus.notes) == ([], [], [])
    assert list(corpus.train()) == numbered(5)


def test_text_without_a_single_usable_pair_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no pair with text on both sides"):
        open_corpus(files(tmp_path, train=[("a", "\u00a0"), ("\u200b", "B")]))


def test_limit_takes_the_first_pairs(tmp_path: Path) -> None:
    config = files(tmp_path, train=numbered(100), dev=numbered(2, 500))
    config.limit = 7
    corpus = open_corpus(config)
    assert list(corpus.train()) == numbered(7)
    assert corpus.size == 7


def test_tsv_and_gzip_give_the_same_corpus_and_fingerprint(tmp_path: Path) -> None:
    plain = open_corpus(files(tmp_path, train=numbered(50)))
    for side in ("source", "target"):
        text = (tmp_path / f"train.{side}").read_bytes().replace(b"\n", b"\r\n")
        (tmp_path / f"{side}.gz").write_bytes(gzip.compress(b"\xef\xbb\xbf" + text))
    write_lines(tmp_path / "tsv", ("\t".join(pair) for pair in numbered(50)))
    configs = [
        DataConfig(
            kind=DataKind.files,
            train_source=str(tmp_path / "source.gz"),
            train_target=str(tmp_path / "target.gz"),
        ),
        DataConfig(kind=DataKind.files, train_tsv=str(tmp_path / "tsv")),
    ]
    for config in configs:
        corpus = open_corpus(config)
        assert list(corpus.train()) == list(plain.train())
        assert (corpus.dev, corpus.test) == (plain.dev, plain.test)
        assert corpus.fingerprint == plain.fingerprint


def test_fingerprint_changes_with_what_decides_the_training_pairs(tmp_path: Path) -> None:
    def fingerprint(train: Pairs, **changes: int) -> str:
        config = files(tmp_path, train=train)
        for name, value in changes.items():
            setattr(config, name, value)
        return open_corpus(config).fingerprint

    base = fingerprint(numbered(100))
    assert base == fingerprint(numbered(100))
    assert base == fingerprint(numbered(100), max_length=3)  # filters are not the corpus's
    others = [
        fingerprint(numbered(100, 1)),
        fingerprint(numbered(101)),
        fingerprint(numbered(100), split_seed=2),
        fingerprint(numbered(100), dev_size=2),
        fingerprint(numbered(100), test_size=2),
        fingerprint(numbered(100), limit=50),
    ]
    assert len({base, *others}) == 7
    given = open_corpus(files(tmp_path, train=numbered(100), dev=numbered(1)))
    assert given.fingerprint not in {base, *others}


def test_training_text_is_never_all_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """8 MB of text; opening it holds a bounded number of hashes, reading it one pair."""
    monkeypatch.setattr(splits, "COUNT_EXACTLY", 1000)
    long = "word " * 40
    config = files(tmp_path, train=[(f"{i} {long}", f"{i} {long}") for i in range(20_000)])
    config.dev_size = config.test_size = 10
    tracemalloc.start()
    corpus = open_corpus(config)
    assert sum(1 for _ in corpus.train()) == 19_980
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, ["--train-source", "--train-tsv"]),
        ({"train_source": "a"}, ["data.train_source", "without", "data.train_target"]),
        ({"train_target": "a"}, ["data.train_target", "without", "data.train_source"]),
        ({"train_source": "a", "train_tsv": "b"}, ["data.train_tsv", "already holds both"]),
        ({"train_tsv": "a", "dev_source": "b"}, ["data.dev_source", "data.dev_target"]),
        ({"train_tsv": "absent"}, ["--train-tsv", "absent does not exist"]),
        ({"train_tsv": "."}, ["--train-tsv", "is a folder"]),
        ({"train_tsv": "-"}, ["--train-tsv", "stream"]),
        ({"train_tsv": "a", "root": "b"}, ["data.root has no effect with data=files"]),
    ],
)
def test_missing_and_contradicting_options(options: dict[str, str], words: list[str]) -> None:
    with pytest.raises(UserError) as error:
        open_corpus(DataConfig(kind=DataKind.files, **options))  # type: ignore[arg-type]
    for word in words:
        assert word in str(error.value)


@pytest.mark.parametrize("option", FILE_OPTIONS)
def test_files_given_to_another_kind_are_not_ignored(option: str) -> None:
    with pytest.raises(UserError, match=rf"data\.{option} has no effect with data=grammar"):
        open_corpus(DataConfig(**{option: "x"}))  # type: ignore[arg-type]


def test_bad_text_is_reported_before_training(tmp_path: Path) -> None:
    config = files(tmp_path, train=numbered(30))
    write_lines(tmp_path / "train.target", ["x"] * 29)
    with pytest.raises(UserError, match=r"train\.source has 30 lines but .*train\.target has 29"):
        open_corpus(config)
    (tmp_path / "train.target").write_bytes(b"x\n" * 29 + b"\xff\n")
    with pytest.raises(UserError, match=r"data\.train_target \(--train-target\): .*line 30"):
        open_corpus(config)
    (tmp_path / "train.target").write_bytes(b"")
    with pytest.raises(UserError, match="is empty"):
        open_corpus(config)
    config = files(tmp_path, train=numbered(30), dev=numbered(3))
    write_lines(tmp_path / "dev.source", ["x"] * 4)
    with pytest.raises(UserError, match=r"dev\.source has 4 lines but .*dev\.target has 3"):
        open_corpus(config)


def test_named_splits(tmp_path: Path) -> None:
    config = files(tmp_path, train=numbered(30), dev=numbered(2, 50), test=numbered(3, 60))
    assert named_split(config, "train") == numbered(30)
    assert named_split(config, "dev") == numbered(2, 50)
    assert named_split(config, "test") == numbered(3, 60)
    with pytest.raises(UserError, match="choose test, dev, train"):
        named_split(config, "val")
    config.test_source = config.test_target = None
    with pytest.raises(UserError, match=r"no test pairs.*data\.test_source"):
        named_split(config, "test")


def test_a_set_held_out_of_another_text_is_refused(tmp_path: Path) -> None:
    """Held out anew, it might hold pairs that the model was trained on."""
    config = files(tmp_path, train=numbered(200))
    corpus = open_corpus(config)
    known, trained = corpus.fingerprint, set(corpus.train())
    assert named_split(config, "test", known) == corpus.test
    write_lines(tmp_path / "train.source", [s for s, _ in numbered(201)])
    write_lines(tmp_path / "train.target", [t for _, t in numbered(201)])
    assert trained & set(named_split(config, "test"))  # the danger is real
    for name in ("dev", "test"):
        with pytest.raises(UserError, match=f"its {name} set might hold pairs that the model has"):
            named_split(config, name, known)
    write_lines(tmp_path / "train.source", [s for s, _ in numbered(200)])
    write_lines(tmp_path / "train.target", [t for _, t in numbered(200)])
    config.test_size = 7
    with pytest.raises(UserError, match="option that divides it"):
        named_split(config, "test", known)


def test_given_test_files_need_no_training_text(tmp_path: Path) -> None:
    config = files(tmp_path, train=numbered(30), test=numbered(3, 60))
    for name in ("train.source", "train.target"):
        (tmp_path / name).unlink()
    assert named_split(config, "test", "whatever it was") == numbered(3, 60)


def test_grammar() -> None:
    config = DataConfig(grammar_pairs=300, dev_size=20, test_size=10)
    corpus = open_corpus(config)
    train = list(corpus.train())
    assert corpus.size == len(train) == len(set(train)) == 300
    assert (len(corpus.dev), len(corpus.test)) == (20, 10)
    assert not set(train) & set(corpus.dev + corpus.test)
    assert list(corpus.train()) == train
    assert "synthetic" in corpus.description
    fingerprint = corpus.fingerprint
    assert open_corpus(config).fingerprint == fingerprint
    for name, value in (("grammar_seed", 2), ("grammar_pairs", 301), ("limit", 200)):
        other = DataConfig(grammar_pairs=300, dev_size=20, test_size=10)
        setattr(other, name, value)
        assert open_corpus(other).fingerprint != fingerprint
    assert list(open_corpus(other).train()) == train[:200]


def test_grammar_speaks_english_and_german_only() -> None:
    with pytest.raises(UserError, match="English to German, not de to en"):
        open_corpus(DataConfig(source_lang="de", target_lang="en"))


def test_reading_text_needs_no_torch() -> None:
    code = "import sys, seq2seq.data.corpus; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
