"""Two programs at once on one file system (FAST'19, section 6.1): Mixed 1 is RocksDB and GCC, Mixed 2 is SQLite and GCC.

The database is paced, so that it and the builds write about as much. Builds go on until the database has ended; how many there are
depends on the machine.
"""

from __future__ import annotations

import shlex

from ..workload import Workload
from . import gcc, rocksdb, sqlite, ycsb

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
    """Both, each on a file system as large as those of its two programs: a minute in quick size, fourteen minutes in full size."""
    build = gcc.command(quick, "{}/build", BUILDS)
    if quick:
        first, second = rocksdb.ycsb_a(quick, 60_000, target=1_000), sqlite.command(quick, "delete", 1_200, rate=20)
    else:
        first, second = rocksdb.ycsb_a(quick, 240_000, target=300), sqlite.command(quick, "delete", 8_000, rate=10)
    (one, one_fill), (two, two_fill) = (("256M", 0.6), ("128M", 0.5)) if quick else (("832M", 0.5), ("320M", 0.4))
    needs = (*ycsb.NEEDS, *gcc.needs(quick))
    builds = gcc.programs(quick)
    return [
        Workload("mixed1", "RocksDB (YCSB A) and GCC at once", together(first, build), one, one_fill, needs, sources=ycsb.SOURCES, programs=(*rocksdb.PROGRAMS, *builds), unseeded="YCSB"),
        Workload("mixed2", "SQLite (TPC-C) and GCC at once", together(second, build), two, two_fill, gcc.needs(quick), programs=(sqlite.PROGRAM, *builds)),
    ]
