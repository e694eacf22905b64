"""What each part of the scheme ``pcstream-plus`` gives: the history of pages, and names of files."""

from __future__ import annotations

from collections.abc import Sequence

from ..lab import LEGACY, Lab, Table
from ..summaries import LABELS, Row, markdown
from .plus import SAID, UTILISATION, recordings

NAME = "pcstream-plus-parts"
ABOUT = "WAF of pcstream-plus without history, without names, and by context alone"
#: Workloads, and whether discards reach the drive.
CASES = (("rocksdb", False), ("sqlite", False), ("sqlite", True), ("sqlite-wal", False), ("gcc", False), ("mariadb", False), ("lmdb", False))
#: Column, and which parts are on.
PARTS = (
    ("all parts", {}),
    ("without history", {"pcstream-plus.history": False}),
    ("without names", {"pcstream-plus.names": False}),
    ("context alone", {"pcstream-plus.history": False, "pcstream-plus.names": False}),
)
COLUMNS = tuple(column for column, _ in PARTS)


def make(lab: Lab) -> Table:
    """A row for each workload, on a legacy drive."""
    table = Table(NAME, "WAF of pcstream-plus, with some of its parts", ("workload", "discards", *COLUMNS))
    traces = dict(recordings(lab, list(dict.fromkeys(name for name, _ in CASES))))
    for name, discard in CASES:
        if name in traces:
            results = [
                lab.simulate(traces[name], ["pcstream-plus"], UTILISATION, gc=LEGACY, discard=discard, set=given) for _, given in PARTS
            ]
            wafs = (f"{result['pcstream-plus', LEGACY].waf:.3f}" for result in results)
            table.rows.append((name, "yes" if discard else "no", *wafs))
    table.remarks.append(f"{SAID} No internal streams.")
    return table


def summary(rows: Sequence[Row]) -> str:
    """The same to two places."""
    lines = [(LABELS[row["workload"]], row["discards"], *(f"{float(row[column]):.2f}" for column in COLUMNS)) for row in rows]
    return markdown(("workload", "discards", *COLUMNS), lines)
