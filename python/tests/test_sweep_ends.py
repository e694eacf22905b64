"""How sweeps end before their time: what becomes of their workers."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import pcstream as pc

ENDLESS = """
import os, pathlib, sys, threading
import numpy as np
import pcstream as pc

class Endless(pc.Scheme):
    name = "endless"
    def place(self, batch):
        if self.streams > 2:
            pathlib.Path(sys.argv[2], str(os.getpid())).touch()
            threading.Event().wait()
        return np.zeros(len(batch), np.uint8)

if __name__ == "__main__":
    if sys.argv[3] == "full":
        def full(*_):
            while not list(pathlib.Path(sys.argv[2]).iterdir()):
                threading.Event().wait(0.01)
            raise OSError("no space left")
        pc._sweep.Store.write = full
    pc.sweep(sys.argv[1], Endless, workers=2, streams=[2, 3, 4, 5, 6], gc="own")
"""


@pytest.mark.parametrize("how,said", [("interrupted", "KeyboardInterrupt"), ("full", "OSError: no space left")])
def test_a_sweep_that_ends_early_takes_its_workers_with_it(small: pc.Trace, tmp_path: Path, how: str, said: str) -> None:
    script, working = tmp_path / "script.py", tmp_path / "working"
    script.write_text(ENDLESS)
    working.mkdir()
    words = [sys.executable, str(script), str(small.path), str(working), how]
    caller = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        while not list(working.iterdir()):
            assert caller.poll() is None
            time.sleep(0.01)
        if how == "interrupted":
            caller.send_signal(signal.SIGINT)
        # A worker that is left never ends, and its caller waits for it.
        stderr = caller.communicate(timeout=60)[1]
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(caller.pid, signal.SIGKILL)
    assert stderr.strip().endswith(said), stderr
    for worker in working.iterdir():
        with pytest.raises(ProcessLookupError):
            os.kill(int(worker.name), 0)


#: Ctrl-C comes when a worker has been started, and the pool does not know it yet.
STARTS = """
import multiprocessing.process
import signal
import sys

import pcstream as pc

start = multiprocessing.process.BaseProcess.start

def interrupted(self):
    start(self)
    signal.raise_signal(signal.SIGINT)

if __name__ == "__main__":
    multiprocessing.process.BaseProcess.start = interrupted
    pc.sweep(sys.argv[1], "baseline", workers=1, gc="own")
"""


def test_ctrl_c_while_a_worker_starts_ends_the_sweep(small: pc.Trace, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(STARTS)
    words = [sys.executable, str(script), str(small.path)]
    caller = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        # A worker that the pool does not know is waited for, and never ends.
        stderr = caller.communicate(timeout=60)[1]
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(caller.pid, signal.SIGKILL)
    assert stderr.strip().endswith("KeyboardInterrupt"), stderr


def test_workers_end_with_a_caller_that_is_killed(small: pc.Trace, tmp_path: Path) -> None:
    script, working = tmp_path / "script.py", tmp_path / "working"
    script.write_text(ENDLESS)
    working.mkdir()
    words = [sys.executable, str(script), str(small.path), str(working), "killed"]
    # Its temporary directory is left, too.
    caller = subprocess.Popen(words, start_new_session=True, env=os.environ | {"TMPDIR": str(tmp_path)})
    try:
        while len(list(working.iterdir())) < 2:
            assert caller.poll() is None
            time.sleep(0.01)
        workers = [os.pidfd_open(int(worker.name)) for worker in working.iterdir()]
        caller.kill()
        caller.wait()
        for worker in workers:
            # Readable when the process has ended.
            assert select.select([worker], [], [], 60)[0], "a worker is left"
            os.close(worker)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(caller.pid, signal.SIGKILL)
