"""Ctrl-C while a program is being started.

Between the start of a process and the moment its object has a name, a KeyboardInterrupt would leave the process behind:
nobody could pass the interrupt on.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def held() -> Iterator[None]:
    """SIGINT that comes within is answered at the end. In other threads Python answers none."""
    earlier = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(earlier):
        yield
        return
    came = False

    def note(*_: object) -> None:
        nonlocal came
        came = True

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, earlier)
        if came:
            signal.raise_signal(signal.SIGINT)
