"""FAST'19, Fig. 6: lifetimes of RocksDB's tables by the level at which they were written.

The paper draws compactions to level 2 and to level 4: lifetimes differ by level, though the call path is the same. Levels are
those of RocksDB's LOG. In numbers: which share of the variance of lifetimes (as logarithms, weighted by pages) is that between
levels, and which that between call paths.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import pcstream as pc

from .. import manual
from ..lab import Lab, Table, spread
from ..pictures import pyplot
from .activities import Lives, between, lifetimes

NAME = "fast19-fig6"
ABOUT = "lifetimes of RocksDB's tables by level"
WORKLOAD = "rocksdb"
QUARTILES = (25, 50, 75)
#: Bins of the picture for each doubling of a lifetime.
BINS = 4


def make(lab: Lab) -> Table:
    """A row for each level."""
    columns = ("level", "pages that died", *(f"p{at}" for at in QUARTILES), "p75 / p25")
    table = Table(NAME, "FAST'19 Fig. 6: lifetimes of RocksDB's tables by level, in pages written by the host", columns)
    found = []
    for trace in lab.traces(WORKLOAD):
        rules = lab.rules_of(trace)
        if rules is not None:
            found.append(of_tables(trace, manual.levels_of(rules)))
    if not found:
        table.remarks.append("No recording has RocksDB's LOG.")
        return table
    for level in sorted(set.intersection(*({int(at) for at in np.unique(levels)} for _, levels in found))):
        lives = [tables.lifetime[levels == level] for tables, levels in found]
        quartiles = [[float(np.percentile(values, at)) for at in QUARTILES] for values in lives]
        ratios = [high / max(low, 1) for low, _, high in quartiles]
        whole = [interval([row[at] for row in quartiles], 0) for at in range(len(QUARTILES))]
        table.rows.append((level, f"{statistics.fmean(map(len, lives)):.0f}", *whole, interval(ratios, 1)))
    table.remarks += explained(found)
    table.picture = lambda path: histograms(path, *found[0])
    return table


def of_tables(trace: pc.Trace, levels: Mapping[str, int]) -> tuple[Lives, np.ndarray[Any, Any]]:
    """Lifetimes of the pages of tables, and the level of each."""
    lives = lifetimes(trace.events().to_pandas())
    # Ids of files count from 1.
    of_file = np.array([-1] + [levels.get(Path(path).name, -1) for path in trace.files().to_pandas()["path"]])
    level = of_file[lives.file]
    return Lives(*(column[level >= 0] for column in lives)), level[level >= 0]


def explained(found: Sequence[tuple[Lives, np.ndarray[Any, Any]]]) -> list[str]:
    """How much levels and call paths say of lifetimes."""
    by_level = [100 * between(lives.lifetime, levels) for lives, levels in found]
    by_path = [100 * between(lives.lifetime, lives.context) for lives, _ in found]
    writers = [len(set(lives.context[levels > 0].tolist())) for lives, levels in found]
    return [
        f"Levels explain {interval(by_level, 0)} % of the variance of lifetimes of tables, call paths {interval(by_path, 0)} %. "
        f"Level 0 is what a flush writes; {interval(writers, 0)} call paths write the others. Levels of which data died in "
        "some recordings only are left out: a table that is moved counts where it was written. Means of recordings, in brackets the least and the greatest.",
        "The paper: the call path is the same at all levels; data of level 2 have small variance, those of level 4 a large one.",
    ]


def interval(values: Sequence[float], digits: int) -> str:
    """A mean, and the least and greatest value behind it where they differ."""
    form = f".{digits}f"
    differ = len({format(value, form) for value in values}) > 1
    return spread(values if differ else [statistics.fmean(values)], form)


def histograms(path: Path, lives: Lives, levels: np.ndarray[Any, Any]) -> None:
    """The share of a level's pages by lifetime, a curve for each level."""
    plots = pyplot()
    figure, axes = plots.subplots(figsize=(7, 3.4), layout="constrained")
    logs = np.log2(np.maximum(lives.lifetime, 1))
    edges = np.arange(np.floor(logs.min()), np.ceil(logs.max()) + 1 / BINS, 1 / BINS)
    for level in np.unique(levels):
        counts, _ = np.histogram(logs[levels == level], edges)
        axes.stairs(100 * counts / counts.sum(), 2**edges, label=f"level {level}", linewidth=1.5)
    axes.set_xscale("log")
    axes.set_xlabel("lifetime, pages written")
    axes.set_ylabel("% of the level's pages")
    axes.legend(fontsize="small", loc="upper left", bbox_to_anchor=(1, 1))
    figure.savefig(path)
    plots.close(figure)
