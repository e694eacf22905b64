"""filebench's varmail and fileserver (FAST'18, section 4) on the file systems of its Table 3 and Fig. 5.

The device is filled to 80 % with data that stay, as in the paper, and files take 15 % of what is free (14 of 96 GB there). The
paper's 900,000 files of 14 GB have 16 KB on average, so both servers have that, though filebench's fileserver has 128 KiB.

One number is fitted: writeback comes after a 36th of the files' bytes, so that about as large a share of ext4's writes are
inodes as in the paper's Table 3. With the paper's files it stands for 30 s at 13 MB a second. ext4 commits its journal six times
in between (5 s), XFS its log not at all (30 s).
"""

from __future__ import annotations

import sys
from pathlib import Path

from ..workload import Workload

DRIVER = str(Path(__file__).resolve().parent / "filebench.py")
FILL = 0.8
MIB = 1 << 20
#: Of the free space.
FILES = 0.15
#: Bytes of a file, on average.
MEAN = 16 << 10
#: Of the files' bytes, what is written from one writeback to the next.
WRITEBACK = 1 / 36
#: It runs the driver.
PROGRAMS = (("Python", (sys.executable, "--version")),)
#: Workload, file system, and how often its journal is committed for each writeback.
SERVERS = (
    ("varmail", "ext4", 6),
    ("varmail", "ext4-nojournal", 1),
    ("varmail", "xfs", 1),
    ("fileserver", "ext4", 6),
    ("fileserver", "ext4-datajournal", 6),
    ("fileserver", "xfs", 1),
)


def workloads(quick: bool) -> list[Workload]:
    """On 960 MiB, where ext4's journal has 16 MiB and XFS's log 64; in full size on 7 GiB, where both have 64."""
    size = (960 if quick else 7168) * MIB
    free = int(size * (1 - FILL))
    files = int(free * FILES)
    made = []
    for kind, fs, commits in SERVERS:
        command = (
            sys.executable, DRIVER, "{}", kind, "--files", str(files // MEAN), "--mean", str(MEAN), "--writes",
            str(6 * free), "--writeback", str(int(files * WRITEBACK)), "--commits", str(commits), "--seed", "{number}",
        )  # fmt: skip
        made.append(Workload(f"{kind}-{fs}", f"filebench's {kind}", command, f"{size // MIB}M", FILL, (), fs, programs=PROGRAMS))
    return made
