"""RocksDB by db_bench: keys are loaded, then read and updated in equal parts, as in YCSB A (FAST'19, section 6.1).

A superblock of a device scaled to the recording holds about three table files; the PM963's holds 17 of RocksDB's default size.
Keys are chosen evenly, where YCSB A has a Zipf distribution. RocksDB's LOG is kept: it alone knows the levels of tables.
"""

from __future__ import annotations

from ..lab import Workload


#: Runs a command, and keeps the LOG of the database.
KEEP = 'kept=$1; database=$2; shift 2; "$@" && cp "$database"/LOG* "$kept"'


def command(quick: bool) -> tuple[str, ...]:
    """db_bench with its database in ``{}``."""
    keys = 70_000 if quick else 300_000
    value = 400
    database = keys * (value + 16)
    return (
        "sh", "-c", KEEP, "sh", "{kept}", "{}/rocksdb",
        "db_bench", "--db={}/rocksdb", "--benchmarks=fillrandom,overwrite,readrandomwriterandom", f"--num={keys}",
        f"--value_size={value}", f"--write_buffer_size={database // 64}", f"--target_file_size_base={database // 256}",
        f"--max_bytes_for_level_base={database // 32}", "--max_background_jobs=2", "--compression_type=none",
        "--readwritepercent=50", f"--reads={keys * 4}", f"--writes={keys * 2}", "--seed={number}", "--stats_interval=-1",
    )  # fmt: skip


def workloads(quick: bool) -> list[Workload]:
    """In quick size 28 MB of data on 192 MiB, in full size 125 MB on 768 MiB."""
    about = "RocksDB, db_bench: load, overwrite, then reads and updates in equal parts"
    size = "192M" if quick else "768M"
    return [Workload("rocksdb", about, command(quick), size, 0.35, ("db_bench",))]
