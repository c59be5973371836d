"""From a configuration to a trained run folder: prepare, train, leave a note of the end."""

from __future__ import annotations

import shlex
from hashlib import sha256
from itertools import islice, tee
from pathlib import Path

import torch

from seq2seq.choices import Precision
from seq2seq.config import RunConfig
from seq2seq.config_file import load_config, save_config, to_dict
from seq2seq.data.batching import BatchPlan
from seq2seq.data.corpus import Corpus, open_corpus
from seq2seq.data.store import TokenStore, build_once, build_store
from seq2seq.data.tokenizer import Tokenizer, train_tokenizer
from seq2seq.device import (
    keep_freed_memory,
    memory_advice,
    resolve_precision,
    set_products,
)
from seq2seq.errors import UserError
from seq2seq.model.transformer import parameter_count
from seq2seq.run_folder import CONFIG, CORPUS, FINISHED, check_vocabulary, trained_on
from seq2seq.training.checkpoint import TrainResult, write_json
from seq2seq.training.distributed import World
from seq2seq.training.log import Mute, Reporter, clock
from seq2seq.training.memory import memory_budget
from seq2seq.training.parallel import insist_on_heads
from seq2seq.training.trainer import Trainer
from seq2seq.training.validation import Validator
from seq2seq.training.watch import Watch

UPDATES = 40  # in an epoch, at least, unless train.max_tokens says otherwise


def train(
    config: RunConfig,
    run_dir: Path,
    *,
    resume: bool = False,
    watch: Watch | None = None,
    world: World | None = None,
) -> TrainResult:
    """Train a model into `run_dir`.

    Args:
        config: everything about the run; a resumed run keeps its data and model, which the
            caller checks.
        run_dir: new folder, or with `resume` the folder of the run to go on with.
        resume: go on from the last checkpoint.
        watch: makes what looks at the model while it learns; None: nothing does.
        world: the processes that train it together, from `join_world`; default: this one.

    Raises:
        UserError: for whatever the user can put right.
    """
    world = world or World()
    if world.is_main and run_dir.exists() and not resume:
        raise _taken(run_dir)
    if config.threads:
        torch.set_num_threads(config.threads)
    insist_on_heads(config, world)
    device = world.device(config.device)
    with world.main_first():  # the others find the tokenizer and the store in the cache
        corpus = open_corpus(config.data)
        if resume and trained_on(run_dir) not in (None, corpus.fingerprint):
            raise UserError(
                f"The training text is not the one that {run_dir} was trained on, so its dev and "
                "test sets may hold what the model has seen: put the text back, or start a new run."
            )
        tokenizer = _resumed_tokenizer(config, run_dir) if resume else _tokenizer(config, corpus)
        store = _store(config, corpus, tokenizer)
    if device.type == "cpu":
        keep_freed_memory()
    config.precision = world.same(resolve_precision(config.precision, device))
    set_products(config.precision)
    config.model.source_vocab = tokenizer.source_vocab
    config.model.target_vocab = tokenizer.target_vocab
    budget = config.train.max_tokens = min(world.gather(_budget(config, store, device)))
    plan = BatchPlan(store, budget, config.seed)
    _insist_on_one_run(config, plan, world)
    validator = Validator(config, tokenizer, corpus.dev, world)
    watcher = watch(tokenizer, corpus.dev) if watch else None
    if world.is_main:
        _begin_folder(config, run_dir, corpus, tokenizer, resume=resume)
    with Reporter(run_dir) if world.is_main else Mute() as reporter:
        trainer = Trainer(config, run_dir, plan, validator, reporter, device, watcher, world)
        _introduce(reporter, config, corpus, store, trainer)
        if resume:
            trainer.resume()
        with memory_advice(
            f"lower train.max_tokens (now {config.train.max_tokens}; train.accumulate makes up for "
            "it), data.max_length or the size of the model; what was saved before can be resumed"
        ):
            result = trainer.run()
        _say_goodbye(reporter, result)
        if world.is_main and not result.interrupted:
            _mark_finished(result)
    return result


def _insist_on_one_run(config: RunConfig, plan: BatchPlan, world: World) -> None:
    """Every rank computes the batches of all by itself, so they must come to the same."""
    if len(set(world.gather(f"{plan.identity} {to_dict(config)}"))) > 1:
        raise UserError(
            "The processes were started with different options or see different text: start all "
            "of them with one command line, on machines that hold the same files."
        )


def _begin_folder(
    config: RunConfig, run_dir: Path, corpus: Corpus, tokenizer: Tokenizer, *, resume: bool
) -> None:
    try:  # once more: another run of this name may have begun while the text was prepared
        run_dir.mkdir(parents=True, exist_ok=resume)
    except FileExistsError:
        raise _taken(run_dir) from None
    (run_dir / FINISHED).unlink(missing_ok=True)
    if not resume:
        tokenizer.save(run_dir)
        write_json(run_dir / CORPUS, {"fingerprint": corpus.fingerprint})
    save_config(config, run_dir / CONFIG)


def _taken(run_dir: Path) -> UserError:
    return UserError(f"{run_dir} exists already: give another name, or resume it.")


