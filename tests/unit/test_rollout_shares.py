"""Shares of rollout over sentences, against sums by hand and a slow loop."""

from __future__ import annotations

import numpy as np
import pytest
from attention_samples import make_record, without_heads

from seq2seq.analysis.rollout import decoder_rollout, rollout
from seq2seq.analysis.rollout_shares import PARTS, RolloutShares
from seq2seq.errors import UserError


def slowly(records):
    """Kind, layer → part → mean share, cell by cell."""
    rows = {}
    for maps in records:
        decoder = decoder_rollout(maps)
        for layer, held in enumerate(rollout(maps)):
            for i in range(len(maps.src) - 1):  # not </s>
                found = dict.fromkeys(PARTS["enc"], 0.0)
                for j, share in enumerate(held[i]):
                    name = {0: "itself", 1: "neighbours"}.get(abs(i - j), "other words")
                    found["markers" if j == len(maps.src) - 1 else name] += share
                rows.setdefault(("enc", layer), []).append(found)
        for layer, held in enumerate(decoder):
            for i in range(1, len(maps.tgt_in)):  # not <s>
                found = dict.fromkeys(PARTS["dec"], 0.0)
                for j in range(i + 1):
                    name = {0: "itself", 1: "previous"}.get(i - j, "earlier words")
                    found["markers" if j == 0 else name] += held.target[i, j] / held.target[i].sum()
                rows.setdefault(("dec", layer), []).append(found)
            for i in range(len(maps.tgt_out) - 1):  # not </s>
                source = held.source[i] / held.source[i].sum()
                strongest = source[:-1].max()
                values = (strongest, source[:-1].sum() - strongest, source[-1])
                found = dict(zip(PARTS["cross"], values, strict=True))
                rows.setdefault(("cross", layer), []).append(found)
    return {
        place: {name: np.mean([row[name] for row in found]) for name in found[0]}
        for place, found in rows.items()
    }


def test_shares_are_means_over_all_rows_of_words():
    records = [make_record(), make_record(["a", "b", "c", "d", "e"], ["x"], seed=1)]
    shares = RolloutShares()
    for maps in records:
        shares.add(maps)
    expected = slowly(records)
    found = shares.shares()
    assert list(found) == [*(("enc", i) for i in range(2)), *(("dec", i) for i in range(3)),
                           *(("cross", i) for i in range(3))]  # fmt: skip
    for place, parts in found.items():
        assert parts == pytest.approx(expected[place], abs=1e-6)
        assert sum(parts.values()) == pytest.approx(1)


def test_layers_without_heads_keep_what_there_was():
    maps = without_heads(make_record(), "enc", 1, [])
    shares = RolloutShares()
    shares.add(maps)
    found = shares.shares()
    assert found["enc", 0] == found["enc", 1]


def test_a_decoder_that_reads_nothing_holds_nothing_of_the_source():
    maps = make_record()
    for layer in range(3):
        maps = without_heads(maps, "cross", layer, [])
    shares = RolloutShares()
    shares.add(maps)
    assert set(shares.shares()["cross", 0].values()) == {0.0}


def test_the_file_says_where_it_comes_from():
    shares = RolloutShares()
    assert shares.to_csv() == "kind,layer,part,share\n"
    shares.add(make_record())
    first, header, *lines = shares.to_csv(["run demo"]).splitlines()
    assert (first, header) == ("# run demo", "kind,layer,part,share")
    assert len(lines) == 2 * 4 + 3 * 4 + 3 * 3
    value = shares.shares()["enc", 0]["itself"]
    assert lines[0] == f"enc,0,itself,{value:.9g}"


def test_records_without_all_layers_are_refused():
    with pytest.raises(UserError, match="needs all layers"):
        RolloutShares().add(make_record().select(layers=[1]))
