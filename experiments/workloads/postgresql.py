"""PostgreSQL running pgbench, with 4 MB of buffers (``scripts/workloads postgresql``). It is none of the papers'.

The second recording gives a page of the buffer the call path that made it dirty (``--write-buffers``).
"""

from __future__ import annotations

from ..lab import ROOT, Workload

COMMAND = (str(ROOT / "scripts" / "workloads"), "postgresql", "{}")


def workloads(quick: bool) -> list[Workload]:
    """The same in both sizes."""
    options = ("--write-buffers", "postgresql")
    return [
        Workload("postgresql", "PostgreSQL, pgbench", COMMAND, "256M", 0.1, ("pgbench",)),
        Workload("postgresql-buffers", "PostgreSQL, pgbench, call paths by buffer", COMMAND, "256M", 0.1, ("pgbench",), options=options),
    ]
