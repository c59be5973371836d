"""Sockeye 3.1.34; its own training command, and its own translator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from inside import (
    CLIP,
    D_FF,
    D_MODEL,
    DROPOUT,
    HEADS,
    LAYERS,
    LENGTH,
    MAX_TOKENS,
    RATE,
    SMOOTHING,
    WARM_UP_UPDATES,
    Job,
    Meter,
    main,
    run_cli,
    timed,
)

if TYPE_CHECKING:
    from venvs import Venv

TITLE = "Sockeye"
TRAINS, BEAMS = ("fp32",), {"fp32": (1, 5)}
PACKAGES = ("sockeye", "torch")


def install(venv: Venv) -> None:
    # It asks for PyTorch below 1.14, but trains with later ones; left to itself, pip goes back to
    # a release of before PyTorch.
    venv.use_torch()
    venv.pip("--no-deps", "sockeye==3.1.34")
    venv.pip("numpy<2", "pyyaml", "sacrebleu")


def prepare(job: Job) -> None:
    from sockeye.prepare_data import main

    run_cli(
        main,
        *("--source", job.pieces("train", "en"), "--target", job.pieces("train", "de")),
        *("--shared-vocab", "--max-seq-len", 256, "--output", job.own / "data"),
    )
    run_training(job, "--max-updates", 2, "--checkpoint-interval", 2)


def run_training(job: Job, *more: Any) -> None:
    from sockeye.train import main

    def both(value: Any) -> str:
        return f"{value}:{value}"

    run_cli(
        main,
        *("--prepared-data", job.own / "data", "--output", job.own / "model"),
        *("--validation-source", job.pieces("dev", "en")),
        *("--validation-target", job.pieces("dev", "de")),
        *("--use-cpu", "--overwrite-output", "--shared-vocab", "--decode-and-evaluate", 0),
        *("--weight-tying-type", "src_trg_softmax", "--num-layers", both(LAYERS)),
        *("--transformer-model-size", both(D_MODEL), "--transformer-attention-heads", both(HEADS)),
        *("--transformer-feed-forward-num-hidden", both(D_FF)),
        *("--transformer-dropout-prepost", both(DROPOUT)),
        *("--transformer-dropout-attention", both(0.0), "--transformer-dropout-act", both(0.0)),
        *("--batch-type", "word", "--batch-size", MAX_TOKENS, "--label-smoothing", SMOOTHING),
        *("--optimizer", "adam", "--optimizer-betas", "0.9:0.98"),
        *("--initial-learning-rate", RATE, "--learning-rate-warmup", WARM_UP_UPDATES),
        *("--gradient-clipping-type", "norm", "--gradient-clipping-threshold", CLIP),
        *more,
    )


def train(job: Job) -> None:
    from sockeye.training import EarlyStoppingTrainer

    meter, pad = Meter(job), 0

    def count(_: Any, batch: Any) -> tuple[int, int]:
        labels = batch.labels["target_label"]
        return int((labels != pad).sum()), labels.numel()

    meter.watch(EarlyStoppingTrainer, "_step", count)
    never = 1_000_000
    options = ("--max-updates", never, "--checkpoint-interval", never)
    run_training(job, *options, "--output", job.own / "training")


def decode(job: Job) -> dict[str, Any]:
    import torch
    from sockeye import constants, inference
    from sockeye.model import load_models

    models, sources, targets = load_models(
        device=torch.device("cpu"), model_folders=[str(job.own / "model")], inference_only=True
    )
    for model in models:
        model.eval()
        # There is no option for a shortest output, so the end of sentence is made unlikely.
        model.output_layer.bias.data[constants.EOS_ID] = -1e9
    translator = inference.Translator(
        device=torch.device("cpu"),
        ensemble_mode="linear",
        scorer=inference.CandidateScorer(1.0, 0.0),
        batch_size=job.batch,
        beam_size=job.beam,
        beam_search_stop=constants.BEAM_SEARCH_STOP_ALL,
        models=models,
        source_vocabs=sources,
        target_vocabs=targets,
        max_output_length=LENGTH,
        constant_length_ratio=-1.0,  # no brevity penalty
    )
    lines = [" ".join(line) for line in job.test_pieces()]

    def translate(count: int) -> list[int]:
        inputs = [
            inference.make_input_from_plain_string(i, line) for i, line in enumerate(lines[:count])
        ]
        return [len(found.tokens) for found in translator.translate(inputs)]

    return timed(job, translate)


if __name__ == "__main__":
    main(prepare, train, decode)
