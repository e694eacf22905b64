"""How much of the papers' savings depends on the drive: utilisation, superblocks and streams, for the workloads of FAST'19.

A superblock of 1 is that of the PM963 in proportion. No discards, so utilisation is that of the addresses. Points without room
for garbage collection are left out.
"""

from __future__ import annotations

import statistics
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pcstream as pc

from ..lab import DEVICE, INTERNAL, LEGACY, SPARE_FACTOR, Lab, Table
from ..pictures import pyplot
from ..summaries import Row, markdown, percent
from .waf import AUTOSTREAM, PAPERS

NAME = "sensitivity"
ABOUT = "WAF over utilisation, superblock and streams"
SHARES = (0.6, 0.7, 0.8, 0.9, 0.98)
#: Superblocks, as multiples of the drive's own.
SUPERBLOCKS = (0.25, 1.0, 2.0)
#: S0 included.
STREAMS = (4, 8, 16)
#: Column, schemes of which the lowest counts, and device.
COLUMNS = (
    ("baseline", ("baseline",), LEGACY),
    ("autostream", AUTOSTREAM, LEGACY),
    ("manual", ("manual",), LEGACY),
    ("baseline, internal", ("baseline",), INTERNAL),
    ("manual, internal", ("manual",), INTERNAL),
    ("pcstream", ("pcstream",), INTERNAL),
)
#: What PCStream is compared with, what documents call it, and the paper's average saving in percent.
AGAINST = (("baseline", "baseline", 63), ("autostream", "AutoStream", 49))

#: Utilisation, superblock, streams.
Point = tuple[float, float, int]


def make(lab: Lab) -> Table:
    """A row for each workload and point, of the first recording of each."""
    ratios = (f"pcstream / {name}" for name, _, _ in AGAINST)
    columns = ("workload", "utilisation", "superblock", "streams", *(name for name, _, _ in COLUMNS), *ratios)
    table = Table(NAME, "WAF over utilisation, superblock and streams, without discards", columns)
    #: By what PCStream is compared with, point and workload.
    savings: dict[str, dict[Point, dict[str, float]]] = {name: {} for name, _, _ in AGAINST}
    found = {name: trace for name in PAPERS if (trace := lab.first(name))}
    for name, trace in found.items():
        for point, wafs in points(lab, trace):
            changes = {to: wafs["pcstream"] / wafs[to] - 1 for to in savings}
            for to, change in changes.items():
                savings[to].setdefault(point, {})[name] = change
            share, factor, streams = point
            table.rows.append((name, f"{share:.0%}", f"{factor:g}", streams, *wafs.values(), *(f"{c:+.0%}" for c in changes.values())))
    table.remarks.append(
        f"Device: {DEVICE} scaled, spare factor {SPARE_FACTOR:.0%}. Superblock: a multiple of that drive's, which is 0.23 % of the "
        "addresses. PCStream has internal streams; what it is compared with has none. The first recording of each workload. "
        f"AutoStream is the best of {len(AUTOSTREAM)} readings of its paper, chosen for each recording and point."
    )
    for name, shown, paper in AGAINST:
        whole = {point: statistics.fmean(each.values()) for point, each in savings[name].items() if len(each) == len(found)}
        if whole:
            table.remarks.append(extremes(whole, shown, paper, len(found)))
    if found:
        table.picture = lambda path: panels(path, savings, list(found))
    return table


def extremes(whole: Mapping[Point, float], against: str, paper: int, workloads: int) -> str:
    """Where PCStream saves most and least, and how often as much as in the paper."""
    best, least = min(whole, key=whole.__getitem__), max(whole, key=whole.__getitem__)
    reached = sum(change <= -paper / 100 for change in whole.values())
    return (
        f"PCStream against {against}, mean of the ratios over {workloads} workloads: {whole[best]:+.0%} at best ({at(best)}), "
        f"{whole[least]:+.0%} at worst ({at(least)}). Paper: -{paper} %, which {reached} of {len(whole)} points meet."
    )


