"""Joey NMT 2.3; its own training command, and its own search over its own batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from inside import (
    BOS,
    CLIP,
    D_FF,
    D_MODEL,
    DROPOUT,
    EOS,
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
    timed,
)

if TYPE_CHECKING:
    from venvs import Venv

TITLE = "Joey NMT"
TRAINS, BEAMS = ("fp32",), {"fp32": (1, 5)}
PACKAGES = ("joeynmt", "torch")


def install(venv: Venv) -> None:
    venv.use_torch()
    # importlib_metadata is used, but not among its requirements; it breaks with sentencepiece
    # of later years.
    venv.pip("joeynmt==2.3.0", "importlib_metadata", "sentencepiece==0.2.0")


def configuration(job: Job) -> dict[str, Any]:
    # Its vocabulary begins with the unknown word; otherwise the ids do not matter.
    vocabulary = job.own / "vocabulary.txt"
    vocabulary.write_text("".join(f"{piece}\n" for piece in job.vocabulary[4:]), encoding="utf-8")
    side = {"level": "word", "max_length": 256, "voc_file": str(vocabulary)}
    stack = {
        "type": "transformer",
        "num_layers": LAYERS,
        "num_heads": HEADS,
        "embeddings": {"embedding_dim": D_MODEL, "scale": True, "dropout": DROPOUT},
        "hidden_size": D_MODEL,
        "ff_size": D_FF,
        "dropout": DROPOUT,
        "layer_norm": "post",
    }
    return {
        "name": "m30k-small",
        "joeynmt_version": "2.3.0",
        "model_dir": str(job.own),
        "use_cuda": False,
        "data": {
            "train": str(job.work / "train"),
            "dev": str(job.work / "dev"),
            "test": str(job.work / "test"),
            "dataset_type": "plain",
            "src": {"lang": "en", **side},
            "trg": {"lang": "de", **side},
            "special_symbols": {"unk_id": 0, "pad_id": 1, "bos_id": BOS, "eos_id": EOS},
        },
        "testing": {"batch_size": job.batch},
        "training": {
            "optimizer": "adam",
            "adam_betas": [0.9, 0.98],
            "learning_rate": RATE,
            "learning_rate_warmup": WARM_UP_UPDATES,
            "scheduling": "warmupinversesquareroot",
            "clip_grad_norm": CLIP,
            "normalization": "tokens",
            "loss": "crossentropy",
            "label_smoothing": SMOOTHING,
            "batch_type": "token",
            "batch_size": MAX_TOKENS,
            "epochs": 1_000,
            "logging_freq": 1_000_000,
            "validation_freq": 1_000_000,
        },
        "model": {
            "initializer": "xavier_uniform",
            "embed_initializer": "xavier_uniform",
            "tied_embeddings": True,
            "tied_softmax": True,
            "encoder": dict(stack),
            "decoder": dict(stack),
        },
    }


def prepare(job: Job) -> None:
    """Nothing: decoding is as fast with random weights, for its length is fixed."""


def train(job: Job) -> None:
    from joeynmt.training import TrainManager, train

    meter, pad = Meter(job), 1

    def count(_: Any, batch: Any) -> tuple[int, int]:
        return int((batch.trg != pad).sum()), batch.trg.numel()

    meter.watch(TrainManager, "_train_step", count)
    train(0, 1, configuration(job), skip_test=True)


def decode(job: Job) -> dict[str, Any]:
    from joeynmt.config import parse_global_args
    from joeynmt.data import load_data
    from joeynmt.model import build_model
    from joeynmt.search import search

    arguments = parse_global_args(configuration(job), mode="test")
    source, target, _, _, data = load_data(arguments.data, datasets=["test"])
    model = build_model(arguments.model, src_vocab=source, trg_vocab=target).eval()
    batches = data.make_iter(
        batch_size=job.batch, pad_index=model.pad_index, eos_index=model.eos_index
    )

    def translate(count: int) -> list[int]:
        lengths: list[int] = []
        for batch in batches:
            batch.sort_by_src_length()
            found, _, _ = search(
                model,
                batch,
                max_output_length=LENGTH,
                min_output_length=LENGTH,
                beam_size=job.beam,
                beam_alpha=1.0,
            )
            lengths += [sum(piece not in (1, EOS) for piece in row) for row in found.tolist()]
            if len(lengths) >= count:
                break
        return lengths

    return timed(job, translate)


if __name__ == "__main__":
    main(prepare, train, decode)
