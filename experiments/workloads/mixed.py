"""Two programs at once on one file system (FAST'19, section 6.1): Mixed 1 is RocksDB and GCC, Mixed 2 is SQLite and GCC.

Builds go on until the database has ended, so both write all the time. How many there are depends on the machine.
"""

from __future__ import annotations

import shlex

from ..lab import Workload
from . import gcc, rocksdb, sqlite

#: Builds of one call of GCC's driver: it is called again with another seed.
BUILDS = 3


def together(database: tuple[str, ...], build: tuple[str, ...]) -> tuple[str, ...]:
    """Both at the same time, the second again and again until the first has ended; it fails if one fails."""
    first = shlex.join(database).replace("'{}'", "{}")
    again = shlex.join(build).replace("'{}'", "{}").replace("'{number}'", "{number}$turn")
    return (
        "sh",
        "-c",
        "cd {}; mkdir -p build; "
        f"( {first}; code=$?; touch {{}}/ended; exit $code ) & database=$!; turn=0; failed=0; "
        f"until [ -e {{}}/ended ]; do turn=$((turn + 1)); {again} || {{ failed=1; break; }}; done; "
        "wait $database || failed=1; exit $failed",
    )


def workloads(quick: bool) -> list[Workload]:
    """Both, each on a file system as large as those of its two programs."""
    build = gcc.command(quick, "{}/build", BUILDS)
    (first, first_fill), (second, second_fill) = (("256M", 0.6), ("128M", 0.5)) if quick else (("832M", 0.5), ("320M", 0.4))
    one, two = together(rocksdb.command(quick), build), together(sqlite.command(quick, "delete"), build)
    return [
        Workload("mixed1", "RocksDB and GCC at once", one, first, first_fill, ("db_bench", *gcc.needs(quick))),
        Workload("mixed2", "SQLite (TPC-C) and GCC at once", two, second, second_fill, gcc.needs(quick)),
    ]
