"""When streams pay: WAF over utilisation, by workload, on a drive without streams and on one with internal streams.

Static data is added to a recording until the given share of the logical pages holds data. The drive's life is the inverse of
the flash that it programs.
"""

from __future__ import annotations

import warnings

import pcstream as pc

from ..lab import INTERNAL, LEGACY, Lab, Table, curves

NAME = "when-streams-pay"
ABOUT = "WAF over utilisation, with and without streams, and drive life"
WORKLOADS = ("rocksdb", "sqlite", "sqlite-wal", "gcc", "mixed1", "mixed2", "postgresql")
SHARES = (0.6, 0.7, 0.8, 0.9, 0.95, 0.98)


def make(lab: Lab) -> Table:
    """A row for each workload and utilisation."""
    columns = ("workload", "utilisation", "without streams", "pcstream", "pcstream-plus", "oracle", "drive life, pcstream")
    table = Table(NAME, "When streams pay: WAF over utilisation", columns)
    lines: dict[str, tuple[list[float], list[float]]] = {}
    for name in WORKLOADS:
        for trace in lab.traces(name)[:1]:
            for share in SHARES:
                try:
                    results = lab.simulate(trace, ("baseline", "pcstream", "pcstream-plus", "oracle"), fill=share)
                except pc.ArgumentError as error:
                    # The recording itself fills more than that.
                    warnings.warn(f"{name} at {share:.0%}: {error}", stacklevel=1)
                    continue
                base = float(results["baseline", LEGACY].waf)
                others = [float(results[s, INTERNAL].waf) for s in ("pcstream", "pcstream-plus", "oracle")]
                table.rows.append((name, f"{share:.0%}", base, *others, f"x {base / others[0]:.2f}"))
                for label, value in (("without streams", base), ("pcstream", others[0])):
                    xs, ys = lines.setdefault(f"{name}, {label}", ([], []))
                    xs.append(share * 100)
                    ys.append(value)
    table.remarks.append(
        "The first recording of each workload. Shares below what a recording holds by itself are left out, or equal to it. "
        "Without streams: a legacy SSD. The others have internal streams."
    )
    table.picture = lambda path: curves(path, lines, "utilisation of the logical pages, %", "WAF")
    return table
