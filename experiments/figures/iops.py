"""FAST'19, Fig. 9: IOPS by scheme and workload, normalised. PCStream has internal streams; what it is compared with has none.

Time is simulated: requests of the recording, reads included, 32 outstanding at any time. The paper's programs wait for their
requests and compute in between, which is left out here, so garbage collection is all that differs.
"""

from __future__ import annotations

import itertools
import statistics

import pcstream as pc

from ..fullness import BY_LIVE_DATA
from ..lab import DISCARDS, Lab, Table, conditions, spread
from ..pictures import bars
from .waf import AUTOSTREAM, COLUMNS, PAPERS, WORKLOADS, simulated

NAME = "fast19-fig9"
ABOUT = "IOPS by scheme and workload, normalised"
NAMES = ("baseline", "autostream", "manual", "pcstream")
#: The paper's averages of PCStream against these, in percent.
PAPER = {"baseline": 45, "autostream": 28}


def make(lab: Lab) -> Table:
    """A row for each workload, without and with discards, and the average gains."""
    columns = ("workload", "discards", "baseline, IOPS", *NAMES[1:])
    table = Table(NAME, "FAST'19 Fig. 9: IOPS by scheme and workload; schemes as multiples of baseline", columns)
    traces = {name: found for name in WORKLOADS if (found := lab.traces(name))}
    table.remarks.append(f"{conditions()} {BY_LIVE_DATA} Queue depth 32. Means of recordings, in brackets the least and the greatest.")
    drawn: dict[str, list[float | None]] = {name: [] for name in NAMES[1:]}
    for discard, said in reversed(DISCARDS):
        ratios: dict[str, dict[str, list[float]]] = {}
        for name, found in traces.items():
            runs = [rates(lab, trace, discard) for trace in found]
            by_scheme = {scheme: [run[scheme] / run["baseline"] for run in runs] for scheme in NAMES}
            base = statistics.fmean(run["baseline"] for run in runs)
            table.rows.append((name, said, f"{base:.0f}", *(spread(by_scheme[scheme]) for scheme in NAMES[1:])))
            ratios[name] = by_scheme
            if not discard:
                for scheme in NAMES[1:]:
                    drawn[scheme].append(statistics.fmean(by_scheme[scheme]))
        there = {name: ratios[name] for name in PAPERS if name in ratios}
        if there:
            table.remarks.append(gains(there, "With" if discard else "Without"))
    table.remarks.append(f"AutoStream is the fastest of {len(AUTOSTREAM)} readings of its paper, chosen for each recording.")
    if traces:
        table.picture = lambda path: bars(path, list(traces), drawn, "IOPS over baseline's, without discards")
    return table


def rates(lab: Lab, trace: pc.Trace, discard: bool) -> dict[str, float]:
    """Requests a second by column; AutoStream's are those of its fastest reading."""
    results = simulated(lab, trace, discard)
    shown = {name: COLUMNS[name] for name in NAMES}
    return {name: max(float(results[scheme, at].iops) for scheme in schemes) for name, (schemes, at) in shown.items()}


def gains(ratios: dict[str, dict[str, list[float]]], discards: str) -> str:
    """The paper's averages over workloads, and the greatest gain against AutoStream."""
    means = {name: {scheme: statistics.fmean(values) for scheme, values in row.items()} for name, row in ratios.items()}
    said = []
    for scheme, paper in PAPER.items():
        over = {name: row["pcstream"] / row[scheme] - 1 for name, row in means.items()}
        # Of every choice of one recording of each workload.
        rows = ([a / b - 1 for a, b in zip(row["pcstream"], row[scheme], strict=True)] for row in ratios.values())
        each = [statistics.fmean(chosen) for chosen in itertools.product(*rows)]
        interval = f" ({min(each):+.0%} to {max(each):+.0%} by recording)" if len(each) > 1 else ""
        best = max(over, key=lambda name: over[name])
        said.append(
            f"{statistics.fmean(over.values()):+.0%}{interval} against {scheme} (paper: +{paper} %), at best {over[best]:+.0%}, {best}"
        )
    return (
        f"{discards} discards, the mean of the changes that PCStream makes to IOPS, over the paper's workloads that ran here "
        f"({len(means)} of 6): {'; '.join(said)}."
    )
