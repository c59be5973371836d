"""Numbers of heads that were measured before, found in the run they belong to."""

from __future__ import annotations

from pathlib import Path

import pytest
from attention_samples import SENTENCES, make_record, make_run
from test_viz_page import Parsed

from seq2seq.analysis.head_id import HeadId
from seq2seq.analysis.needed import OTHERS_OFF
from seq2seq.analysis.tables import Column, HeadTable
from seq2seq.errors import UserError
from seq2seq.run_folder import weights_hash
from viz.cli import attention
from viz.evidence import gather, measured_on
from viz.page import html

HASH, OTHER = "0123456789ab", "ba9876543210"
HEAD = HeadId("cross", 2, 1)


def left(run: Path, folder: str, weights: str = HASH, facts: tuple[str, ...] = (), **row) -> Path:
    path = run / folder / "heads.csv"
    path.parent.mkdir(parents=True)
    first = f"run tiny · checkpoint step 7 · weights {weights}"
    columns = [Column(name) for name in row]
    path.write_text(HeadTable(columns, {HEAD: row}, [first, *facts]).to_csv(), encoding="utf-8")
    return path


def test_tables_of_both_commands_stand_side_by_side(tmp_path) -> None:
    paths = [
        left(tmp_path, "heads", entropy=1.0, effect=0.5),
        left(tmp_path, "trace", effect=0.7, flips=0.3),  # joined into the report once before
    ]
    table, notes = gather(tmp_path, HASH)
    assert table.rows[HEAD] == {"entropy": 1.0, "effect": 0.5, "flips": 0.3}
    assert len(notes) == 1
    assert all(str(path) in notes[0] for path in paths)
    assert measured_on(table) == HASH


def test_the_newest_report_that_fits_is_taken(tmp_path) -> None:
    left(tmp_path, "heads", entropy=1.0)
    left(tmp_path, "heads-2", entropy=2.0)
    left(tmp_path, "heads-10", entropy=10.0)
    left(tmp_path, "heads-11", OTHER, entropy=11.0)
    left(tmp_path, "heads-old", entropy=99.0)  # not of the command's making
    table, notes = gather(tmp_path, HASH)
    assert table.rows[HEAD] == {"entropy": 10.0}
    assert "heads-10" in notes[0]


def test_other_weights_and_other_heads_off_are_left_aside_and_said(tmp_path) -> None:
    left(tmp_path, "heads", OTHER, entropy=1.0)
    left(tmp_path, "trace", facts=("without enc.0.1",), effect=1.0)
    table, notes = gather(tmp_path, HASH)
    assert table is None
    assert "heads/heads.csv was measured with other weights: measure again" in notes[0]
    assert "trace/heads.csv was measured with other heads off" in notes[1]
    table, _ = gather(tmp_path, HASH, ["enc.0.1"])
    assert table.rows[HEAD] == {"effect": 1.0}
    assert gather(tmp_path / "none", HASH) == (None, [])


def test_what_cannot_be_read_is_noted(tmp_path) -> None:
    left(tmp_path, "heads", entropy=1.0).write_bytes(b"\xff\xfe")
    left(tmp_path, "trace", effect=1.0).write_text("a,b\n1,2\n", encoding="utf-8")
    table, notes = gather(tmp_path, HASH)
    assert table is None
    assert "heads/heads.csv is left aside" in notes[0]
    assert "is no table of heads" in notes[1]
    assert measured_on(HeadTable([], {})) is None


def data_of(table: HeadTable) -> dict:
    return Parsed(html([make_record()], table=table)).data


def test_what_a_page_says_of_heads() -> None:
    columns = [Column("loss_change", "nats/token"), Column("loss_p_holm"), Column("effect")]
    columns += [Column("flips"), Column("flips_low"), Column("bleu_change", "BLEU")]
    rows = {
        HEAD: {"effect": 0.5, "loss_change": 0.0, "loss_p_holm": 1.0, "flips": 0.2},
        HeadId("enc", 0, 0): {"loss_change": 0.1, "loss_p_holm": 0.0, "bleu_change": -1.0},
        HeadId("enc", 0, 1): {"loss_change": 0.0, "loss_p_holm": 1.0, "flips_low": 0.1},
    }
    facts = [f"run demo · weights {HASH}", "100 pairs"]
    data = data_of(HeadTable(columns, rows, facts))
    assert data["evidence"] == ["effect", "flips", "Δloss [nats/token]", "ΔBLEU"]
    assert data["marks"] == {"cross.2.1": "carries", "enc.0.0": "needed", "enc.0.1": "idle"}
    assert data["meaning"] == {
        "carries": "effect ≥ 0.1",
        "needed": "Δloss worse without it, beyond chance",
        "idle": "effect < 0.05 and Δloss within chance",
    }
    assert (data["measured"], data["hash"]) == (facts, HASH)
    assert {"corpus: flips_low", "corpus: loss_p_holm"} <= set(data["statistics"])


