"""FAST'18, Fig. 5: what FStream saves on filebench's varmail and fileserver, by file system and mount options.

The device is the recording's own, 80 % of it filled with data that stay, as in the paper. The paper does not say that its file
systems were mounted with discards, so rows without them are compared. On a device of what is written alone, 98 % full, garbage
collection has more to do.
"""

from __future__ import annotations

import statistics
from typing import NamedTuple

import pcstream as pc

from ..lab import LEGACY, UTILISATION, Lab, Table, spread
from ..pictures import bars

NAME = "fast18-fig5"
ABOUT = "WAF and IOPS by FStream's options, varmail and fileserver"
#: Options of ext4 in the order of the paper's Table 1; XFS has a log and an inode stream (Table 2).
EXT4 = (("journal", ("journal",)), ("+ inode", ("journal", "inode")), ("all", ("journal", "inode", "directory", "misc")))
XFS = EXT4[:2]
OPTIONS = ("journal", "inode", "directory", "misc")
#: Workload, and the paper's gains: performance and WAF in percent, where the text has them.
PAPER: dict[str, tuple[str, str]] = {
    "varmail-ext4": ("+35", "-25"),
    "varmail-ext4-nojournal": ("+26", "-46"),
    "varmail-xfs": ("+22", "-14"),
    "fileserver-ext4": ("-", "near 1 without"),
    "fileserver-ext4-datajournal": ("-", "above 1.5 to near 1"),
    "fileserver-xfs": ("-", "-"),
}
#: File systems that the paper compares without streams, and its performance of the first against the second, in percent.
FILE_SYSTEMS = (("varmail-ext4-nojournal", "varmail-ext4", "+62"), ("fileserver-xfs", "fileserver-ext4", "below -50"))
#: The device, its utilisation (None: the recording's own), and whether discards reach it.
DEVICES = (("80 % static", None, False), ("98 % packed", UTILISATION, False), ("80 % static, discards", None, True))
COLUMNS = ("baseline", "journal", "+ inode", "all")


def make(lab: Lab) -> Table:
    """A row for each device and workload."""
    columns = ("workload", "device", *COLUMNS, "WAF", "paper, WAF", "IOPS", "paper, performance")
    table = Table(NAME, "FAST'18 Fig. 5: WAF by FStream's options, and the gain with all of them, in %", columns)
    drawn: dict[str, list[float | None]] = {column: [] for column in COLUMNS}
    seconds: dict[str, list[float]] = {}
    traces = {name: found for name in PAPER if (found := lab.traces(name))}
    for said, utilisation, discard in DEVICES:
        for name, found in traces.items():
            runs = [options(lab, trace, name, utilisation, discard) for trace in found]
            wafs = {column: [run[column].waf for run in runs if column in run] for column in COLUMNS}
            saved = [100 * (run[last(run)].waf / run["baseline"].waf - 1) for run in runs]
            faster = [100 * (run["baseline"].seconds / run[last(run)].seconds - 1) for run in runs]
            performance, waf = PAPER[name]
            cells = (spread(values) if values else None for values in wafs.values())
            table.rows.append((name, said, *cells, percent(saved), waf, percent(faster), performance))
            if (utilisation, discard) == (None, False):
                for column, values in wafs.items():
                    drawn[column].append(statistics.fmean(values) if values else None)
                seconds[name] = [run["baseline"].seconds for run in runs]
    table.remarks.append(
        "Nine streams, spare factor 7 %, no internal streams. 80 % static: the recording's device, of which data that stay fill so "
        "much, without discards. 98 % packed: what the recording writes to fills so much of a smaller one. IOPS of a simulation with 32 requests outstanding. On XFS FStream has the options journal (its log) and inode. Means of "
        "recordings, in brackets the least and the greatest."
    )
    for name, reference, paper in FILE_SYSTEMS:
        if {name, reference} <= set(seconds):
            table.remarks.append(
                f"Without streams, 80 % static: {name} {percent(speed(seconds, name, reference))} % faster than {reference} "
                f"(paper: {paper} %): {spread(seconds[name])} s of simulated time against {spread(seconds[reference])} s."
            )
    table.picture = lambda path: bars(path, [name.replace("-", "\n", 1) for name in traces], drawn, "WAF, 80 % static")
    return table


class Outcome(NamedTuple):
    """Of a simulation."""

    waf: float
    seconds: float


def options(lab: Lab, trace: pc.Trace, name: str, utilisation: float | None, discard: bool, **device: int) -> dict[str, Outcome]:
    """WAF and time without streams, and with more and more of FStream's options; ``device`` is what else to change of the drive."""
    found = {}
    for column, on in (("baseline", ()), *(XFS if name.endswith("xfs") else EXT4)):
        scheme = "fstream" if on else "baseline"
        given = {f"fstream.{option}": option in on for option in OPTIONS} if on else {}
        results = lab.simulate(trace, (scheme,), utilisation, discard=discard, timing=True, set=given, **device)
        found[column] = Outcome(float(results[scheme, LEGACY].waf), float(results[scheme, LEGACY].simulated_seconds))
    return found


def speed(seconds: dict[str, list[float]], name: str, reference: str) -> list[float]:
    """How much faster a workload ends than another, in percent by recording."""
    return [100 * (slow / fast - 1) for fast, slow in zip(seconds[name], seconds[reference], strict=False)]


def last(run: dict[str, Outcome]) -> str:
    """The column with all options that the file system has."""
    return [column for column in COLUMNS if column in run][-1]


def percent(values: list[float]) -> str:
    """A mean change, and the interval behind it."""
    return spread(values, "+.0f", " to ")
