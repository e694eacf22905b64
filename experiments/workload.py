"""What is recorded: a command on a scratch file system, what it needs, and what its recording depends on."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Workload:
    """Something that writes."""

    name: str
    about: str
    #: The command; ``{}`` is the directory that it writes to, ``{kept}`` one for files that are kept beside the recording.
    command: tuple[str, ...]
    #: Of the scratch file system, with its unit.
    size: str
    #: Share of the file system that is full before it begins.
    fill: float
    #: Programs that it runs, and patterns of files that it reads, from the root.
    needs: tuple[str, ...]
    fs: str = "ext4"
    #: Of Python.
    modules: tuple[str, ...] = ()
    #: More flags of ``pcstream record``.
    options: tuple[str, ...] = ()
    #: What its scripts compile.
    sources: tuple[Path, ...] = ()
    #: Names of programs whose versions count, and for each the command that prints it.
    programs: tuple[tuple[str, tuple[str, ...]], ...] = ()
    #: Which of them draws without a seed; all else has the number of the recording as its seed.
    unseeded: str = ""

    def missing(self) -> list[str]:
        """Programs, files and modules that it needs and this machine lacks."""
        modules = [f"Python's module {name}" for name in self.modules if importlib.util.find_spec(name) is None]
        return [name for name in self.needs if not is_there(name)] + modules

    def words(self, number: int, kept: Path) -> list[str]:
        """The command of a recording; ``{}`` is still in it."""
        return [word.replace("{number}", str(number)).replace("{kept}", str(kept)) for word in self.command]

    def digest(self, number: int) -> str:
        """Of all that a recording depends on; where this checkout and Python lie is not part of it."""
        command = [word.replace(sys.executable, "python").replace(str(ROOT), "ROOT") for word in self.command]
        parts = [command, self.size, self.fill, self.fs, self.options, self.code(), number]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:10]

    def code(self) -> list[str]:
        """Digests of what it runs of this repository: scripts that the command names, also within one of the shell, and sources."""
        words = (word for part in self.command for word in shlex.split(part))
        scripts = [Path(word) for word in words if os.path.isabs(word) and word != sys.executable]
        return [hashlib.sha256(file.read_bytes()).hexdigest() for file in (*scripts, *self.sources) if file.is_file()]


def is_there(need: str) -> bool:
    """Whether this machine has a program, or a file of a pattern from the root."""
    return any(Path("/").glob(need[1:])) if need.startswith("/") else shutil.which(need) is not None
