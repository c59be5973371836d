"""Ctrl-C and termination while training: finish the running update, save, stop."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stop_on_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` at the first Ctrl-C or SIGTERM; a second one ends the program now.

    Python allows signal handlers in the main thread only; elsewhere nothing changes.
    """
    seen = False

    def handle(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        nonlocal seen
        if seen:
            raise KeyboardInterrupt
        seen = True
        stop()

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
