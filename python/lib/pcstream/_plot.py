"""Pictures of results, by matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ._errors import missing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ._result import Result


class Plot:
    """What can be drawn of results. Every method draws on ``ax``, or on axes of its own, and returns them."""

    def __init__(self, results: Sequence[Result]) -> None:
        self._results = results

    def waf(self, ax: Axes | None = None) -> Axes:
        """WAF by scheme, a bar for each GC destination; bars begin at 1, where nothing is copied."""
        axes = _axes(ax)
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
        axes.legend()
        return axes

    def progress(self, ax: Axes | None = None) -> Axes:
        """WAF of each piece of the run over pages that the host wrote: whether a steady state was reached."""
        axes = _axes(ax)
        for result in self._results:
            pairs = list(zip(result.curve, result.curve[1:], strict=False))
            points = [(b[0], (b[1] - a[1]) / (b[0] - a[0])) for a, b in pairs if b[0] > a[0]]
            label = f"{result.scheme}, {result.gc_destination}"
            axes.plot([x for x, _ in points], [y for _, y in points], label=label)
        axes.set_xlabel("pages written by the host")
        axes.set_ylabel("WAF")
        axes.legend()
        return axes


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise missing("matplotlib", "plot", "plot") from error
    return pyplot.subplots()[1]
