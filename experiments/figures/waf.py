"""FAST'19, Fig. 10: WAF by scheme and workload. PCStream has internal streams; what it is compared with has none.

Internal streams keep copies apart whatever the host does. So what PCStream is compared with is also shown on that drive, and PCStream
on one without.
"""

from __future__ import annotations

import functools
import itertools
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import pcstream as pc

from ..fullness import BY_LIVE_DATA, filled
from ..lab import DISCARDS, INTERNAL, LEGACY, Lab, Table, capacities, conditions, spread
from ..pictures import bars
from ..summaries import LABELS, Row, markdown, mean

NAME = "fast19-fig10"
ABOUT = "WAF by scheme and workload"
WORKLOADS = (
    "rocksdb", "cassandra", "sqlite", "sqlite-wal", "gcc", "mixed1", "mixed2", "postgresql", "postgresql-buffers", "mariadb", "lmdb", "berkeleydb",
)  # fmt: skip
#: The paper's averages are over these.
PAPERS = ("rocksdb", "cassandra", "sqlite", "gcc", "mixed1", "mixed2")
#: All readings of AutoStream: the lowest is shown, as public descriptions differ.
AUTOSTREAM = tuple(
    scheme if reading == "default" else f"{scheme}:{reading}"
    for scheme in ("autostream-mq", "autostream-sfr")
    for reading in pc.schemes()[scheme].readings
)
#: Schemes that know the future: the lowest is shown, as no form of them is proven best.
ORACLES = ("oracle", "oracle-quantile", "oracle-window")
#: Schemes, of which the lowest counts, and device.
COLUMNS = {
    "baseline": (("baseline",), LEGACY),
    "autostream": (AUTOSTREAM, LEGACY),
    "manual": (("manual",), LEGACY),
    "pcstream, legacy": (("pcstream",), LEGACY),
    "baseline, internal": (("baseline",), INTERNAL),
    "autostream, internal": (AUTOSTREAM, INTERNAL),
    "manual, internal": (("manual",), INTERNAL),
    "pcstream-paper": (("pcstream-paper",), INTERNAL),
    "pcstream": (("pcstream",), INTERNAL),
    "pcstream-plus": (("pcstream-plus",), INTERNAL),
    "oracles": (ORACLES, INTERNAL),
}
#: What the picture shows, and what it calls that.
DRAWN = {
    "baseline": "baseline",
    "autostream": "AutoStream",
    "manual": "Manual",
    "baseline, internal": "internal streams alone",
    "pcstream": "PCStream",
    "pcstream-plus": "PCStream plus",
    "oracles": "future known",
}
#: Columns of the table in ``docs/results``, and ours; from the first "internal" on, all are of that drive.
SUMMARY = (
    ("baseline", "baseline"),
    ("AutoStream", "autostream"),
    ("Manual", "manual"),
    ("internal: baseline", "baseline, internal"),
    ("AutoStream", "autostream, internal"),
    ("Manual", "manual, internal"),
    ("`pcstream-paper`", "pcstream-paper"),
    ("PCStream", "pcstream"),
    ("PCStream plus", "pcstream-plus"),
    ("future known", "oracles"),
)
#: What of runs of several workloads changes from a column to another.
Change: TypeAlias = Callable[[Sequence[Mapping[str, float]], str, str], "float | None"]
SCHEMES = tuple({scheme: None for schemes, _ in COLUMNS.values() for scheme in schemes})


def make(lab: Lab) -> Table:
    """A row for each workload, without and with discards, and the average saving."""
    columns = ("workload", "discards", "written / capacity", *COLUMNS)
    table = Table(NAME, "FAST'19 Fig. 10: WAF by scheme and workload", columns)
    names = [name for name in WORKLOADS if lab.traces(name)]
    table.remarks.append(f"{conditions()} {BY_LIVE_DATA} Means of recordings, in brackets the least and the greatest.")
    for discard, said in reversed(DISCARDS):
        means: dict[str, list[float]] = {}
        found: dict[str, list[dict[str, float]]] = {}
        for name in names:
            runs, written = [], []
            for trace in lab.traces(name):
                results = simulated(lab, trace, discard)
                runs.append({column: lowest(results, *at) for column, at in COLUMNS.items()})
                written.append(capacities(results, trace))
            wafs = (spread([run[c] for run in runs]) for c in COLUMNS)
            table.rows.append((name, said, f"{statistics.fmean(written):.0f}", *wafs))
            means[name] = [statistics.fmean(run[column] for run in runs) for column in COLUMNS]
            found[name] = runs
        there = [found[name] for name in PAPERS if name in found]
        if there:
            table.remarks.append(averages(there, "with" if discard else "without"))
        if not discard:
            at = {c: list(COLUMNS).index(c) for c in DRAWN}
            series: dict[str, list[float | None]] = {label: [means[n][at[c]] for n in names] for c, label in DRAWN.items()}
    table.remarks.append(
        f"AutoStream is the best of {len(AUTOSTREAM)} readings of its paper, chosen for each recording and drive. With discards it sees "
        "the recording's addresses, of which there are more than such a drive has. Oracles are the best of "
        f"{', '.join(ORACLES)}, which know the future; no proof says that less is impossible."
    )
    if names:
        table.picture = lambda path: bars(path, [name.replace("-", "\n", 1) for name in names], series, "WAF without discards")
    return table


