"""What a page with a slider through training knows of its records."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from attention_samples import make_record
from head_tables import make_table

from seq2seq.analysis.head_id import HeadId
from seq2seq.errors import UserError
from viz.page import html
from viz.page_training import training


def record(text: str, update: object):
    maps = make_record()
    return replace(maps, text={"source": text, "target": ""}, meta={**maps.meta, "step": update})


def test_records_of_one_sentence_are_a_series_in_order_of_updates():
    records = [record("b", 8), record("a", 0), record("b", 0), record("a", 8), record("a", 2)]
    assert training(records)["series"] == [
        {"updates": [0, 8], "records": [2, 0]},
        {"updates": [0, 2, 8], "records": [1, 4, 3]},
    ]


def test_a_record_must_say_its_update_and_say_it_once():
    with pytest.raises(UserError, match="does not say after which update"):
        training([record("a", None)])
    with pytest.raises(UserError, match="'a' comes twice after update 3"):
        training([record("a", 3), record("a", 3)])


def test_tables_come_by_update_without_what_nobody_sorts_by():
    tables = {0: make_table(seed=1), 50: make_table(seed=2)}
    found = training([], tables)["tables"]
    assert sorted(found) == ["0", "50"]
    for update, table in tables.items():
        shown = found[str(update)]["statistics"]
        assert "corpus: uniform_entropy [nats]" not in shown
        value = table.values("entropy")[HeadId("dec", 1, 2)]
        assert shown["corpus: entropy [nats]"]["dec.1.2"] == pytest.approx(value, abs=5.1e-5)
        assert found[str(update)]["roles"]["enc.0.0"] == "previous"


def test_the_page_carries_it_and_says_what_to_cut_when_it_grows_too_large():
    records = [record("a", 0), record("a", 1)]
    page = html(records, training=training(records))
    text = page.split('id="data">')[1].split("</script>")[0]
    assert json.loads(text)["training"]["series"] == [{"updates": [0, 1], "records": [0, 1]}]
    assert '"training"' not in html(records).split('id="data">')[1].split("</script>")[0]
    with pytest.raises(UserError, match=r"more than 0\.03: .*fewer updates \(--frames\)"):
        html(records, training=training(records), max_mb=0.03)
