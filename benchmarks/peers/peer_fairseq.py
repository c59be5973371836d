"""fairseq 0.12.2, its last release; its own commands do the work."""

from __future__ import annotations

from argparse import Namespace
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

TITLE = "fairseq"
TRAINS, BEAMS = ("fp32",), {"fp32": (1, 5)}
PACKAGES = ("fairseq", "torch")


def install(venv: Venv) -> None:
    # Compiled before PyTorch can be seen: with it, the build asks for sources that are not in
    # the release. Its dependency omegaconf has metadata that current versions of pip refuse.
    venv.pip("pip<24.1", "cython<3", "numpy<2", "setuptools<70", "wheel", "packaging", "cffi")
    venv.pip("--no-deps", "--no-build-isolation", "fairseq==0.12.2")
    venv.pip("--no-deps", "hydra-core==1.0.7", "omegaconf==2.0.6", "antlr4-python3-runtime==4.8")
    venv.pip("bitarray", "regex", "sacrebleu", "tqdm", "pyyaml")
    # Python 3.11 refuses objects without a hash as defaults of a dataclass. Compared by identity
    # rather than by content, they keep the hash of every object.
    for file in ("hydra/conf/__init__.py", *(f"fairseq/{name}.py" for name in CONFIGURATIONS)):
        venv.edit(file, r"^( *@dataclass)$", r"\1(eq=False)")
    venv.use_torch()


CONFIGURATIONS = ("dataclass/configs", "models/transformer/transformer_config")


def prepare(job: Job) -> None:
    from fairseq_cli.preprocess import cli_main

    words = "".join(f"{piece} 1\n" for piece in job.vocabulary[4:])
    (job.own / "dict.txt").write_text(words, encoding="utf-8")
    run_cli(
        cli_main,
        *("--source-lang", "en", "--target-lang", "de", "--joined-dictionary"),
        *("--trainpref", job.work / "train", "--validpref", job.work / "dev"),
        *("--testpref", job.work / "test", "--srcdict", job.own / "dict.txt"),
        *("--destdir", job.own / "data"),
    )
    run_training(job, "--max-update", 2, "--disable-validation")


def run_training(job: Job, *more: Any) -> None:
    from fairseq_cli.train import cli_main

    run_cli(
        cli_main,
        job.own / "data",
        *("--arch", "transformer", "--share-all-embeddings", "--cpu", "--num-workers", 0),
        *(part for side in ("encoder", "decoder") for part in shape(side)),
        *("--dropout", DROPOUT, "--clip-norm", CLIP, "--max-tokens", MAX_TOKENS),
        *("--criterion", "label_smoothed_cross_entropy", "--label-smoothing", SMOOTHING),
        *("--optimizer", "adam", "--adam-betas", "(0.9, 0.98)", "--lr", RATE),
        *("--lr-scheduler", "inverse_sqrt", "--warmup-updates", WARM_UP_UPDATES),
        *("--save-dir", job.own / "checkpoints", "--no-progress-bar", "--log-interval", 100_000),
        *more,
    )


def shape(side: str) -> list[Any]:
    sizes = {"layers": LAYERS, "embed-dim": D_MODEL, "ffn-embed-dim": D_FF}
    sizes["attention-heads"] = HEADS
    return [part for name, size in sizes.items() for part in (f"--{side}-{name}", size)]


def train(job: Job) -> None:
    from fairseq.trainer import Trainer

    meter, pad = Meter(job), 1

    def count(_: Trainer, samples: list[Any]) -> tuple[int, int]:
        targets = [sample["target"] for sample in samples]
        return sum(int((t != pad).sum()) for t in targets), sum(t.numel() for t in targets)

    meter.watch(Trainer, "train_step", count)
    # Without a checkpoint to go on from, and without writing one.
    run_training(job, "--no-save", "--restore-file", "none.pt", "--disable-validation")


def decode(job: Job) -> dict[str, Any]:
    import torch
    from fairseq import checkpoint_utils, utils

    file = job.own / "checkpoints" / "checkpoint_last.pt"
    models, config, task = checkpoint_utils.load_model_ensemble_and_task([str(file)])
    models[0].eval().prepare_for_inference_(config)
    for layer in models[0].encoder.layers:
        layer.can_use_fastpath = False  # calls an operator of PyTorch that has changed since
    search = {"beam": job.beam, "max_len_a": 0, "max_len_b": LENGTH, "min_len": LENGTH}
    generator = task.build_generator(models, Namespace(**search))
    task.load_dataset("test")
    iterator = task.get_batch_iterator(
        dataset=task.dataset("test"),
        max_sentences=job.batch,
        max_positions=utils.resolve_max_positions(task.max_positions(), models[0].max_positions()),
    )

    @torch.inference_mode()
    def translate(count: int) -> list[int]:
        lengths: list[int] = []
        for sample in iterator.next_epoch_itr(shuffle=False):
            found = task.inference_step(generator, models, sample)
            lengths += [len(best[0]["tokens"]) - 1 for best in found]
            if len(lengths) >= count:
                break
        return lengths

    return timed(job, translate)


if __name__ == "__main__":
    main(prepare, train, decode)
