"""Text to pieces and back: nothing is lost, nothing is mistaken for a control piece."""

from __future__ import annotations

import logging
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq.choices import Normalization, SubwordKind
from seq2seq.config import BOS, EOS, PAD, UNK, TokenizerConfig
from seq2seq.data.tokenizer import (
    JOINT,
    SOURCE,
    TARGET,
    Tokenizer,
    normalise,
    train_tokenizer,
)
from seq2seq.errors import UserError

ENGLISH = [
    "the quick brown fox jumps over the lazy dog",
    "the dog sleeps and the fox runs",
    "a small brown dog jumps over a quick fox",
    "use </s> to end, <pad> to fill, <unk> or <s>",
]
RUSSIAN = [
    "быстрая лиса прыгает через ленивую собаку",
    "собака спит, а лиса бежит",
    "маленькая собака прыгает через быструю лису",
    "конец: </s>",
]


def trained(
    source: list[str] = ENGLISH, target: list[str] = RUSSIAN, **options: object
) -> Tokenizer:
    return train_tokenizer(TokenizerConfig(**options), source, target)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def joint() -> Tokenizer:
    return trained()


def round_trip(tokenizer: Tokenizer, text: str) -> str:
    return tokenizer.decode_target(tokenizer.encode_target([text])[0])


@pytest.mark.parametrize("kind", [SubwordKind.unigram, SubwordKind.bpe])
def test_a_vocabulary_too_large_for_the_text_is_lowered_aloud(
    kind: SubwordKind, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="seq2seq"):
        tokenizer = trained(kind=kind, vocab_size=8000)
    assert 40 < tokenizer.source_vocab < 8000
    assert len(caplog.records) == 1
    message = caplog.records[0].getMessage()
    assert "8000" in message
    assert str(tokenizer.source_vocab) in message
    # What was said to be possible is possible, without a word.
    caplog.clear()
    again = trained(kind=kind, vocab_size=tokenizer.source_vocab)
    assert not caplog.records
    assert again.models == tokenizer.models


@pytest.mark.parametrize("kind", list(SubwordKind))
def test_a_vocabulary_too_small_names_the_smallest_that_would_do(kind: SubwordKind) -> None:
    source, target = ["abc de"], ["xyz"]
    needed = len("abcdexyz") + 4 + 1  # characters, control pieces, the mark of a space
    with pytest.raises(UserError, match=f"vocab_size=7 is too small .* need {needed};"):
        trained(source, target, kind=kind, vocab_size=7)
    tokenizer = trained(source, target, kind=kind, vocab_size=needed)
    assert tokenizer.source_vocab == needed
    assert UNK not in tokenizer.encode_source(["cab ed"])[0]


def test_characters_as_pieces() -> None:
    tokenizer = trained(["ab ab"], ["ба"], kind=SubwordKind.char)
    pieces = tokenizer.source_pieces(tokenizer.encode_source(["ab ba"])[0])
    assert pieces == ["▁", "a", "b", "▁", "b", "a"]
    assert tokenizer.source_vocab == 4 + len("▁abба")


def test_one_vocabulary_for_both_languages_or_one_each(joint: Tokenizer, tmp_path: Path) -> None:
    assert joint.joint
    assert joint.source_vocab == joint.target_vocab
    assert joint.encode_source(RUSSIAN) == joint.encode_target(RUSSIAN)
    assert not any(UNK in ids for ids in joint.encode_source(ENGLISH + RUSSIAN))
    separate = trained(joint=False)
    assert not separate.joint
    assert UNK in separate.encode_source(RUSSIAN)[0]  # was trained on English alone
    assert UNK not in separate.encode_target(RUSSIAN)[0]
    assert UNK in separate.encode_target(ENGLISH)[0]
    for tokenizer, names in ((joint, {JOINT}), (separate, {SOURCE, TARGET})):
        folder = tmp_path / "-".join(sorted(names))
        folder.mkdir()
        tokenizer.save(folder)
        assert {file.name for file in folder.iterdir()} == names
        loaded = Tokenizer.load(folder, tokenizer.normalization)
        assert loaded.models == tokenizer.models
        assert loaded.joint == tokenizer.joint


def test_control_pieces_have_fixed_ids(joint: Tokenizer) -> None:
    assert (PAD, UNK, BOS, EOS) == (0, 1, 2, 3)
    assert joint.source_pieces([0, 1, 2, 3]) == ["<pad>", "<unk>", "<s>", "</s>"]
    assert joint.target_pieces([3, 0]) == ["</s>", "<pad>"]
    assert joint.decode_target([BOS, *joint.encode_target(["лиса"])[0], EOS, PAD]) == "лиса"
    assert joint.decode_target([UNK, EOS]) == ""


@pytest.mark.parametrize("text", ["</s>", "<pad>", "<unk>", "<s>", "use </s> to end", "<0x41>"])
@pytest.mark.parametrize("kind", list(SubwordKind))
@pytest.mark.parametrize("fallback", [False, True])
def test_text_that_looks_like_a_control_piece_is_text(
    text: str, kind: SubwordKind, fallback: bool
) -> None:
    source = [*ENGLISH, "0123456789 ABCDEFx"]
    tokenizer = trained(source, source, kind=kind, byte_fallback=fallback)
    ids = tokenizer.encode_source([text])[0]
    assert not {PAD, UNK, BOS, EOS} & set(ids)
    assert tokenizer.decode_target(ids) == text


COMPOSED, DECOMPOSED = "café", "cafe\u0301"


