"""When streams pay: WAF over utilisation, by workload, on a drive without streams and on one with internal streams.

What a recording writes to is packed onto devices of which it fills more and more. Without discards a device keeps what files
held that are deleted. The drive's life is the inverse of the flash that it programs.
"""

from __future__ import annotations

import statistics

from ..lab import DISCARDS, INTERNAL, LEGACY, Lab, Table, panels, spread

NAME = "when-streams-pay"
ABOUT = "WAF over utilisation, with and without streams, and drive life"
WORKLOADS = (
    "rocksdb", "cassandra", "sqlite", "sqlite-wal", "gcc", "mixed1", "mixed2", "postgresql", "postgresql-buffers", "mariadb", "lmdb",
)  # fmt: skip
SHARES = (0.6, 0.7, 0.8, 0.9, 0.95, 0.98)
#: Column, scheme and device.
COLUMNS = (
    ("without streams", "baseline", LEGACY),
    ("pcstream", "pcstream", INTERNAL),
    ("pcstream-plus", "pcstream-plus", INTERNAL),
    ("oracle", "oracle", INTERNAL),
)


def make(lab: Lab) -> Table:
    """A row for each workload, utilisation, and with and without discards."""
    columns = ("workload", "discards", "utilisation", *(column for column, _, _ in COLUMNS), "drive life, pcstream")
    table = Table(NAME, "When streams pay: WAF over utilisation", columns)
    lines: dict[str, dict[str, tuple[list[float], list[float]]]] = {}
    for name in WORKLOADS:
        traces = lab.traces(name)
        for discard, said in DISCARDS if traces else ():
            for share in SHARES:
                runs = [lab.simulate(trace, [s for _, s, _ in COLUMNS], share, discard=discard) for trace in traces]
                wafs = {column: [float(run[scheme, at].waf) for run in runs] for column, scheme, at in COLUMNS}
                life = statistics.fmean(a / b for a, b in zip(wafs["without streams"], wafs["pcstream"], strict=True))
                table.rows.append((name, said, f"{share:.0%}", *(spread(values) for values in wafs.values()), f"x {life:.2f}"))
                for label in ("without streams", "pcstream"):
                    line = f"{label}, {'discards' if discard else 'no discards'}"
                    xs, ys = lines.setdefault(name, {}).setdefault(line, ([], []))
                    xs.append(share * 100)
                    ys.append(statistics.fmean(wafs[label]))
    table.remarks.append(
        "Utilisation is the share of the drive's addresses that the recording ever writes to; with discards less of them hold "
        "data at a time. Spare factor 7 %. Means of recordings, in brackets the least and the greatest. Without streams: a legacy "
        "SSD. The others have internal streams."
    )
    table.picture = lambda path: panels(path, lines, "utilisation of the addresses, %", "WAF")
    return table
