"""FAST'19, Fig. 13: the share of writes on S0 by size of the PC attribute table; "none" empties it after each build.

An entry has 13 bytes here (12 in the paper), so 4 KB (4,000 bytes) hold 307 contexts. The papers speak of 30 contexts at most, so the size
cannot matter to them. What matters is how many contexts a workload has.
"""

from __future__ import annotations

import statistics

from ..lab import INTERNAL, Lab, Table, conditions, spread
from ..workloads import gcc

NAME = "fast19-fig13"
ABOUT = "share of writes on S0 by size of the table of contexts"
WORKLOADS = ("rocksdb", "sqlite", "gcc")
SIZES = (("360 B", 360), ("4 KB", 4000), ("12 KB", 12_000), ("360 KB", 360_000))
PAPER = {"none": 16, "4 KB": 12, "360 KB": 9}


def make(lab: Lab) -> Table:
    """A row for each workload and size."""
    table = Table(NAME, "FAST'19 Fig. 13: the effect of the PC attribute table", ("workload", "table", "on S0", "WAF", "paper, on S0"))
    for name in WORKLOADS:
        traces = lab.traces(name)
        if not traces:
            continue
        for size, runs in [("none", [once(lab, trace, None) for trace in traces])] + [
            (label, [once(lab, trace, size) for trace in traces]) for label, size in SIZES
        ]:
            paper = f"{PAPER[size]} %" if name == "gcc" and size in PAPER else None
            share = f"{statistics.fmean(run[0] for run in runs):.1%}"
            table.rows.append((name, size, share, spread([run[1] for run in runs]), paper))
    table.remarks.append('"none" is the scheme pcstream-forget: the table is emptied when a build ends. No discards. ' + conditions())
    return table


def once(lab: Lab, trace: object, size: int | None) -> tuple[float, float]:
    """Share on S0, and WAF."""
    scheme = "pcstream-forget" if size is None else "pcstream"
    # Of generated sources it is the linker, as by default.
    ends = {} if lab.quick else {"pcstream-forget.forget_at_exit_of": gcc.LAST}
    setting = ends if size is None else {"pcstream.table_bytes": size}
    result = lab.simulate(trace, (scheme,), set=setting, discard=False)[scheme, INTERNAL]  # type: ignore[arg-type]
    return float(result.default_stream_share), float(result.waf)
