"""HotStorage'14, section 4: without TRIM, deleted files stay on the drive, and garbage collection copies them."""

from __future__ import annotations

import statistics

from ..fullness import BY_LIVE_DATA, filled
from ..lab import DISCARDS, INTERNAL, LEGACY, Lab, Table, conditions, spread
from ..pictures import bars
from .waf import lowest

NAME = "hotstorage14-trim"
ABOUT = "WAF with and without discards, and sequential detection in the device"
WORKLOADS = ("rocksdb", "cassandra", "gcc", "mixed1")
SCHEMES = (("baseline", LEGACY), ("sequential", LEGACY), ("manual", LEGACY), ("pcstream", INTERNAL))


def make(lab: Lab) -> Table:
    """Two rows for each workload."""
    columns = ("workload", "discards", *(scheme for scheme, _ in SCHEMES))
    table = Table(NAME, "HotStorage'14: discards, and detection of sequential writes in the device", columns)
    groups: list[str] = []
    drawn: dict[str, list[float | None]] = {scheme: [] for scheme, _ in SCHEMES}
    for name in WORKLOADS:
        traces = lab.traces(name)
        for discard, said in DISCARDS if traces else ():
            runs = [lab.simulate(trace, [s for s, _ in SCHEMES], **filled(discard)) for trace in traces]
            wafs = {scheme: [lowest(run, (scheme,), at) for run in runs] for scheme, at in SCHEMES}
            table.rows.append((name, said, *map(spread, wafs.values())))
            groups.append(f"{name}\n{'discards' if discard else 'no discards'}")
            for scheme, values in wafs.items():
                drawn[scheme].append(statistics.fmean(values))
    table.remarks.append(
        f"{conditions()} {BY_LIVE_DATA} "
        "The paper (Cassandra): without TRIM throughput falls to 20 % of the peak; detection in the device gains little."
    )
    table.picture = lambda path: bars(path, groups, drawn, "WAF")
    return table
