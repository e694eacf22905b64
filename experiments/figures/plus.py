"""What the scheme ``pcstream-plus`` achieves beside ``pcstream``: one recording of each workload, on drives that are 90 % full.

Recordings of GCC and Mixed 1 are those of the Python package. The others are the first recording of each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import geometric_mean
from typing import Any

import pcstream as pc

from ..lab import INTERNAL, LEGACY, Lab, Table, conditions
from ..summaries import LABELS, Row, markdown

NAME = "pcstream-plus"
ABOUT = "WAF of pcstream-plus beside baseline and pcstream"
UTILISATION = 0.9
#: A smaller excess is no more than chance.
LEAST = 0.03
WORKLOADS = ("rocksdb", "cassandra", "sqlite", "sqlite-wal", "gcc", "mixed1", "mixed2", "postgresql", "mariadb", "lmdb", "berkeleydb")
#: Recordings of the Python package, by workload.
PACKAGED = ("gcc", "mixed1")
SCHEMES = ("baseline", "pcstream", "pcstream-plus")
#: What documents call a drive, whether discards reach it, and where its copies go.
DRIVES = (
    ("legacy, no discards", False, LEGACY),
    ("internal streams, no discards", False, INTERNAL),
    ("legacy, discards", True, LEGACY),
)
SAID = (
    f"{conditions(UTILISATION)} The recordings of {' and '.join(PACKAGED)} are those of the Python package, the others the first recording of each."
)


def make(lab: Lab) -> Table:
    """A row for each workload and drive."""
    table = Table(NAME, "WAF of pcstream-plus beside baseline and pcstream", ("workload", "drive", *SCHEMES))
    for name, trace in recordings(lab, WORKLOADS):
        for said, discard, to in DRIVES:
            results = lab.simulate(trace, SCHEMES, UTILISATION, gc=to, discard=discard)
            table.rows.append((name, said, *(f"{results[scheme, to].waf:.3f}" for scheme in SCHEMES)))
    table.remarks.append(SAID)
    return table


def recordings(lab: Lab, names: Sequence[str]) -> Iterator[tuple[str, pc.Trace]]:
    """A recording of each workload that there is."""
    for name in names:
        trace: Any = pc.datasets.load(name) if name in PACKAGED else lab.first(name)
        if trace is not None:
            yield name, trace


def excess(rows: Sequence[Row], scheme: str) -> float:
    """The geometric mean of WAF - 1 as a share of that of ``baseline``, where that is more than :data:`LEAST`.

    WAF is known to three places, so an excess is 0.001 at least.
    """
    shares = [
        max(float(row[scheme]) - 1, 0.001) / (float(row["baseline"]) - 1) for row in rows if float(row["baseline"]) - 1 > LEAST
    ]
    return geometric_mean(shares)


def summary(rows: Sequence[Row]) -> str:
    """A row for each workload, and the WAF of all schemes in one cell. The last row has shares of the excess."""
    found = {(row["workload"], row["drive"]): " / ".join(f"{float(row[scheme]):.2f}" for scheme in SCHEMES) for row in rows}
    names = dict.fromkeys(row["workload"] for row in rows)
    drives = [said for said, _, _ in DRIVES]
    lines = [(LABELS[name], *(found[name, drive] for drive in drives)) for name in names]
    of_drive = {drive: [row for row in rows if row["drive"] == drive] for drive in drives}
    shares = (" / ".join(f"{excess(of_drive[drive], scheme):.2f}" for scheme in SCHEMES) for drive in drives)
    return markdown(("workload", *drives), [*lines, ("*share of the excess*", *shares)])
