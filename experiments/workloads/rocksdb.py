"""RocksDB under YCSB A: records are loaded, then read and updated in equal parts (FAST'19, section 6.1). Beside it RocksDB's db_bench.

``jvm/ycsb`` runs YCSB's own client, and fetches it and RocksDB's library from Maven Central at its first call. YCSB chooses records
by Zipf's law; it draws without a seed. db_bench chooses keys evenly. RocksDB's memtables, table files and levels are in proportion
to the data: a superblock of a device scaled to the recording holds about three table files; the PM963's holds 17 of RocksDB's default
size. RocksDB's LOG is kept: it alone knows the levels of tables.
"""

from __future__ import annotations

from pathlib import Path

from ..lab import Workload

ROOT = Path(__file__).resolve().parents[2]
#: What YCSB's load runs, and where it fetches and keeps that.
YCSB = ("java", "javac", "mvn")
DIRECTORY = ROOT / "experiments" / "out" / "ycsb"
#: Runs a command, and keeps the LOG of the database.
KEEP = 'kept=$1; database=$2; shift 2; "$@" && cp "$database"/LOG* "$kept"'


def keeping(command: tuple[str, ...]) -> tuple[str, ...]:
    """The command, and then its database's LOG is kept."""
    return ("sh", "-c", KEEP, "sh", "{kept}", "{}/rocksdb", *command)


def ycsb(quick: bool, operations: int, target: int | None = None) -> tuple[str, ...]:
    """YCSB A with its database in ``{}``; ``target`` operations a second, or as many as can be."""
    records = 25_000 if quick else 115_000
    pace = ("env", f"TARGET={target}") if target else ()
    return keeping((*pace, str(ROOT / "jvm" / "ycsb"), "rocksdb", str(DIRECTORY), "{}/rocksdb", str(records), str(operations)))


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
    operations = 250_000 if quick else 2_000_000
    return [
        Workload("rocksdb", "RocksDB, YCSB A", ycsb(quick, operations), size, 0.35, YCSB),
        Workload("rocksdb-bench", "RocksDB, db_bench: keys drawn evenly", db_bench(quick), size, 0.35, ("db_bench",)),
    ]
