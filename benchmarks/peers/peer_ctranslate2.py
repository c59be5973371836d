"""CTranslate2, which only decodes: a model of the same size, with random weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from inside import D_FF, D_MODEL, HEADS, LAYERS, LENGTH, Job, main, timed

if TYPE_CHECKING:
    import numpy as np
    from venvs import Venv

TITLE = "CTranslate2"
TRAINS: tuple[str, ...] = ()
BEAMS = {"float32": (1, 5), "int8": (1, 5)}
PACKAGES = ("ctranslate2",)
LONGEST = 512


def install(venv: Venv) -> None:
    venv.pip("ctranslate2==4.8.5", "numpy", "setuptools<81")


def prepare(job: Job) -> None:
    """Write the model; decoding is as fast with random weights, for its length is fixed."""
    import numpy as np
    from ctranslate2.specs import TransformerSpec

    random = np.random.default_rng(1)

    def linear(spec: object, rows: int, columns: int) -> None:
        weight = random.standard_normal((rows, columns)) * columns**-0.5
        spec.weight, spec.bias = weight.astype(np.float32), zeros(rows)

    def zeros(size: int) -> np.ndarray:
        return np.zeros(size, np.float32)

    def norm(spec: object) -> None:
        spec.gamma, spec.beta = zeros(D_MODEL) + 1, zeros(D_MODEL)

    def sublayers(layer: object) -> None:
        linear(layer.self_attention.linear[0], 3 * D_MODEL, D_MODEL)  # queries, keys, values
        linear(layer.self_attention.linear[1], D_MODEL, D_MODEL)
        linear(layer.ffn.linear_0, D_FF, D_MODEL)
        linear(layer.ffn.linear_1, D_MODEL, D_FF)
        norm(layer.self_attention.layer_norm)
        norm(layer.ffn.layer_norm)

    spec = TransformerSpec.from_config(LAYERS, HEADS, pre_norm=False)
    size = len(job.vocabulary)
    table = (random.standard_normal((size, D_MODEL)) * D_MODEL**-0.5).astype(np.float32)
    angles = np.arange(LONGEST)[:, None] / 10_000 ** (np.arange(0, D_MODEL, 2) / D_MODEL)
    positions = np.stack([np.sin(angles), np.cos(angles)], 2).reshape(LONGEST, D_MODEL)
    for side in (spec.encoder, spec.decoder):
        side.position_encodings.encodings = positions.astype(np.float32)
        for layer in side.layer:
            sublayers(layer)
    spec.encoder.embeddings[0].weight = spec.decoder.embeddings.weight = table
    spec.decoder.projection.weight, spec.decoder.projection.bias = table, zeros(size)
    for layer in spec.decoder.layer:
        linear(layer.attention.linear[0], D_MODEL, D_MODEL)
        linear(layer.attention.linear[1], 2 * D_MODEL, D_MODEL)  # keys, values
        linear(layer.attention.linear[2], D_MODEL, D_MODEL)
        norm(layer.attention.layer_norm)
    spec.register_source_vocabulary(job.vocabulary)
    spec.register_target_vocabulary(job.vocabulary)
    spec.validate()
    spec.optimize()
    folder = job.own / "model"
    folder.mkdir(exist_ok=True)
    spec.save(str(folder))


def decode(job: Job) -> dict[str, Any]:
    import ctranslate2

    # Small models gain more from workers side by side than from threads inside one.
    translator = ctranslate2.Translator(
        str(job.own / "model"),
        compute_type=job.precision,
        inter_threads=job.threads,
        intra_threads=1,
    )
    lines = [[*line, "</s>"] for line in job.test_pieces()]

    def translate(count: int) -> list[int]:
        found = translator.translate_batch(
            lines[:count],
            beam_size=job.beam,
            max_batch_size=job.batch,
            min_decoding_length=LENGTH,
            max_decoding_length=LENGTH,
        )
        return [len(output.hypotheses[0]) for output in found]

    return timed(job, translate)


if __name__ == "__main__":
    main(prepare, None, decode)
