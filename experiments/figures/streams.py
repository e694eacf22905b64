"""FAST'19, Fig. 2: throughput over the number of streams. RocksDB's IOPS rise up to six streams in the paper."""

from __future__ import annotations

import statistics

from ..lab import INTERNAL, LEGACY, Lab, Table, conditions
from ..pictures import curves

NAME = "fast19-fig2"
ABOUT = "IOPS and WAF over the number of streams"
WORKLOADS = ("rocksdb", "sqlite", "mixed1")
COUNTS = (1, 2, 3, 4, 5, 6, 8, 9, 12, 16)
SCHEMES = (("manual", LEGACY), ("pcstream", INTERNAL))


def make(lab: Lab) -> Table:
    """A row for each workload and number of streams."""
    columns = ("workload", "streams", *(f"{scheme}, {what}" for scheme, _ in SCHEMES for what in ("IOPS", "WAF")))
    table = Table(NAME, "FAST'19 Fig. 2: IOPS over the number of streams, S0 included", columns)
    lines: dict[str, tuple[list[float], list[float]]] = {}
    for name in WORKLOADS:
        trace = lab.first(name)
        if trace is None:
            continue
        for count in COUNTS:
            names = [scheme for scheme, _ in SCHEMES]
            results = lab.simulate(trace, names, streams=count, discard=False, spare_factor=None, timing=True)
            found = [results[at] for at in SCHEMES]
            table.rows.append((name, count, *(value for r in found for value in (round(r.iops), float(r.waf)))))
            for (scheme, _), result in zip(SCHEMES, found, strict=True):
                xs, ys = lines.setdefault(f"{name}, {scheme}", ([], []))
                xs.append(count)
                ys.append(float(result.iops) / 1000)
    if lines:
        # The fewest streams that reach the most requests: more than a scheme uses change nothing.
        best = [xs[ys.index(max(ys))] for xs, ys in lines.values()]
        table.remarks.append(
            f"The best number of streams is {min(best):.0f} to {max(best):.0f}, {statistics.median(best):.0f} in the middle "
            "(paper: IOPS of RocksDB rise up to 6). The first recording of each workload, queue depth 32, no discards. "
            + conditions(spare_factor=None)
        )
    table.picture = lambda path: curves(path, lines, "streams, S0 included", "1000 requests a second")
    return table
