"""Many runs through one of Hydra's launchers: side by side here, or as jobs of a cluster.

The runs are composed, named and checked before; the launcher starts a job for each, and all that
varies between the jobs is the number of the run.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Callable, Iterator

import hydra
from omegaconf import DictConfig

from seq2seq.cli.configure import in_words
from seq2seq.cli.options import CONFIG_MODULE
from seq2seq.errors import UserError

_OF_HYDRA = re.compile(r"\+{0,2}hydra[./]")


def split(overrides: list[str]) -> tuple[list[str], list[str]]:
    """Overrides of Hydra's own settings, such as `hydra/launcher=joblib`, and the others."""
    own = [override for override in overrides if _OF_HYDRA.match(override)]
    return own, [override for override in overrides if override not in own]


def launch(runs: int, train: Callable[[int], None], settings: list[str], folder: str) -> None:
    """Let a launcher call `train` with the number of every run, and wait for all of them.

    Args:
        runs: how many.
        train: does one of them; must be picklable by cloudpickle. What it raises comes back here.
        settings: Hydra's, of which the last of a kind counts; without a launcher, one after the
            other.
        folder: for what the launcher writes.

    Raises:
        UserError: a setting that Hydra does not know, or whatever a run said.
    """
    if any(re.match(r"\+{0,2}hydra[./]sweeper", setting) for setting in settings):
        raise UserError("hydra/sweeper has no effect here: write out the values, as in seed=1,2,3.")

    def job(config: DictConfig) -> None:
        _join_tasks()
        train(config.run)

    numbers = ",".join(str(number) for number in range(runs))
    arguments = ["--multirun", f"hydra.sweep.dir='{folder}'", *settings, f"run={numbers}"]
    main = hydra.main(
        version_base="1.3", config_path=f"pkg://{CONFIG_MODULE}", config_name="launch"
    )
    with in_words([]), _as_typed(arguments):
        main(job)()


@contextlib.contextmanager
def _as_typed(arguments: list[str]) -> Iterator[None]:
    """`hydra.main` reads the command line; and shall raise, not print and exit."""
    argv, environment = sys.argv, os.environ.copy()
    sys.argv, os.environ["HYDRA_FULL_ERROR"] = ["seq2seq", *arguments], "1"
    try:
        yield
    finally:
        sys.argv = argv
        os.environ.clear()
        os.environ.update(environment)


def _join_tasks() -> None:
    """Several submitit tasks of one job are the processes of one run, as torchrun would start."""
    if "submitit" not in sys.modules:
        return
    import submitit

    if submitit.JobEnvironment().num_tasks > 1:
        environment = submitit.helpers.TorchDistributedEnvironment()
        environment.export(set_cuda_visible_devices=False, overwrite=True)