def simulated(lab: Lab, trace: pc.Trace, discard: bool) -> pc.Results:
    """What Fig. 9, 10 and 12 have of a recording: one simulation of all their schemes."""
    return lab.simulate(trace, SCHEMES, timing=True, keep=True, **filled(discard))


def summary(rows: Sequence[Row]) -> str:
    """WAF without discards, and its mean over the paper's workloads."""
    found = {row["workload"]: [mean(row[column]) for _, column in SUMMARY] for row in rows if row["discards"] == "no"}
    lines = {LABELS[name]: wafs for name, wafs in found.items()}
    papers = [found[name] for name in PAPERS if name in found]
    if papers:
        lines[f"mean of the paper's {len(papers)}"] = [statistics.fmean(column) for column in zip(*papers, strict=True)]
    cells = [(label, *(f"{waf:.2f}" for waf in wafs)) for label, wafs in lines.items()]
    return markdown(("workload", *(shown for shown, _ in SUMMARY)), cells)


def averages(workloads: Sequence[Sequence[Mapping[str, float]]], discards: str) -> str:
    """The paper's two averages over workloads, and what became of copies alone; of each workload the WAFs of its recordings."""
    means = [{c: statistics.fmean(run[c] for run in runs) for c in COLUMNS} for runs in workloads]
    each = list(itertools.product(*workloads))

    def shown_for(what: Change, of: str, to: str) -> str:
        change = what(means, of, to)
        if change is None:
            return "nothing to save"
        found = [one for chosen in each if (one := what(chosen, of, to)) is not None]
        return f"{change:+.0%}" + (f" ({min(found):+.0%} to {max(found):+.0%})" if len(each) > 1 else "")

    change = functools.partial(shown_for, changed)
    copies = functools.partial(shown_for, copies_changed)
    baseline = statistics.fmean(mean["baseline"] for mean in means)
    return (
        f"{discards.capitalize()} discards, the paper's workloads that ran here ({len(workloads)} of 6); a change is the mean of those "
        f"of the workloads. Mean WAF of baseline {baseline:.2f}, PCStream {change('pcstream', 'baseline')} against baseline (paper: -63 %), "
        f"{change('pcstream', 'autostream')} against AutoStream (paper: -49 %), {change('pcstream', 'manual')} against Manual. With the "
        f"paper's settings: {change('pcstream-paper', 'baseline')}, {change('pcstream-paper', 'autostream')}, "
        f"{change('pcstream-paper', 'manual')}. Internal streams alone: {change('baseline, internal', 'baseline')} against baseline. On "
        f"that drive PCStream has {change('pcstream', 'baseline, internal')} against baseline, "
        f"{change('pcstream', 'autostream, internal')} against AutoStream and {change('pcstream', 'manual, internal')} against Manual. "
        f"Without internal streams it has {change('pcstream, legacy', 'baseline')}, {change('pcstream, legacy', 'autostream')} and "
        f"{change('pcstream, legacy', 'manual')}. PCStream plus {change('pcstream-plus', 'baseline')}, oracles "
        f"{change('oracles', 'baseline')} against baseline. Copies, which is WAF less 1, of all workloads together: "
        f"{copies('pcstream', 'baseline')} against baseline, {copies('pcstream', 'autostream')} against AutoStream. Brackets: any one "
        "recording of each workload."
    )


def changed(runs: Sequence[Mapping[str, float]], of: str, to: str) -> float:
    """How WAF differs between two columns: the mean over workloads of each one's change, so that each counts alike."""
    return statistics.fmean(run[of] / run[to] for run in runs) - 1


def copies_changed(runs: Sequence[Mapping[str, float]], of: str, to: str) -> float | None:
    """How copies differ, those of all workloads together: one of them may have none, and no change of its own. None without any."""
    before = sum(run[to] - 1 for run in runs)
    return sum(run[of] - 1 for run in runs) / before - 1 if before > 0 else None


def lowest(results: pc.Results, schemes: tuple[str, ...], destination: str) -> float:
    """The least WAF of some schemes on a device."""
    return min(float(results[name, destination].waf) for name in schemes)
