"""Berkeley DB Java Edition under YCSB A, with the Java agent: a log-structured store in Java, which the papers do not have.

Its cleaner copies what is live of log files that are mostly dead, and deletes them: garbage collection above that of the drive.
"""

from __future__ import annotations

from ..workload import Workload
from . import ycsb

#: The agent is built at the first call.
NEEDS = (*ycsb.NEEDS, "gcc")


def workloads(quick: bool) -> list[Workload]:
    """In quick size 27 MB of data on 160 MiB, in full size 125 MB on 640 MiB; the log is about twice as long."""
    command = ycsb.command("je", "{}/je", quick)
    size = "160M" if quick else "640M"
    programs = (ycsb.BERKELEYDB, ycsb.YCSB, ycsb.JAVA)
    about = "Berkeley DB Java Edition, YCSB A"
    return [Workload("berkeleydb", about, command, size, 0.2, NEEDS, sources=ycsb.SOURCES, programs=programs, unseeded="YCSB")]
