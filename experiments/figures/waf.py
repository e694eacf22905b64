"""FAST'19, Fig. 10: WAF by scheme and workload. PCStream has internal streams; what it is compared with has none.

Internal streams keep copies apart whatever the host does. So baseline and Manual are also shown on that drive.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Mapping, Sequence

from ..fullness import BY_LIVE_DATA, filled
from ..lab import DISCARDS, INTERNAL, LEGACY, Lab, Table, bars, capacities, conditions, spread

NAME = "fast19-fig10"
ABOUT = "WAF by scheme and workload"
WORKLOADS = (
    "rocksdb", "cassandra", "sqlite", "sqlite-wal", "gcc", "mixed1", "mixed2", "postgresql", "postgresql-buffers", "mariadb", "lmdb", "berkeleydb",
)  # fmt: skip
#: The paper's averages are over these.
PAPERS = ("rocksdb", "cassandra", "sqlite", "gcc", "mixed1", "mixed2")
#: Readings of AutoStream: the lowest is shown, as public descriptions differ. Two have chunks in proportion to the superblock, as
#: ``pcstream-paper`` has.
AUTOSTREAM = (
    "autostream-mq", "autostream-mq:keeping", "autostream-mq:bluedbm", "autostream-mq:keeping-scaled",
    "autostream-sfr", "autostream-sfr:scaled",
)  # fmt: skip
#: Schemes that know the future: the lowest is shown, as no form of them is proven best.
ORACLES = ("oracle", "oracle-quantile", "oracle-window")
#: Schemes, of which the lowest counts, and device.
COLUMNS = {
    "baseline": (("baseline",), LEGACY),
    "autostream": (AUTOSTREAM, LEGACY),
    "manual": (("manual",), LEGACY),
    "baseline, internal": (("baseline",), INTERNAL),
    "manual, internal": (("manual",), INTERNAL),
    "pcstream-paper": (("pcstream-paper",), INTERNAL),
    "pcstream": (("pcstream",), INTERNAL),
    "pcstream-plus": (("pcstream-plus",), INTERNAL),
    "oracles": (ORACLES, INTERNAL),
}
#: What the picture shows.
DRAWN = ("baseline", "autostream", "manual", "baseline, internal", "pcstream", "pcstream-plus", "oracles")
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
                results = lab.simulate(trace, SCHEMES, **filled(discard))
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
            series: dict[str, list[float | None]] = {c: [means[n][at[c]] for n in names] for c in DRAWN}
    table.remarks.append(
        f"AutoStream is the best of {len(AUTOSTREAM)} readings of its paper, chosen for each recording. With discards it sees "
        "the recording's addresses, of which there are more than such a drive has. Oracles are the best of "
        f"{', '.join(ORACLES)}, which know the future; no proof says that less is impossible."
    )
    if names:
        table.picture = lambda path: bars(path, [name.replace("-", "\n", 1) for name in names], series, "WAF without discards")
    return table


def averages(workloads: Sequence[Sequence[Mapping[str, float]]], discards: str) -> str:
    """The paper's two averages over workloads, and what became of copies alone; of each workload the WAFs of its recordings."""
    mean = averaged([{c: statistics.fmean(run[c] for run in runs) for c in COLUMNS} for runs in workloads])
    each = [averaged(chosen) for chosen in itertools.product(*workloads)]

    def change(of: str, to: str, less: int = 0) -> str:
        if mean[to] <= less:
            return "nothing to save"
        found = [(one[of] - less) / (one[to] - less) - 1 for one in each if one[to] > less]
        interval = f" ({min(found):+.0%} to {max(found):+.0%})" if len(each) > 1 else ""
        return f"{(mean[of] - less) / (mean[to] - less) - 1:+.0%}{interval}"

    return (
        f"{discards.capitalize()} discards, average WAF of the paper's workloads that ran here ({len(workloads)} of 6): baseline "
        f"{mean['baseline']:.2f}, PCStream {change('pcstream', 'baseline')} against baseline (paper: -63 %), "
        f"{change('pcstream', 'autostream')} against AutoStream (paper: -49 %), {change('pcstream', 'manual')} against Manual. By the "
        f"letter of the paper: {change('pcstream-paper', 'baseline')}, {change('pcstream-paper', 'autostream')}, "
        f"{change('pcstream-paper', 'manual')}. Internal streams alone: {change('baseline, internal', 'baseline')} against baseline. On "
        f"that drive PCStream has {change('pcstream', 'baseline, internal')} against baseline and "
        f"{change('pcstream', 'manual, internal')} against Manual. PCStream plus {change('pcstream-plus', 'baseline')}, oracles "
        f"{change('oracles', 'baseline')} against baseline. Copies, which is WAF less 1: {change('pcstream', 'baseline', 1)} against "
        f"baseline, {change('pcstream', 'autostream', 1)} against AutoStream. Brackets: any one recording of each workload."
    )


def averaged(runs: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean WAF over workloads, by column."""
    return {column: statistics.fmean(run[column] for run in runs) for column in COLUMNS}


def lowest(results: object, schemes: tuple[str, ...], destination: str) -> float:
    """The least WAF of some schemes on a device."""
    return min(float(results[name, destination].waf) for name in schemes)  # type: ignore[index]
