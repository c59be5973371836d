"""The CTranslate2 backend against our own search: the same texts and scores, or a clear refusal."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_model

from seq2seq.config import DecodeConfig, ModelConfig, RunConfig, TokenizerConfig
from seq2seq.config_file import save_config
from seq2seq.data.batching import make_batch
from seq2seq.data.tokenizer import train_tokenizer
from seq2seq.decoding.translator import Translator
from seq2seq.errors import UserError
from seq2seq.model.transformer import Transformer
from seq2seq.run_folder import LoadedRun, load_run
from seq2seq.training.loss import summed_loss

pytest.importorskip("ctranslate2", reason="needs the ctranslate2 extra")
from seq2seq.decoding.ctranslate2 import CTranslate2Translator

LINES = ["a b c", "", "hgfedcba abc", "b", "abcdefgh abcdefgh hgf", "c a b a c"]


def make_run(folder: Path, updates: int = 0, **options: object) -> LoadedRun:
    """A model trained a little to copy, so that outputs end and control pieces are unlikely."""
    tokenizer = train_tokenizer(
        TokenizerConfig(kind="char", vocab_size=100), ["abcdefgh", "hgf e d"], ["abcdefgh", "h g"]
    )
    sizes = {"d_model": 16, "d_ff": 32, "encoder_layers": 2, "decoder_layers": 3}
    config = RunConfig(
        tokenizer=TokenizerConfig(kind="char"),
        model=ModelConfig(**{**sizes, "encoder_heads": 2, "decoder_heads": 2, **options}),  # type: ignore[arg-type]
    )
    config.model.source_vocab, config.model.target_vocab = (
        tokenizer.source_vocab,
        tokenizer.target_vocab,
    )
    torch.manual_seed(3)
    model = Transformer(config.model)
    if not updates:
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.7 * torch.randn_like(parameter))
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    random = np.random.default_rng(1)
    for _ in range(updates):
        lines = ["".join(random.choice(list("abcdefgh "), size=9)).strip() for _ in range(24)]
        ids = tokenizer.encode_source(lines)
        batch = make_batch(ids, ids)
        logits = model(batch.source, batch.target_in)
        optimiser.zero_grad()
        summed_loss(logits, batch.target_out, 0.0)[0].div(batch.tokens).backward()
        optimiser.step()
    (folder / "step-1").mkdir(parents=True)
    save_model(model, str(folder / "step-1" / "model.safetensors"))
    (folder / "best.json").write_text('{"step": 1}')
    tokenizer.save(folder)
    save_config(config, folder / "config.json")
    return load_run(folder, device="cpu")


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"norm": "pre", "tying": "none"},
        {"norm": "pre", "activation": "gelu", "tying": "none"},
        {"positions": "learned", "tying": "decoder", "max_positions": 600},
    ],
)
def test_every_kind_of_model_gives_the_same_pieces(
    tmp_path: Path, options: dict[str, object]
) -> None:
    """Untrained, which is as varied as can be; all outputs of one length."""
    run = make_run(tmp_path / "run", **options)
    decode = DecodeConfig(beam=1, max_len_a=0.0, max_len_b=6, min_len=6)
    own = Translator(run.model, run.tokenizer, decode).translate(LINES)
    theirs = CTranslate2Translator(run, "best", "float32", decode).translate(LINES)
    assert [t.tokens for t in theirs] == [t.tokens for t in own]
    assert all(t.hit_limit for t in theirs if t.tokens)
    assert len({t.text for t in own}) > 2


@pytest.mark.parametrize("beam", [1, 4])
def test_texts_and_scores_are_those_of_our_search(tmp_path: Path, beam: int) -> None:
    run = make_run(tmp_path / "run", updates=120, norm="pre", tying="none")
    decode = DecodeConfig(beam=beam, alpha=0.6, max_len_a=2.0, max_len_b=20)
    own = Translator(run.model, run.tokenizer, decode).translate(LINES)
    theirs = CTranslate2Translator(run, "best", "float32", decode).translate(LINES)
    assert [t.text for t in theirs] == [t.text for t in own]
    assert [t.hit_limit for t in theirs] == [t.hit_limit for t in own]
    assert sum(not t.hit_limit for t in own) > 2
    for mine, other in zip(own, theirs, strict=True):  # but for the share of what is never produced
        if not mine.hit_limit:
            assert other.score == pytest.approx(mine.score, abs=0.03)
            assert other.score >= mine.score - 1e-4


def test_int8_translates_and_the_exported_model_is_kept(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    translator = CTranslate2Translator(run, "best", "int8", DecodeConfig(beam=2))
    folder = run.path / "step-1" / "ctranslate2"
    before = (folder / "model.bin").stat().st_mtime_ns
    found = translator.translate(LINES)
    assert len(found) == len(LINES)
    assert found[1].text == ""
    CTranslate2Translator(run, "best", "float32", DecodeConfig())
    assert (folder / "model.bin").stat().st_mtime_ns == before
    assert [p.name for p in folder.parent.iterdir() if "ctranslate2." in p.name] == []


@pytest.mark.parametrize(
    "options", [{"d_k": 4, "d_v": 4}, {"encoder_heads": 4}, {"d_v": 3, "d_k": 8}]
)
def test_models_it_has_no_form_for_are_refused(tmp_path: Path, options: dict[str, int]) -> None:
    run = make_run(tmp_path / "run", **options)
    with pytest.raises(UserError, match="no form for a model"):
        CTranslate2Translator(run, "best", "float32", DecodeConfig())
    assert not (run.path / "step-1" / "ctranslate2").exists()


def test_what_it_cannot_do_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(tmp_path / "run")
    translator = CTranslate2Translator(run, "best", "float32", DecodeConfig())
    with pytest.raises(UserError, match="does not sample"):
        translator.translate(["a"], search="sample")
    assert translator._fit(100_000) == 4095  # rows of the table of positions, less one
    with pytest.raises(UserError, match="cannot compute in int3"):
        CTranslate2Translator(run, "best", "int3", DecodeConfig())
    shutil.rmtree(run.path / "step-1" / "ctranslate2")
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(UserError, match=r'pip install "seq2seq-attention\[ctranslate2\]"'):
        CTranslate2Translator(run, "best", "float32", DecodeConfig())
