"""FAST'18, section 4.2: what FStream saves for Cassandra when its commit log has a stream, which FStream knows by the files' names.

The paper loads and inserts keys, and says nothing of the drive's utilisation. The workload here is YCSB A: rows are updated.
"""

from __future__ import annotations

import statistics
from typing import Any

import pcstream as pc

from ..fullness import BY_LIVE_DATA, filled
from ..lab import DISCARDS, LEGACY, Lab, Table, conditions, spread
from ..pictures import bars
from .fstream import OPTIONS, Outcome, percent

NAME = "fast18-cassandra"
ABOUT = "WAF and IOPS of Cassandra with a stream for its commit log"
WORKLOAD = "cassandra"
#: Names of the commit log's files.
FILES = "CommitLog-*"
#: Column, and FStream's settings; None: no streams.
COLUMNS: tuple[tuple[str, dict[str, Any] | None], ...] = (
    ("baseline", None),
    ("file system's kinds", {}),
    ("commit log", {**{f"fstream.{option}": False for option in OPTIONS}, "fstream.names": FILES}),
    ("both", {"fstream.names": FILES}),
)
#: The paper's change of WAF and of throughput, in percent.
PAPER = ("-81", "+38")


def make(lab: Lab) -> Table:
    """A row without discards, and one with them."""
    columns = ("workload", "discards", *(name for name, _ in COLUMNS), "WAF, %", "paper, WAF", "IOPS, %", "paper, throughput")
    table = Table(NAME, "FAST'18, 4.2: WAF of Cassandra by FStream's streams, and the gain with all of them, in %", columns)
    drawn: dict[str, list[float | None]] = {name: [] for name, _ in COLUMNS}
    traces = lab.traces(WORKLOAD)
    for discard, said in reversed(DISCARDS) if traces else ():
        runs = [{name: outcome(lab, trace, given, discard) for name, given in COLUMNS} for trace in traces]
        saved = [100 * (run["both"].waf / run["baseline"].waf - 1) for run in runs]
        faster = [100 * (run["baseline"].seconds / run["both"].seconds - 1) for run in runs]
        wafs = {name: [run[name].waf for run in runs] for name, _ in COLUMNS}
        table.rows.append((WORKLOAD, said, *map(spread, wafs.values()), percent(saved), PAPER[0], percent(faster), PAPER[1]))
        for name, values in wafs.items():
            drawn[name].append(statistics.fmean(values))
    table.remarks.append(
        f"{conditions()} {BY_LIVE_DATA} Nine streams, no internal streams. The file system's kinds are journal, inodes, directories and other "
        f"metadata. The commit log is {FILES}. The paper: WAF up to 81 % lower, throughput up to 38 % higher. IOPS of a simulation with "
        "32 requests outstanding. Means of recordings, in brackets the least and the greatest."
    )
    table.picture = lambda path: bars(path, ["no discards", "discards"], drawn, "WAF")
    return table


def outcome(lab: Lab, trace: pc.Trace, given: dict[str, Any] | None, discard: bool) -> Outcome:
    """WAF and simulated time with some of FStream's streams."""
    scheme = "baseline" if given is None else "fstream"
    result = lab.simulate(trace, (scheme,), timing=True, set=given or {}, **filled(discard))[scheme, LEGACY]
    return Outcome(float(result.waf), float(result.simulated_seconds))
