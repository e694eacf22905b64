"""AutoStream's chunks: 1 MiB, or in the proportion that they have to the superblock of FAST'19's drive.

On a device scaled to a recording, 1 MiB is about a superblock instead of a thousandth of one. PCStream has no such disadvantage:
it keeps lifetimes by pages, and ``pcstream-paper`` by chunks in proportion. So the other figures take the better chunk.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from ..fullness import BY_LIVE_DATA, filled
from ..lab import DISCARDS, INTERNAL, LEGACY, Lab, Table, conditions, spread
from ..pictures import bars
from ..summaries import LABELS, Row, markdown, mean
from .waf import PAPERS, lowest

NAME = "autostream-chunks"
ABOUT = "WAF of AutoStream with chunks in proportion to the superblock"
WORKLOADS = (*PAPERS, "sqlite-wal", "mariadb")
#: A chunk, as the parameter has it: of 1 MiB, and of 1/1049 superblock.
CHUNKS = ("256", "scaled")
SCHEMES = ("autostream-mq", "autostream-sfr")
#: What else differs between public descriptions.
READINGS = ("autostream-mq", "autostream-mq:keeping", "autostream-mq:halving", "autostream-sfr")
OTHERS = (("pcstream-paper", INTERNAL), ("pcstream", INTERNAL))
#: What the picture calls the columns of WAF, in their order.
DRAWN = (
    "AutoStream, 1 MiB",
    "AutoStream, in proportion",
    "AutoStream, 1 MiB, internal streams",
    "AutoStream, in proportion, internal",
    "pcstream-paper, internal",
    "PCStream, internal",
)
#: Columns of the table in ``docs/results``, and ours.
SUMMARY = (
    ("1 MiB", "1 MiB"),
    ("in proportion", "in proportion"),
    ("internal: 1 MiB", "1 MiB, internal"),
    ("internal: in proportion", "in proportion, internal"),
    ("`pcstream-paper`", "pcstream-paper, internal"),
    ("PCStream", "pcstream, internal"),
)


def make(lab: Lab) -> Table:
    """A row for each workload, without and with discards."""
    chunks = [f"{chunk}{where}" for where in ("", ", internal") for chunk in ("1 MiB", "in proportion")]
    columns = ("workload", "discards", "superblock, KiB", *chunks, *(f"{scheme}, internal" for scheme, _ in OTHERS))
    table = Table(NAME, "AutoStream by size of its chunks", columns)
    means: dict[str, list[float]] = {}
    for discard, said in reversed(DISCARDS):
        for name in WORKLOADS:
            rows: list[list[float]] = []
            superblocks = []
            for trace in lab.traces(name):
                runs = [lab.simulate(trace, READINGS, set=chunk_of(chunk), **filled(discard)) for chunk in CHUNKS]
                others = lab.simulate(trace, [scheme for scheme, _ in OTHERS], **filled(discard))
                wafs = [lowest(run, READINGS, at) for at in (LEGACY, INTERNAL) for run in runs]
                rows.append(wafs + [lowest(others, (scheme,), at) for scheme, at in OTHERS])
                superblocks.append(4 * int(others.device["superblock_pages"]))
            if rows:
                size = "-".join(map(str, sorted({min(superblocks), max(superblocks)})))
                table.rows.append((name, said, size, *(spread(column) for column in zip(*rows, strict=True))))
            if rows and not discard:
                means[name] = [statistics.fmean(column) for column in zip(*rows, strict=True)]
    table.remarks.append(
        f"{conditions()} {BY_LIVE_DATA} AutoStream is the best of {len(READINGS)} readings of its paper, chosen for each recording. In "
        "proportion: 1/1049 superblock, at least a page. Means of recordings, in brackets the least and the greatest."
    )
    series: dict[str, list[float | None]] = {label: [row[at] for row in means.values()] for at, label in enumerate(DRAWN)}
    table.picture = lambda path: bars(path, [name.replace("-", "\n", 1) for name in means], series, "WAF without discards")
    return table


def summary(rows: Sequence[Row]) -> str:
    """WAF without discards."""
    there = [row for row in rows if row["discards"] == "no"]
    lines = [(LABELS[row["workload"]], row["superblock, KiB"], *(f"{mean(row[column]):.2f}" for _, column in SUMMARY)) for row in there]
    return markdown(("workload", "superblock, KiB", *(shown for shown, _ in SUMMARY)), lines)


def chunk_of(chunk: str) -> dict[str, str]:
    """Settings that give AutoStream such chunks."""
    return {f"{scheme}.chunk_pages": chunk for scheme in SCHEMES}
