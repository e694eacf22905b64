"""How figures draw: plots that several of them have, and matplotlib as all of them need it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def pyplot() -> Any:
    """matplotlib without a screen; letters stay letters, which keeps pictures small."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plots

    plots.rcParams["svg.fonttype"] = "none"
    plots.rcParams["svg.hashsalt"] = "pcstream"
    return plots


def bars(path: Path, groups: Sequence[str], series: Mapping[str, Sequence[float | None]], label: str) -> None:
    """Grouped bars that begin at 1, where nothing is copied."""
    plots = pyplot()
    figure, axes = plots.subplots(figsize=(3 + min(1.2, 8 / len(groups)) * len(groups), 3.2), layout="constrained")
    width = 0.8 / len(series)
    for place, (name, values) in enumerate(series.items()):
        left = [at + (place - (len(series) - 1) / 2) * width for at in range(len(groups))]
        axes.bar(left, [(value or 1) - 1 for value in values], width, bottom=1, label=name)
    # With many groups names touch unless they are small.
    axes.set_xticks(range(len(groups)), groups, fontsize="small" if len(groups) < 9 else "x-small")
    axes.set_ylabel(label)
    axes.legend(fontsize="small", loc="upper left", bbox_to_anchor=(1, 1))
    figure.savefig(path)
    plots.close(figure)


def curves(path: Path, lines: Mapping[str, tuple[Sequence[float], Sequence[float]]], x: str, y: str) -> None:
    """Lines through points."""
    plots = pyplot()
    figure, axes = plots.subplots(figsize=(8, 3.6), layout="constrained")
    for at, (name, (xs, ys)) in enumerate(lines.items()):
        axes.plot(xs, ys, marker="o", markersize=3, label=name, linestyle="--" if at % 2 else "-", color=f"C{at // 2}")
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.legend(fontsize="small", loc="upper left", bbox_to_anchor=(1, 1))
    figure.savefig(path)
    plots.close(figure)


def panels(
    path: Path, lines: Mapping[str, Mapping[str, tuple[Sequence[float], Sequence[float]]]], ticks: Sequence[float], x: str, y: str
) -> None:
    """A panel for each workload, with the same lines in each; lines whose name ends in "no discards" are dashed.

    ``ticks``: places on the x axis that are named.
    """
    plots = pyplot()
    across = 4
    rows = -(-len(lines) // across)
    figure, grid = plots.subplots(rows, across, figsize=(10, 2.6 * rows), sharex=True, squeeze=False, layout="constrained")
    for axes in grid.flat[len(lines) :]:
        axes.set_visible(False)
    for axes, (name, drawn) in zip(grid.flat, lines.items(), strict=False):
        for at, (label, (xs, ys)) in enumerate(drawn.items()):
            dashed = "--" if label.endswith("no discards") else "-"
            axes.plot(xs, ys, marker="o", markersize=2.5, linestyle=dashed, color=f"C{at % 2}", label=label)
        axes.set_title(name, fontsize="medium")
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.set_ylim(1, max(1.2, axes.get_ylim()[1]))
    figure.supxlabel(x, fontsize="medium")
    figure.supylabel(y, fontsize="medium")
    handles, labels = grid.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4, fontsize="small")
    figure.savefig(path)
    plots.close(figure)
