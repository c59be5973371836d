from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from attention_samples import make_record, with_weights, without_heads

from seq2seq.attention_maps import AttentionError, AttentionMaps
from seq2seq.errors import UserError


def changed(maps: AttentionMaps, kind: str, index: tuple[int, ...], value: float) -> AttentionMaps:
    weights = maps.layers(kind)[1].copy()
    weights[index] = value
    return with_weights(maps, kind, 1, weights)


def test_a_sound_record_passes() -> None:
    make_record().check()


@pytest.mark.parametrize(
    ("kind", "index", "value", "words"),
    [
        ("enc", (3, 2, 1), np.nan, "encoder self-attention layer 1 head 3 row 2 column 1: nan"),
        ("enc", (0, 0, 0), -0.1, "encoder self-attention layer 1 head 0 row 0 column 0: -0.1"),
        ("cross", (1, 4, 0), 1.5, "cross-attention layer 1 head 1 row 4 column 0: 1.5"),
        ("dec", (1, 2, 4), 1e-12, "decoder self-attention layer 1 head 1 row 2 column 4: 1e-12"),
    ],
)
def test_a_broken_weight_is_named(
    kind: str, index: tuple[int, ...], value: float, words: str
) -> None:
    with pytest.raises(AttentionError, match=words):
        changed(make_record(), kind, index, value).check()


def test_rows_must_sum_to_one() -> None:
    maps = make_record()
    weights = maps.cross[2].copy()
    weights[1, 3] *= 0.999
    with pytest.raises(AttentionError, match=r"layer 2 head 1 row 3: 0\.999 is the row's sum"):
        with_weights(maps, "cross", 2, weights).check()
    with_weights(maps, "cross", 2, weights).check(atol=1e-2)


def test_a_record_from_sixteen_bits_carries_its_own_tolerance() -> None:
    maps = make_record()
    weights = maps.cross[2] * 0.995
    coarse = replace(with_weights(maps, "cross", 2, weights), meta={"tolerance": 1e-2})
    coarse.check()
    with pytest.raises(AttentionError):
        replace(coarse, meta={}).check()


def test_a_batch_is_refused_never_guessed() -> None:
    # As many sentences as heads, so that a guess could go wrong unseen.
    maps = make_record()
    batch = np.stack([maps.dec[0]] * 2)
    with pytest.raises(AttentionError, match=r"\(2, 2, 5, 5\).*one sentence, never a batch"):
        with_weights(maps, "dec", 0, batch).check()


def test_encoder_weights_passed_as_cross_are_refused() -> None:
    maps = make_record()
    with pytest.raises(AttentionError, match=r"cross-attention layer 0.*5 tgt_out labels.*4 src"):
        with_weights(maps, "cross", 0, maps.enc[0][:2]).check()


@pytest.mark.parametrize("side", ["src", "tgt_in", "tgt_out"])
def test_a_label_list_without_its_control_token_is_refused(side: str) -> None:
    maps = make_record()
    with pytest.raises(AttentionError, match=side):
        replace(maps, **{side: maps.labels(side)[:-1]}).check()


def test_identities_must_fit_the_weights() -> None:
    maps = make_record()
    with pytest.raises(AttentionError, match="encoder self-attention: 2 layers of weights, but 1"):
        replace(maps, layer_ids={**maps.layer_ids, "enc": [0]}).check()
    with pytest.raises(AttentionError, match="3 heads"):
        replace(maps, head_ids={**maps.head_ids, "enc": [[0, 1, 2], [0, 1, 2, 3]]}).check()
    with pytest.raises(AttentionError, match="logprob"):
        replace(maps, logprob=np.zeros(3)).check()


