"""For all tests: one thread each, a tokenizer and a run folder, and what was left out."""

from collections import Counter

import pytest
import torch

from seq2seq.config import ModelConfig, RunConfig, TokenizerConfig
from seq2seq.config_file import save_config
from seq2seq.data.tokenizer import train_tokenizer
from seq2seq.model.transformer import Transformer
from seq2seq.run_folder import CONFIG
from seq2seq.training.checkpoint import Progress, save_model, write_json, write_step

SENTENCES = [
    ("the small house is old", "das kleine Haus ist alt"),
    ("the big house is new", "das große Haus ist neu"),
    ("a dog sees the house", "ein Hund sieht das Haus"),
    ("the dog is small and old", "der Hund ist klein und alt"),
    ("we see a new dog", "wir sehen einen neuen Hund"),
    ("is the house big", "ist das Haus groß"),
]

MARKS = ("slow", "gpu", "dist", "browser")
left_out: Counter[str] = Counter()


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """Tiny tensors gain nothing from more, and test processes side by side lose."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def same_numbers():
    """Random tensors are the same in every run, whichever tests run before."""
    dtype, threads = torch.get_default_dtype(), torch.get_num_threads()
    torch.manual_seed(0)
    yield
    torch.set_default_dtype(dtype)
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def tiny_tokenizer():
    """A joint tokenizer of the sentences above."""
    config = TokenizerConfig(vocab_size=48)
    return train_tokenizer(config, [s for s, _ in SENTENCES], [t for _, t in SENTENCES])


@pytest.fixture
def tiny_run(tmp_path, tiny_tokenizer):
    """A run folder as training leaves it: steps 5 (the best) and 10 of an untrained model."""
    path = tmp_path / "run"
    path.mkdir()
    vocab = tiny_tokenizer.source_vocab
    sizes = {"d_model": 16, "d_ff": 32, "encoder_layers": 1, "decoder_layers": 2}
    model = ModelConfig(**sizes, encoder_heads=2, source_vocab=vocab, target_vocab=vocab)
    save_config(RunConfig(model=model), path / CONFIG)
    tiny_tokenizer.save(path)
    for update in (5, 10):
        weights = Transformer(model)
        state = {"optimizer": {"state": {0: {"exp_avg": torch.ones(3)}}}}
        write_step(path, Progress(update=update), lambda f, w=weights: save_model(w, f), state)
    write_json(path / "best.json", {"step": 5})
    return path


def pytest_deselected(items):
    for item in items:
        left_out.update(mark for mark in MARKS if item.get_closest_marker(mark))


def pytest_terminal_summary(terminalreporter):
    if left_out:
        counts = ", ".join(f"{count} {mark}" for mark, count in sorted(left_out.items()))
        terminalreporter.write_line(f"left out: {counts} (choose them with -m)")
