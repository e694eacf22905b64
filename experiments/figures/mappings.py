"""HotStorage'14, Fig. 3 and 4: Cassandra's data mapped to streams by hand, over time, with and without TRIM.

Configurations are the paper's Table 1. Time is simulated, with 32 requests outstanding. The paper does not state its
drive's superblock. So the figure varies it: small ones hold a part of a table each,
and then whole superblocks die with it in any mapping.
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any, NamedTuple

import pcstream as pc

from ..fullness import BY_LIVE_DATA, filled
from ..lab import LEGACY, UTILISATION, Lab, Table, conditions, spread
from ..pictures import pyplot

NAME = "hotstorage14-fig3"
ABOUT = "WAF, throughput over time and latency by mapping, Cassandra"
WORKLOAD = "cassandra"
#: Mapping, rules of ``manual`` (None: one stream), and whether discards reach the device.
MAPPINGS: tuple[tuple[str, str | None, bool], ...] = (
    ("Normal, no TRIM", None, False),
    ("Normal", None, True),
    ("Single", "cassandra-single", True),
    ("Multi-Log", "cassandra-multi-log", True),
    ("Multi-Data", "cassandra-multi-data", True),
)
#: Pages of a superblock: 1 and 4 MiB.
SUPERBLOCKS = (256, 1024)
STREAMS = 5
#: Of the device: with less, five streams of the larger superblock have no room.
SPARE_FACTOR = 0.127
#: Points of a curve over time.
POINTS = 30


class Run(NamedTuple):
    """A mapping on a recording."""

    waf: float
    iops: float
    #: Latencies of writes that one in 1,000 and one in 10,000 exceed, in ms.
    p99_9: float
    p99_99: float
    throughput: dict[str, Any]


def make(lab: Lab) -> Table:
    """A row for each superblock and mapping."""
    columns = ("superblock", "mapping", "WAF", "IOPS over Normal's", "last third / peak", "write p99.9, ms", "p99.99, ms")
    table = Table(NAME, "HotStorage'14 Fig. 3 and 4: Cassandra by mapping", columns)
    traces = lab.traces(WORKLOAD)
    drawn: dict[str, Run] = {}
    for pages in SUPERBLOCKS if traces else ():
        runs = {mapping: [run(lab, trace, pages, rules, discard) for trace in traces] for mapping, rules, discard in MAPPINGS}
        peaks = [max(peak(one) for one in mappings) for mappings in zip(*runs.values(), strict=True)]
        for mapping, found in runs.items():
            at_end = spread([last_third(one) / peak for one, peak in zip(found, peaks, strict=True)])
            faster = [one.iops / normal.iops for one, normal in zip(found, runs["Normal"], strict=True)]
            tails = (statistics.fmean(one.p99_9 for one in found), statistics.fmean(one.p99_99 for one in found))
            size = f"{pages // 256} MiB"
            wafs = spread([one.waf for one in found])
            table.rows.append((size, mapping, wafs, spread(faster), at_end, *(f"{tail:.1f}" for tail in tails)))
        drawn = {mapping: found[0] for mapping, found in runs.items()}
    table.remarks.append(
        f"{conditions(spare_factor=SPARE_FACTOR)} {BY_LIVE_DATA} {STREAMS} streams, no internal streams. Means of recordings, in brackets "
        f"the least and the greatest. The peak is the best of {POINTS} windows of any mapping. The paper: without TRIM 20 % of the peak; "
        "Normal falls by up to 53 %; Single gains little; Multi-Data is nearly 56 % faster than Normal, p99.9 is 54 % and p99.99 61 % lower."
    )
    if traces:
        shares = [held(trace) for trace in traces]
        table.remarks.append(
            "Share of the addresses that hold data, where discards free those of deleted files: median "
            f"{spread([statistics.median(share) for share in shares])}, highest {spread([share.max() for share in shares])}."
        )
    if drawn:
        table.remarks.append(f"Picture: the first recording, superblocks of {SUPERBLOCKS[-1] // 256} MiB.")
        table.picture = lambda path: over_time(path, drawn)
    return table


def run(lab: Lab, trace: pc.Trace, pages: int, rules: str | None, discard: bool, share: float = UTILISATION) -> Run:
    """One simulation on a drive that is full up to a share."""
    scheme = "baseline" if rules is None else "manual"
    options: dict[str, Any] = {} if rules is None else {"rules": rules}
    results = lab.simulate(
        trace, [scheme], gc=LEGACY, streams=STREAMS, superblock_pages=pages, spare_factor=SPARE_FACTOR, timing=True,
        **filled(discard, share), **options,
    )  # fmt: skip
    result = results[scheme, LEGACY]
    tail = result.latency_us["write"]
    return Run(result.waf, result.iops, tail["p99_9"] / 1000, tail["p99_99"] / 1000, result.throughput)


def held(trace: pc.Trace) -> Any:
    """Share of the addresses ever written that hold data, after each write and discard of the second half of the recording."""
    import numpy as np

    events = trace.events().to_pandas()
    events = events[events["op"].isin(("write", "discard", "write_zeroes"))]
    lives = np.zeros((events["lba"] + events["pages"]).max(), dtype=bool)
    ever = lives.copy()
    live, counts = 0, []
    for op, first, pages in zip(events["op"], events["lba"], events["pages"], strict=True):
        place = slice(first, first + pages)
        live -= np.count_nonzero(lives[place])
        lives[place] = op == "write"
        live += np.count_nonzero(lives[place])
        ever[place] |= lives[place]
        counts.append(live)
    return np.array(counts[len(counts) // 2 :]) / np.count_nonzero(ever)


def rates(run: Run, of: str) -> tuple[list[float], list[float]]:
    """Seconds, and pages a second of a kind in windows of equal length."""
    pages = run.throughput[of]
    window = -(-len(pages) // POINTS)
    seconds = run.throughput["interval_ms"] / 1000
    starts = range(0, len(pages) - window + 1, window)
    return [(start + window / 2) * seconds for start in starts], [sum(pages[s : s + window]) / (window * seconds) for s in starts]


def peak(run: Run) -> float:
    """The greatest throughput of a window, pages a second."""
    return max(rates(run, "pages")[1])


def last_third(run: Run) -> float:
    """The mean throughput of the last third of the run, pages a second."""
    written = rates(run, "pages")[1]
    return statistics.fmean(written[-len(written) // 3 :])


def over_time(path: Path, runs: dict[str, Run]) -> None:
    """Throughput as a share of the greatest, and copied pages, over time."""
    plots = pyplot()
    figure, (above, below) = plots.subplots(2, 1, figsize=(8, 5), sharex=True, layout="constrained")
    highest = max(peak(run) for run in runs.values())
    for mapping, run in runs.items():
        seconds, written = rates(run, "pages")
        above.plot(seconds, [value / highest for value in written], label=mapping)
        below.plot(*rates(run, "gc_pages"))
    above.set_ylabel("throughput / peak")
    below.set_ylabel("copied pages / s")
    below.set_xlabel("simulated time, s")
    above.legend(fontsize="small", loc="upper left", bbox_to_anchor=(1, 1))
    figure.savefig(path)
    plots.close(figure)
