"""FAST'19, Fig. 10: WAF by scheme and workload. PCStream has internal streams; what it is compared with has none."""

from __future__ import annotations

import statistics

from ..lab import INTERNAL, LEGACY, Lab, Table, bars, spread, utilisation

NAME = "fast19-fig10"
ABOUT = "WAF by scheme and workload"
WORKLOADS = ("rocksdb", "sqlite", "sqlite-wal", "gcc", "mixed1", "mixed2", "postgresql")
#: The paper's averages are over RocksDB, Cassandra, SQLite, GCC and both mixes.
PAPERS = ("rocksdb", "sqlite", "gcc", "mixed1", "mixed2")
COLUMNS = {
    "baseline": ("baseline", LEGACY),
    "autostream": ("autostream-mq:best", LEGACY),
    "manual": ("manual", LEGACY),
    "pcstream": ("pcstream", INTERNAL),
    "pcstream-plus": ("pcstream-plus", INTERNAL),
    "oracle": ("oracle", INTERNAL),
}
#: Readings of AutoStream's rules of queues: the lowest is shown, as public descriptions differ.
AUTOSTREAM = ("autostream-mq", "autostream-mq:keeping", "autostream-mq:bluedbm", "autostream-sfr")


def make(lab: Lab) -> Table:
    """A row for each workload, and the average saving."""
    table = Table(NAME, "FAST'19 Fig. 10: WAF by scheme and workload", ("workload", "prefilled", *COLUMNS))
    means: dict[str, list[float]] = {}
    for name in WORKLOADS:
        runs, full = [], []
        for trace in lab.traces(name):
            results = lab.simulate(trace, ("baseline", "manual", *AUTOSTREAM, "pcstream", "pcstream-plus", "oracle"))
            runs.append({column: waf_of(results, *at) for column, at in COLUMNS.items()})
            full.append(utilisation(results, trace))
        if runs:
            table.rows.append((name, f"{statistics.fmean(full):.0%}", *(spread([run[c] for run in runs]) for c in COLUMNS)))
            means[name] = [statistics.fmean(run[column] for run in runs) for column in COLUMNS]
    columns = list(COLUMNS)
    there = [means[name] for name in PAPERS if name in means]
    if there:
        flash = [statistics.fmean(row[at] for row in there) for at in range(len(columns))]
        base, auto, pcs = (flash[columns.index(c)] for c in ("baseline", "autostream", "pcstream"))
        table.remarks += [
            f"Average WAF of the paper's workloads that ran here ({len(there)} of 6): PCStream {pcs / base - 1:+.0%} against baseline "
            f"(paper: -63 %), {pcs / auto - 1:+.0%} against AutoStream (paper: -49 %). Copies, which is WAF less 1: "
            f"{(pcs - 1) / (base - 1) - 1:+.0%} and {(pcs - 1) / (auto - 1) - 1:+.0%}.",
            "AutoStream is the best of four readings of its paper, chosen for each recording.",
        ]
    table.picture = lambda path: bars(path, list(means), {c: [means[n][i] for n in means] for i, c in enumerate(columns)}, "WAF")
    return table


def waf_of(results: object, scheme: str, destination: str) -> float:
    """WAF of a scheme; ``NAME:best`` is the lowest of :data:`AUTOSTREAM`."""
    names = AUTOSTREAM if scheme.endswith(":best") else (scheme,)
    return min(float(results[name, destination].waf) for name in names)  # type: ignore[index]