def test_all_other_heads_off_is_no_evidence_on_a_head() -> None:
    columns = [Column("loss_change", "nats/token"), Column("loss_p_holm")]
    rows = {HEAD: {"loss_change": 2.0, "loss_p_holm": 0.0}}
    data = data_of(HeadTable(columns, rows, [f"ablation: {OTHERS_OFF}"]))
    assert data["evidence"] == []
    assert data["marks"] == data["meaning"] == {}
    assert "corpus: loss_change [nats/token]" in data["statistics"]


def test_a_page_without_measurements_marks_nothing() -> None:
    data = data_of(HeadTable([Column("entropy", "nats")], {HEAD: {"entropy": 1.0}}))
    assert data["marks"] == data["meaning"] == {}
    assert data["evidence"] == []
    plain = Parsed(html([make_record()])).data
    assert (plain["marks"], plain["measured"], plain["hash"]) == ({}, [], None)


@pytest.fixture
def run(tmp_path) -> Path:
    return make_run(tmp_path / "tiny")


def page_of(run: Path, out: Path, *more: str) -> dict:
    source, target = SENTENCES[1]
    arguments = ["--run", str(run), "--text", source, "--target", target, "--figures", "none"]
    assert attention([*arguments, "--out", str(out), *more]) == 0
    return Parsed((out / "attn.html").read_text("utf-8")).data


def test_the_command_takes_what_was_measured_on_these_weights(run, tmp_path, capsys) -> None:
    path = left(run, "trace", weights_hash(run, "best"), effect=0.25)
    data = page_of(run, tmp_path / "a")
    assert data["statistics"] == {"effect": {"cross.2.1": 0.25}}
    assert data["hash"] == data["records"][0]["hash"] == weights_hash(run, "best")
    assert f"are taken from {path}" in capsys.readouterr().err
    data = page_of(run, tmp_path / "b", "--join", "none")
    assert data["statistics"] == {}
    assert capsys.readouterr().err == ""
    data = page_of(run, tmp_path / "c", "--without-heads", "cross.2.1")
    assert data["statistics"] == {}
    assert "other heads off" in capsys.readouterr().err
    left(run, "heads", weights_hash(run, "best"), ("without cross.2.1",), entropy=0.5)
    data = page_of(run, tmp_path / "e", "--without-heads", "cross.02.1")  # however it is written
    assert data["statistics"] == {"corpus: entropy": {"cross.2.1": 0.5}}
    assert data["records"][0]["name"].endswith("without cross.2.1")
    with pytest.raises(UserError, match=r"other heads off \(none\) than here \(cross\.2\.1\)"):
        page_of(run, tmp_path / "f", "--without-heads", "cross.2.1", "--join", str(path))
    given = left(tmp_path, "given", OTHER, entropy=1.5)
    data = page_of(run, tmp_path / "d", "--join", str(given))
    assert data["statistics"] == {"corpus: entropy": {"cross.2.1": 1.5}}


def test_norms_are_there_and_scores_when_asked(run, tmp_path) -> None:
    (facts,) = page_of(run, tmp_path / "a")["records"]
    assert facts["norms"] > 0
    assert "qk" not in facts
    (facts,) = page_of(run, tmp_path / "b", "--no-norms", "--qk")["records"]
    assert "norms" not in facts
    assert facts["qk"]["width"]["enc"] == [4, 4]


def test_rows_of_the_page_are_labelled_as_those_of_the_pictures(run, tmp_path) -> None:
    assert page_of(run, tmp_path / "a", "--labels", "both")["start"]["labels"] == "both"
    assert page_of(run, tmp_path / "b", "--labels", "index")["start"]["labels"] == "auto"
