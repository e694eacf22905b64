"""HotStorage'14, section 4: without TRIM, deleted files stay on the drive, and garbage collection copies them."""

from __future__ import annotations

from ..fullness import BY_LIVE_DATA, filled
from ..lab import DISCARDS, INTERNAL, LEGACY, Lab, Table, conditions, spread
from .waf import lowest

NAME = "hotstorage14-trim"
ABOUT = "WAF with and without discards, and sequential detection in the device"
WORKLOADS = ("rocksdb", "cassandra", "gcc", "mixed1")
SCHEMES = (("baseline", LEGACY), ("sequential", LEGACY), ("manual", LEGACY), ("pcstream", INTERNAL))


def make(lab: Lab) -> Table:
    """Two rows for each workload."""
    columns = ("workload", "discards", *(scheme for scheme, _ in SCHEMES))
    table = Table(NAME, "HotStorage'14: discards, and detection of sequential writes in the device", columns)
    for name in WORKLOADS:
        traces = lab.traces(name)
        for discard, said in DISCARDS if traces else ():
            runs = [lab.simulate(trace, [s for s, _ in SCHEMES], **filled(discard)) for trace in traces]
            wafs = (spread([lowest(run, (scheme,), at) for run in runs]) for scheme, at in SCHEMES)
            table.rows.append((name, said, *wafs))
    table.remarks.append(
        f"{conditions()} {BY_LIVE_DATA} "
        "The paper (Cassandra): without TRIM throughput falls to 20 % of the peak; detection in the device gains little."
    )
    return table
