"""Cassandra 5 under YCSB's workload A (FAST'19, section 6.1; HotStorage'14, section 4), with the Java agent, in one JVM.

Rows of 1 KB are inserted, then read and updated in equal parts by Zipf's law. ``jvm/cassandra`` has the load, and fetches
Cassandra from Maven Central at its first call. Sizes are small, so memtables, commit log and tables are too: a flush is about
5 MB, and size-tiered compaction makes four tables into one of the next tier.
"""

from __future__ import annotations

from pathlib import Path

from ..workload import Workload
from . import ycsb

ROOT = Path(__file__).resolve().parents[2]
#: The load.
SOURCES = tuple(sorted((ROOT / "jvm" / "src" / "cassandra").rglob("*.java")))


def workloads(quick: bool) -> list[Workload]:
    """In quick size 40 MB of rows on 224 MiB, in full size 160 MB on 896 MiB; each row is updated some 15 times."""
    rows, size, log = (40_000, "224M", "24MiB") if quick else (160_000, "896M", "96MiB")
    command = (
        "env", "DATA={}/cassandra", f"COMMITLOG={log}", "AGENT=threads", str(ROOT / "jvm" / "cassandra"), "ycsb-a",
        str(ROOT / "experiments" / "out" / "cassandra"), str(rows), str(rows * 30), "{number}",
    )  # fmt: skip
    programs = (("Cassandra", ("sed", "-n", "s/^version=//p", str(ROOT / "jvm" / "cassandra"))), ycsb.JAVA)
    needs = ("java", "javac", "mvn")
    return [Workload("cassandra", "Cassandra 5, YCSB A", command, size, 0.02, needs, sources=SOURCES, programs=programs)]
