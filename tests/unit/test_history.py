"""The history of heads: planted evolutions give the right numbers, roles begin where they begin."""

from __future__ import annotations

import csv
from dataclasses import replace

import numpy as np
import pytest
from attention_samples import make_record, softmax

from seq2seq.analysis.head_id import HeadId
from seq2seq.analysis.history import History, emergence
from seq2seq.analysis.roles import Thresholds
from seq2seq.analysis.statistics import HeadStatistics
from seq2seq.analysis.tables import HeadTable
from seq2seq.errors import UserError

WORDS = [f"w{i}" for i in range(9)]
SHAPE = {"enc": (1, 2), "dec": (1, 1), "cross": (1, 1)}
UPDATES = [0, 10, 100, 1000]


def turning(share: float) -> HeadTable:
    """Statistics of a model whose enc.0.1 puts `share` on the token before, the rest everywhere."""
    maps = make_record(WORDS, WORDS, shape=SHAPE, seed=1)
    size = len(maps.src)
    previous = np.zeros((size, size))
    previous[np.arange(size), np.maximum(np.arange(size) - 1, 0)] = 1
    head = share * previous + (1 - share) / size
    other = softmax(np.random.default_rng(2).normal(size=(size, size)) * 3)
    maps = replace(maps, enc=[np.stack([other, head]).astype(np.float32)])
    statistics = HeadStatistics()
    statistics.add(maps)
    return statistics.table()


@pytest.fixture(scope="module")
def planted() -> History:
    return History(UPDATES, [turning(share) for share in (0.0, 0.2, 0.6, 0.95)], ["planted"])


def entropy_of(share: float, size: int) -> float:
    """By hand: one key holds share + rest, the others rest each; rest = (1 - share) / size."""
    rest = (1 - share) / size
    top = share + rest
    return -top * np.log(top) - (size - 1) * (rest * np.log(rest) if rest else 0.0)


def test_the_csv_holds_the_planted_numbers(planted):
    lines = planted.to_csv().split("\n")
    assert lines[0] == "# planted"
    rows = list(csv.DictReader(lines[1:]))
    assert len(rows) == len(UPDATES) * 4
    assert {int(row["update"]) for row in rows} == set(UPDATES)
    mine = [row for row in rows if (row["kind"], row["layer"], row["head"]) == ("enc", "0", "1")]
    for row, share in zip(mine, (0.0, 0.2, 0.6, 0.95), strict=True):
        assert float(row["entropy [nats]"]) == pytest.approx(entropy_of(share, 10), rel=1e-5)
        mass = share + (1 - share) / 10
        assert float(row["previous_mass [weight]"]) == pytest.approx(mass, rel=1e-5)
    # From the first share above 0 on the maximum is the token before; uniform rows have it at 0.
    assert [float(row["previous [of rows]"]) for row in mine[1:]] == [1.0, 1.0, 1.0]
    assert float(mine[0]["previous [of rows]"]) == pytest.approx(1 / 8)


def test_values_by_head_and_update(planted):
    head = HeadId("enc", 0, 1)
    expected = [entropy_of(share, 10) for share in (0.0, 0.2, 0.6, 0.95)]
    assert planted.values("entropy")[head] == pytest.approx(expected, rel=1e-5)
    assert HeadId("cross", 0, 0) not in planted.values("distance")
    with pytest.raises(UserError, match="no column 'entropie'"):
        planted.values("entropie")


def test_a_role_begins_where_it_is_kept_from(planted):
    rows = emergence(planted).rows
    assert rows[HeadId("enc", 0, 1)] == {
        "role": "previous",
        "evidence": 1.0,
        "since": 10,
        "not_at": 0,
    }
    assert rows[HeadId("enc", 0, 0)] == {"role": "none"}
    facts = [
        "planted",
        "least evidence of a role: positional 0.9 · rare 0.5 · separator 0.6 · broad 0.9"
        " · syntactic 0.1",
    ]
    assert emergence(planted).facts == facts


@pytest.mark.parametrize(
    ("shares", "since", "not_at"),
    [
        ((0.95, 0.95, 0.95, 0.95), 0, None),  # from the initial weights: not learnt
        ((0.1, 0.95, 0.1, 0.95), 1000, 100),  # came, went and came back: counts from the return
        ((0.95, 0.1, 0.95, 0.95), 100, 10),
        ((0.1, 0.1, 0.1, 0.95), 1000, 100),
    ],
)
def test_a_role_that_is_lost_has_not_begun(shares, since, not_at):
    # A head that puts its all on the token before has little entropy; "broad" is the opposite.
    column = [{"entropy_share": share, "offset_share": 0.0} for share in shares]
    head = HeadId("dec", 0, 0)
    source = turning(0.5)
    tables = [HeadTable(source.columns, {head: row}) for row in column]
    found = emergence(History(UPDATES, tables)).rows[head]
    assert found["role"] == "broad"
    assert found["since"] == since
    assert found.get("not_at") == not_at


def test_thresholds_can_be_moved_and_another_role_is_not_the_same():
    head = HeadId("enc", 0, 0)
    columns = turning(0.5).columns
    rows = [
        {"offset": -1, "offset_share": 0.95},  # previous
        {"offset": 1, "offset_share": 0.95},  # next: another role
        {"offset": -1, "offset_share": 0.85},
        {"offset": -1, "offset_share": 0.97},
    ]
    history = History(UPDATES, [HeadTable(columns, {head: row}) for row in rows])
    assert emergence(history).rows[head]["since"] == 1000
    eased = emergence(history, Thresholds(positional=0.8)).rows[head]
    assert (eased["since"], eased["not_at"]) == (100, 10)


def test_a_history_that_contradicts_itself_is_refused(planted):
    table = planted.tables[0]
    with pytest.raises(UserError, match="for each of its updates"):
        History([0, 1], [table])
    with pytest.raises(UserError, match="for each of its updates"):
        History([], [])
    with pytest.raises(UserError, match="must rise"):
        History([1, 1], [table, table])
    fewer = HeadTable(table.columns, {h: r for h, r in table.rows.items() if h.kind == "enc"})
    with pytest.raises(UserError, match="heads after update 5 are not those after update 1"):
        History([1, 5], [table, fewer])
