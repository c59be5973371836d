"""Which pictures a record gets where heads are missing: numbers stay, nothing empty is drawn."""

from __future__ import annotations

import pytest
from attention_samples import make_record, without_heads

from seq2seq.errors import UserError
from viz.gallery import Wish, files, pictures
from viz.page_data import entry

EVERYTHING = ("overview", "layer", "average", "head")


def names(maps, **wish):
    return [name for name, _ in pictures(maps, Wish(**wish), single=True)]


@pytest.fixture
def bare():
    """Decoder 3 layers × 2 heads, without those of layer 1 of cross-attention and head 2.0."""
    return without_heads(without_heads(make_record(), "cross", 1, []), "cross", 2, [1])


def test_a_layer_without_heads_has_no_picture_of_its_own(bare):
    assert names(bare, kinds=("cross",), figures=EVERYTHING) == [
        "cross_overview",
        "cross_L0", "cross_L0_mean", "cross_L0H0", "cross_L0H1",
        "cross_L2", "cross_L2_mean", "cross_L2H1",
    ]  # fmt: skip


def test_the_last_layer_is_the_last_that_has_heads():
    maps = without_heads(make_record(), "cross", 2, [])
    found = [name for name, _ in pictures(maps, Wish(kinds=("cross",)), single=False)]
    assert found == ["cross_overview", "cross_L1"]


def test_a_chosen_head_is_drawn_where_it_is(bare):
    assert names(bare, kinds=("cross",), heads=(0,), figures=("layer", "head")) == [
        "cross_L0",
        "cross_L0H0",
    ]
    # Encoder 4 heads, decoder 2: head 3 is in the encoder only.
    assert names(bare, heads=(3,), figures=("layer",)) == ["enc_L0", "enc_L1"]


def test_a_kind_without_heads_is_noted():
    maps = make_record()
    for layer in range(3):
        maps = without_heads(maps, "dec", layer, [])
    content, notes = files(maps, Wish(kinds=("dec", "cross"), figures=("overview",)), single=True)
    assert sorted(content) == [".npz", "_cross_overview.png"]
    assert notes == ["no head of decoder self-attention is left, so it has no picture."]
    with pytest.raises(UserError, match="no such heads left"):
        files(maps, Wish(kinds=("dec",)), single=True)


def test_a_record_without_any_head_has_no_page():
    maps = make_record().select(kinds=["enc"])
    for layer in range(2):
        maps = without_heads(maps, "enc", layer, [])
    with pytest.raises(UserError, match="holds no head"):
        entry(maps)
