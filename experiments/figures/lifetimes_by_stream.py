"""FAST'19, Fig. 11: quartiles of lifetimes by stream. Good streams hold data of similar lifetimes.

Pages that garbage collection has moved to an internal stream are not counted, so where a device has these, quartiles depend on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..fullness import BY_LIVE_DATA, filled
from ..lab import DISCARDS, INTERNAL, LEGACY, Lab, Table, conditions

NAME = "fast19-fig11"
ABOUT = "quartiles of lifetimes by stream"
SCHEMES = (("pcstream", INTERNAL), ("pcstream-paper", INTERNAL), ("manual", LEGACY), ("autostream-mq", LEGACY))


def make(lab: Lab) -> Table:
    """A row for each scheme and stream of the workload Mixed 1, with and without discards."""
    columns = ("scheme", "discards", "stream", "pages", "p25", "p50", "p75", "p75 / p25")
    table = Table(NAME, "FAST'19 Fig. 11: lifetimes by stream, Mixed 1, in pages written by the host", columns)
    for trace in lab.traces("mixed1")[:1]:
        for discard, said in DISCARDS:
            results = lab.simulate(trace, [scheme for scheme, _ in SCHEMES], **filled(discard))
            for scheme, destination in SCHEMES:
                streams = results[scheme, destination].streams
                table.rows += [(scheme, said, *row(stream)) for stream in streams if stream["host_pages"]]
    table.remarks.append(
        f"{conditions()} {BY_LIVE_DATA} The first recording. The paper draws the same quartiles: PCStream's and manual streams are "
        "narrow, AutoStream's wide."
    )
    return table


def row(stream: Mapping[str, Any]) -> tuple[Any, ...]:
    """Name, pages and quartiles of a stream."""
    # None where nothing on the stream has died yet.
    lifetimes = stream["lifetime_pages"] or {}
    p25, p50, p75 = (lifetimes.get(at) for at in ("p25", "p50", "p75"))
    return f"S{stream['stream']}", stream["host_pages"], p25, p50, p75, f"{p75 / p25:.1f}" if p25 and p75 else None
