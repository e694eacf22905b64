"""YCSB's workload A by YCSB's own client (``jvm/ycsb``), for stores that a JVM holds. Its first call fetches the client and the stores.

Records of 1 KB are loaded, then read and updated in equal parts. Zipf's law chooses them; YCSB draws without a seed.
"""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: What the script runs.
NEEDS = ("java", "javac", "mvn")
#: Where it keeps what it fetches.
DIRECTORY = ROOT / "experiments" / "out" / "ycsb"
#: What it compiles: YCSB's operations on a store, and the stores.
SOURCES = tuple(sorted((ROOT / "jvm" / "src" / "ycsb").rglob("*.java")))


#: What the script states, and Java.
YCSB = ("YCSB", ("sed", "-n", "s/^core=//p", str(ROOT / "jvm" / "ycsb")))
ROCKSDB = ("RocksDB", ("sed", "-n", "s/^rocksdb=//p", str(ROOT / "jvm" / "ycsb")))
BERKELEYDB = ("Berkeley DB", ("sed", "-n", "s/^je=//p", str(ROOT / "jvm" / "ycsb")))
JAVA = ("Java", ("java", "--version"))


def records(quick: bool) -> int:
    """27 MB of data in quick size, 125 MB in full size."""
    return 25_000 if quick else 115_000


def operations(quick: bool) -> int:
    """Of a run that is not paced."""
    return 250_000 if quick else 2_000_000


def command(store: str, directory: str, quick: bool, count: int | None = None, target: int | None = None) -> tuple[str, ...]:
    """``store`` in ``directory``: ``count`` operations, ``target`` a second, or as many as can be."""
    pace = ("env", f"TARGET={target}") if target else ()
    script = (*pace, str(ROOT / "jvm" / "ycsb"), store, str(DIRECTORY), directory)
    return (*script, str(records(quick)), str(count or operations(quick)))
