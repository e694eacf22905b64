"""RocksDB under YCSB A (FAST'19, section 6.1), and beside it RocksDB's own db_bench, which chooses keys evenly.

RocksDB's memtables, table files and levels are in proportion to the data: a superblock of a device scaled to the recording holds about
three table files; the PM963's holds 16 of RocksDB's default size. RocksDB's LOG is kept: it alone knows the levels of tables.
"""

from __future__ import annotations

from ..workload import Workload
from . import ycsb

PROGRAMS = (ycsb.ROCKSDB, ycsb.YCSB, ycsb.JAVA)
DB_BENCH = (("RocksDB", ("db_bench", "--version")),)
#: Runs a command, and keeps the LOG of the database.
KEEP = 'kept=$1; database=$2; shift 2; "$@" && cp "$database"/LOG* "$kept"'


def keeping(command: tuple[str, ...]) -> tuple[str, ...]:
    """The command, and then its database's LOG is kept."""
    return ("sh", "-c", KEEP, "sh", "{kept}", "{}/rocksdb", *command)


def ycsb_a(quick: bool, operations: int | None = None, target: int | None = None) -> tuple[str, ...]:
    """YCSB A with its database in ``{}``; ``target`` operations a second, or as many as can be."""
    return keeping(ycsb.command("rocksdb", "{}/rocksdb", quick, operations, target))


def db_bench(quick: bool) -> tuple[str, ...]:
    """db_bench with its database in ``{}``: load, overwrite, then reads and updates in equal parts."""
    keys = 70_000 if quick else 300_000
    value = 400
    database = keys * (value + 16)
    return keeping((
        "db_bench", "--db={}/rocksdb", "--benchmarks=fillrandom,overwrite,readrandomwriterandom", f"--num={keys}",
        f"--value_size={value}", f"--write_buffer_size={database // 64}", f"--target_file_size_base={database // 256}",
        f"--max_bytes_for_level_base={database // 32}", "--max_background_jobs=2", "--compression_type=none",
        "--readwritepercent=50", f"--reads={keys * 4}", f"--writes={keys * 2}", "--seed={number}", "--stats_interval=-1",
    ))  # fmt: skip


def workloads(quick: bool) -> list[Workload]:
    """In quick size 27 MB of data on 192 MiB, in full size 125 MB on 768 MiB."""
    size = "192M" if quick else "768M"
    return [
        Workload("rocksdb", "RocksDB, YCSB A", ycsb_a(quick), size, 0.35, ycsb.NEEDS, sources=ycsb.SOURCES, programs=PROGRAMS, unseeded="YCSB"),
        Workload("rocksdb-bench", "RocksDB, db_bench: keys drawn evenly", db_bench(quick), size, 0.35, ("db_bench",), programs=DB_BENCH),
    ]
