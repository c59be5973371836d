"""Hugging Face transformers' MarianMT model in a loop of one's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from inside import (
    BOS,
    D_FF,
    D_MODEL,
    DROPOUT,
    EOS,
    HEADS,
    LAYERS,
    LENGTH,
    PAD,
    Job,
    main,
    timed,
)

if TYPE_CHECKING:
    from venvs import Venv

TITLE = "Hugging Face MarianMT loop"
TRAINS, BEAMS = ("fp32", "bf16"), {"fp32": (1, 5)}
PACKAGES = ("transformers", "torch")


def install(venv: Venv) -> None:
    venv.use_torch()
    venv.pip("transformers==5.24.0")


def build(job: Job) -> Any:
    from transformers import MarianConfig, MarianMTModel

    return MarianMTModel(
        MarianConfig(
            vocab_size=len(job.vocabulary),
            d_model=D_MODEL,
            encoder_layers=LAYERS,
            decoder_layers=LAYERS,
            encoder_attention_heads=HEADS,
            decoder_attention_heads=HEADS,
            encoder_ffn_dim=D_FF,
            decoder_ffn_dim=D_FF,
            activation_function="relu",
            dropout=DROPOUT,
            attention_dropout=0.0,
            activation_dropout=0.0,
            max_position_embeddings=512,
            scale_embedding=True,
            pad_token_id=PAD,
            eos_token_id=EOS,
            forced_eos_token_id=None,
            decoder_start_token_id=BOS,
        )
    )


def prepare(job: Job) -> None:
    """Nothing: decoding is as fast with random weights, for its length is fixed."""


def train(job: Job) -> None:
    import loop

    model = build(job)

    def logits(source: Any, target: Any) -> Any:
        mask = (source != PAD).long()
        return model(source, attention_mask=mask, decoder_input_ids=target).logits

    loop.train(job, model, logits)


def decode(job: Job) -> dict[str, Any]:
    import loop
    import torch

    model = build(job).eval()
    lines = [[*ids, EOS] for ids in job.ids("test", "en")]
    lines.sort(key=len)

    @torch.inference_mode()
    def translate(count: int) -> list[int]:
        lengths: list[int] = []
        for start in range(0, count, job.batch):
            source = loop.pad(lines[start : min(start + job.batch, count)])
            output = model.generate(
                source,
                attention_mask=(source != PAD).long(),
                num_beams=job.beam,
                do_sample=False,
                min_new_tokens=LENGTH,
                max_new_tokens=LENGTH,
            )
            lengths += [output.shape[1] - 1] * len(output)
        return lengths

    return timed(job, translate)


if __name__ == "__main__":
    main(prepare, train, decode)
