"""FAST'19, Fig. 11: quartiles of lifetimes by stream. Good streams hold data of similar lifetimes.

Pages that garbage collection has moved to an internal stream are not counted, so where a device has these, quartiles depend on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..fullness import BY_LIVE_DATA, filled
from ..lab import DISCARDS, INTERNAL, LEGACY, Lab, Table, conditions
from ..pictures import pyplot

NAME = "fast19-fig11"
ABOUT = "quartiles of lifetimes by stream"
SCHEMES = (("pcstream", INTERNAL), ("pcstream-paper", INTERNAL), ("manual", LEGACY), ("autostream-mq", LEGACY))


def make(lab: Lab) -> Table:
    """A row for each scheme and stream of the workload Mixed 1, with and without discards."""
    columns = ("scheme", "discards", "stream", "pages", "p25", "p50", "p75", "p75 / p25")
    table = Table(NAME, "FAST'19 Fig. 11: lifetimes by stream, Mixed 1, in pages written by the host", columns)
    trace = lab.first("mixed1")
    if trace is not None:
        for discard, said in DISCARDS:
            results = lab.simulate(trace, [scheme for scheme, _ in SCHEMES], **filled(discard))
            for scheme, destination in SCHEMES:
                streams = results[scheme, destination].streams
                table.rows += [(scheme, said, *row(stream)) for stream in streams if stream["host_pages"]]
    table.remarks.append(
        f"{conditions()} {BY_LIVE_DATA} The first recording. The paper draws the same quartiles: PCStream's and manual streams are "
        "narrow, AutoStream's wide."
    )
    table.picture = lambda path: quartiles(path, table.rows)
    return table


def quartiles(path: Path, rows: Sequence[Sequence[Any]]) -> None:
    """A panel for each scheme, without and with discards: a bar from p25 to p75 of each stream, and a dot at p50."""
    plots = pyplot()
    schemes = [scheme for scheme, _ in SCHEMES]
    figure, grid = plots.subplots(len(DISCARDS), len(schemes), figsize=(11, 5.4), sharey=True, squeeze=False, layout="constrained")
    for line, (_, discards) in zip(grid, reversed(DISCARDS), strict=True):
        for axes, scheme in zip(line, schemes, strict=True):
            streams = [row[2:7] for row in rows if row[:2] == (scheme, discards)]
            pages = sum(stream[1] for stream in streams)
            for at, (_, _, p25, p50, p75) in enumerate(streams):
                if p25 is not None:
                    axes.bar(at, p75 - p25, bottom=p25, width=0.7, color="C0", alpha=0.45)
                    axes.plot(at, p50, "o", markersize=4, color="C3")
            named = [f"{stream[0]}\n{stream[1] / pages:.0%}" for stream in streams]
            axes.set_xticks(range(len(streams)), named, fontsize=6.5)
            axes.set_xlim(-0.6, 8.6)
            axes.set_yscale("log")
            axes.minorticks_off()
            axes.set_title(f"{scheme}, {'discards' if discards == 'yes' else 'no discards'}", fontsize="medium")
    # Bars do not make room below them.
    grid.flat[0].set_ylim(bottom=0.7 * min((row[4] for row in rows if row[4] is not None), default=1))
    figure.supxlabel("stream, and its share of the pages", fontsize="medium")
    figure.supylabel("lifetime, pages written: p25 to p75, dot: p50", fontsize="medium")
    figure.savefig(path)
    plots.close(figure)


def row(stream: Mapping[str, Any]) -> tuple[Any, ...]:
    """Name, pages and quartiles of a stream."""
    # None where nothing on the stream has died yet.
    lifetimes = stream["lifetime_pages"] or {}
    p25, p50, p75 = (lifetimes.get(at) for at in ("p25", "p50", "p75"))
    return f"S{stream['stream']}", stream["host_pages"], p25, p50, p75, f"{p75 / p25:.1f}" if p25 and p75 else None
