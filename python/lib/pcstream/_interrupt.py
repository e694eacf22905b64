"""Signals while a program is being started: Ctrl-C, and others that Python code answers.

Between the start of a process and the moment its object has a name, an exception of their handlers would leave the process
behind: nobody could pass the interrupt on.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def held() -> Iterator[None]:
    """Signals that come within are answered at the end. In other threads Python answers none."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    answered = {number: handler for number in signal.valid_signals() if callable(handler := signal.getsignal(number))}
    for number in answered:
        signal.signal(number, lambda got, _: came.append(got))
    try:
        yield
    finally:
        # One that came between two of these would keep the rest as they are.
        unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, answered)
        for number, handler in answered.items():
            signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
        for got in dict.fromkeys(came):
            signal.raise_signal(got)
