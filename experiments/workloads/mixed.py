"""Two programs at once on one file system (FAST'19, section 6.1): Mixed 1 is RocksDB and GCC, Mixed 2 is SQLite and GCC."""

from __future__ import annotations

import shlex

from ..lab import Workload
from . import gcc, rocksdb, sqlite


def together(*commands: tuple[str, ...]) -> tuple[str, ...]:
    """All of them at the same time; it fails if one fails."""
    lines = [shlex.join(command).replace("'{}'", "{}") for command in commands]
    waits = "".join(f"{line} & pids=\"$pids $!\"; " for line in lines)
    return ("sh", "-c", f"cd {{}}; mkdir -p build; {waits} for pid in $pids; do wait $pid || exit 1; done")


def workloads(quick: bool) -> list[Workload]:
    """Both, each on a file system as large as those of its two programs."""
    build = gcc.command(quick, "{}/build")
    (first, first_fill), (second, second_fill) = (("256M", 0.6), ("128M", 0.5)) if quick else (("832M", 0.5), ("320M", 0.4))
    one, two = together(rocksdb.command(quick), build), together(sqlite.command(quick, "delete"), build)
    return [
        Workload("mixed1", "RocksDB and GCC at once", one, first, first_fill, ("db_bench", *gcc.needs(quick))),
        Workload("mixed2", "SQLite (TPC-C) and GCC at once", two, second, second_fill, gcc.needs(quick)),
    ]
