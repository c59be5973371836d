"""Decoding by CTranslate2, a C++ library, instead of PyTorch: an optional extra.

The weights are written as its `TransformerSpec`; lines, batches and results are those of
`Translator`. What differs: its beam search stops by rules of its own; it tells the log-probability
of an output but not of its pieces, and shares the probability of what is never produced out among
the rest; an output at its limit is scored without an end.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import torch
from torch import nn

from seq2seq.choices import Activation, Norm, Search
from seq2seq.config import BOS, EOS, PAD, DecodeConfig
from seq2seq.decoding.penalties import length_penalty
from seq2seq.decoding.search import Hypotheses, Hypothesis
from seq2seq.decoding.translator import Translator
from seq2seq.decoding.workers import worker_count
from seq2seq.errors import UserError
from seq2seq.model.attention import MultiHeadAttention
from seq2seq.model.positional import SinusoidalPositions
from seq2seq.model.transformer import Transformer
from seq2seq.run_folder import LoadedRun, step_folder

LONGEST = 4096  # rows of the table of sinusoids that is written
FOLDER = "ctranslate2"  # in the step folder of the run


class CTranslate2Translator(Translator):
    """A `Translator` whose searches are done by CTranslate2.

    Args:
        run: a trained run.
        checkpoint: the name by which it was loaded, such as best.
        compute_type: float32, or int8 for twice the speed at a little loss.
        config: how to search.

    Raises:
        UserError: CTranslate2 is not installed, or cannot do this model or arithmetic.
    """

    def __init__(
        self, run: LoadedRun, checkpoint: str, compute_type: str, config: DecodeConfig
    ) -> None:
        super().__init__(run.model, run.tokenizer, config)
        library = _library()
        folder = step_folder(run.path, checkpoint) / FOLDER
        if not folder.is_dir():
            export(run.model, folder)
        workers = worker_count(run.device)
        try:
            self.engine = library.Translator(
                str(folder),
                device="cuda" if run.device.type == "cuda" else "cpu",
                compute_type=compute_type,
                inter_threads=workers,
                intra_threads=max(1, torch.get_num_threads() // workers),
            )
        except ValueError as error:
            message = f"CTranslate2 cannot compute in {compute_type} here: {error}."
            raise UserError(message) from None

    def _fit(self, length: int) -> int:
        return min(super()._fit(length), LONGEST - 1)  # beside begin or end, as there

    def _search(
        self,
        sources: list[list[int]],
        config: DecodeConfig,
        seeds: list[tuple[int, int]],  # noqa: ARG002 — of sampling
        device: torch.device,  # noqa: ARG002 — its own
    ) -> Hypotheses:
        if config.search is Search.sample:
            raise UserError("The CTranslate2 backend does not sample: use decode.search=beam.")
        limits = [self._output_limit(len(pieces), config) for pieces in sources]
        results = self.engine.translate_batch(
            [[*map(str, pieces), str(EOS)] for pieces in sources],
            beam_size=config.beam,
            num_hypotheses=config.beam,
            length_penalty=config.alpha,
            min_decoding_length=config.min_len,
            max_decoding_length=max(limits),
            return_scores=True,
            disable_unk=True,
            suppress_sequences=[[str(PAD)], [str(BOS)]],
        )
        return [
            _hypotheses(result, config.alpha, limit, max(limits))
            for result, limit in zip(results, limits, strict=True)
        ]


def _hypotheses(result: Any, alpha: float, limit: int, longest: int) -> list[Hypothesis]:
    """Its outputs in our order: its own scores are log P / |y|^α, with the end that it counts."""
    found = []
    for names, normalised in zip(result.hypotheses, result.scores, strict=True):
        counted = len(names) + (len(names) < longest)  # at the limit there is no end of sentence
        total = normalised * counted**alpha
        tokens = [int(name) for name in names[:limit]]
        score = total / length_penalty(len(tokens) + 1.0, alpha)
        found.append(Hypothesis(tokens, [total], score, len(tokens) >= limit))
    return sorted(found, key=lambda hypothesis: -hypothesis.score)


def export(model: Transformer, folder: Path) -> None:
    """Write the weights of `model` as a CTranslate2 model, whose tokens are our numbers.

    Raises:
        UserError: no such library, or a model that it has no form for.
    """
    config = model.config
    heads = {config.encoder_heads, config.decoder_heads}
    attentions = [m for m in model.modules() if isinstance(m, MultiHeadAttention)]
    width = config.d_model // config.encoder_heads
    usual = (width, width, config.encoder_heads)
    fits = all((a.d_k, a.d_v, a.n_heads) == usual for a in attentions)
    if len(heads) > 1 or not fits:
        raise UserError(
            "CTranslate2 has no form for a model whose attentions differ in heads or whose d_k or "
            "d_v is not d_model / heads: translate with the default backend."
        )
    specs = _library().specs
    activations = specs.common_spec.Activation
    spec = specs.TransformerSpec.from_config(
        (config.encoder_layers, config.decoder_layers),
        config.encoder_heads,
        pre_norm=config.norm is Norm.pre,
        activation=activations.RELU if config.activation is Activation.relu else activations.GELU,
    )
    for side, module, embedding in (
        (spec.encoder, model.encoder, model.source_embedding),
        (spec.decoder, model.decoder, model.target_embedding),
    ):
        target = side.embeddings[0] if isinstance(side.embeddings, list) else side.embeddings
        target.weight = _array(embedding.table.weight)
        side.scale_embeddings = True
        positions = embedding.positions
        if isinstance(positions, SinusoidalPositions):
            positions(torch.zeros(LONGEST, config.d_model))  # which lets the table grow
        side.position_encodings.encodings = _array(positions.table[:LONGEST])
        if config.norm is Norm.pre:
            _norm(side.layer_norm, module.norm)
    for layer, source in zip(spec.encoder.layer, _layers(model.encoder), strict=True):
        _self_attention(layer.self_attention, source.self_attention, source.around_attention)
        _feed_forward(layer.ffn, source)
    for layer, source in zip(spec.decoder.layer, _layers(model.decoder), strict=True):
        _self_attention(layer.self_attention, source.self_attention, source.around_self_attention)
        cross = source.cross_attention
        _linear(layer.attention.linear[0], cross.w_q)
        _linear(layer.attention.linear[1], cross.w_k, cross.w_v)
        _linear(layer.attention.linear[2], cross.w_o)
        _norm(layer.attention.layer_norm, source.around_cross_attention.norm)
        _feed_forward(layer.ffn, source)
    spec.decoder.projection.weight = _array(model.output.weight)
    for register, size in (
        (spec.register_source_vocabulary, config.source_vocab),
        (spec.register_target_vocabulary, config.target_vocab),
    ):
        register([str(number) for number in range(size)])
    spec.config.bos_token, spec.config.eos_token, spec.config.unk_token = "2", "3", "1"
    spec.config.decoder_start_token = "2"
    spec.validate()
    spec.optimize()
    _save(spec, folder)


def _save(spec: Any, folder: Path) -> None:
    """Write whole or not at all."""
    building = folder.with_name(f"{folder.name}.{os.getpid()}")
    building.mkdir(parents=True)
    try:
        spec.save(str(building))
        building.rename(folder)
    except OSError as error:
        raise UserError(f"{folder} cannot be written: {error.strerror}.") from None
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _layers(stack: Any) -> list[Any]:
    return list(stack.layers)


def _self_attention(spec: Any, attention: MultiHeadAttention, around: Any) -> None:
    _linear(spec.linear[0], attention.w_q, attention.w_k, attention.w_v)
    _linear(spec.linear[1], attention.w_o)
    _norm(spec.layer_norm, around.norm)


def _feed_forward(spec: Any, layer: Any) -> None:
    _linear(spec.linear_0, layer.feed_forward.w_1)
    _linear(spec.linear_1, layer.feed_forward.w_2)
    _norm(spec.layer_norm, layer.around_feed_forward.norm)


def _linear(spec: Any, *layers: nn.Linear) -> None:
    spec.weight = _array(torch.cat([layer.weight for layer in layers]))
    spec.bias = _array(torch.cat([layer.bias for layer in layers]))


def _norm(spec: Any, norm: Any) -> None:
    spec.gamma, spec.beta = _array(norm.weight), _array(norm.bias)


def _array(tensor: torch.Tensor) -> Any:
    return tensor.detach().float().cpu().numpy()


def _library() -> Any:
    try:
        import ctranslate2
    except ImportError:
        raise UserError(
            "The CTranslate2 backend needs a package more: "
            'pip install "seq2seq-attention[ctranslate2]".'
        ) from None
    return ctranslate2
