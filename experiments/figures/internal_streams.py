"""FAST'19, Fig. 12: what internal streams save, by scheme."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence

import pcstream as pc

from ..fullness import BY_LIVE_DATA
from ..lab import DISCARDS, INTERNAL, LEGACY, Lab, Table, conditions, spread
from ..pictures import bars
from ..summaries import Row, markdown, percent
from ..summaries import mean as mean_of
from .waf import COLUMNS, PAPERS, lowest, simulated

NAME = "fast19-fig12"
ABOUT = "WAF with and without internal streams, by scheme"
#: Scheme, and the paper's average saving.
SCHEMES = (("baseline", "-25 %"), ("autostream", "-22 %"), ("pcstream", "-17 %"), ("manual", "-12 %"), ("pcstream-paper", None))
#: What the table in ``docs/results`` calls them.
LABELS = {"autostream": "AutoStream", "pcstream": "PCStream", "manual": "Manual", "pcstream-paper": "`pcstream-paper`"}


def make(lab: Lab) -> Table:
    """A row for each scheme, without and with discards, averaged over the paper's workloads."""
    columns = ("scheme", "discards", "without", "with internal streams", "change", "paper")
    table = Table(NAME, "FAST'19 Fig. 12: the effect of internal streams", columns)
    traces = {name: found for name in PAPERS if (found := lab.traces(name))}
    if not traces:
        return table
    drawn: dict[str, list[float | None]] = {"without": [], "with internal streams": []}
    for discard, said in reversed(DISCARDS):
        runs = [[simulated(lab, trace, discard) for trace in found] for found in traces.values()]
        for scheme, paper in SCHEMES:
            legacy, internal = ([mean(found, COLUMNS[scheme][0], at) for found in runs] for at in (LEGACY, INTERNAL))
            table.rows.append((scheme, said, spread(legacy), spread(internal), change(runs, COLUMNS[scheme][0]), paper))
            if not discard:
                drawn["without"].append(statistics.fmean(legacy))
                drawn["with internal streams"].append(statistics.fmean(internal))
    table.remarks.append(
        f"{conditions()} {BY_LIVE_DATA} Means over {', '.join(traces)}, each the mean of its recordings; in brackets the least and "
        "the greatest. Change: the mean of those of the workloads."
    )
    table.picture = lambda path: bars(path, [scheme for scheme, _ in SCHEMES], drawn, "mean WAF without discards")
    return table


def summary(rows: Sequence[Row]) -> str:
    """The means and the change, without discards and with them."""
    found = {(row["scheme"], row["discards"]): row for row in rows}

    def cells(row: Row) -> tuple[str, ...]:
        return (*(f"{mean_of(row[column]):.2f}" for column in ("without", "with internal streams")), percent(row["change"]))

    columns = ("scheme", "no discards: without", "with", "change", "discards: without", "with", "change", "paper's change")
    lines = [(LABELS.get(name, name), *cells(found[name, "no"]), *cells(found[name, "yes"]), paper or "-") for name, paper in SCHEMES]
    return markdown(columns, lines)


def change(runs: Sequence[Sequence[pc.Results]], schemes: tuple[str, ...]) -> str:
    """What internal streams change, the mean over workloads; in brackets, of every choice of one recording of each."""
    pairs = [[(lowest(run, schemes, LEGACY), lowest(run, schemes, INTERNAL)) for run in found] for found in runs]
    means = [(statistics.fmean(one for one, _ in found), statistics.fmean(one for _, one in found)) for found in pairs]
    each = [saved(chosen) for chosen in itertools.product(*pairs)]
    interval = f" ({min(each):+.1%} to {max(each):+.1%})" if len(each) > 1 else ""
    return f"{saved(means):+.1%}{interval}"


def saved(wafs: Sequence[tuple[float, float]]) -> float:
    """How WAF changes from the first of each pair to the second: the mean over workloads, so that each counts alike."""
    return statistics.fmean(internal / legacy for legacy, internal in wafs) - 1


def mean(runs: Sequence[pc.Results], schemes: tuple[str, ...], destination: str) -> float:
    """A workload's WAF: the mean over its recordings."""
    return statistics.fmean(lowest(run, schemes, destination) for run in runs)
