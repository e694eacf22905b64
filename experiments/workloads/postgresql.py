"""PostgreSQL running pgbench, with 4 MB of buffers (``scripts/workloads postgresql``). It is none of the papers'."""

from __future__ import annotations

from ..lab import Workload
from .gcc import SCRIPT


def workloads(quick: bool) -> list[Workload]:
    """The same in both sizes."""
    return [Workload("postgresql", "PostgreSQL, pgbench", (SCRIPT, "postgresql", "{}"), "256M", 0.1, ("pgbench",))]
