"""FAST'19, Fig. 14: processor time of a workload with and without a capture. The paper adds less than 5 % of the processor.

Runs are in pairs, each on a new file system of the same kind. It needs root and takes as long as the workloads.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import tempfile
from pathlib import Path

from pcstream._record import find

from ..lab import Lab, Table, Workload, spread

NAME = "fast19-fig14"
ABOUT = "processor time with and without a capture"
WORKLOADS = ("rocksdb", "sqlite", "gcc")


def make(lab: Lab) -> Table:
    """A row for each workload."""
    table = Table(NAME, "FAST'19 Fig. 14: processor time of a capture", ("workload", "without, s", "recorder and command, s", "ratio"))
    for name in WORKLOADS:
        workload = lab.workloads[name]
        if workload.missing():
            lab.leave_out(name, f"not run, because this machine lacks {', '.join(workload.missing())}")
            continue
        pairs = [(plain(workload), captured(workload)) for _ in range(lab.recordings)]
        ratios = [b / a for a, b in pairs]
        table.rows.append((name, spread([a for a, _ in pairs]), spread([b for _, b in pairs]), spread(ratios)))
    table.remarks.append(
        "User and system time of all processes. Without a capture the command writes into memory (/dev/shm), so its file "
        "system's own work is missing there: the ratio is an upper bound of what a capture costs."
    )
    return table


def processor_seconds(command: list[str]) -> float:
    """User and system time of a command and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def plain(workload: Workload) -> float:
    """The command alone, in a directory in memory."""
    with tempfile.TemporaryDirectory(prefix="pcstream-", dir="/dev/shm") as directory, tempfile.TemporaryDirectory(prefix="pcstream-") as kept:
        return processor_seconds([word.replace("{}", directory) for word in workload.words(1, Path(kept))])


def captured(workload: Workload) -> float:
    """The command under capture, on its scratch file system."""
    with tempfile.TemporaryDirectory(prefix="pcstream-") as directory:
        flags = ["--size", workload.size, "--fill", str(workload.fill), "--quiet"]
        words = workload.words(1, Path(directory))
        return processor_seconds([find(), "record", "-o", f"{directory}/t.pctrace", *flags, "--", *words])
