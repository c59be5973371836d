"""What only a GPU shows: the same translations, maps and learning as on the CPU."""

from __future__ import annotations

import pytest
import torch

from seq2seq.choices import Precision
from seq2seq.config import ModelConfig, OptimConfig
from seq2seq.data.batching import make_batch
from seq2seq.decoding.beam import beam_search
from seq2seq.device import autocast
from seq2seq.model.transformer import Transformer
from seq2seq.training.loss import summed_loss
from seq2seq.training.optim import build_optimizer

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


# A layer with gaps, and attentions of every kind without any head: tensors of no entry.
GONE = [
    "enc.0.1",
    *(f"{place}.{head}" for place in ("enc.1", "dec.0", "cross.1") for head in range(4)),
]
HEADS = pytest.mark.parametrize("removed", [None, GONE], ids=["all heads", "some heads"])


def small_model(removed: list[str] | None = None) -> Transformer:
    torch.manual_seed(0)
    config = ModelConfig(
        d_model=32,
        d_ff=64,
        encoder_layers=2,
        decoder_layers=2,
        source_vocab=40,
        target_vocab=40,
        dropout=0.0,
        embedding_dropout=0.0,
        removed_heads=removed,
    )
    return Transformer(config).eval()


def sources() -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(4, 40, (6, 9), generator=generator)
    ids[:3, 6:] = 0
    return ids


@HEADS
def test_logits_and_maps_equal_those_of_the_cpu(removed: list[str] | None) -> None:
    model, source = small_model(removed), sources()
    target = source.flip(1).clamp(min=4)
    expected = model.attention_weights(source, target)
    model.cuda()
    found = model.attention_weights(source.cuda(), target.cuda())
    torch.testing.assert_close(found.logits.cpu(), expected.logits, atol=1e-4, rtol=1e-4)
    for mine, theirs in zip(found.cross, expected.cross, strict=True):
        torch.testing.assert_close(mine.cpu(), theirs, atol=1e-5, rtol=1e-4)
    fused = model(source.cuda(), target.cuda())
    torch.testing.assert_close(fused.cpu(), expected.logits, atol=1e-4, rtol=1e-4)


@HEADS
def test_beam_search_finds_the_same_pieces(removed: list[str] | None) -> None:
    model, source = small_model(removed), sources()

    def search(device: str) -> list[list[int]]:
        model.to(device)
        state = model.start(source.to(device), beam=4, max_len=12)
        found = beam_search(
            model.step,
            state,
            batch=6,
            beam=4,
            bos=2,
            eos=3,
            pad=0,
            max_len=torch.full((6,), 12, device=device),
            alpha=1.0,
        )
        return [hypotheses[0].tokens for hypotheses in found]

    assert search("cuda") == search("cpu")


@HEADS
@pytest.mark.parametrize("precision", [Precision.fp32, Precision.bf16, Precision.fp16])
def test_every_precision_learns_to_copy(precision: Precision, removed: list[str] | None) -> None:
    model = small_model(removed).cuda().train()
    optimizer = build_optimizer(model, OptimConfig())
    scaler = torch.amp.GradScaler("cuda", enabled=precision is Precision.fp16)
    generator = torch.Generator().manual_seed(2)
    rows = torch.randint(4, 40, (32, 5), generator=generator).tolist()
    batch = make_batch(rows, rows).to(torch.device("cuda"))
    for group in optimizer.param_groups:
        group["lr"] = 3e-3
    losses = []
    for _ in range(150):
        with autocast(torch.device("cuda"), precision):
            logits = model(batch.source, batch.target_in)
        smoothed, plain = summed_loss(logits, batch.target_out, 0.0)
        scaler.scale(smoothed / batch.tokens).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        losses.append(float(plain) / batch.tokens)
    assert losses[-1] < 0.2 < losses[0]
