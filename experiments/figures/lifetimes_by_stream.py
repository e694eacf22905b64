"""FAST'19, Fig. 11: quartiles of lifetimes by stream. Good streams hold data of similar lifetimes."""

from __future__ import annotations

from ..lab import INTERNAL, LEGACY, Lab, Table

NAME = "fast19-fig11"
ABOUT = "quartiles of lifetimes by stream"
SCHEMES = (("pcstream", INTERNAL), ("pcstream-paper", INTERNAL), ("manual", LEGACY), ("autostream-mq", LEGACY))


def make(lab: Lab) -> Table:
    """A row for each scheme and stream of the workload Mixed 1."""
    columns = ("scheme", "stream", "pages", "p25", "p50", "p75", "p75 / p25")
    table = Table(NAME, "FAST'19 Fig. 11: lifetimes by stream, Mixed 1, in pages written by the host", columns)
    for trace in lab.traces("mixed1")[:1]:
        results = lab.simulate(trace, [scheme for scheme, _ in SCHEMES])
        for scheme, destination in SCHEMES:
            for stream in results[scheme, destination].streams:
                if not stream["host_pages"]:
                    continue
                # None where nothing on the stream has died yet.
                lifetimes = stream["lifetime_pages"] or {}
                p25, p50, p75 = (lifetimes.get(at) for at in ("p25", "p50", "p75"))
                ratio = f"{p75 / p25:.1f}" if p25 and p75 else None
                table.rows.append((scheme, f"S{stream['stream']}", stream["host_pages"], p25, p50, p75, ratio))
    table.remarks.append("The paper draws the same quartiles: PCStream's and manual streams are narrow, AutoStream's wide.")
    return table
