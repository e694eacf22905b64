"""How much of the papers' savings depends on the drive: utilisation, superblocks and streams, for the workloads of FAST'19.

A superblock of 1 is that of the PM963 in proportion. No discards, so utilisation is that of the addresses. Points without room
for garbage collection are left out.
"""

from __future__ import annotations

import statistics
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import pcstream as pc

from ..lab import DEVICE, INTERNAL, LEGACY, SPARE_FACTOR, Lab, Table
from ..summaries import Row, markdown, percent
from .waf import PAPERS

NAME = "sensitivity"
ABOUT = "WAF over utilisation, superblock and streams"
SHARES = (0.6, 0.7, 0.8, 0.9, 0.98)
#: Superblocks, as multiples of the drive's own.
SUPERBLOCKS = (0.25, 1.0, 2.0)
#: S0 included.
STREAMS = (4, 8, 16)
#: Column, scheme and device.
COLUMNS = (
    ("baseline", "baseline", LEGACY),
    ("manual", "manual", LEGACY),
    ("baseline, internal", "baseline", INTERNAL),
    ("manual, internal", "manual", INTERNAL),
    ("pcstream", "pcstream", INTERNAL),
)

#: Utilisation, superblock, streams.
Point = tuple[float, float, int]


def make(lab: Lab) -> Table:
    """A row for each workload and point, of the first recording of each."""
    columns = ("workload", "utilisation", "superblock", "streams", *(name for name, _, _ in COLUMNS), "pcstream / baseline")
    table = Table(NAME, "WAF over utilisation, superblock and streams, without discards", columns)
    savings: dict[Point, list[float]] = {}
    found = {name: traces[0] for name in PAPERS if (traces := lab.traces(name))}
    for name, trace in found.items():
        for (share, factor, streams), wafs in points(lab, trace):
            saving = wafs[-1] / wafs[0] - 1
            savings.setdefault((share, factor, streams), []).append(saving)
            table.rows.append((name, f"{share:.0%}", f"{factor:g}", streams, *wafs, f"{saving:+.0%}"))
    whole = {point: statistics.fmean(each) for point, each in savings.items() if len(each) == len(found)}
    table.remarks.append(
        f"Device: {DEVICE} scaled, spare factor {SPARE_FACTOR:.0%}. Superblock: a multiple of that drive's, which is 0.23 % of the "
        "addresses. PCStream has internal streams; what it is compared with has none. The first recording of each workload."
    )
    if whole:
        best, least = min(whole, key=whole.__getitem__), max(whole, key=whole.__getitem__)
        table.remarks.append(
            f"PCStream against baseline, mean of the ratios over {len(found)} workloads: {whole[best]:+.0%} at best ({at(best)}), "
            f"{whole[least]:+.0%} at worst ({at(least)}). Paper: -63 %."
        )
    return table


def summary(rows: Sequence[Row]) -> str:
    """What PCStream saves with the fewest streams, the mean over the workloads, with the least and the greatest."""
    savings: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        if row["streams"] == str(STREAMS[0]):
            saving = 100 - 100 * float(row["pcstream"]) / float(row["baseline"])
            savings.setdefault((row["utilisation"], row["superblock"]), []).append(saving)
    workloads = {row["workload"] for row in rows}

    def cell(point: tuple[str, str]) -> str:
        each = savings.get(point, [])
        # A mean over fewer workloads cannot be compared with the others.
        if len(each) < len(workloads):
            return "-"
        return f"{round(statistics.fmean(each))} % ({round(min(each))} to {round(max(each))})"

    sizes = [f"{factor:g}" for factor in SUPERBLOCKS]
    lines = [(percent(share), *(cell((share, size)) for size in sizes)) for share in (f"{share:.0%}" for share in SHARES)]
    return markdown(("utilisation", f"superblock x {sizes[0]}", *(f"x {size}" for size in sizes[1:])), lines)


def at(point: Point) -> str:
    """A point in words."""
    share, factor, streams = point
    return f"utilisation {share:.0%}, superblock {factor:g}, {streams} streams"


def points(lab: Lab, trace: pc.Trace) -> Iterator[tuple[Point, list[float]]]:
    """The WAF of each column at every point that can be."""
    schemes = list(dict.fromkeys(scheme for _, scheme, _ in COLUMNS))
    device = pc.Device.profile(DEVICE, gc=(LEGACY, INTERNAL), spare_factor=SPARE_FACTOR).scaled()
    options = {"discard": False, "rules": lab.rules_of(trace)}
    for share in SHARES:
        own = int(lab.simulate(trace, ["baseline"], share, discard=False).device["superblock_pages"])
        sizes = {int(own * factor): factor for factor in SUPERBLOCKS}
        with warnings.catch_warnings():
            # Rows have the warnings, too.
            warnings.simplefilter("ignore", pc.PcstreamWarning)
            swept = pc.sweep(trace, schemes, device, options=options, pack=share, superblock_pages=list(sizes), streams=STREAMS)
        by_point: dict[Point, dict[tuple[str, str], Any]] = {}
        for row in swept.to_arrow().to_pylist():
            # What else a warning says is no loss.
            if row["losses"]:
                lab.lose(f"{trace.path.stem}: {row['warnings']}")
            point = (share, sizes[row["superblock_pages"]], row["streams"])
            by_point.setdefault(point, {})[row["scheme"], row["gc_destination"]] = row["waf"]
        for point, wafs in by_point.items():
            yield point, [float(wafs[scheme, destination]) for _, scheme, destination in COLUMNS]
