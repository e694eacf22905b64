"""GCC: a program built again and again, a random third of the sources changed before each build (FAST'19, section 6.1).

The paper builds a Linux kernel. These sources are generated (``builds.py``), so object files are more alike.
"""

from __future__ import annotations

import sys
from pathlib import Path

from ..lab import Workload

#: Small programs that write as databases do.
SCRIPT = str(Path(__file__).resolve().parents[2] / "scripts" / "workloads")
DRIVER = str(Path(__file__).resolve().parent / "builds.py")


def command(quick: bool, directory: str = "{}") -> tuple[str, ...]:
    """The driver with its sources and objects in a directory."""
    files, functions, builds = ("24", "120", "12") if quick else ("48", "300", "30")
    return (
        sys.executable, DRIVER, directory, "--files", files, "--functions", functions, "--builds", builds,
        "--seed", "{number}",
    )  # fmt: skip


def workloads(quick: bool) -> list[Workload]:
    """In quick size 24 files are built 12 times on 32 MiB, in full size 48 larger ones 30 times on 128 MiB."""
    about = f"GCC: {'24 files, 12' if quick else '48 files, 30'} builds, a random third changed before each"
    return [Workload("gcc", about, command(quick), "32M" if quick else "128M", 0.6, ("gcc",))]
