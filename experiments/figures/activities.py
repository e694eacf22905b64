"""FAST'19, Fig. 1 and 4: lifetimes of data by address and by call path.

A lifetime is the number of pages that the host writes until the data are overwritten or discarded; what lives at the end has
none. The question of the two figures is a number here: which share of the variance of lifetimes (as logarithms, weighted by
pages) is that between groups, if pages are grouped by 1 MiB of addresses, or by call path.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import pcstream as pc

from ..lab import Lab, Table
from ..pictures import pyplot

NAME = "fast19-fig4"
ABOUT = "lifetimes by address and by call path (also Fig. 1)"
WORKLOADS = ("rocksdb", "cassandra", "sqlite", "gcc")
#: Call paths of a workload in table and picture, those that write most.
PATHS = 3
#: Pages of a chunk of addresses: 1 MiB, as in the paper.
CHUNK = 256


class Lives(NamedTuple):
    """Pages of file data whose data died in the run: an entry for each, in order of death."""

    context: np.ndarray[Any, Any]
    file: np.ndarray[Any, Any]
    lba: np.ndarray[Any, Any]
    lifetime: np.ndarray[Any, Any]


def make(lab: Lab) -> Table:
    """A row for each workload and call path."""
    columns = ("workload", "call path writes", "pages that died", "p25", "p50", "p75", "p75 / p25", "variance by address", "by call path")
    table = Table(NAME, "FAST'19 Fig. 4: lifetimes of the call paths that write most, in pages written by the host", columns)
    drawn = {}
    for name in WORKLOADS:
        trace = lab.first(name)
        if trace is not None:
            events = trace.events().to_pandas()
            lives = lifetimes(events)
            explained = tuple(f"{between(lives.lifetime, groups):.0%}" for groups in (lives.lba // CHUNK, lives.context))
            contexts, counts = np.unique(lives.context, return_counts=True)
            largest = contexts[np.argsort(-counts, kind="stable")[:PATHS]]
            named = {label(trace, events, int(context)): lives.lifetime[lives.context == context] for context in largest}
            for said, values in named.items():
                p25, p50, p75 = (int(np.percentile(values, at)) for at in (25, 50, 75))
                table.rows.append((name, said, len(values), p25, p50, p75, f"{p75 / max(p25, 1):.1f}", *explained))
            drawn[name] = (lives, {said: int(context) for said, context in zip(named, largest, strict=True)})
    table.remarks.append(
        f"Variance: the share of the variance of lifetimes that chunks of {CHUNK // 256} MiB of addresses and call paths explain, over all "
        "data of the workload. The paper: addresses say little of append-only workloads (Fig. 1), call paths tell lifetimes apart, and "
        "compaction of RocksDB and SQLite's updates vary much. One recording each."
    )
    if drawn:
        table.picture = lambda path: scatter(path, drawn)
    return table


def lifetimes(events: Any) -> Lives:
    """The lifetime of each page of file data with a call path. ``events``: those of a trace, as a data frame of pandas."""
    end = int((events["lba"] + events["pages"]).max())
    written = np.zeros(end, dtype=np.int64)
    writer = np.zeros(end, dtype=np.int64)
    deaths = []
    now = 0
    known = (events["kind"] == "data") & (events["context"] != 0)
    # Of the write that a page has its data from, counted from 1; 0 for data that nobody asks about.
    rows = np.where(known, np.arange(len(events)) + 1, 0)
    for op, lba, pages, row in zip(events["op"], events["lba"], events["pages"], rows, strict=True):
        if op not in ("write", "discard", "write_zeroes"):
            continue
        extent = slice(lba, lba + pages)
        dead = lba + np.flatnonzero(writer[extent])
        # The pages of a request are written one after the other.
        times = now + (dead - lba if op == "write" else 0)
        deaths.append((writer[dead], dead, times - written[dead]))
        writer[extent] = 0
        if op == "write":
            writer[extent] = row
            written[extent] = now + np.arange(pages)
            now += pages
    row, dead, lifetime = (np.concatenate(column) for column in zip(*deaths, strict=True))
    return Lives(*(events[name].to_numpy(np.int64)[row - 1] for name in ("context", "file")), dead, lifetime)


def between(lifetimes: np.ndarray[Any, Any], groups: np.ndarray[Any, Any]) -> float:
    """The share of the variance of the logarithms that is between groups, 0 to 1."""
    logs = np.log2(np.maximum(lifetimes, 1))
    _, group = np.unique(groups, return_inverse=True)
    counts = np.bincount(group)
    means = np.bincount(group, logs) / counts
    total = float(((logs - logs.mean()) ** 2).sum())
    return float((counts * (means - logs.mean()) ** 2).sum()) / total if total > 0 else 1.0


def label(trace: pc.Trace, events: Any, context: int) -> str:
    """Which file a call path writes most, and which thread: what people call it."""
    mine = events[(events["context"] == context) & (events["op"] == "write")]
    file = mine.groupby("file")["pages"].sum().idxmax()
    files, contexts = trace.files().to_pandas(), trace.contexts().to_pandas()
    path = Path(files.loc[files["file"] == file, "path"].iloc[0]).name
    row = contexts.loc[contexts["context"] == context].iloc[0]
    return f"{path} ({row['comm']}, path {int(row['signature']):016x})"


def scatter(path: Path, drawn: dict[str, tuple[Lives, dict[str, int]]]) -> None:
    """Lifetimes over addresses, a panel for each workload, a colour for each call path; a sample of the pages."""
    plots = pyplot()
    figure, grid = plots.subplots(1, len(drawn), figsize=(3.4 * len(drawn), 3.8), squeeze=False, layout="constrained")
    for axes, (name, (lives, contexts)) in zip(grid.flat, drawn.items(), strict=True):
        for said, context in contexts.items():
            chosen = np.flatnonzero(lives.context == context)
            chosen = chosen[:: max(1, len(chosen) // 1500)]
            axes.plot(lives.lba[chosen] / 256, lives.lifetime[chosen] + 1, ".", markersize=2, rasterized=True, label=said.split(", path")[0] + ")")
        axes.set_yscale("log")
        axes.set_title(name, fontsize="medium")
        axes.legend(fontsize="x-small", loc="upper center", bbox_to_anchor=(0.5, -0.15), markerscale=4)
    figure.supxlabel("address, MiB", fontsize="medium")
    figure.supylabel("lifetime, pages written", fontsize="medium")
    figure.savefig(path)
    plots.close(figure)
