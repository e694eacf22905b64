"""MariaDB under sysbench's oltp_write_only, with 6 MiB of InnoDB's buffers (``sysbench.py``). It is none of the papers'."""

from __future__ import annotations

import sys
from pathlib import Path

from ..workload import Workload

DRIVER = str(Path(__file__).resolve().parent / "sysbench.py")


def workloads(quick: bool) -> list[Workload]:
    """In quick size 100,000 rows (some 25 MB) on 256 MiB, in full size 400,000 on 768 MiB."""
    rows, transactions, buffers, size = (100_000, 12_000, 6, "256M") if quick else (400_000, 60_000, 24, "768M")
    command = (
        sys.executable, DRIVER, "{}", "--rows", str(rows), "--transactions", str(transactions), "--buffers", str(buffers),
        "--seed", "{number}",
    )  # fmt: skip
    needs = ("mariadbd", "mariadb-install-db", "sysbench")
    versions = (("MariaDB", ("mariadbd", "--no-defaults", "--version")), ("sysbench", ("sysbench", "--version")))
    return [Workload("mariadb", "MariaDB, sysbench's oltp_write_only", command, size, 0.1, needs, programs=versions)]
