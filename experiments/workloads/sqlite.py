"""SQLite running TPC-C (FAST'19, section 6.1), with its rollback journal and with a write-ahead log."""

from __future__ import annotations

import sys
from pathlib import Path

from ..workload import Workload

DRIVER = str(Path(__file__).resolve().parent / "tpcc.py")
#: The library that Python has.
PROGRAM = ("SQLite", (sys.executable, "-c", "import sqlite3; print(sqlite3.sqlite_version)"))


def command(quick: bool, journal: str, transactions: int | None = None, rate: int | None = None) -> tuple[str, ...]:
    """The driver with its database in ``{}``; ``rate`` transactions a second, or as many as can be."""
    scale, usual = ("0.3", 12_000) if quick else ("1", 60_000)
    pace = ("--rate", str(rate)) if rate else ()
    return (
        sys.executable, DRIVER, "{}/tpcc.db", "--scale", scale, "--transactions", str(transactions or usual), "--journal", journal,
        "--seed", "{number}", *pace,
    )  # fmt: skip


def workloads(quick: bool) -> list[Workload]:
    """A warehouse of a third of TPC-C's size on 64 MiB, or a whole one on 192 MiB, 256 MiB with a log."""
    # The log grows while a checkpoint cannot end.
    journals = (
        ("sqlite", "delete", "rollback journal", "64M" if quick else "192M", 0.3),
        ("sqlite-wal", "wal", "write-ahead log", "64M" if quick else "256M", 0.15),
    )
    return [
        Workload(name, f"SQLite, TPC-C, {about}", command(quick, journal), size, fill, (), programs=(PROGRAM,))
        for name, journal, about, size, fill in journals
    ]