def summary(rows: Sequence[Row]) -> str:
    """What PCStream saves with the fewest streams, the mean over the workloads, with the least and the greatest."""
    savings: dict[tuple[str, str, str], list[float]] = {}
    for row in rows:
        for to, _, _ in AGAINST if row["streams"] == str(STREAMS[0]) else ():
            saving = 100 - 100 * float(row["pcstream"]) / float(row[to])
            savings.setdefault((to, row["utilisation"], row["superblock"]), []).append(saving)
    workloads = {row["workload"] for row in rows}

    def cell(point: tuple[str, str, str]) -> str:
        each = savings.get(point, [])
        # A mean over fewer workloads cannot be compared with the others.
        if len(each) < len(workloads):
            return "-"
        return f"{round(statistics.fmean(each))} % ({round(min(each))} to {round(max(each))})"

    sizes = [f"{factor:g}" for factor in SUPERBLOCKS]
    columns = [f"{shown}: x {size}" if size == sizes[0] else f"x {size}" for _, shown, _ in AGAINST for size in sizes]
    shares = [f"{share:.0%}" for share in SHARES]
    lines = [(percent(share), *(cell((to, share, size)) for to, _, _ in AGAINST for size in sizes)) for share in shares]
    return markdown(("utilisation", *columns), lines)


def at(point: Point) -> str:
    """A point in words."""
    share, factor, streams = point
    return f"utilisation {share:.0%}, superblock {factor:g}, {streams} streams"


def points(lab: Lab, trace: pc.Trace) -> Iterator[tuple[Point, dict[str, float]]]:
    """The WAF of each column at every point that can be."""
    rules = lab.rules_of(trace)
    for share in SHARES:
        own = int(lab.simulate(trace, ["baseline"], share, discard=False).device["superblock_pages"])
        sizes = {int(own * factor): factor for factor in SUPERBLOCKS}
        by_point: dict[Point, dict[tuple[str, str], float]] = {}
        for destinations, schemes in sweeps():
            device = pc.Device.profile(DEVICE, gc=destinations, spare_factor=SPARE_FACTOR).scaled()
            options = {"discard": False, **({"rules": rules} if "manual" in schemes else {})}
            with warnings.catch_warnings():
                # Rows have the warnings, too.
                warnings.simplefilter("ignore", pc.PcstreamWarning)
                swept = pc.sweep(trace, schemes, device, options=options, pack=share, superblock_pages=list(sizes), streams=STREAMS)
            for row in swept.to_arrow().to_pylist():
                # What else a warning says is no loss.
                if row["losses"]:
                    lab.lose(f"{trace.path.stem}: {row['warnings']}")
                point = (share, sizes[row["superblock_pages"]], row["streams"])
                by_point.setdefault(point, {})[row["scheme"], row["gc_destination"]] = float(row["waf"])
        for point, wafs in by_point.items():
            # A drive with internal streams needs more room than one without.
            if all((scheme, to) in wafs for _, schemes, to in COLUMNS for scheme in schemes):
                yield point, {column: min(wafs[scheme, to] for scheme in schemes) for column, schemes, to in COLUMNS}


def sweeps() -> list[tuple[tuple[str, ...], list[str]]]:
    """Destinations of copies, and the schemes that are simulated with them."""
    both = {scheme for _, schemes, to in COLUMNS for scheme in schemes if to == INTERNAL}
    legacy = [scheme for _, schemes, _ in COLUMNS for scheme in schemes if scheme not in both]
    return [((LEGACY, INTERNAL), sorted(both)), ((LEGACY,), legacy)]


def panels(path: Path, savings: Mapping[str, Mapping[Point, Mapping[str, float]]], names: Sequence[str]) -> None:
    """What PCStream saves with the fewest streams: a line for each workload, their mean, and the paper's."""
    plots = pyplot()
    figure, grid = plots.subplots(len(AGAINST), len(SUPERBLOCKS), figsize=(10, 5.2), sharex=True, sharey=True, squeeze=False, layout="constrained")
    for line, (to, shown, paper) in zip(grid, AGAINST, strict=True):
        for axes, factor in zip(line, SUPERBLOCKS, strict=True):
            there = {share: savings[to].get((share, factor, STREAMS[0]), {}) for share in SHARES}
            for name in names:
                xs = [share for share, each in there.items() if name in each]
                axes.plot([100 * x for x in xs], [-100 * there[x][name] for x in xs], marker="o", markersize=2.5, linewidth=1, label=name)
            xs = [share for share, each in there.items() if len(each) == len(names)]
            means = [-100 * statistics.fmean(there[x].values()) for x in xs]
            axes.plot([100 * x for x in xs], means, color="black", linewidth=2.5, label="mean")
            axes.axhline(paper, color="black", linestyle="--", linewidth=1, label="the paper's mean")
            axes.set_title(f"against {shown}, superblock x {factor:g}", fontsize="medium")
    figure.supxlabel("utilisation, %", fontsize="medium")
    figure.supylabel(f"WAF saved by PCStream, %; {STREAMS[0]} streams", fontsize="medium")
    handles, labels = grid.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=8, fontsize="small")
    figure.savefig(path)
    plots.close(figure)
