"""FAST'19, Fig. 12: what internal streams save, by scheme."""

from __future__ import annotations

import statistics

from ..lab import INTERNAL, LEGACY, Lab, Table, bars, spread
from .waf import AUTOSTREAM, PAPERS, waf_of

NAME = "fast19-fig12"
ABOUT = "WAF with and without internal streams, by scheme"
#: Scheme, and the paper's average saving in percent.
SCHEMES = (("baseline", 25), ("autostream:best", 22), ("pcstream", 17), ("manual", 12))


def make(lab: Lab) -> Table:
    """A row for each scheme, averaged over the paper's workloads."""
    columns = ("scheme", "without", "with internal streams", "change", "paper")
    table = Table(NAME, "FAST'19 Fig. 12: the effect of internal streams", columns)
    runs = [
        lab.simulate(trace, ("baseline", *AUTOSTREAM, "pcstream", "manual")) for name in PAPERS for trace in lab.traces(name)
    ]
    if not runs:
        return table
    drawn: dict[str, list[float | None]] = {"without": [], "with internal streams": []}
    for scheme, paper in SCHEMES:
        legacy, internal = ([waf_of(run, scheme, at) for run in runs] for at in (LEGACY, INTERNAL))
        change = statistics.fmean(internal) / statistics.fmean(legacy) - 1
        table.rows.append((scheme, spread(legacy), spread(internal), f"{change:+.1%}", f"-{paper} %"))
        drawn["without"].append(statistics.fmean(legacy))
        drawn["with internal streams"].append(statistics.fmean(internal))
    table.remarks.append(f"Means over {len(runs)} recordings of {', '.join(PAPERS)}; in brackets the least and the greatest.")
    table.picture = lambda path: bars(path, [scheme for scheme, _ in SCHEMES], drawn, "WAF")
    return table
