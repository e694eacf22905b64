"""FAST'19, Fig. 13: the share of writes on S0 by size of the PC attribute table; "none" empties it after each build.

An entry has 13 bytes here (12 in the paper), so 4 KB (4,000 bytes) hold 307 contexts. The papers speak of 30 contexts at most, so the size
cannot matter to them. What matters is how many contexts a workload has.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

import pcstream as pc

from ..lab import INTERNAL, Lab, Table, conditions, spread
from ..pictures import pyplot
from ..workloads import gcc

NAME = "fast19-fig13"
ABOUT = "share of writes on S0 by size of the table of contexts"
WORKLOADS = ("rocksdb", "sqlite", "gcc")
SIZES = (("360 B", 360), ("4 KB", 4000), ("12 KB", 12_000), ("360 KB", 360_000))
PAPER = {"none": 16, "4 KB": 12, "360 KB": 9}


def make(lab: Lab) -> Table:
    """A row for each workload and size."""
    table = Table(NAME, "FAST'19 Fig. 13: the effect of the PC attribute table", ("workload", "table", "on S0", "WAF", "paper, on S0"))
    drawn: dict[str, list[float]] = {}
    for name in WORKLOADS:
        traces = lab.traces(name)
        if not traces:
            continue
        for size, runs in [("none", [once(lab, trace, None) for trace in traces])] + [
            (label, [once(lab, trace, size) for trace in traces]) for label, size in SIZES
        ]:
            paper = f"{PAPER[size]} %" if name == "gcc" and size in PAPER else None
            share = statistics.fmean(run[0] for run in runs)
            drawn.setdefault(name, []).append(100 * share)
            table.rows.append((name, size, f"{share:.1%}", spread([run[1] for run in runs]), paper))
    table.remarks.append('"none" is the scheme pcstream-forget: the table is emptied when a build ends. No discards. ' + conditions())
    table.picture = lambda path: shares(path, drawn)
    return table


def shares(path: Path, drawn: Mapping[str, Sequence[float]]) -> None:
    """The share on S0, a group of bars for each workload, and the paper's numbers of GCC."""
    plots = pyplot()
    figure, axes = plots.subplots(figsize=(7, 3.4), layout="constrained")
    sizes = ["none", *(size for size, _ in SIZES)]
    width = 0.8 / len(sizes)
    for place, size in enumerate(sizes):
        shift = (place - (len(sizes) - 1) / 2) * width
        axes.bar([at + shift for at in range(len(drawn))], [values[place] for values in drawn.values()], width, label=f"table: {size}")
        if size in PAPER and "gcc" in drawn:
            said = None if place else "paper, GCC"
            axes.plot(list(drawn).index("gcc") + shift, PAPER[size], "D", color="black", markersize=5, label=said)
    axes.set_xticks(range(len(drawn)), list(drawn))
    axes.set_ylabel("% of pages on S0")
    axes.legend(fontsize="small", loc="upper left", bbox_to_anchor=(1, 1))
    figure.savefig(path)
    plots.close(figure)


def once(lab: Lab, trace: pc.Trace, size: int | None) -> tuple[float, float]:
    """Share on S0, and WAF."""
    scheme = "pcstream-forget" if size is None else "pcstream"
    # Of generated sources it is the linker, as by default.
    ends = {} if lab.quick else {"pcstream-forget.forget_at_exit_of": gcc.LAST}
    setting = ends if size is None else {"pcstream.table_bytes": size}
    result = lab.simulate(trace, (scheme,), set=setting, discard=False)[scheme, INTERNAL]
    return float(result.default_stream_share), float(result.waf)
