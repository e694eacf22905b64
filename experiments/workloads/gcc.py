"""GCC: a program built again and again, a random third of the sources changed before each build (FAST'19, section 6.1).

In full size it is a Linux kernel, as in the paper, in its smallest configuration (``kernel.py``). In quick size sources are generated
(``builds.py``), so object files are more alike.
"""

from __future__ import annotations

import sys
from pathlib import Path

from ..workload import ROOT, Workload
from .kernel import PACKED

HERE = Path(__file__).resolve().parent
#: Where the kernel's sources are unpacked, for all recordings.
SOURCES = ROOT / "experiments" / "out" / "sources"
#: The program that puts the kernel's image together: the last one to write in a build.
LAST = "build"
KERNEL = ("gcc", "make", "flex", "bison", "bc", PACKED)


def command(quick: bool, directory: str = "{}", builds: int | None = None) -> tuple[str, ...]:
    """The driver with its objects in a directory, the generated sources too."""
    if quick:
        driver, settings = "builds.py", ("--files", "24", "--functions", "120", "--builds", str(builds or 12))
    else:
        driver, settings = "kernel.py", ("--builds", str(builds or 30), "--sources", str(SOURCES), "--compiler", str(HERE / "cc"))
    return (sys.executable, str(HERE / driver), directory, *settings, "--seed", "{number}")


def needs(quick: bool) -> tuple[str, ...]:
    """What :func:`command` runs and reads."""
    return ("gcc",) if quick else KERNEL


def programs(quick: bool) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """What :func:`command` runs, and the sources that it builds: their version is that of Debian's package."""
    compiler = ("GCC", ("gcc", "-dumpfullversion"))
    sources = ("sources of Linux", ("dpkg-query", "--show", "--showformat=${Version}", "linux-source"))
    return (compiler,) if quick else (compiler, sources)


def workloads(quick: bool) -> list[Workload]:
    """In quick size 24 files are built 12 times on 32 MiB, in full size a kernel of 470 files (40 MB built) 30 times on 128 MiB."""
    about = f"GCC: {'24 files, 12' if quick else 'a Linux kernel, 30'} builds, a random third changed before each"
    return [Workload("gcc", about, command(quick), "32M" if quick else "128M", 0.6 if quick else 0.5, needs(quick), programs=programs(quick))]
