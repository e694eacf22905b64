"""When streams pay: WAF over utilisation, by workload, on a drive without streams and on one with internal streams.

What a recording writes is packed onto devices of which it fills more and more. Without discards a device keeps what files held
that are deleted; with discards the data that lives at once fills it. The drive's life is the inverse of the flash that it
programs. Internal streams keep copies apart whatever the host does, so baseline on that drive says what they give alone.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import pcstream as pc

from ..fullness import filled
from ..lab import DISCARDS, INTERNAL, LEGACY, Lab, Table, spread
from ..pictures import panels
from ..summaries import LABELS, Row, markdown, mean
from .waf import ORACLES, lowest

NAME = "when-streams-pay"
ABOUT = "WAF over utilisation, with and without streams, and drive life"
WORKLOADS = (
    "rocksdb", "cassandra", "sqlite", "sqlite-wal", "gcc", "mixed1", "mixed2", "postgresql", "postgresql-buffers", "mariadb", "lmdb", "berkeleydb",
)  # fmt: skip
SHARES = (0.6, 0.7, 0.8, 0.9, 0.95, 0.98)
#: Column, schemes of which the lowest counts, and device.
COLUMNS = (
    ("without streams", ("baseline",), LEGACY),
    ("internal streams", ("baseline",), INTERNAL),
    ("pcstream", ("pcstream",), INTERNAL),
    ("pcstream-plus", ("pcstream-plus",), INTERNAL),
    ("oracles", ORACLES, INTERNAL),
)
SCHEMES = ("baseline", "pcstream", "pcstream-plus", *ORACLES)
#: Whose drive life is shown.
LIVES = ("internal streams", "pcstream")
#: Which lines are drawn: with and without discards there are as many of each colour.
DRAWN = ("without streams", "pcstream")
#: Utilisations that the picture names, in %.
TICKS = (60, 70, 80, 90, 98)
#: Drives of the table in ``docs/results``: what it calls them, whether discards reach them, and utilisation.
SUMMARY = (
    ("no discards, 80 %", "no", "80%"),
    ("90 %", "no", "90%"),
    ("98 %", "no", "98%"),
    ("discards, 90 %", "yes", "90%"),
    ("98 %", "yes", "98%"),
)


def make(lab: Lab) -> Table:
    """A row for each workload, utilisation, and with and without discards."""
    columns = ("workload", "discards", "utilisation", *(column for column, _, _ in COLUMNS), *(f"drive life, {column}" for column in LIVES))
    table = Table(NAME, "When streams pay: WAF over utilisation", columns)
    lines: dict[str, dict[str, tuple[list[float], list[float]]]] = {}
    alive: dict[str, str] = {}
    for name in WORKLOADS:
        traces = lab.traces(name)
        for discard, said in DISCARDS if traces else ():
            for share in SHARES:
                runs = [lab.simulate(trace, SCHEMES, **filled(discard, share)) for trace in traces]
                if discard and share == SHARES[-1]:
                    alive[name] = spread([live_share(run, share) for run in runs])
                wafs = {column: [lowest(run, schemes, at) for run in runs] for column, schemes, at in COLUMNS}
                pairs = ((column, zip(wafs["without streams"], wafs[column], strict=True)) for column in LIVES)
                lives = {column: statistics.fmean(a / b for a, b in both) for column, both in pairs}
                life = (f"x {lives[column]:.2f}" for column in LIVES)
                table.rows.append((name, said, f"{share:.0%}", *(spread(values) for values in wafs.values()), *life))
                for label in DRAWN:
                    line = f"{label}, {'discards' if discard else 'no discards'}"
                    xs, ys = lines.setdefault(name, {}).setdefault(line, ([], []))
                    xs.append(share * 100)
                    ys.append(statistics.fmean(wafs[label]))
    table.remarks.append(
        "Utilisation is the share of the drive that holds data: without discards all addresses that the recording writes to, "
        "with discards the data that lives at once, at its most. Spare factor 7 %. Means of recordings, in brackets the least and "
        "the greatest. Without streams: a legacy SSD. The others have internal streams; that column is baseline there. Oracles: "
        "the best of several schemes that know the future."
    )
    said = ", ".join(f"{name} {share}" for name, share in alive.items())
    table.remarks.append(
        f"With discards, the data that lives at once is at most this share of the addresses that the recording writes to: {said}. "
        f"Shares above {SHARES[-1]} are counted as that."
    )
    table.picture = lambda path: panels(path, lines, TICKS, "utilisation, %", "WAF (each panel has its own scale)")
    return table


def summary(rows: Sequence[Row]) -> str:
    """WAF without streams, and drive life with internal streams and with PCStream."""
    found = {(row["workload"], row["discards"], row["utilisation"]): row for row in rows}

    def cells(row: Row) -> tuple[str, str]:
        return f"{mean(row['without streams']):.2f}", " / ".join(row[f"drive life, {column}"].removeprefix("x ") for column in LIVES)

    columns = [column for drive, _, _ in SUMMARY for column in (f"{drive}: WAF", "life")]
    lines = [
        (LABELS[name], *(cell for _, *drive in SUMMARY for cell in cells(found[(name, *drive)])))
        for name in dict.fromkeys(row["workload"] for row in rows)
    ]
    return markdown(("workload", *columns), lines)


def live_share(run: pc.Results, share: float) -> float:
    """Of the addresses that are written, the most that hold data at once; it fills ``share`` of the drive's logical pages."""
    return share * float(run.device["logical_pages"]) / float(run.device["address_pages"])
