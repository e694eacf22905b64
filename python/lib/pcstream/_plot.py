"""Pictures of results, by matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ._errors import ArgumentError, needs

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ._result import Result


#: Lines for what a colour does not tell.
STYLES = ("-", "--", ":", "-.")
#: Colours of the larger map, and of the one that is easier to tell apart.
COLORS, FEW_COLORS = 20, 10
#: Lines of a column of a legend, unless that gives more columns than these.
LEGEND_ROWS, LEGEND_COLUMNS = 22, 3
#: Above and below a legend.
MARGIN_INCHES = 0.2
#: WAF at the top of bars, at least.
LEAST_TOP = 1.05


class Plot:
    """What can be drawn of results. Every method draws on ``ax``, or on axes of its own, and returns them."""

    def __init__(self, results: Sequence[Result]) -> None:
        self._results = results

    def waf(self, ax: Axes | None = None) -> Axes:
        """WAF by scheme, a bar for each GC destination; bars begin at 1, where nothing is copied."""
        axes, own = _axes(ax)
        schemes = list(dict.fromkeys(result.scheme for result in self._results))
        destinations = list(dict.fromkeys(result.gc_destination for result in self._results))
        width = 0.8 / len(destinations)
        for place, destination in enumerate(destinations):
            bars = [r for r in self._results if r.gc_destination == destination and r.waf is not None]
            left = [schemes.index(r.scheme) + (place - (len(destinations) - 1) / 2) * width for r in bars]
            heights = [r.waf - 1 for r in bars]
            axes.bar(left, heights, width, bottom=1, label=f"GC to {destination}")
        axes.set_xticks(range(len(schemes)), schemes, rotation=30, ha="right")
        axes.set_ylabel("WAF")
        # Otherwise bars of nothing would look like towers.
        axes.set_ylim(bottom=1, top=max(LEAST_TOP, axes.get_ylim()[1]))
        return _with_legend(axes, own)

    def progress(self, ax: Axes | None = None) -> Axes:
        """WAF of each piece of the run over pages that the host wrote: whether a steady state was reached."""
        axes, own = _axes(ax)
        schemes = list(dict.fromkeys(result.scheme for result in self._results))
        destinations = list(dict.fromkeys(result.gc_destination for result in self._results))
        for result in self._results:
            pairs = list(zip(result.curve, result.curve[1:], strict=False))
            points = [(b[0], (b[1] - a[1]) / (b[0] - a[0])) for a, b in pairs if b[0] > a[0]]
            label = f"{result.scheme}, {result.gc_destination}"
            # A scheme has one colour, a destination one style.
            color = _color(schemes.index(result.scheme), len(schemes))
            style = STYLES[destinations.index(result.gc_destination) % len(STYLES)]
            axes.plot([x for x, _ in points], [y for _, y in points], style, color=color, label=label)
        axes.set_xlabel("pages written by the host")
        axes.set_ylabel("WAF")
        return _with_legend(axes, own)


class SweepPlot:
    """What can be drawn of a sweep."""

    def __init__(self, rows: Sequence[Mapping[str, Any]], axes: Sequence[str]) -> None:
        self._rows = rows
        # Each destination of garbage collection has rows of its own, so the axis says nothing more.
        columns = [*(name for name in axes if name != "gc"), "trace", "gc_destination", "scheme"]
        self._values = {name: list(dict.fromkeys(row[name] for row in rows)) for name in columns}
        # Without directories, unless two traces have one name then.
        traces = self._values["trace"]
        short = [str(trace).rpartition("/")[2].removesuffix(".pctrace") for trace in traces]
        self._traces = dict(zip(traces, short if len(set(short)) == len(short) else traces, strict=True))

    def waf(self, over: str | None = None, ax: Axes | None = None) -> Axes:
        """WAF over one axis, by default that with most values: a line for each scheme and each value of the other axes.

        Args:
            over: the axis, such as ``"streams"``, or ``"trace"``.
            ax: where to draw.
        """
        places = [name for name in self._values if name != "scheme"]
        if over is None:
            over = max(places, key=lambda name: len(self._values[name]))
        over = "gc_destination" if over == "gc" else over
        if over not in places:
            raise ArgumentError(f"over {over!r}: expected an axis of this sweep: {', '.join(places)}")
        differ = [name for name in reversed(self._values) if name != over and (name == "scheme" or len(self._values[name]) > 1)]
        lines: dict[tuple[Any, ...], dict[Any, float]] = {}
        for row in self._rows:
            if row["waf"] is not None:
                # Equal points, as of a trace that is given twice, have equal rows.
                lines.setdefault(tuple(row[name] for name in differ), {})[row[over]] = row["waf"]
        axes, own = _axes(ax)
        numbers = all(isinstance(value, (int, float)) for value in self._values[over])
        for at, (values, by_place) in enumerate(lines.items()):
            points = sorted(by_place.items()) if numbers else list(by_place.items())
            x = [value if numbers else self._shown(over, value) for value, _ in points]
            label = ", ".join(map(self._labelled, differ, values))
            style = STYLES[at // COLORS % len(STYLES)]
            color = _color(at % COLORS, len(lines))
            axes.plot(x, [waf for _, waf in points], style, color=color, marker="o", markersize=3, label=label)
        axes.set_xlabel(over)
        axes.set_ylabel("WAF")
        return _with_legend(axes, own)

    def _shown(self, name: str, value: Any) -> str:
        return self._traces[value] if name == "trace" else str(value)

    def _labelled(self, name: str, value: Any) -> str:
        """A value in a legend; what scheme, trace and destination are is seen without their names."""
        if name == "gc_destination":
            return f"GC to {value}"
        text = self._shown(name, value)
        return text if name in ("scheme", "trace") else f"{name} {text}"


def _axes(ax: Axes | None) -> tuple[Axes, Figure | None]:
    """Where to draw, and the figure if it is one of its own."""
    if ax is not None:
        return ax, None
    needs("plot", "matplotlib", "plot")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(layout="constrained")
    return axes, figure


def _color(at: int, of: int) -> Any:
    """One of ``of`` colours that differ, as far as there are so many."""
    from matplotlib import colormaps

    return colormaps["tab10" if of <= FEW_COLORS else "tab20"](at % COLORS)


def _with_legend(axes: Axes, own: Figure | None) -> Axes:
    """Beside the picture, where it covers nothing; a figure of its own gets wider by it, and as high."""
    from matplotlib.ticker import ScalarFormatter

    # That of a logarithmic scale has no offset.
    if isinstance(axes.yaxis.get_major_formatter(), ScalarFormatter):
        axes.ticklabel_format(axis="y", useOffset=False)
    columns = min(-(-len(axes.get_legend_handles_labels()[1]) // LEGEND_ROWS), LEGEND_COLUMNS)
    legend = axes.legend(loc="upper left", bbox_to_anchor=(1.02, 1), borderaxespad=0, fontsize="small", ncols=columns)
    if own is not None:
        # Its labels decide how large it is.
        (width, height), size = own.get_size_inches(), legend.get_window_extent()
        own.set_size_inches(width + size.width / own.dpi, max(height, size.height / own.dpi + MARGIN_INCHES))
    return axes
