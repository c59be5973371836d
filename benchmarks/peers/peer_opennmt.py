"""OpenNMT-py 3.5.1; its own commands do the work."""

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

TITLE = "OpenNMT-py"
TRAINS, BEAMS = ("fp32",), {"fp32": (1, 5)}
PACKAGES = ("OpenNMT-py", "torch")


def install(venv: Venv) -> None:
    # It asks for PyTorch below 2.3, but trains with later ones; its other requirements by name.
    venv.use_torch()
    venv.pip("--no-deps", "OpenNMT-py==3.5.1")
    venv.pip("configargparse", "ctranslate2<5", "pyonmttok>=1.37", "pyyaml", "sacrebleu")
    venv.pip("rapidfuzz", "pyahocorasick", "six", "tensorboard", "spacy", "waitress", "flask")
    venv.pip("fasttext-wheel")


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
        "share_embeddings": True,
        "share_decoder_embeddings": True,
        "save_model": str(job.own / "model"),
        "overwrite": True,
        "encoder_type": "transformer",
        "decoder_type": "transformer",
        "position_encoding": True,
        "layers": LAYERS,
        "hidden_size": D_MODEL,
        "word_vec_size": D_MODEL,
        "heads": HEADS,
        "transformer_ff": D_FF,
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
        "report_every": 100_000,
        **more,
    }
    file = job.own / "train.yaml"
    file.write_text(yaml.safe_dump(options), encoding="utf-8")
    return file


def prepare(job: Job) -> None:
    from onmt.bin.train import main

    run_cli(main, "--config", configuration(job, train_steps=2, save_checkpoint_steps=2))


def train(job: Job) -> None:
    from onmt.bin.train import main
    from onmt.trainer import Trainer

    meter = Meter(job)

    def count(_: Trainer, batches: list[Any], *__: Any) -> tuple[int, int]:
        # [B, T, 1]; the begin of sentence is no target.
        targets = [batch["tgt"][:, 1:] for batch in batches]
        return sum(int((t != PAD).sum()) for t in targets), sum(t.numel() for t in targets)

    meter.watch(Trainer, "_gradient_accumulation", count)
    run_cli(main, "--config", configuration(job))


def decode(job: Job) -> dict[str, Any]:
    from onmt.bin.translate import _get_parser
    from onmt.inference_engine import InferenceEnginePY
    from onmt.utils.parse import ArgumentParser

    options = _get_parser().parse_args(
        [
            *("--model", str(job.own / "model_step_2.pt")),
            *("--src", str(job.pieces("test", "en")), "--output", str(job.own / "output")),
            *("--beam_size", str(job.beam), "--batch_size", str(job.batch)),
            *("--min_length", str(LENGTH), "--max_length", str(LENGTH)),
        ]
    )
    ArgumentParser.validate_translate_opts(options)
    ArgumentParser._get_all_transform_translate(options)
    ArgumentParser._validate_transforms_opts(options)
    ArgumentParser.validate_translate_opts_dynamic(options)
    engine = InferenceEnginePY(options)
    lines = [" ".join(line) for line in job.test_pieces()]

    def translate(count: int) -> list[int]:
        _, found = engine.infer_list(lines[:count])
        return [len(best[0].split(" ")) for best in found]

    return timed(job, translate)


if __name__ == "__main__":
    main(prepare, train, decode)
