"""What the figures' ``summary`` functions share: they make a table of ``docs/results`` of a result's rows, which are strings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

#: A row of a CSV file, by column.
Row: TypeAlias = Mapping[str, str]

#: What documents call workloads.
LABELS = {
    "rocksdb": "RocksDB",
    "cassandra": "Cassandra",
    "sqlite": "SQLite, rollback journal",
    "sqlite-wal": "SQLite, WAL",
    "gcc": "GCC",
    "mixed1": "Mixed 1",
    "mixed2": "Mixed 2",
    "postgresql": "PostgreSQL",
    "postgresql-buffers": "PostgreSQL, call paths by buffer",
    "mariadb": "MariaDB",
    "lmdb": "LMDB",
    "berkeleydb": "Berkeley DB",
}


def markdown(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table."""
    head = ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    return "\n".join(head + ["| " + " | ".join(map(str, row)) + " |" for row in rows])


def mean(cell: str) -> float:
    """The mean in a cell that ``lab.spread`` has written."""
    return float(cell.split()[0])


def percent(share: str) -> str:
    """Shares as documents have them, with a space."""
    return share.replace("%", " %")