def test_composed_and_decomposed_letters_are_alike_unless_turned_off() -> None:
    text = [f"le {COMPOSED} noir", f"un {DECOMPOSED} au lait"]
    assert unicodedata.normalize("NFD", COMPOSED) == DECOMPOSED
    nfc = trained(text, text)
    assert nfc.encode_source([COMPOSED]) == nfc.encode_source([DECOMPOSED])
    identity = trained(text, text, normalization=Normalization.identity)
    assert identity.encode_source([COMPOSED]) != identity.encode_source([DECOMPOSED])
    assert round_trip(identity, DECOMPOSED) == DECOMPOSED


ODD = "ﬁ ½ Ａ x² ︰ ﷺ क्‍ष می‌خواهم"


def test_only_nfkc_rewrites_characters() -> None:
    for rule in (Normalization.nfc, Normalization.identity):
        assert round_trip(trained([ODD], [ODD], normalization=rule), ODD) == ODD
    nfkc = trained([ODD], [ODD], normalization=Normalization.nfkc)
    assert round_trip(nfkc, "ﬁ Ａ x²") == "fi A x2"


def test_rare_letters_survive() -> None:
    """One letter seen once in 2,000 lines, and a letter never seen."""
    lines = ["the quick brown fox"] * 1999 + ["the quick brown fox ж"]
    tokenizer = trained(lines, lines)
    assert round_trip(tokenizer, "quick ж fox") == "quick ж fox"
    assert UNK in tokenizer.encode_source(["語"])[0]
    assert round_trip(tokenizer, "quick 語 fox").split() == ["quick", "fox"]  # no ⁇, no <unk>
    fallback = trained(lines, lines, byte_fallback=True)
    assert UNK not in fallback.encode_source(["語 😀"])[0]
    assert round_trip(fallback, "quick 語 😀") == "quick 語 😀"


@pytest.mark.parametrize("break_", ["\n", "\r", "\t", "\v", "\x0c", "\x1c", "\x85", "\u2028"])
def test_line_breaks_of_all_kinds_become_spaces(break_: str, joint: Tokenizer) -> None:
    assert normalise(f"a{break_}b", Normalization.identity) == "a b"
    assert round_trip(joint, f"лиса{break_}спит") == "лиса спит"


@given(st.lists(st.sampled_from([*ENGLISH[0], *RUSSIAN[0], *" <>/", "é", "e\u0301"]), max_size=30))
@settings(deadline=None, derandomize=True, max_examples=60)
def test_decoding_undoes_encoding(characters: list[str]) -> None:
    tokenizer = _tokenizer_of_the_property()
    text = "".join(characters)
    expected = " ".join(normalise(text, Normalization.nfc).split())
    assert round_trip(tokenizer, text) == expected


_cache: list[Tokenizer] = []


def _tokenizer_of_the_property() -> Tokenizer:
    if not _cache:
        _cache.append(trained([*ENGLISH, "é e \u0301"], [*RUSSIAN, "éàâ"], byte_fallback=True))
    return _cache[0]


@pytest.mark.parametrize("kind", list(SubwordKind))
@pytest.mark.parametrize("pair", [("a", "b"), ("我们今天去公园玩", "क्या हाल है"), ("x" * 40, "y")])
def test_one_line_is_enough(kind: SubwordKind, pair: tuple[str, str]) -> None:
    for is_joint in (True, False):
        tokenizer = trained([pair[0]], [pair[1]], kind=kind, joint=is_joint)
        assert UNK not in tokenizer.encode_source([pair[0]])[0]
        assert round_trip(tokenizer, pair[1]) == pair[1]


def test_a_very_long_line_is_not_left_out_of_training() -> None:
    line = "я " * 50_000  # 150,000 bytes: more than SentencePiece reads at once
    tokenizer = trained([line], ["b"], kind=SubwordKind.bpe)
    assert UNK not in tokenizer.encode_source(["яя"])[0]
    assert len(tokenizer.encode_source([line])[0]) >= 50_000  # and encoding sees all of it


def test_no_text_at_all() -> None:
    with pytest.raises(UserError, match="no text to train the tokenizer of both languages"):
        trained([" ", "\u2028"], ["", "\t"])


def test_the_same_text_gives_the_same_model(joint: Tokenizer) -> None:
    assert trained().models == joint.models
    assert trained(ENGLISH[::-1], RUSSIAN[::-1], sample=2).models != joint.models


def test_only_the_first_lines_are_sampled() -> None:
    """`sample` bounds the memory: what comes later is not even read."""

    def endless() -> object:
        yield from ENGLISH
        while True:
            yield "zzz"

    tokenizer = train_tokenizer(TokenizerConfig(sample=8), endless(), endless())  # type: ignore[arg-type]
    assert UNK in tokenizer.encode_source(["zzz"])[0] or "zzz" not in str(
        tokenizer.source_pieces(tokenizer.encode_source(["zzz"])[0])
    )


def test_a_damaged_or_missing_model_is_said_to_be_so(joint: Tokenizer, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has no tokenizer"):
        Tokenizer.load(tmp_path, Normalization.nfc)
    for content in (b"", b"not a model", joint.models[0][1:]):
        (tmp_path / JOINT).write_bytes(content)
        with pytest.raises(UserError, match="damaged"):
            Tokenizer.load(tmp_path, Normalization.nfc)


def test_no_texts(joint: Tokenizer) -> None:
    assert joint.encode_source([]) == []
    assert joint.encode_source(["", "  "]) == [[], []]
    assert joint.decode_target([]) == ""
