"""FAST'19, Fig. 10: WAF by scheme and workload. PCStream has internal streams; what it is compared with has none."""

from __future__ import annotations

import statistics

from ..lab import DISCARDS, INTERNAL, LEGACY, Lab, Table, bars, capacities, conditions, spread

NAME = "fast19-fig10"
ABOUT = "WAF by scheme and workload"
WORKLOADS = (
    "rocksdb", "cassandra", "sqlite", "sqlite-wal", "gcc", "mixed1", "mixed2", "postgresql", "postgresql-buffers", "mariadb", "lmdb",
)  # fmt: skip
#: The paper's averages are over these.
PAPERS = ("rocksdb", "cassandra", "sqlite", "gcc", "mixed1", "mixed2")
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
SCHEMES = ("baseline", "manual", *AUTOSTREAM, "pcstream", "pcstream-plus", "oracle")


def make(lab: Lab) -> Table:
    """A row for each workload, without and with discards, and the average saving."""
    columns = ("workload", "discards", "written / capacity", *COLUMNS)
    table = Table(NAME, "FAST'19 Fig. 10: WAF by scheme and workload", columns)
    names = [name for name in WORKLOADS if lab.traces(name)]
    table.remarks.append(f"{conditions()} Means of recordings, in brackets the least and the greatest.")
    for discard, said in reversed(DISCARDS):
        means: dict[str, list[float]] = {}
        for name in names:
            runs, written = [], []
            for trace in lab.traces(name):
                results = lab.simulate(trace, SCHEMES, discard=discard)
                runs.append({column: waf_of(results, *at) for column, at in COLUMNS.items()})
                written.append(capacities(results, trace))
            wafs = (spread([run[c] for run in runs]) for c in COLUMNS)
            table.rows.append((name, said, f"{statistics.fmean(written):.0f}", *wafs))
            means[name] = [statistics.fmean(run[column] for run in runs) for column in COLUMNS]
        there = [means[name] for name in PAPERS if name in means]
        if there:
            table.remarks.append(averages(there, "with" if discard else "without"))
        if not discard:
            series: dict[str, list[float | None]] = {c: [means[n][i] for n in names] for i, c in enumerate(COLUMNS)}
    table.remarks.append("AutoStream is the best of four readings of its paper, chosen for each recording.")
    if names:
        table.picture = lambda path: bars(path, [name.replace("-", "\n", 1) for name in names], series, "WAF without discards")
    return table


def averages(rows: list[list[float]], discards: str) -> str:
    """The paper's two averages over workloads, and what became of copies alone."""
    columns = list(COLUMNS)
    flash = [statistics.fmean(row[at] for row in rows) for at in range(len(columns))]
    base, auto, pcs, manual = (flash[columns.index(c)] for c in ("baseline", "autostream", "pcstream", "manual"))
    return (
        f"{discards.capitalize()} discards, average WAF of the paper's workloads that ran here ({len(rows)} of 6): baseline {base:.2f}, "
        f"PCStream {pcs / base - 1:+.0%} against baseline (paper: -63 %), {pcs / auto - 1:+.0%} against AutoStream (paper: -49 %), "
        f"{pcs / manual - 1:+.0%} against Manual. Copies, which is WAF less 1: {copies(pcs, base)} against baseline, "
        f"{copies(pcs, auto)} against AutoStream."
    )


def copies(waf: float, reference: float) -> str:
    """How many fewer copies, in percent; none where the reference copies nothing."""
    return f"{(waf - 1) / (reference - 1) - 1:+.0%}" if reference > 1 else "nothing to save"


def waf_of(results: object, scheme: str, destination: str) -> float:
    """WAF of a scheme; ``NAME:best`` is the lowest of :data:`AUTOSTREAM`."""
    names = AUTOSTREAM if scheme.endswith(":best") else (scheme,)
    return min(float(results[name, destination].waf) for name in names)  # type: ignore[index]
