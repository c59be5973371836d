"""Subword tokenisation with SentencePiece, trained on the user's own raw text."""

from __future__ import annotations

import io
import logging
import re
import unicodedata
from collections.abc import Iterable, Iterator
from pathlib import Path

import sentencepiece as spm

from seq2seq.choices import Normalization, SubwordKind
from seq2seq.config import BOS, EOS, PAD, UNK, TokenizerConfig
from seq2seq.errors import UserError

logger = logging.getLogger(__name__)

JOINT, SOURCE, TARGET = "tokenizer.model", "tokenizer.source.model", "tokenizer.target.model"
LONGEST = 10_000  # characters of a line that the tokenizer is trained on
CONTROL = {PAD: "<pad>", UNK: "<unk>", BOS: "<s>", EOS: "</s>"}
_LIKE_CONTROL = re.compile("<(?=pad>|unk>|s>|/s>)")

# Control characters and the Unicode line and paragraph separators cannot stand in a one-line
# sentence that is written out again, so they become spaces.
_BREAKS = {
    code: " "
    for code in (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029)
    if unicodedata.category(chr(code)) in {"Cc", "Zl", "Zp"}
}


class Tokenizer:
    """Text to piece ids and back, for both languages.

    Ids never contain begin or end of sentence; whoever builds model inputs adds them. Text that
    looks like a control piece (`</s>`) is ordinary text.

    Args:
        source: serialised SentencePiece model of the source language.
        target: of the target language; the same bytes for a joint vocabulary.
        normalization: applied to text before splitting.
    """

    def __init__(self, source: bytes, target: bytes, normalization: Normalization) -> None:
        self.models = (source, target)
        self.normalization = normalization
        self._source = spm.SentencePieceProcessor(model_proto=source)
        self._target = self._source
        if target != source:
            self._target = spm.SentencePieceProcessor(model_proto=target)

    @property
    def joint(self) -> bool:
        """Whether both languages share one vocabulary."""
        return self._source is self._target

    @property
    def source_vocab(self) -> int:
        """Number of source pieces, control pieces included."""
        return int(self._source.get_piece_size())

    @property
    def target_vocab(self) -> int:
        """Number of target pieces, control pieces included."""
        return int(self._target.get_piece_size())

    def encode_source(self, texts: list[str]) -> list[list[int]]:
        """Piece ids of each source text, without begin and end of sentence."""
        return self._encode(self._source, texts)

    def encode_target(self, texts: list[str]) -> list[list[int]]:
        """Piece ids of each target text, without begin and end of sentence."""
        return self._encode(self._target, texts)

    def decode_target(self, ids: list[int]) -> str:
        """Detokenised text; control ids and unknowns are left out."""
        text: str = self._target.decode([i for i in ids if i not in CONTROL])
        return text.translate(_BREAKS)

    def source_pieces(self, ids: list[int]) -> list[str]:
        """The pieces of source ids, control pieces as <s>, </s>, <unk>, <pad>."""
        return [CONTROL.get(i) or str(self._source.id_to_piece(i)) for i in ids]

    def target_pieces(self, ids: list[int]) -> list[str]:
        """The pieces of target ids, control pieces as <s>, </s>, <unk>, <pad>."""
        return [CONTROL.get(i) or str(self._target.id_to_piece(i)) for i in ids]

    def _encode(self, model: spm.SentencePieceProcessor, texts: list[str]) -> list[list[int]]:
        return model.encode([normalise(text, self.normalization) for text in texts])

    def save(self, folder: Path) -> None:
        """Write the model file, or the two of separate vocabularies, into a run folder."""
        if self.joint:
            (folder / JOINT).write_bytes(self.models[0])
        else:
            (folder / SOURCE).write_bytes(self.models[0])
            (folder / TARGET).write_bytes(self.models[1])

    @classmethod
    def load(cls, folder: Path, normalization: Normalization) -> Tokenizer:
        """Read what `save` wrote.

        Raises:
            UserError: no model file there, or a damaged one.
        """
        names = (JOINT, JOINT) if (folder / JOINT).exists() else (SOURCE, TARGET)
        damaged = UserError(f"The tokenizer in {folder} is damaged: copy it anew.")
        try:
            source, target = ((folder / name).read_bytes() for name in names)
            if not (source and target):
                raise damaged
            return cls(source, target, normalization)
        except FileNotFoundError as error:
            raise UserError(f"{error.filename} is missing: {folder} has no tokenizer.") from None
        except RuntimeError:
            raise damaged from None


