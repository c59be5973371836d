"""`seq2seq align`: files and splits, held against another way to compute the same links."""

import re

import numpy as np
import pytest

from seq2seq.analysis.capture import capture
from seq2seq.cli.main import main
from seq2seq.config import TokenizerConfig
from seq2seq.config_file import load_config, save_config
from seq2seq.data import grammar
from seq2seq.data.tokenizer import train_tokenizer
from seq2seq.model.transformer import Transformer
from seq2seq.run_folder import load_run
from seq2seq.training.checkpoint import Progress, save_model, write_step

SOURCE = ["the small house is old", "", "a dog sees the house", "we see a new dog"]
TARGET = ["das kleine Haus ist alt", "", "ein Hund sieht das Haus", "wir sehen"]


@pytest.fixture
def command(capsys):
    def run(*arguments):
        status = main(["align", *map(str, arguments), "--device", "cpu"])
        return status, capsys.readouterr()

    return run


@pytest.fixture
def files(tmp_path):
    for name, lines in (("a.en", SOURCE), ("a.de", TARGET)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return ["--source", tmp_path / "a.en", "--target", tmp_path / "a.de"]


@pytest.fixture
def grammar_run(tiny_run):
    """The tiny run, as if trained on the embedded grammar."""
    pairs = list(grammar.generate(60, split="test"))
    tokenizer = train_tokenizer(
        TokenizerConfig(vocab_size=200), [p.source for p in pairs], [p.target for p in pairs]
    )
    tokenizer.save(tiny_run)
    config = load_config(tiny_run / "config.json")
    config.data.dev_size, config.data.test_size, config.data.grammar_pairs = 5, 12, 50
    config.model.source_vocab = config.model.target_vocab = tokenizer.source_vocab
    save_config(config, tiny_run / "config.json")
    weights = Transformer(config.model)
    for parameter in weights.parameters():  # larger than at first, so that rows are not even
        if parameter.dim() > 1:
            parameter.data.mul_(2)
    write_step(tiny_run, Progress(update=5), lambda file: save_model(weights, file), {})
    return tiny_run


def owners(pieces, words):
    """The word of every piece, by counting characters."""
    ends = np.cumsum([len(word) for word in words])
    found, seen = [], 0
    for piece in pieces:
        if piece == "</s>":
            found.append(None)
            continue
        seen += len(piece.replace("▁", ""))
        found.append(int(np.searchsorted(ends, seen)) if seen else 0)
    assert seen == ends[-1]
    return found


def links_by_hand(maps, source, target, layer, head, shift):
    """Word links by plain loops: every piece pair adds to its word pair."""
    keys, queries = owners(maps.src, source), owners(maps.tgt_out, target)
    # "▁" alone belongs to the word after it
    for pieces, owner in ((maps.src, keys), (maps.tgt_out, queries)):
        for i, piece in enumerate(pieces):
            if piece == "▁":
                owner[i] = owner[i + 1]
    table = np.zeros((len(target), len(source) + 1))
    weights = maps.cross[layer][head]
    for t, word in enumerate(queries):
        if word is not None:
            for s, key in enumerate(keys):
                share = weights[t + shift, s] / queries.count(word)
                table[word, len(source) if key is None else key] += share
    best = table.argmax(-1)
    return {(int(s), t) for t, s in enumerate(best) if s < len(source)}


def read(text):
    return [{tuple(map(int, link.split("-"))) for link in line.split()} for line in text]


@pytest.mark.parametrize(("mode", "shift"), [("out", 0), ("in", 1)])
def test_files_give_a_line_for_each_pair(command, tiny_run, files, mode, shift):
    status, told = command("--run", tiny_run, *files, "--head", "cross.1.2", "--mode", mode)
    lines = told.out.split("\n")
    assert status == 0
    assert lines.pop() == ""
    assert len(lines) == 4
    assert lines[1] == ""
    run = load_run(tiny_run, device="cpu")
    for line, source, target in zip(read(lines), SOURCE, TARGET, strict=True):
        if source:
            maps = capture(run.model, run.tokenizer, source, target)[0]
            by_hand = links_by_hand(maps, source.split(), target.split(), 1, 2, shift)
            assert line == by_hand


@pytest.mark.parametrize(("mode", "shift"), [("out", 0), ("in", 1)])
def test_a_grammar_split_is_scored_against_its_own_gold(command, grammar_run, mode, shift):
    ask = ("--run", grammar_run, "--split", "test", "--head", "cross.0.3", "--mode", mode)
    status, told = command(*ask)
    lines = told.out.split("\n")[:-1]
    run = load_run(grammar_run, device="cpu")
    pairs = list(grammar.generate(12, split="test", seed=1))
    assert status == 0
    assert len(lines) == len(pairs)
    found, sure, right = 0, 0, 0
    for line, pair in zip(read(lines), pairs, strict=True):
        maps = capture(run.model, run.tokenizer, pair.source, pair.target)[0]
        source, target = grammar.words(pair.source), grammar.words(pair.target)
        assert line == links_by_hand(maps, source, target, 0, 3, shift)
        found, sure = found + len(line), sure + len(pair.alignment)
        right += len(line & pair.alignment)
    wanted = f"cross.0.3, mode {mode}: AER {1 - 2 * right / (found + sure):.3f}, "
    assert wanted + f"precision {right / found:.3f}, recall {right / sure:.3f}" in told.err


def test_all_heads_and_means_are_compared(command, grammar_run, tmp_path):
    table, picture = tmp_path / "heads.csv", tmp_path / "best.svg"
    ask = ("--run", grammar_run, "--split", "dev", "--csv", table, "--figure", picture)
    status, told = command(*ask, "--sentence", "2")
    assert status == 0
    assert "5 sentence pairs of dev" in told.out
    for name in ("mean of all heads", "mean of layer 1", "cross.0.0", "cross.1.3"):
        assert re.search(rf"^{name} .*\d\.\d\d\d", told.out, re.M)
    assert "layer 1: best head cross.1." in told.out
    rows = [line for line in table.read_text("utf-8").split("\n") if line.startswith("cross,")]
    assert len(rows) == 8
    assert picture.read_bytes().startswith(b"<?xml")
    one = re.search(r"^cross\.1\.3 +(\S+)", told.out, re.M)[1]
    _, alone = command("--run", grammar_run, "--split", "dev", "--head", "cross.1.3")
    assert f"AER {one}" in alone.err


def test_gold_files(command, tiny_run, files, tmp_path):
    gold = tmp_path / "gold"
    gold.write_text("1-1 2-2 3p3\n\n1-1\n1p1\n", encoding="utf-8")
    ask = ("--run", tiny_run, *files, "--layer", "0", "--gold", gold)
    status, told = command(*ask, "--one-indexed", "--eos", "ignore")
    lines = read(told.out.split("\n")[:-1])
    sure = {(0, (0, 0)), (0, (1, 1)), (2, (0, 0))}
    possible = sure | {(0, (2, 2)), (3, (0, 0))}
    found = {(n, link) for n, line in enumerate(lines) for link in line}
    assert len(found) == 5 + 5 + 2
    aer = 1 - (len(found & sure) + len(found & possible)) / (len(found) + len(sure))
    assert status == 0
    assert f"mean of layer 0, mode out: AER {aer:.3f}" in told.err


def test_heads_off_change_the_links_of_later_layers(command, tiny_run, files):
    ask = ("--run", tiny_run, *files, "--layer", "1", "--eos", "ignore")
    _, plain = command(*ask)
    off = ",".join(f"dec.{layer}.{head}" for layer in (0, 1) for head in range(4))
    status, changed = command(*ask, "--without-heads", off)
    assert status == 0
    assert changed.out != plain.out


def test_words_that_pieces_do_not_make_are_told(command, tiny_run, tmp_path):
    for name, lines in (("a.en", "a dog\na▁dog\n"), ("a.de", "ein Hund\nein Hund\n")):
        (tmp_path / name).write_text(lines, encoding="utf-8")
    ask = ("--source", tmp_path / "a.en", "--target", tmp_path / "a.de", "--mean")
    status, told = command("--run", tiny_run, *ask, "--eos", "ignore")
    assert status == 0
    first, second = told.out.split("\n")[:-1]
    assert len(first.split()) == 2
    assert second == ""
    assert "warning: sentence 2 is left without links: the source has 1 words, but" in told.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--split", "test", "--source", "x"], "leave out --source"),
        ([], "Give --split NAME, or --source FILE and --target FILE"),
        (["FILES"], "Say what aligns"),
        (["FILES", "--mode", "in"], "--mode needs one aligner"),
        (["FILES", "--mean", "--csv", "x"], "leave out --head, --layer and --mean"),
        (["FILES", "--mean", "--one-indexed"], "give --gold FILE"),
        (["FILES", "--mean", "--limit", "0"], "--limit is 0"),
        (["FILES", "--mean", "--sentence", "1"], "give --figure"),
        (["FILES", "--mean", "--figure", "x.gif"], "must end in .png, .svg or .pdf"),
        (["FILES", "--mean", "--figure", "x.png", "--sentence", "5"], "sentences 1 to 4"),
        (["FILES", "--layer", "2"], "no cross-attention in layer 2: take one of 0, 1"),
        (["FILES", "--head", "enc.0.0"], "enc.0.0 cannot align"),
        (["FILES", "--head", "cross.0.9"], "The model has no head cross.0.9"),
        (["FILES", "--gold", "GOLD"], "gold has 1 lines but there are 4 sentence pairs"),
    ],
)
def test_mistakes_are_one_sentence(command, capsys, tiny_run, files, tmp_path, options, message):
    (tmp_path / "gold").write_text("0-0\n", encoding="utf-8")
    words = [x for o in options for x in (files if o == "FILES" else [o])]
    words = [tmp_path / "gold" if o == "GOLD" else o for o in words]
    status, told = command("--run", tiny_run, *words)
    assert status == 2
    assert told.err.startswith("error: ")
    assert message in told.err
    assert told.out == ""


def test_gold_links_out_of_range_name_the_line(command, tiny_run, files, tmp_path):
    (tmp_path / "gold").write_text("0-0\n\n6-1\n\n", encoding="utf-8")
    status, told = command("--run", tiny_run, *files, "--gold", tmp_path / "gold")
    assert status == 2
    assert "gold, line 3: the link 6-1" in told.err
