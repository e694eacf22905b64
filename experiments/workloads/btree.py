"""LMDB, a B-tree that copies what it changes: random updates of a steady size (``lmdb_updates.py``). It is none of the papers'."""

from __future__ import annotations

import sys
from pathlib import Path

from ..workload import Workload

DRIVER = str(Path(__file__).resolve().parent / "lmdb_updates.py")
#: The library that Python's module has.
PROGRAMS = (("LMDB", (sys.executable, "-c", "import lmdb; print(*lmdb.version(), sep='.')")),)


def workloads(quick: bool) -> list[Workload]:
    """In quick size 24 MB of rows on 96 MiB, in full size 96 MB on 384 MiB."""
    rows, transactions, size = (60_000, 8_000, "96M") if quick else (240_000, 40_000, "384M")
    command = (
        sys.executable, DRIVER, "{}", "--rows", str(rows), "--transactions", str(transactions), "--seed", "{number}",
    )  # fmt: skip
    return [Workload("lmdb", "LMDB, random updates of a B-tree", command, size, 0.3, (), modules=("lmdb",), programs=PROGRAMS)]
