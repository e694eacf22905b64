"""GCC: programs built again and again, a third of the sources changed before each build (FAST'19, section 6.1).

The paper builds a Linux kernel. These sources are generated (``scripts/workloads gcc``), so object files are more alike.
"""

from __future__ import annotations

from pathlib import Path

from ..lab import Workload

SCRIPT = str(Path(__file__).resolve().parents[2] / "scripts" / "workloads")


def workloads(quick: bool) -> list[Workload]:
    """Sixteen files, fourteen builds; the same in both sizes."""
    about = "GCC: 16 files, 14 builds, a third changed before each"
    return [Workload("gcc", about, (SCRIPT, "gcc", "{}"), "64M", 0.75, ("gcc",))]