def _resumed_tokenizer(config: RunConfig, run_dir: Path) -> Tokenizer:
    saved = load_config(run_dir / CONFIG)
    tokenizer = Tokenizer.load(run_dir, saved.tokenizer.normalization)
    check_vocabulary(saved, tokenizer, run_dir)
    config.model.source_vocab = saved.model.source_vocab
    config.model.target_vocab = saved.model.target_vocab
    if config.precision is Precision.auto:  # must not mean something else now
        config.precision = saved.precision
    return tokenizer


def _tokenizer(config: RunConfig, corpus: Corpus) -> Tokenizer:
    """Train the tokenizer, or take it from the cache: the same text and options give the same."""
    key = sha256(f"{corpus.fingerprint} {to_dict(config.tokenizer)}".encode()).hexdigest()[:16]
    folder = _cache(config) / f"tokenizer-{key}"

    def build(building: Path) -> None:
        # One pass over the text; a joint tokenizer reads both sides in step, so nothing piles up.
        first, second = tee(islice(corpus.train(), config.tokenizer.sample))
        sources, targets = (pair[0] for pair in first), (pair[1] for pair in second)
        train_tokenizer(config.tokenizer, sources, targets).save(building)

    build_once(folder, build)
    return Tokenizer.load(folder, config.tokenizer.normalization)


def _store(config: RunConfig, corpus: Corpus, tokenizer: Tokenizer) -> TokenStore:
    data = config.data
    rules = (data.max_length, data.max_ratio, data.drop_duplicates, data.drop_identical)
    key = sha256(f"{corpus.fingerprint} {rules} {tokenizer.normalization}".encode())
    for model in tokenizer.models:
        key.update(model)
    folder = _cache(config) / f"store-{key.hexdigest()[:16]}"
    return build_store(corpus.train(), tokenizer, data, folder)


def _cache(config: RunConfig) -> Path:
    """Where tokenizers and token stores are kept for the next run on the same text."""
    return Path(config.data.cache) if config.data.cache else Path(config.runs) / ".cache"


def _budget(config: RunConfig, store: TokenStore, device: torch.device) -> int:
    """The number that `train.max_tokens` stands for."""
    wish = config.train.max_tokens
    if isinstance(wish, int):
        return wish
    if wish is None or device.type != "cuda":  # auto is about the memory of a GPU
        return fitting_budget(store, device)
    longest = max(int(store.lengths(side).max()) + 1 for side in (0, 1))
    return memory_budget(config, longest, max(_positions(store) // UPDATES, 1), device)


def fitting_budget(store: TokenStore, device: torch.device) -> int:
    """A `train.max_tokens` for those who set none: some forty updates an epoch, within bounds.

    Small batches learn faster per minute on a CPU, and a small text needs many updates; a GPU is
    idle below several thousand tokens.
    """
    return min(max(_positions(store) // UPDATES, 256), 1024 if device.type == "cpu" else 8192)


def _positions(store: TokenStore) -> int:
    """Of the longer side of the text, begin or end of sentence included."""
    return max(int(store.lengths(side).sum()) + len(store) for side in (0, 1))


def _introduce(
    reporter: Reporter,
    config: RunConfig,
    corpus: Corpus,
    store: TokenStore,
    trainer: Trainer,
) -> None:
    for note in [*corpus.notes, *(trainer.watcher.notes if trainer.watcher else [])]:
        reporter.say(f"note: {note}")
    if unknown := trainer.validator.unknown:
        reporter.say(
            f"note: {unknown:.2%} of the dev pieces are characters that the vocabulary lacks; "
            "tokenizer.byte_fallback=true would spell them."
        )
    dropped = ", ".join(f"{count:,} {reason}" for reason, count in store.counts.items())
    reporter.say(
        f"{corpus.description}: {len(store):,} training pairs"
        + (f" (dropped: {dropped})" if dropped else "")
        + f", {len(corpus.dev):,} dev, {len(corpus.test):,} test"
    )
    plan, ranks = trainer.plan, trainer.world.size
    where = f"{ranks} × {trainer.device.type}" if ranks > 1 else str(trainer.device)
    vocab = f"{config.model.source_vocab:,}"
    if not config.tokenizer.joint:
        vocab += f" + {config.model.target_vocab:,}"
    reporter.say(
        f"{vocab} pieces, {parameter_count(trainer.model):,} parameters, on {where} in "
        f"{config.precision}, {len(plan.epoch(0)):,} batches an epoch, "
        f"{plan.padding():.1%} padding"
    )


def _say_goodbye(reporter: Reporter, result: TrainResult) -> None:
    progress, run = result.progress, result.run_dir
    reporter.say(
        f"{result.reason} after {progress.update:,} updates, {progress.tokens:,} target tokens, "
        f"{clock(progress.seconds)}"
        + (f"; {progress.skipped} updates skipped as not finite" if progress.skipped else "")
    )
    if result.interrupted:
        reporter.say(f"to go on: seq2seq train --run {shlex.quote(str(run))} --resume")


def _mark_finished(result: TrainResult) -> None:
    progress = result.progress
    content = {
        "reason": result.reason,
        "updates": progress.update,
        "tokens": progress.tokens,
        "seconds": progress.seconds,
        "best_step": progress.best_step,
        "best_value": progress.best_value,
    }
    write_json(result.run_dir / FINISHED, content)
