"""FAST'19, Fig. 14: processor time of a workload with and without a capture. The paper adds less than 5 % of the processor.

Runs are in pairs, each on a new ext4 of the workload's size, in an image in memory. Counted are user and system time of all
processes that a run starts, and of the kernel's threads meanwhile, which write pages back. It needs root and takes as long as the
workloads.

Known weaknesses: what other programs let the kernel's threads do meanwhile is counted, too; the time of a thread that ends is not.
"""

from __future__ import annotations

import os
import resource
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from pcstream import RecordError
from pcstream._record import LOSSES, find

from ..lab import Lab, Table, spread
from ..pictures import bars
from ..workload import Workload

NAME = "fast19-fig14"
ABOUT = "processor time with and without a capture"
WORKLOADS = ("rocksdb", "sqlite", "gcc")
#: The most that a capture adds in the paper.
PAPER = 1.05
#: Seconds that what is interrupted has to end.
ENDING = 10
#: The number of kthreadd, the parent of all threads of the kernel.
KTHREADD = "2"


def make(lab: Lab) -> Table:
    """A row for each workload."""
    columns = ("workload", "user, without, s", "user, with a capture, s", "system, without, s", "system, with a capture, s", "ratio")
    table = Table(NAME, "FAST'19 Fig. 14: processor time of a capture", columns)
    drawn: list[float] = []
    for name in WORKLOADS:
        workload = lab.workloads[name]
        if not lab.may_record:
            lab.leave_out(f"{NAME}, {name}", "not run, as it is no recording but a measurement: leave --recorded out")
            continue
        if workload.missing():
            lab.leave_out(name, f"not run, because this machine lacks {', '.join(workload.missing())}")
            continue
        pairs = measured(workload, lab.recordings)
        ratios = [b.total / a.total for a, b in pairs]
        user = (spread([pair[side].user for pair in pairs]) for side in (0, 1))
        system = (spread([pair[side].system for pair in pairs]) for side in (0, 1))
        table.rows.append((name, *user, *system, spread(ratios)))
        drawn.append(statistics.fmean(ratios))
    ratios_of: dict[str, list[float]] = {"here": drawn, "paper: less than": [PAPER] * len(drawn)}
    table.picture = lambda path: bars(path, [row[0] for row in table.rows], ratios_of, "time with a capture / without")
    table.remarks.append(
        f"Of all processes, the recorder's included, and of the kernel's threads. The ratio is of both times. {lab.recordings} pairs: means, "
        "in brackets the least and the greatest. Both runs of a pair are on a new ext4 of the same size, in memory. Every other pair "
        "begins with the capture, and a run before the first is not counted."
    )
    return table


class Times(NamedTuple):
    """Processor time in seconds."""

    user: float
    system: float

    @property
    def total(self) -> float:
        """Of both kinds."""
        return self.user + self.system

    def since(self, before: Times) -> Times:
        """What came on top."""
        return Times(self.user - before.user, self.system - before.system)


def measured(workload: Workload, pairs: int) -> list[tuple[Times, Times]]:
    """Processor time without and with a capture of each pair of runs; which of them is first alternates."""
    # What the first run finds or makes for all, as unpacked sources, the page cache and compiled code, is counted for none.
    seconds(workload, capture=False)
    found = []
    for number in range(pairs):
        order = (False, True) if number % 2 == 0 else (True, False)
        by_capture = {capture: seconds(workload, capture=capture) for capture in order}
        found.append((by_capture[False], by_capture[True]))
    return found


def seconds(workload: Workload, *, capture: bool) -> Times:
    """Processor time of the workload's command."""
    with tempfile.TemporaryDirectory(prefix="pcstream-") as kept, file_system(workload.size) as directory:
        words = [word.replace("{}", directory) for word in workload.words(1, Path(kept))]
        record = [find(), "record", "--no-config", "--on", directory, "-o", f"{kept}/t.pctrace", "--quiet", "--"] if capture else []
        before = processor_seconds()
        code, said = run([*record, *words], directory)
        # A trace that lacks something took the same time.
        if code not in (0, LOSSES if capture else 0):
            raise RecordError(f"{workload.name} ended with {code}: {said.strip()}")
        subprocess.run(["sync", "--file-system", directory], check=True)
        return processor_seconds().since(before)


def run(command: list[str], directory: str) -> tuple[int, str]:
    """Runs a command: its exit code, and what it said. What it started ends with it if this program is interrupted."""
    with subprocess.Popen(
        command, cwd=directory, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            _, said = process.communicate()
        except BaseException:
            # A recorder ends its command; what is still there after that is killed.
            os.killpg(process.pid, signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                process.wait(ENDING)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
    return process.returncode, said


@contextmanager
def file_system(size: str) -> Iterator[str]:
    """A new ext4, mounted; it and its image are gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="pcstream-", dir="/dev/shm") as folder:
        image, directory = Path(folder) / "image", Path(folder) / "mounted"
        directory.mkdir()
        subprocess.run(["truncate", "--size", size, image], check=True)
        subprocess.run(["mkfs.ext4", "-q", "-b", "4096", image], check=True)
        subprocess.run(["mount", "-o", "loop,discard", image, directory], check=True)
        try:
            yield str(directory)
        finally:
            until = time.monotonic() + ENDING
            while subprocess.run(["umount", directory], stderr=subprocess.DEVNULL, check=False).returncode and time.monotonic() < until:
                time.sleep(0.1)
            if os.path.ismount(directory):
                subprocess.run(["umount", directory], check=True)


def processor_seconds() -> Times:
    """So far, of this process's children that have ended, and of the kernel's threads."""
    children, kernel = resource.getrusage(resource.RUSAGE_CHILDREN), kernel_seconds()
    return Times(children.ru_utime + kernel.user, children.ru_stime + kernel.system)


def kernel_seconds() -> Times:
    """So far, of the kernel's threads."""
    user, system = 0, 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = stat.read_text().rpartition(")")[2].split()
        except OSError:  # It has just ended.
            continue
        if words[1] == KTHREADD:
            user, system = user + int(words[11]), system + int(words[12])
    ticks = os.sysconf("SC_CLK_TCK")
    return Times(user / ticks, system / ticks)
