"""Rules of the scheme ``manual`` for a recording: RocksDB's tables by level, where its LOG was kept beside the recording.

The level of a table is neither in its path nor in its call path (FAST'19, section 4.1). A workload with RocksDB copies its LOG
to ``{kept}``, and ``pcstream rules`` makes rules from it: the journal is S1, the write-ahead log S2, a table of level n is S3+n.
With four levels that are six streams, the number up to which the paper's IOPS rise (section 2.2). GCC's classes follow on the
next streams where GCC wrote, too.
"""

from __future__ import annotations

import functools
import re
import subprocess
from pathlib import Path
from typing import NamedTuple

import pcstream as pc
from pcstream._record import find

#: Stream of level 0 in rules that ``pcstream rules --rocksdb-log`` makes.
LEVEL_0 = 3
#: Part of a table's path.
TABLE = ".sst"


class Rules(NamedTuple):
    """Rules for a recording."""

    path: Path
    #: What ``pcstream rules`` said, if it could not read all events of the LOG; else nothing.
    lost: str
    #: Tables of the recording that no rule names.
    without: int


def kept(recording: Path) -> Path:
    """Where files that a workload keeps lie: beside its recording."""
    return recording.with_suffix(".kept")


def has_tables(trace: pc.Trace) -> bool:
    """Whether RocksDB wrote."""
    return any(str(path).endswith(TABLE) for path in trace.files().to_arrow()["path"].to_pylist())


def rules_of(trace: pc.Trace) -> Rules | None:
    """None without a LOG, and then the presets are all there is."""
    logs = tuple(sorted(kept(trace.path).glob("LOG*")))
    return _written(logs, trace.path) if logs else None


def levels_of(rules: Path) -> dict[str, int]:
    """The level at which each table was written, by the table's name."""
    levels = {}
    for numbers, stream in re.findall(r"^name=\{([\d,]+)\}\.sst -> (\d+)$", rules.read_text(), re.MULTILINE):
        levels.update({f"{number}{TABLE}": int(stream) - LEVEL_0 for number in numbers.split(",")})
    return levels


@functools.cache
def _written(logs: tuple[Path, ...], recording: Path) -> Rules:
    trace = pc.open(recording)
    text, lost = _printed("--rocksdb-log", *map(str, logs))
    if _has_gcc(trace):
        preset, _ = _printed("gcc")
        text += "\n" + after(preset, max(map(int, re.findall(r"-> (\d+)$", text, re.MULTILINE))))
    path = kept(recording) / "manual.rules"
    path.write_text(text)
    return Rules(path, lost, len(_tables(trace) - levels_of(path).keys()))


def _tables(trace: pc.Trace) -> set[str]:
    """Names of the tables of which the recording has events."""
    files = trace.files().to_arrow()
    there = set(trace.events().to_arrow()["file"].unique().to_pylist())
    paths = zip(files["file"].to_pylist(), files["path"].to_pylist(), strict=True)
    return {Path(str(path)).name for file, path in paths if file in there and str(path).endswith(TABLE)}


def after(preset: str, last: int) -> str:
    """A preset on the streams after ``last``, less its line about the journal, whose stream comes first in every preset."""
    lines = [line for line in preset.splitlines() if not line.startswith("kind=journal ")]
    return re.sub(r"-> (\d+)$", lambda found: f"-> {int(found[1]) - 1 + last}", "\n".join(lines) + "\n", flags=re.MULTILINE)


def _has_gcc(trace: pc.Trace) -> bool:
    return any(Path(str(name)).name == "cc1" for name in trace.contexts().to_arrow()["executable"].to_pylist())


def _printed(*words: str) -> tuple[str, str]:
    """Rules, and what was said of what they lack."""
    program = find()
    done = subprocess.run([program, "rules", "--no-config", *words], capture_output=True, text=True, check=False)
    # 3: events of the log could not be read; their tables have no rule and go to S0.
    if done.returncode not in (0, 3):
        raise pc.RecordError(f"{program} rules ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout, "; ".join(done.stderr.strip().splitlines()) if done.returncode else ""
