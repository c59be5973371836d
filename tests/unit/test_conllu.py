"""CoNLL-U: trees as they stand in the file; whatever is not of the format is named by its line."""

import gzip

import pytest

from seq2seq.data.conllu import Tree, parse_trees, read_trees
from seq2seq.errors import UserError


def line(number, form, head="_", relation="_"):
    return "\t".join([number, form, "_", "X", "_", "_", str(head), relation, "_", "_"])


DONT = [
    "# sent_id = 1",
    "# text = We don't see it.",
    line("1", "We", 4, "nsubj"),
    line("2-3", "don't"),
    line("2", "do", 4, "aux"),
    line("3", "n't", 4, "advmod"),
    line("4", "see", 0, "root"),
    line("4.1", "left-out"),
    line("5", "it", 4, "obj"),
    line("6", ".", 4, "punct"),
    "",
]


def trees(*lines):
    return list(parse_trees(lines, "x.conllu"))


def test_links_are_between_what_is_written():
    (tree,) = trees(*DONT)
    assert tree.tokens == ("We", "don't", "see", "it", ".")
    assert tree.letters == "Wedon'tseeit."
    assert tree.links == (
        ("nsubj", 2, 0), ("aux", 2, 1), ("advmod", 2, 1), ("obj", 2, 3), ("punct", 2, 4),
    )  # fmt: skip


def test_subtypes_are_cut_and_links_within_a_token_are_left_out():
    (tree,) = trees(
        line("1-2", "zum"), line("1", "zu", 3, "case"), line("2", "dem", 1, "det:x"),
        line("3", "Hund", 0, "root"), line("4", "10 000", 3, "nummod:gov"),
    )  # fmt: skip
    assert tree == Tree(("zum", "Hund", "10000"), (("case", 1, 0), ("nummod", 1, 2)))


def test_blank_lines_divide_sentences_however_many(tmp_path):
    text = "\n".join(["", *DONT, "", "", *DONT[:-1]])
    plain, packed = tmp_path / "a.conllu", tmp_path / "a.conllu.gz"
    plain.write_text(text, encoding="utf-8")
    packed.write_bytes(gzip.compress(text.encode("utf-8")))
    assert [tree.letters for tree in read_trees(plain)] == ["Wedon'tseeit."] * 2
    assert read_trees(packed) == read_trees(plain)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["1\tWe"], "x.conllu, line 1: 2 columns between tabs"),
        (["# a", line("1", "a", 0), line("3", "b", 1)], "line 3: the word has number '3', expec"),
        ([line("1", "a", 0), line("x", "b", 1)], "line 2: the word has number 'x'"),
        ([line("1", "a", "_")], "line 1: '_' is no head .* must hold dependencies"),
        ([line("1", "a", "-1")], "line 1: '-1' is no head"),
        ([line("1", "a", 2)], "line 1: the head is word 2 of 1"),
        ([line("2-3", "ab"), line("1", "a", 0)], "line 1: no words 2-3 follow"),
        ([line("1-1", "ab"), line("1", "a", 0)], "line 1: no words 1-1 follow"),
        ([line("1-2", "ab"), line("1", "a", 0)], "line 2: words up to 2 are missing"),
    ],
)
def test_what_is_not_of_the_format_is_named(lines, message):
    with pytest.raises(UserError, match=message):
        trees(*lines)


def test_a_file_without_a_sentence_is_refused(tmp_path):
    (tmp_path / "empty").write_text("# nothing\n\n", encoding="utf-8")
    with pytest.raises(UserError, match="empty holds no sentence"):
        read_trees(tmp_path / "empty")
    with pytest.raises(UserError, match="--deps"):
        read_trees(tmp_path / "missing", "--deps")
