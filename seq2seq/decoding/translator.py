"""From text to text: the one way of translating that commands, validation and the API share."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from seq2seq.choices import Search
from seq2seq.config import BOS, EOS, PAD, UNK, DecodeConfig
from seq2seq.config_file import from_dict, to_dict
from seq2seq.data.batching import pad
from seq2seq.data.tokenizer import Tokenizer
from seq2seq.decoding.beam import beam_search
from seq2seq.decoding.lines import (
    Progress,
    cut_lines,
    encode_lines,
    inference,
    plan_batches,
    report,
)
from seq2seq.decoding.sampling import sample
from seq2seq.decoding.scoring import PairScore, score_pairs
from seq2seq.decoding.search import Hypotheses, Hypothesis
from seq2seq.decoding.workers import side_by_side, worker_count
from seq2seq.errors import UserError
from seq2seq.model.transformer import Transformer
from seq2seq.run_folder import load_run


@dataclass(frozen=True)
class Candidate:
    """One translation of a line.

    Attributes:
        text: detokenised, without line breaks.
        score: log-probability / length penalty.
        tokens: pieces and, last, `</s>`.
        token_scores: natural log-probability of each of `tokens`.
        hit_limit: the output is as long as allowed, so perhaps cut short.
    """

    text: str
    score: float
    tokens: list[str]
    token_scores: list[float]
    hit_limit: bool


@dataclass(frozen=True)
class Translation(Candidate):
    """The best translation of a line, and the others found.

    A blank line has an empty translation: no tokens, and score 0.

    Attributes:
        n_best: at least the best one itself, best first, at most as many as asked for. Those of
            beam search have different texts; samples are all given, equal or not.
        cut: the source was longer than allowed, and its end was left out.
    """

    n_best: list[Candidate]
    cut: bool


_EMPTY = Candidate(text="", score=0.0, tokens=[], token_scores=[], hit_limit=False)


class Translator:
    """Translates lines of text with a trained model.

    Args:
        model: on the device to work on.
        tokenizer: the one that it was trained with.
        config: how to search, unless a call says otherwise.
    """

    def __init__(
        self, model: Transformer, tokenizer: Tokenizer, config: DecodeConfig | None = None
    ) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.config = config or DecodeConfig()

    @classmethod
    def from_pretrained(
        cls,
        run: str | Path,
        device: str = "auto",
        checkpoint: str = "best",
        precision: str = "fp32",
    ) -> Translator:
        """Load a run folder.

        Args:
            run: the folder.
            device: auto, cpu, cuda, cuda:1, mps.
            checkpoint: which of its checkpoints, as of `load_run`.
            precision: of the arithmetic, as of `load_run`.

        Raises:
            UserError: no run there, or a damaged one.
        """
        loaded = load_run(run, device=device, checkpoint=checkpoint, precision=precision)
        return cls(loaded.model, loaded.tokenizer, loaded.config.decode)

    def translate(
        self, texts: Sequence[str], *, progress: Progress | None = None, **overrides: Any
    ) -> list[Translation]:
        """Translate lines; one result for each, in their order, whatever is in them.

        Args:
            texts: one sentence each.
            progress: told after every batch how many lines are done, and of how many.
            **overrides: options of `DecodeConfig` for this call, as in `beam=1`.

        Raises:
            UserError: an unknown or unfitting option.
        """
        return self._translate(texts, self._configure(overrides), progress, first_line=1)

    def translate_stream(
        self, texts: Iterable[str], *, chunk: int = 1000, **overrides: Any
    ) -> Iterator[Translation]:
        """Translate lines as they come, `chunk` at a time; results as of `translate`.

        Args:
            texts: any number of lines, read only as far as needed.
            chunk: lines held at once. Many are faster; 1 answers every line at once.
            **overrides: as in `translate`.

        Raises:
            UserError: an unknown or unfitting option, before any line is read.
        """
        if chunk < 1:
            raise UserError(f"chunk is {chunk}, but must be at least 1.")
        config = self._configure(overrides)

        def chunks() -> Iterator[Translation]:
            lines, first_line = iter(texts), 1
            while batch := list(itertools.islice(lines, chunk)):
                yield from self._translate(batch, config, None, first_line)
                first_line += len(batch)

        return chunks()

    def score(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        *,
        progress: Progress | None = None,
        **overrides: Any,
    ) -> list[PairScore]:
        """Log-probability of each given target as the translation of its source, in their order.

        A blank side is nothing but an end of sentence. A target is cut, with a warning, where it is
        longer than any output that `translate` may write.

        Args:
            sources: one sentence each.
            targets: their translations.
            progress: as in `translate`.
            **overrides: as in `translate`.

        Raises:
            UserError: not as many targets as sources, or an unknown option.
        """
        config = self._configure(overrides)
        longest = self._fit(config.max_source)
        return score_pairs(
            self.model,
            self.tokenizer,
            sources,
            targets,
            most=(longest, self._output_limit(longest, config)),
            batch_tokens=config.batch_tokens,
            progress=progress,
        )

    def _configure(self, overrides: dict[str, Any]) -> DecodeConfig:
        return from_dict(DecodeConfig, {**to_dict(self.config), **overrides}, "decode.")

    def _translate(
        self,
        texts: Sequence[str],
        config: DecodeConfig,
        progress: Progress | None,
        first_line: int,
    ) -> list[Translation]:
        ids = encode_lines(self.tokenizer.encode_source, texts)
        cut = cut_lines(ids, self._fit(config.max_source), "source", first_line)
        results = [Translation(**vars(_EMPTY), n_best=[_EMPTY], cut=False) for _ in texts]
        filled = [i for i, pieces in enumerate(ids) if pieces]
        done = len(texts) - len(filled)
        with inference(self.model) as device:

            def search(members: list[int]) -> Hypotheses:
                seeds = [(config.seed % (1 << 64), first_line + i) for i in members]
                return self._search([ids[i] for i in members], config, seeds, device)

            workers = worker_count(device)
            batches = self._batches(filled, [len(ids[i]) + 1 for i in filled], config, workers)
            for members, found in side_by_side(search, batches, workers):
                for i, hypotheses in zip(members, found, strict=True):
                    results[i] = self._translation(hypotheses, config, cut=i in cut)
                done += len(members)
                report(progress, done, len(texts))
        return results

    @staticmethod
    def _batches(
        lines: list[int], lengths: list[int], config: DecodeConfig, workers: int
    ) -> list[list[int]]:
        """Lines of `lengths` grouped within the budget, and so that no worker is left without."""
        budget = min(config.batch_tokens // _width(config), -(-sum(lengths) // workers))
        return [[lines[place] for place in batch] for batch in plan_batches(lengths, budget)]

    def _search(
        self,
        sources: list[list[int]],
        config: DecodeConfig,
        seeds: list[tuple[int, int]],
        device: torch.device,
    ) -> Hypotheses:
        """Outputs for one batch of piece ids; `seeds` are of each sentence, for sampling."""
        limits = [self._output_limit(len(pieces), config) for pieces in sources]
        with torch.inference_mode():  # of each thread its own
            source = pad([[*pieces, EOS] for pieces in sources]).to(device)
            state = self.model.start(source, beam=_width(config), max_len=max(limits) + 1)
            rules: dict[str, Any] = {
                "batch": len(sources),
                "bos": BOS,
                "eos": EOS,
                "pad": PAD,
                "banned": (UNK,),
                "max_len": torch.tensor(limits, device=device),
                "min_len": config.min_len,
                "alpha": config.alpha,
            }
            if config.search is Search.sample:
                return sample(
                    self.model.step,
                    state,
                    **rules,
                    generators=[np.random.default_rng(seed) for seed in seeds],
                    draws=config.n_best,
                    temperature=config.temperature,
                    top_k=config.top_k,
                    top_p=config.top_p,
                )
            # Outputs may read the same, split into other pieces: ask for some to spare.
            n_best = config.beam if config.n_best > 1 else 1
            return beam_search(self.model.step, state, **rules, beam=config.beam, n_best=n_best)

    def _translation(
        self, found: list[Hypothesis], config: DecodeConfig, *, cut: bool
    ) -> Translation:
        candidates = [self._candidate(hypothesis) for hypothesis in found]
        if config.search is Search.beam:
            different: dict[str, Candidate] = {}
            for candidate in candidates:
                different.setdefault(candidate.text, candidate)
            candidates = list(different.values())
        return Translation(**vars(candidates[0]), n_best=candidates[: config.n_best], cut=cut)

    def _candidate(self, found: Hypothesis) -> Candidate:
        return Candidate(
            text=self.tokenizer.decode_target(found.tokens),
            score=found.score,
            tokens=self.tokenizer.target_pieces([*found.tokens, EOS]),
            token_scores=found.token_log_probs,
            hit_limit=found.hit_limit,
        )

    def _fit(self, length: int) -> int:
        """`length` in pieces, or as many as fit the position table beside begin or end."""
        limit = self.model.position_limit
        return length if limit is None else min(length, limit - 1)

    def _output_limit(self, source_length: int, config: DecodeConfig) -> int:
        """Most pieces of an output; it depends on its own source, never on others in its batch."""
        return self._fit(int(config.max_len_a * source_length + config.max_len_b))


def _width(config: DecodeConfig) -> int:
    """Hypotheses of a sentence that are decoded at once."""
    return config.beam if config.search is Search.beam else config.n_best
