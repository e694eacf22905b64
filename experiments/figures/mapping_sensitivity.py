"""HotStorage'14, how much of the gain depends on the drive: Cassandra by mapping, over superblock and utilisation.

Mappings are the paper's Table 1; each uses one stream more than the one before, up to five. Points without room for garbage
collection are left out. Throughput is that of the whole run, with 32 requests outstanding.
"""

from __future__ import annotations

from collections.abc import Sequence

import pcstream as pc

from ..fullness import no_room
from ..lab import DEVICE, DISCARDS, Lab, Table
from ..summaries import Row, markdown, percent
from .mappings import MAPPINGS, SPARE_FACTOR, STREAMS, WORKLOAD, last_third, peak, run

NAME = "hotstorage14-sensitivity"
ABOUT = "WAF and throughput by mapping over superblock and utilisation, Cassandra"
SHARES = (0.6, 0.7, 0.8, 0.9, 0.98)
#: MiB of a superblock.
SUPERBLOCKS = (1, 2, 4, 8, 12, 16)
#: The mappings with discards; each is simulated without them, too.
NAMES = tuple(mapping for mapping, _, discard in MAPPINGS if discard)
#: Utilisations of the table in ``docs/results``.
SUMMARY = ("80%", "90%", "98%")
RULES = {mapping: rules for mapping, rules, _ in MAPPINGS}
#: The paper's throughput of Multi-Data over Normal's, and of Normal without TRIM over the peak.
GAIN, WITHOUT_TRIM = 1.56, 0.2


def make(lab: Lab) -> Table:
    """A row for each point, of the first recording."""
    columns = ("superblock", "discards", "utilisation", *NAMES, *(f"IOPS, {name}" for name in NAMES[1:]), "last third / peak")
    table = Table(NAME, "HotStorage'14: Cassandra by mapping, over superblock and utilisation", columns)
    trace = lab.first(WORKLOAD)
    gains: dict[str, float] = {}
    falls: dict[str, float] = {}
    missing: list[str] = []
    for size in SUPERBLOCKS if trace else ():
        for discard, said in DISCARDS:
            for share in SHARES:
                try:
                    runs = {name: run(lab, trace, size * 256, RULES[name], discard, share) for name in NAMES}
                except pc.DeviceError:
                    missing.append(f"{size} MiB, discards: {said}, {share:.0%}")
                    continue
                faster = [runs[name].iops / runs["Normal"].iops for name in NAMES[1:]]
                highest = max(peak(one) for one in runs.values())
                at_end = last_third(runs["Normal"]) / highest
                wafs = [one.waf for one in runs.values()]
                table.rows.append((f"{size} MiB", said, f"{share:.0%}", *(f"{value:.3f}" for value in (*wafs, *faster, at_end))))
                point = f"{size} MiB, {share:.0%}"
                (gains if discard else falls)[point] = faster[-1] if discard else at_end
    table.remarks.append(
        f"Device: {DEVICE} scaled, spare factor {SPARE_FACTOR:.0%}, {STREAMS} streams, no internal streams. Utilisation: what the recording "
        "writes to, with discards the data that lives at once, at its most. IOPS are over those of Normal. Last third / peak: throughput of "
        "Normal in the last third of the run, over the best of 30 windows of any mapping. The first recording."
    )
    table.remarks += no_room(missing)
    if gains and falls:
        best, worst = max(gains, key=gains.__getitem__), min(falls, key=falls.__getitem__)
        fast = [point for point, gain in gains.items() if gain >= GAIN]
        low = [point for point, fall in falls.items() if fall <= WITHOUT_TRIM]
        table.remarks.append(
            f"With discards Multi-Data is at most {gains[best] - 1:.0%} faster than Normal ({best}); the paper's {GAIN - 1:.0%} "
            f"{reached(fast)}. Without discards Normal falls to {falls[worst]:.0%} of the peak at least ({worst}); the paper's "
            f"{WITHOUT_TRIM:.0%} {reached(low)}."
        )
    return table


def reached(points: Sequence[str]) -> str:
    """At which points the paper's number is reached."""
    return f"is reached at {'; '.join(points)}" if points else "is reached nowhere"


def summary(rows: Sequence[Row]) -> str:
    """WAF of Normal, and what Multi-Data changes of WAF and throughput, by superblock and utilisation."""
    found = {(row["superblock"], row["utilisation"], row["discards"]): row for row in rows}
    lines = []
    for size in dict.fromkeys(row["superblock"] for row in rows):
        for share in SUMMARY:
            cells = [cell for discards in ("no", "yes") for cell in numbers(found.get((size, share, discards)))]
            lines.append((size, percent(share), *cells))
    columns = ("Multi-Data", "throughput", "Normal at the end")
    return markdown(("superblock", "utilisation", "WAF: Normal", *columns, "with discards: Normal", *columns), lines)


def numbers(row: Row | None) -> Sequence[str]:
    """The cells of a point."""
    if row is None:
        return ["-"] * 4
    gain, end = float(row["IOPS, Multi-Data"]), float(row["last third / peak"])
    return [*(f"{float(row[name]):.2f}" for name in ("Normal", "Multi-Data")), f"{100 * gain - 100:+.0f} %", f"{100 * end:.0f} %"]
