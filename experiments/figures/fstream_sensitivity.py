"""FAST'18, how much of the gain depends on the drive: FStream over utilisation and superblock, varmail and fileserver.

What a recording writes is packed onto drives of which it fills more and more, without discards. A superblock of 1 is that of the
PM963 in proportion. The number of streams is FStream's options, from the journal alone (one stream besides S0) to all four.
Points without room for garbage collection are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pcstream as pc

from ..fullness import no_room
from ..lab import DEVICE, SPARE_FACTOR, Lab, Table
from ..summaries import Row, markdown, percent
from .fstream import COLUMNS, PAPER, last, options

NAME = "fast18-sensitivity"
ABOUT = "WAF and IOPS by FStream's options over utilisation and superblock"
SHARES = (0.6, 0.7, 0.8, 0.9, 0.98)
#: Superblocks, as multiples of the drive's own.
SUPERBLOCKS = (0.25, 1.0, 2.0)
#: S0, and one for each of FStream's options.
STREAMS = 5
#: A superblock is a multiple of so many pages, which the drive programs at once.
PROGRAM = 8
#: A gain is reached if it differs from the paper's by so many percentage points at most.
NEAR = 5
#: What the paper calls near 1.
NEAR_1 = 1.1


def make(lab: Lab) -> Table:
    """A row for each workload and point, of the first recording of each."""
    columns = ("workload", "utilisation", "superblock", *COLUMNS, "WAF", "paper, WAF", "IOPS", "paper, performance")
    table = Table(NAME, "FAST'18 Fig. 5 over utilisation and superblock: WAF by FStream's options, and the gain with all of them, in %", columns)
    missing: list[str] = []
    for name, (performance, waf) in PAPER.items():
        trace = lab.first(name)
        reached = []
        for share, factor, cells, changes in points(lab, trace, name, missing) if trace else ():
            table.rows.append((name, f"{share:.0%}", f"{factor:g}", *cells, f"{changes[0]:+.0f}", waf, f"{changes[1]:+.0f}", performance))
            if meets(name, cells, changes):
                reached.append(f"{share:.0%} (superblock x {factor:g})")
        if trace and waf != "-":
            numbers = number(waf) is not None
            paper = f"WAF {waf} % and performance {performance} %, within {NEAR} points each" if numbers else f"WAF {waf} (at most {NEAR_1})"
            table.remarks.append(f"{name}: the paper has {paper}. That is reached {'at ' + '; '.join(reached) if reached else 'nowhere'}.")
    table.remarks.insert(
        0,
        f"Device: {DEVICE} scaled, spare factor {SPARE_FACTOR:.0%}, {STREAMS} streams, no internal streams, no discards. Utilisation: what the "
        "recording writes to. Superblock: a multiple of that drive's. IOPS of a simulation with 32 requests outstanding. The first recording "
        "of each workload.",
    )
    table.remarks += no_room(missing)
    return table


def points(
    lab: Lab, trace: pc.Trace, name: str, missing: list[str]
) -> Iterator[tuple[float, float, list[float | None], tuple[float, float]]]:
    """Of every point that can be: utilisation, superblock, the WAF of each column, and the changes of WAF and IOPS in percent.

    Points that cannot be are added to ``missing``.
    """
    for share in SHARES:
        own = int(lab.simulate(trace, ["baseline"], share, discard=False).device["superblock_pages"])
        for factor in SUPERBLOCKS:
            try:
                pages = PROGRAM * max(round(own * factor / PROGRAM), 1)
                run = options(lab, trace, name, share, False, superblock_pages=pages, streams=STREAMS)
            except pc.DeviceError:
                missing.append(f"{name}, {share:.0%}, superblock x {factor:g}")
                continue
            all_of, base = run[last(run)], run["baseline"]
            changes = (100 * (all_of.waf / base.waf - 1), 100 * (base.seconds / all_of.seconds - 1))
            yield share, factor, [round(run[column].waf, 3) if column in run else None for column in COLUMNS], changes


def meets(name: str, wafs: Sequence[float | None], changes: tuple[float, float]) -> bool:
    """Whether a point is as in the paper."""
    performance, waf = PAPER[name]
    papers = (number(waf), number(performance))
    found = [one for one in wafs if one is not None]
    if waf == "near 1 without":
        return found[0] <= NEAR_1
    if waf == "above 1.5 to near 1":
        return found[0] > 1.5 and found[-1] <= NEAR_1
    return all(paper is not None and abs(ours - paper) <= NEAR for ours, paper in zip(changes, papers, strict=True))


def number(said: str) -> float | None:
    """A change that the paper has as a number."""
    try:
        return float(said)
    except ValueError:
        return None


def summary(rows: Sequence[Row]) -> str:
    """WAF without streams and with all options, and the changes, with superblocks of the drive's own proportion."""
    lines = [
        (
            row["workload"], percent(row["utilisation"]), f"{float(row['baseline']):.2f}", f"{float(row['all'] or row['+ inode']):.2f}",
            f"{row['WAF']} %", f"{row['IOPS']} %",
        )
        for row in rows
        if row["superblock"] == "1" and row["utilisation"] in ("60%", "80%", "90%", "98%")
    ]  # fmt: skip
    return markdown(("workload", "utilisation", "WAF: baseline", "FStream", "change", "throughput"), lines)
