"""Attention while a model learns: when it is looked at, what is kept, and that nothing changes."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from training_samples import PAIRS, configuration, metrics, tokenizer, trainer

from seq2seq.analysis import snapshots as files
from seq2seq.analysis.capture import capture
from seq2seq.analysis.head_id import HeadId
from seq2seq.analysis.heads import entropy
from seq2seq.analysis.snapshots import Snapshots, pack, unpack
from seq2seq.analysis.track import Sentence, Tracker, read_sentences, tracker
from seq2seq.attention_maps import KINDS
from seq2seq.config import TrainConfig
from seq2seq.errors import UserError
from seq2seq.model.transformer import Transformer
from seq2seq.training.watch import is_early

OPTIONS = {"max_updates": 12, "validate_every": 5, "ema": 0.9}
UPDATES = [0, 1, 2, 4, 5, 10, 12]  # powers of two below 5, multiples of 5, the end


def watcher(run: Path, **options: object) -> Tracker:
    config = TrainConfig(snapshots=2, snapshot_pairs=6, **options)
    return tracker(config, run, tokenizer(), PAIRS)


def train(run: Path, *, watched: bool = True, resume: bool = False, stop_at: int = 0, **options):
    """Train as OPTIONS say; returns all weights, moments and averages at the end."""
    with trainer(run, configuration(**(OPTIONS | options))) as it:
        it.watcher = watcher(run) if watched else None
        if resume:
            it.resume()
        if stop_at:
            update = it._update
            it._update = lambda batches: (
                update(batches),
                it.stop() if it.progress.update == stop_at else None,
            )
        it.run()
        state = it.optimizer.state_dict()["state"]
        moments = [value for one in state.values() for value in one.values()]
        shadow = it.average.shadow if it.average else []
        return [t.detach().clone() for t in [*it.model.parameters(), *moments, *shadow]]


def contents(run: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (run / "snapshots").iterdir()}


def model() -> Transformer:
    torch.manual_seed(3)
    config = configuration().model
    config.source_vocab = config.target_vocab = tokenizer().source_vocab
    return Transformer(config)


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    run = tmp_path_factory.mktemp("track") / "run"
    train(run)
    return run


class TestWhen:
    @pytest.mark.parametrize("every", [1, 5, 64, 500])
    def test_early_updates_are_the_powers_of_two_before_the_first_validation(self, every):
        powers = {0, *(2**i for i in range(30))}
        expected = [update for update in range(2000) if update in powers and update < every]
        assert [update for update in range(2000) if is_early(update, every)] == expected

    def test_snapshots_are_taken_early_at_validations_and_at_the_end(self, whole):
        assert Snapshots(whole / "snapshots").updates == UPDATES
        assert len(contents(whole)) == 2 * len(UPDATES)

    def test_without_the_option_nothing_is_kept(self, tmp_path):
        train(tmp_path / "run", watched=False)
        assert not (tmp_path / "run" / "snapshots").exists()
        assert not TrainConfig().watched
        assert TrainConfig(snapshots=1).watched
        assert TrainConfig(snapshot_file="mine.txt").watched


class TestNothingChanges:
    def test_weights_moments_and_averages_are_the_same_to_the_bit(self, whole, tmp_path):
        plain = train(tmp_path / "plain", watched=False)
        watched = train(tmp_path / "watched")
        assert len(plain) == len(watched)
        assert all(torch.equal(a, b) for a, b in zip(plain, watched, strict=True))
        assert metrics(tmp_path / "plain") == metrics(tmp_path / "watched")
        # Not because nothing was learnt:
        first = Snapshots(whole / "snapshots").records(0)[0].layers("enc")[0]
        last = Snapshots(whole / "snapshots").records(12)[0].layers("enc")[0]
        assert np.abs(first - last).max() > 1e-3

    def test_a_look_leaves_mode_gradients_and_random_numbers_alone(self, tmp_path):
        one = model().train()
        one.encoder.layers[0].eval()
        for parameter in one.parameters():
            parameter.grad = torch.ones_like(parameter)
        modes = [module.training for module in one.modules()]
        random, weights = torch.get_rng_state(), [p.clone() for p in one.parameters()]
        numpy_random = np.random.get_state()[1].copy()  # noqa: NPY002 - the global one
        watcher(tmp_path)(one, 0)
        assert [module.training for module in one.modules()] == modes
        assert torch.equal(torch.get_rng_state(), random)
        assert (np.random.get_state()[1] == numpy_random).all()  # noqa: NPY002
        assert all(torch.equal(a, b) for a, b in zip(one.parameters(), weights, strict=True))
        assert all((p.grad == 1).all() for p in one.parameters())

    def test_its_time_is_not_counted_as_training(self, tmp_path):
        """A clock that only the watcher moves."""
        now = [0.0]
        with trainer(tmp_path / "run", configuration(**OPTIONS)) as it:

            class Slow:
                notes = ()

                def __call__(self, model, update):
                    now[0] += 1000
                    return ""

            it.watcher = Slow()
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("time.perf_counter", lambda: now[0])
                it._clock_start = 0.0
                result = it.run()
        assert now[0] == 1000 * len(UPDATES)
        assert result.progress.seconds == 0.0


class TestContent:
    def test_maps_are_those_of_the_model_with_its_averaged_weights(self, whole):
        from seq2seq.run_folder import WEIGHTS, load_weights

        one = model()
        load_weights(one, whole / "step-12" / WEIGHTS)
        expected = capture(one, tokenizer(), *map(list, zip(*PAIRS[:2], strict=True)))
        found = Snapshots(whole / "snapshots").records(12)
        assert [maps.text for maps in found] == [maps.text for maps in expected]
        for mine, theirs in zip(found, expected, strict=True):
            for kind in KINDS:
                pairs = zip(mine.layers(kind), theirs.layers(kind), strict=True)
                assert all((a == b).all() for a, b in pairs)
            assert mine.meta["run"] == "run"
            assert mine.meta["step"] == 12

    def test_numbers_are_those_of_the_pairs(self, tmp_path):
        one = model()
        watcher(tmp_path)(one, 7)
        table = Snapshots(tmp_path / "snapshots").table(7)
        maps = capture(one, tokenizer(), *map(list, zip(*PAIRS[:6], strict=True)))
        rows = [m.head("cross", 0, 1)[~m.special["tgt_out"]] for m in maps]
        expected = np.concatenate([entropy(row) for row in rows]).mean()
        assert table.values("entropy")[HeadId("cross", 0, 1)] == pytest.approx(expected, rel=1e-6)
        assert table.has("mean_js")
        assert "update 7" in table.facts[0]
        assert "6 dev pairs" in table.facts[1]

    def test_a_sentence_without_translation_keeps_the_encoder_only(self, tmp_path):
        look = Tracker(tmp_path, tokenizer(), [Sentence("1 2", None), Sentence("1 2", "3")], PAIRS)
        look(model(), 0)
        alone, both = Snapshots(tmp_path).records(0)
        assert [len(alone.layers(kind)) for kind in KINDS] == [1, 0, 0]
        assert [len(both.layers(kind)) for kind in KINDS] == [1, 1, 1]
        assert (alone.layers("enc")[0] == both.layers("enc")[0]).all()
        assert alone.logprob is None
        assert "alternatives" not in alone.meta

    def test_packed_records_come_back_in_order(self, tmp_path):
        sources = [source for source, _ in PAIRS[:12]]  # ten and more: 10 must not sort before 2
        records = capture(model(), tokenizer(), sources, sources)
        file = tmp_path / "some.npz"
        file.write_bytes(pack(records))
        found = unpack(files.read_arrays(file), file)
        assert [maps.to_bytes() for maps in found] == [maps.to_bytes() for maps in records]

    def test_weights_that_are_not_finite_are_told_and_do_not_end_training(self, tmp_path):
        one = model()
        next(one.encoder.parameters()).data.fill_(float("nan"))
        assert "not kept" in watcher(tmp_path)(one, 3)
        assert Snapshots(tmp_path / "snapshots").updates == []


class TestResume:
    @pytest.mark.parametrize("stop_at", [3, 4, 7])
    def test_interrupted_and_resumed_is_as_if_never_stopped(self, whole, tmp_path, stop_at):
        run = tmp_path / "run"
        train(run, stop_at=stop_at)
        assert Snapshots(run / "snapshots").updates == [u for u in UPDATES if u < stop_at]
        train(run, resume=True)
        assert contents(run) == contents(whole)

    def test_what_a_killed_process_left_is_done_anew(self, whole, tmp_path):
        """Killed after update 9, when the last checkpoint was that of update 5."""
        run = tmp_path / "run"
        train(run, max_updates=5)
        folder = run / "snapshots"
        (folder / "step_00000008.npz").write_bytes(b"of another learning rate")
        (folder / "step_00000008.csv").write_bytes(b"too")
        (folder / ".step_00000009.npz.77.tmp").write_bytes(b"half")
        (folder / "notes.txt").write_text("mine", encoding="utf-8")
        (folder / "step_00000005.npz").unlink()  # killed between checkpoint and snapshot
        train(run, resume=True)
        assert (folder / "notes.txt").read_text(encoding="utf-8") == "mine"
        (folder / "notes.txt").unlink()
        assert contents(run) == contents(whole)

    def test_a_snapshot_is_not_taken_twice(self, tmp_path):
        look, one = watcher(tmp_path), model()
        assert "MB each time" in look(one, 0)
        before = contents(tmp_path)
        for parameter in one.parameters():
            parameter.data.zero_()
        assert look(one, 0) == ""
        assert contents(tmp_path) == before

    def test_files_appear_whole_or_not_at_all(self, tmp_path, monkeypatch):
        look = watcher(tmp_path)

        def fail(self, content):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(Path, "write_bytes", fail)
        assert "No space left" in look(model(), 0)
        assert contents(tmp_path) == {}
        monkeypatch.undo()
        look(model(), 0)
        (tmp_path / "snapshots" / "step_00000000.npz").unlink()
        assert look.snapshots.updates == []  # numbers without maps are no snapshot
        look(model(), 0)
        assert look.snapshots.updates == [0]


class TestSentences:
    def test_a_file_holds_sentences_with_or_without_translation(self, tmp_path):
        file = tmp_path / "mine.txt"
        file.write_text("1 2\t3 4\n\n5 6\n7\t \n", encoding="utf-8")
        expected = [Sentence("1 2", "3 4"), Sentence("5 6", None), Sentence("7", None)]
        assert read_sentences(file, tokenizer(), 150) == expected

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("1\t2\t3\n", "line 1 must be"),
            ("1\n\t2\n", "line 2 must be"),
            ("\n \n", "holds no sentence"),
            ("1\n" + "1 " * 80 + "\n", "line 2 has 16"),
        ],
    )
    def test_lines_that_cannot_be_used_are_named(self, tmp_path, content, message):
        file = tmp_path / "mine.txt"
        file.write_text(content, encoding="utf-8")
        with pytest.raises(UserError, match=message):
            read_sentences(file, tokenizer(), 150)
        with pytest.raises(UserError, match=r"train\.snapshot_file"):
            read_sentences(tmp_path / "absent.txt", tokenizer(), 150)

    def test_own_sentences_come_first_and_notes_say_what_is_missing(self, tmp_path):
        file = tmp_path / "mine.txt"
        file.write_text("1 2\n", encoding="utf-8")
        dev = [("1 " * 60, "1"), *PAIRS[:3]]
        config = TrainConfig(snapshots=5, snapshot_file=str(file), snapshot_pairs=2)
        found = tracker(config, tmp_path, tokenizer(), dev)
        assert found.sentences == [Sentence("1 2", None), *(Sentence(*p) for p in PAIRS[:3])]
        assert found.pairs == dev[:2]  # 121 tokens are legible to statistics
        assert "only 3 dev pairs" in found.notes[0]
        assert "1 of 1 sentences without a translation" in found.notes[1]

    def test_dev_text_of_long_lines_only_is_measured_but_not_shown(self, tmp_path):
        dev = [("1 " * 60, "1")]
        found = tracker(TrainConfig(snapshots=2), tmp_path, tokenizer(), dev)
        assert (found.sentences, found.pairs) == ([], dev)
        assert "only 0 dev pairs" in found.notes[0]
        assert "MB each time" in found(model(), 0)
        assert found.snapshots.records(0) == []

    def test_the_models_own_limit_counts(self, tmp_path):
        found = tracker(TrainConfig(snapshots=9), tmp_path, tokenizer(), PAIRS, limit=8)
        longest = [max(len(s), len(t)) for s, t in found.pairs]
        assert max(longest) < 8
        assert len(found.pairs) < len(PAIRS)


def test_a_missing_folder_holds_no_snapshots_and_damage_is_named(whole, tmp_path):
    assert Snapshots(tmp_path / "absent").updates == []
    Snapshots(tmp_path / "absent").forget_after(0)
    copy = tmp_path / "copy"
    shutil.copytree(whole / "snapshots", copy)
    (copy / "step_00000005.npz").write_bytes(b"broken")
    (copy / "step_00000005.csv").unlink()
    with pytest.raises(UserError, match=r"step_00000005\.npz"):
        Snapshots(copy).records(5)
    with pytest.raises(UserError, match=r"step_00000005\.csv"):
        Snapshots(copy).table(5)
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(UserError, match="Cannot make"):
        Snapshots(tmp_path / "file" / "sub").write(0, [], Snapshots(copy).table(0))
