"""FAST'18, Table 3: what kinds of pages filebench's varmail and fileserver write, by file system."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

import pcstream as pc

from ..lab import Lab, Table, spread
from ..pictures import pyplot

NAME = "fast18-table3"
ABOUT = "kinds of writes of varmail and fileserver, by file system"
#: The table's rows, and the kinds of a trace that each is.
KINDS = (
    ("journal", ("journal",)),
    ("inode", ("inode",)),
    ("directory", ("directory",)),
    ("other metadata", ("bitmap", "other")),
    ("data", ("data",)),
)
#: The paper's shares in percent; None where it has a dash, or did not run.
PAPER: dict[str, tuple[float | None, ...]] = {
    "varmail-ext4": (61, 8, 4, 0.2, 26.8),
    "varmail-ext4-nojournal": (None, 21, 15.8, 0.2, 63),
    "varmail-xfs": (60, 9, None, None, 31),
    "fileserver-ext4": (26, 16, 3, 0.2, 54.8),
    "fileserver-ext4-datajournal": (None, None, None, None, None),
    "fileserver-xfs": (16, 32, None, None, 52),
}


def make(lab: Lab) -> Table:
    """A row for each workload and file system; cells are ours, and the paper's."""
    columns = ("workload", "pages written", "addresses, %", *(f"{kind}, % (paper)" for kind, _ in KINDS))
    table = Table(NAME, "FAST'18 Table 3: kinds of writes of varmail and fileserver", columns)
    drawn: dict[str, list[float]] = {}
    for name, paper in PAPER.items():
        found = [shares(trace) for trace in lab.traces(name)]
        if not found:
            continue
        by_kind = [[run[at] for _, run in found] for at in range(len(KINDS))]
        pages = statistics.fmean(pages for pages, _ in found)
        held = statistics.fmean(addresses(trace) for trace in lab.traces(name))
        table.rows.append((name, f"{pages:.0f}", f"{held:.0f}", *(cell(ours, theirs) for ours, theirs in zip(by_kind, paper, strict=True))))
        drawn[name] = [statistics.fmean(values) for values in by_kind]
    table.remarks.append(
        "Means of recordings, in brackets the least and the greatest; then the paper's number. Pages of the whole recording, the "
        "files made at its beginning included. "
        "Addresses: the share of the device's that held data at the beginning or were written at some time. Directories, bitmaps and B-trees of XFS are counted; the paper has none of them."
    )
    table.picture = lambda path: stacked(path, drawn)
    return table


def shares(trace: pc.Trace) -> tuple[int, list[float]]:
    """Pages written, and the share of each kind in percent."""
    import pyarrow.compute as compute

    events = trace.events().to_arrow()
    events = events.select(["pages"]).append_column("op", events["op"].cast("string")).append_column("kind", events["kind"].cast("string"))
    written = events.filter(compute.field("op") == "write")
    by_kind: dict[str, int] = {}
    for row in written.group_by("kind").aggregate([("pages", "sum")]).to_pylist():
        by_kind[str(row["kind"])] = int(row["pages_sum"])
    total = sum(by_kind.values())
    known = {kind for _, kinds in KINDS for kind in kinds}
    if set(by_kind) - known:
        raise pc.TraceError(f"{trace!r}: unknown kinds of writes {sorted(set(by_kind) - known)}: expected {sorted(known)}")
    return total, [100 * sum(by_kind.get(kind, 0) for kind in kinds) / total for _, kinds in KINDS]


def addresses(trace: pc.Trace) -> float:
    """The share of the device's addresses, in percent, that held data at the beginning or were written at some time."""
    import numpy
    import pyarrow.compute as compute

    events = trace.events().to_arrow().select(["op", "lba", "pages"])
    written = events.filter(compute.field("op") == "write")
    # How many ranges begin at an address, less how many ended before it.
    depth = numpy.zeros(trace.device_pages + 1, dtype=numpy.int64)
    prefilled = [(extent["lba"], extent["pages"]) for extent in trace.meta["prefilled"]]
    first = numpy.concatenate([written["lba"].to_numpy(), numpy.array([lba for lba, _ in prefilled], dtype=numpy.uint64)])
    pages = numpy.concatenate([written["pages"].to_numpy(), numpy.array([count for _, count in prefilled], dtype=numpy.uint64)])
    numpy.add.at(depth, first.astype(numpy.int64), 1)
    numpy.add.at(depth, (first + pages).astype(numpy.int64), -1)
    return 100 * float((depth.cumsum()[:-1] > 0).mean())


def cell(ours: Sequence[float], theirs: float | None) -> str:
    """Ours, the interval, and the paper's."""
    return f"{spread(ours, '.1f')}; {'-' if theirs is None else f'{theirs:g}'}"


def stacked(path: Path, drawn: dict[str, list[float]]) -> None:
    """A bar for each workload, ours solid and the paper's hatched beside it."""
    plots = pyplot()
    figure, axes = plots.subplots(figsize=(10, 4), layout="constrained")
    names = list(drawn)
    for series, offset, hatch in (
        ([drawn[name] for name in names], -0.2, ""),
        ([[value or 0.0 for value in PAPER[name]] for name in names], 0.2, "//"),
    ):
        below = [0.0] * len(names)
        for at, (kind, _) in enumerate(KINDS):
            heights = [row[at] for row in series]
            places = [place + offset for place in range(len(names))]
            label = None if hatch else kind
            axes.bar(places, heights, 0.36, bottom=below, color=f"C{at}", hatch=hatch, edgecolor="white", label=label)
            below = [low + height for low, height in zip(below, heights, strict=True)]
    axes.set_xticks(range(len(names)), [name.replace("-", "\n", 1) for name in names])
    axes.set_ylabel("% of pages written (hatched: paper)")
    axes.legend(fontsize="small", loc="upper left", bbox_to_anchor=(1, 1))
    figure.savefig(path)
    plots.close(figure)