def normalise(text: str, normalization: Normalization) -> str:
    """`text` as the tokenizer sees it: line breaks of all kinds become spaces, then NFC if asked.

    SentencePiece itself applies the nfkc rules.
    """
    text = text.translate(_BREAKS)
    return unicodedata.normalize("NFC", text) if normalization is Normalization.nfc else text


def train_tokenizer(
    config: TokenizerConfig, source: Iterable[str], target: Iterable[str]
) -> Tokenizer:
    """Train on raw sentences; the same input gives the same model.

    Args:
        config: kind, size and options.
        source: source sentences, read once.
        target: target sentences, read once.

    Raises:
        UserError: no text, or a vocabulary smaller than the characters of the text.
    """
    if config.joint:
        model = _train(config, _interleave(source, target), "both languages")
        return Tokenizer(model, model, config.normalization)
    models = (_train(config, source, "the source"), _train(config, target, "the target"))
    return Tokenizer(*models, config.normalization)


def _interleave(*streams: Iterable[str]) -> Iterator[str]:
    for texts in zip(*streams, strict=True):
        yield from texts


def _train(config: TokenizerConfig, texts: Iterable[str], what: str) -> bytes:
    texts = (normalise(text, config.normalization) for text in _sample(texts, config.sample))
    # Two mercies to SentencePiece's trainer, which passes over long lines, be they the only ones,
    # and over text that looks like a control piece, as if it had no characters.
    lines = [_LIKE_CONTROL.sub("< ", text[:LONGEST]) for text in texts]
    lines = [line for line in lines if line.strip()]
    if not lines:
        raise UserError(f"There is no text to train the tokenizer of {what} on.")
    size = config.vocab_size
    if config.kind is SubwordKind.char and config.coverage == 1.0:
        # SentencePiece would drop the rarest characters without a word.
        needed = len(set("".join(lines)) - {" "}) + 1 + len(CONTROL)
        if size < needed:
            raise _too_small(size, needed, what)
    for _ in range(4):
        try:
            return _run(config, lines, size)
        except RuntimeError as error:
            fitting = _fitting_size(str(error), size, what)
            logger.warning(
                "The vocabulary of %d pieces asked for is more than this text gives: using %d.",
                config.vocab_size,
                fitting,
            )
            size = fitting
    raise UserError(f"No vocabulary size fits the text of {what}: try tokenizer.kind=char.")


def _run(config: TokenizerConfig, lines: list[str], size: int) -> bytes:
    model = io.BytesIO()
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        model_type=str(config.kind),
        vocab_size=size,
        character_coverage=config.coverage,
        byte_fallback=config.byte_fallback,
        normalization_rule_name="nmt_nfkc"
        if config.normalization is Normalization.nfkc
        else "identity",
        hard_vocab_limit=config.kind is not SubwordKind.char,  # char: as many as there are
        pad_id=PAD,
        unk_id=UNK,
        bos_id=BOS,
        eos_id=EOS,
        max_sentence_length=8 * LONGEST,  # bytes
        num_threads=1,  # more threads make the result depend on their order
        minloglevel=2,
    )
    return model.getvalue()


def _fitting_size(error: str, asked: int, what: str) -> int:
    """The size that SentencePiece's message says would do.

    Raises:
        UserError: the size is below what the characters need; names the smallest.
    """
    high = re.search(r"value <= (\d+)", error)
    if high and int(high[1]) < asked:
        return int(high[1])
    low = re.search(r"smaller than required_chars\. (\d+) vs (\d+)", error)
    if low:
        raise _too_small(asked, int(low[2]), what)
    raise UserError(f"SentencePiece could not train on {what}: {error.strip()}")


def _too_small(asked: int, needed: int, what: str) -> UserError:
    return UserError(
        f"tokenizer.vocab_size={asked} is too small for {what}: the characters of the text alone "
        f"need {needed}; ask for at least that, or lower tokenizer.coverage."
    )


def _sample(texts: Iterable[str], count: int) -> Iterator[str]:
    # The first lines rather than random ones: reproducible without a pass to count them.
    for index, text in enumerate(texts):
        if index == count:
            return
        yield text