def test_saving_and_loading_gives_equal_bits(tmp_path) -> None:
    maps = without_heads(
        make_record(src=["</script>", "$x_1$", "\u2028", "", "שלום", "彼女"]), "enc", 1, [3]
    )
    maps = replace(maps, text={"source": 'a "b"\ud800\\', "target": "é\x00"})
    maps.save(tmp_path / "a.npz")
    again = AttentionMaps.load(tmp_path / "a.npz")
    for name in ("layer_ids", "head_ids", "src", "tgt_in", "tgt_out", "text", "meta"):
        assert getattr(again, name) == getattr(maps, name)
    for kind in ("enc", "dec", "cross"):
        for ours, theirs in zip(maps.layers(kind), again.layers(kind), strict=True):
            assert ours.dtype == theirs.dtype
            assert ours.tobytes() == theirs.tobytes()
    assert again.logprob is not None
    assert again.logprob.tobytes() == maps.logprob.tobytes()
    assert again.to_bytes() == maps.to_bytes()
    assert [path.name for path in tmp_path.iterdir()] == ["a.npz"]


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch) -> None:
    path = tmp_path / "a.npz"
    make_record().save(path)
    before = path.read_bytes()
    monkeypatch.setattr(
        "pathlib.Path.replace", lambda *_: (_ for _ in ()).throw(OSError(28, "full"))
    )
    with pytest.raises(UserError, match=r"Cannot write .*a\.npz: full"):
        make_record(seed=1).save(path)
    assert path.read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


def test_what_is_no_record_is_refused(tmp_path) -> None:
    with pytest.raises(UserError, match="does not exist"):
        AttentionMaps.load(tmp_path / "none.npz")
    (tmp_path / "text.npz").write_text("hello", encoding="utf-8")
    np.savez(tmp_path / "other.npz", a=np.zeros(3))
    np.savez(tmp_path / "pickle.npz", header=np.array([{"a": 1}], dtype=object))
    for name in ("text", "other", "pickle"):
        with pytest.raises(UserError, match="not an attention record"):
            AttentionMaps.load(tmp_path / f"{name}.npz")


def test_loading_checks_the_invariants(tmp_path) -> None:
    changed(make_record(), "enc", (0, 0, 0), 0.9).save(tmp_path / "a.npz")
    with pytest.raises(AttentionError, match="row 0"):
        AttentionMaps.load(tmp_path / "a.npz")


def test_a_newer_format_is_refused(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("seq2seq.attention_file.FORMAT_VERSION", 99)
    make_record().save(tmp_path / "a.npz")
    monkeypatch.undo()
    with pytest.raises(UserError, match="format version 99"):
        AttentionMaps.load(tmp_path / "a.npz")


def test_selection_keeps_original_numbers() -> None:
    maps = make_record(shape={"enc": (3, 4), "dec": (3, 4), "cross": (3, 4)})
    chosen = maps.select(kinds=["cross"], layers=[2], heads=[1, 3])
    assert chosen.layer_ids == {"enc": [], "dec": [], "cross": [2]}
    assert chosen.head_ids["cross"] == [[1, 3]]
    assert np.array_equal(chosen.head("cross", 2, 3), maps.cross[2][3])
    chosen.check()
    again = chosen.select(heads=[3])
    assert np.array_equal(again.head("cross", 2, 3), maps.cross[2][3])


def test_selection_by_identity_after_pruning() -> None:
    maps = without_heads(make_record(), "enc", 1, [3])
    assert maps.select(kinds=["enc"], heads=[3]).head_ids["enc"] == [[3], [3]]
    assert np.array_equal(maps.head("enc", 1, 3), make_record().enc[1][3])
    with pytest.raises(
        AttentionError, match=r"head 0 in encoder self-attention layer 1: .* holds 3"
    ):
        maps.head("enc", 1, 0)


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"layers": [5]}, "no layer 5: the record holds 0, 1, 2"),
        ({"kinds": ["enc"], "layers": [2]}, "no layer 2: the record holds 0, 1"),
        ({"kinds": ["dec"], "heads": [2]}, "no head 2: the record holds 0, 1"),
        ({"kinds": ["encoder"]}, "no attention kind encoder: the record holds enc, dec, cross"),
    ],
)
def test_unknown_identities_list_the_valid_ones(wanted: dict, words: str) -> None:
    with pytest.raises(AttentionError, match=words):
        make_record().select(**wanted)


def test_layer_is_by_number_not_by_place() -> None:
    maps = make_record().select(layers=[2])
    assert np.array_equal(maps.layer("dec", 2)[0], make_record().dec[2])
    with pytest.raises(AttentionError, match="layer 0: the record holds 2"):
        maps.layer("dec", 0)
    with pytest.raises(AttentionError, match="enc, dec, cross"):
        maps.layer("self", 0)


def test_reading_a_record_needs_no_torch() -> None:
    code = "import sys, seq2seq.attention_maps; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
