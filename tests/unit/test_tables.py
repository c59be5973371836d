"""Tables of heads: what CSV and Markdown hold, and that CSV comes back as it was."""

from __future__ import annotations

import csv

import pytest

from seq2seq.analysis.head_id import HeadId
from seq2seq.analysis.tables import Column, HeadTable, read_table
from seq2seq.errors import UserError

A, B, C = HeadId("enc", 0, 1), HeadId("dec", 1, 0), HeadId("cross", 0, 10)
COLUMNS = (
    Column("entropy", "nats", "how broad", 2),
    Column("roles", "", "what for"),
    Column("offset", "tokens", digits=0),
)


@pytest.fixture
def table():
    rows = {
        C: {"entropy": 0.0, "roles": "none"},
        A: {"entropy": 1.23456789, "roles": "a|b, c", "offset": -1},
        B: {"entropy": -0.5, "roles": None, "offset": 0},
    }
    return HeadTable(COLUMNS, rows, ["run: demo, step 7", "100 sentences"])


def test_csv_begins_with_where_it_comes_from_and_names_units(table):
    lines = table.to_csv().split("\n")
    assert lines[:2] == ["# run: demo, step 7", "# 100 sentences"]
    rows = list(csv.reader(lines[2:-1]))
    assert rows[0] == ["kind", "layer", "head", "entropy [nats]", "roles", "offset [tokens]"]
    assert rows[1:] == [  # enc, dec, cross; not by the alphabet
        ["enc", "0", "1", "1.23456789", "a|b, c", "-1"],
        ["dec", "1", "0", "-0.5", "", "0"],
        ["cross", "0", "10", "0", "none", ""],
    ]
    assert lines[-1] == ""


def test_csv_comes_back(table):
    found = read_table(table.to_csv(), "x.csv")
    assert found.heads == table.heads
    assert [c.header for c in found.columns] == [c.header for c in COLUMNS]
    assert found.facts == table.facts
    for head in table.heads:
        for column in COLUMNS:
            assert found.rows[head][column.name] == table.rows[head].get(column.name)


def test_markdown_is_a_table_under_its_facts_with_meanings(table):
    text = table.to_markdown()
    assert text.startswith("run: demo, step 7  \n100 sentences  \n\n| kind | layer | head |")
    assert "| enc | 0 | 1 | 1.23 | a\\|b, c | -1 |" in text
    assert "| dec | 1 | 0 | −0.50 |  | 0 |" in text
    assert "| cross | 0 | 10 | 0 | none |  |" in text
    assert "- **entropy [nats]**: how broad" in text
    widths = {line.replace("\\|", "").count("|") for line in text.split("\n") if line[:1] == "|"}
    assert len(widths) == 1


def test_values_are_numbers_and_leave_gaps_out(table):
    assert table.values("offset") == {A: -1.0, B: 0.0}
    assert table.values("roles") == {}
    assert table.has("offset")
    assert not table.has("roles")
    assert not table.has("bleu")
    with pytest.raises(UserError, match="no column 'bleu': it has entropy, roles, offset"):
        table.values("bleu")


def test_tables_stand_side_by_side(table):
    other = HeadTable([Column("effect")], {B: {"effect": 0.5}, HeadId("dec", 0, 0): {"effect": 1}},
                      ["100 sentences", "trace"])  # fmt: skip
    joined = table.joined(other)
    assert joined.facts == ["run: demo, step 7", "100 sentences", "trace"]
    assert [str(h) for h in joined.heads] == ["enc.0.1", "dec.0.0", "dec.1.0", "cross.0.10"]
    assert joined.rows[B] == {"entropy": -0.5, "roles": None, "offset": 0, "effect": 0.5}
    assert "effect" not in table.rows[B]
    with pytest.raises(UserError, match="Two tables have a column 'effect'"):
        joined.joined(other)
    assert [c.name for c in joined.only(["effect", "entropy"]).columns] == ["entropy", "effect"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is no table of heads"),
        ("# only a comment\n", "is no table of heads"),
        ("layer,head\n0,0\n", "must begin kind, layer, head"),
        ("kind,layer,head,x\nenc,0,0\n", "row 1: 3 cells, but 4 columns"),
        ("kind,layer,head,x\nself,0,0,1\n", "names no head"),
    ],
)
def test_what_is_no_table_is_refused(text, message):
    with pytest.raises(UserError, match=message):
        read_table(text, "x.csv")


def test_a_foreign_number_that_is_none_is_a_gap():
    found = read_table("kind,layer,head,x,y\ncross,1,2,nan,1e-3\n", "x.csv")
    assert found.rows[HeadId("cross", 1, 2)] == {"x": None, "y": 0.001}
