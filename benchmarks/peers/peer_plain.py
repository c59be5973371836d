"""PyTorch's own `nn.Transformer` in a loop of one's own; it has no cache and no beam search."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from inside import BOS, D_FF, D_MODEL, DROPOUT, EOS, HEADS, LAYERS, LENGTH, PAD, Job, main, timed

if TYPE_CHECKING:
    from venvs import Venv

TITLE = "plain nn.Transformer loop"
TRAINS, BEAMS = ("fp32",), {"fp32": (1,)}
PACKAGES = ("torch",)
VOCABULARY, LONGEST = 8000, 512


def install(venv: Venv) -> None:
    venv.use_torch()


def build(job: Job) -> Any:
    import torch
    from torch import nn

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(len(job.vocabulary), D_MODEL, padding_idx=PAD)
            nn.init.normal_(self.embedding.weight, std=D_MODEL**-0.5)
            self.dropout = nn.Dropout(DROPOUT)
            self.transformer = nn.Transformer(
                D_MODEL, HEADS, LAYERS, LAYERS, D_FF, DROPOUT, batch_first=True
            )
            rate = torch.exp(torch.arange(0, D_MODEL, 2) * (-math.log(10_000.0) / D_MODEL))
            angle = torch.arange(LONGEST)[:, None] * rate
            table = torch.stack([angle.sin(), angle.cos()], 2).flatten(1)
            self.register_buffer("positions", table)

        def embed(self, ids: torch.Tensor) -> torch.Tensor:
            vectors = self.embedding(ids) * math.sqrt(D_MODEL)
            return self.dropout(vectors + self.positions[: ids.shape[1]])

        def encode(self, source: torch.Tensor) -> torch.Tensor:
            mask = source == PAD
            return self.transformer.encoder(self.embed(source), src_key_padding_mask=mask)

        def decode(
            self, target: torch.Tensor, memory: torch.Tensor, source: torch.Tensor
        ) -> torch.Tensor:
            size = target.shape[1]
            causal = torch.ones(size, size, dtype=torch.bool).triu(1)
            return self.transformer.decoder(
                self.embed(target),
                memory,
                tgt_mask=causal,
                tgt_key_padding_mask=target == PAD,
                memory_key_padding_mask=source == PAD,
                tgt_is_causal=True,
            )

        def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            hidden = self.decode(target, self.encode(source), source)
            return hidden @ self.embedding.weight.T

    return Model()


def prepare(job: Job) -> None:
    """Nothing: decoding is as fast with random weights, for its length is fixed."""


def train(job: Job) -> None:
    import loop

    model = build(job)
    loop.train(job, model, model)


def decode(job: Job) -> dict[str, Any]:
    import loop
    import torch

    model = build(job).eval()
    lines = [[*ids, EOS] for ids in job.ids("test", "en")]
    lines.sort(key=len)

    @torch.inference_mode()
    def greedy(count: int) -> list[int]:
        lengths = []
        for start in range(0, count, job.batch):
            source = loop.pad(lines[start : min(start + job.batch, count)])
            memory = model.encode(source)
            target = torch.full((len(source), 1), BOS)
            for _ in range(LENGTH):
                hidden = model.decode(target, memory, source)[:, -1]
                scores = hidden @ model.embedding.weight.T
                scores[:, : EOS + 1] = -math.inf
                target = torch.cat([target, scores.argmax(1, keepdim=True)], 1)
            lengths += [target.shape[1] - 1] * len(target)
        return lengths

    return timed(job, greedy)


if __name__ == "__main__":
    main(prepare, train, decode)
