"""eole 0.6.4, OpenNMT-py's successor; its own commands do the work."""

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
    PAD,
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

TITLE = "eole"
TRAINS, BEAMS = ("fp32",), {"fp32": (1, 5)}
PACKAGES = ("eole", "torch")


def install(venv: Venv) -> None:
    venv.use_torch()
    venv.pip("eole==0.6.4", "aiohttp")  # aiohttp is used, but not among its requirements


def configuration(job: Job, **more: Any) -> Any:
    """The YAML file of a training run."""
    import yaml

    vocabulary = job.own / "vocabulary.txt"
    vocabulary.write_text("".join(f"{piece}\t1\n" for piece in job.vocabulary), encoding="utf-8")
    options = {
        "data": {
            "corpus": {
                "path_src": str(job.pieces("train", "en")),
                "path_tgt": str(job.pieces("train", "de")),
            }
        },
        "src_vocab": str(vocabulary),
        "tgt_vocab": str(vocabulary),
        "share_vocab": True,
        "overwrite": True,
        "report_every": 100_000,
        "model": {
            "architecture": "transformer",
            "layers": LAYERS,
            "hidden_size": D_MODEL,
            "heads": HEADS,
            "transformer_ff": D_FF,
            "share_embeddings": True,
            "share_decoder_embeddings": True,
            "embeddings": {
                "word_vec_size": D_MODEL,
                "position_encoding_type": "SinusoidalInterleaved",
            },
        },
        "training": {
            "model_path": str(job.own / "model"),
            "dropout": [DROPOUT],
            "attention_dropout": [0.0],
            "label_smoothing": SMOOTHING,
            "batch_type": "tokens",
            "batch_size": MAX_TOKENS,
            "normalization": "tokens",
            "num_workers": 0,
            "optim": "adam",
            "adam_beta2": 0.98,
            "learning_rate": RATE,
            "warmup_steps": WARM_UP_UPDATES,
            "max_grad_norm": CLIP,
            "train_steps": 1_000_000,
            "valid_steps": 1_000_000,
            "save_checkpoint_steps": 1_000_000,
            **more,
        },
    }
    file = job.own / "train.yaml"
    file.write_text(yaml.safe_dump(options), encoding="utf-8")
    return file


def prepare(job: Job) -> None:
    from eole.bin.main import main

    file = configuration(job, train_steps=2, save_checkpoint_steps=2)
    run_cli(main, "train", "--config", file)


def train(job: Job) -> None:
    from eole.bin.main import main
    from eole.trainer import Trainer

    meter = Meter(job)

    def count(_: Trainer, batches: list[Any], *__: Any, **___: Any) -> tuple[int, int]:
        # [B, T]; the begin of sentence is no target.
        targets = [batch["tgt"][:, 1:] for batch in batches]
        return sum(int((t != PAD).sum()) for t in targets), sum(t.numel() for t in targets)

    meter.watch(Trainer, "_process_accumulated_batches", count)
    run_cli(main, "train", "--config", configuration(job))


def decode(job: Job) -> dict[str, Any]:
    from eole.config.run import PredictConfig
    from eole.inference_engine import InferenceEnginePY

    engine = InferenceEnginePY(
        PredictConfig(
            model_path=[str(job.own / "model")],
            src=str(job.pieces("test", "en")),
            beam_size=job.beam,
            batch_size=job.batch,
            min_length=LENGTH,
            max_length=LENGTH,
        )
    )
    lines = [" ".join(line) for line in job.test_pieces()]

    def translate(count: int) -> list[int]:
        _, _, found = engine.infer_list(lines[:count])
        return [len(best[0].split(" ")) for best in found]

    return timed(job, translate)


if __name__ == "__main__":
    main(prepare, train, decode)
