"""PostgreSQL running pgbench, with 4 MB of buffers (``scripts/workloads postgresql``). It is none of the papers'.

The second recording gives a page of the buffer the call path that made it dirty (``--write-buffers``).
"""

from __future__ import annotations

from ..workload import ROOT, Workload

COMMAND = (str(ROOT / "scripts" / "workloads"), "postgresql", "{}")
#: pgbench is of the server's version.
PROGRAMS = (("PostgreSQL", ("pgbench", "--version")),)


def workloads(quick: bool) -> list[Workload]:
    """The same in both sizes."""
    options = ("--write-buffers", "postgresql")
    return [
        Workload("postgresql", "PostgreSQL, pgbench", COMMAND, "256M", 0.1, ("pgbench",), programs=PROGRAMS, unseeded="pgbench"),
        Workload(
            "postgresql-buffers", "PostgreSQL, pgbench, call paths by buffer", COMMAND, "256M", 0.1, ("pgbench",), options=options,
            programs=PROGRAMS, unseeded="pgbench",
        ),
    ]  # fmt: skip
