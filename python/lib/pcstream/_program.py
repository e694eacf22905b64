"""What the program ``pcstream`` does with traces, called from Python: import, merge, extract, compare, advise, report.

Each function is one command of the program, and takes its flags as keyword arguments: ``assume_filled=True`` is
``--assume-filled``, ``pack=0.9`` is ``--pack 0.9``, and a list repeats the flag. docs/command-line.md has the flags.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from . import _check, _remote
from ._errors import ArgumentError, LossWarning, ProgramError
from ._record import LOSSES, find
from ._trace import Trace

#: Where a trace is.
Place = Trace | str | os.PathLike[str]


def import_trace(
    source: str | os.PathLike[str], output: str | os.PathLike[str], *, format: str, overwrite: bool = False, **flags: Any
) -> Trace:
    """Makes a trace of a public block trace: ``pcstream import``. ::

        trace = pc.import_trace("src1_0.csv", "src1.pctrace", format="msr", assume_filled=True)

    Args:
        source: the text file.
        output: a new directory ``NAME.pctrace``.
        format: ``"msr"``, ``"alibaba"``, ``"fio"``, ...; docs/importing.md has all.
        overwrite: replaces a trace that exists.
        flags: more flags of ``pcstream import``.

    Raises:
        ProgramError: it was refused, or failed; the message is what the program said.

    Warns:
        LossWarning: with ``skip_bad_lines=True``, lines were left out; the message says which.
    """
    words = [_check.path("source", source), "--format", _check.text("format", format, "the name of a format")]
    return _made("import", words, output, overwrite, flags)


def merge(traces: Iterable[Place], output: str | os.PathLike[str], *, overwrite: bool = False, **flags: Any) -> Trace:
    """Makes one trace of several, as if their programs had shared a device: ``pcstream merge``.

    Args:
        traces: two or more.
        output: a new directory ``NAME.pctrace``.
        overwrite: replaces a trace that exists.
        flags: more flags of ``pcstream merge``, such as ``by_start=True``.
    """
    return _made("merge", _places("traces", traces), output, overwrite, flags)


def extract(trace: Place, output: str | os.PathLike[str], *, overwrite: bool = False, **flags: Any) -> Trace:
    """Makes a trace of what some files or programs wrote: ``pcstream extract``. ::

        mysql = pc.extract(trace, "mysql.pctrace", file="/var/lib/mysql/**")

    Args:
        trace: the whole.
        output: a new directory ``NAME.pctrace``.
        overwrite: replaces a trace that exists.
        flags: ``file=``, ``program=``, ``metadata=True``; one of the first two is needed.
    """
    return _made("extract", _places("trace", [trace]), output, overwrite, flags)


def compare(*runs: Place | Sequence[Place], **flags: Any) -> dict[str, Any]:
    """What changed between runs, and whether it is more than noise: ``pcstream compare``. ::

        changes = pl.DataFrame(pc.compare(["a1.pctrace", "a2.pctrace"], ["b1.pctrace", "b2.pctrace"], pack=0.9)["changes"])

    Args:
        runs: each a trace, or a list of its repetitions.
        flags: flags of ``pcstream compare``.

    Returns:
        What ``--json`` has: ``runs`` with means and 95 % intervals, ``changes``, ``contexts``, ``remarks``.
    """
    words = [",".join(_places("runs", [run] if isinstance(run, (Trace, str, os.PathLike)) else run)) for run in runs]
    return _answered("compare", words, flags)


def advise(trace: Place, **flags: Any) -> dict[str, Any]:
    """What to change, and what exactly that would save: ``pcstream advise``.

    Args:
        trace: the trace.
        flags: flags of ``pcstream advise``.

    Returns:
        What ``--json`` has: ``changes``, most gain first.
    """
    return _answered("advise", _places("trace", [trace]), flags)


def report(trace: Place, output: str | os.PathLike[str], *, overwrite: bool = False, **flags: Any) -> Path:
    """Makes one HTML file with pictures and tables: ``pcstream report``. Returns where it is.

    Args:
        trace: the trace.
        output: the file.
        overwrite: replaces a file that exists.
        flags: flags of ``pcstream report``.
    """
    place = Path(_remote.on_this_machine(output))
    if place.exists() and not _check.flag("overwrite", overwrite):
        raise ArgumentError(f"{place}: exists already; replace it with overwrite=True")
    _run(["report", *_places("trace", [trace]), "-o", str(place), *_flags(flags)])
    return place


def _made(command: str, words: list[str], output: str | os.PathLike[str], overwrite: bool, flags: Mapping[str, Any]) -> Trace:
    place = _remote.on_this_machine(output)
    force = ["--force"] if _check.flag("overwrite", overwrite) else []
    _run([command, *words, "-o", place, *force, *_flags(flags)])
    return Trace(place)


def _answered(command: str, words: list[str], flags: Mapping[str, Any]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="pcstream-") as directory:
        place = Path(directory) / "answer.json"
        _run([command, *words, "--json", str(place), *_flags(flags)])
        answer: dict[str, Any] = json.loads(place.read_text())
    return answer


def _places(argument: str, traces: Iterable[Place]) -> list[str]:
    several = _check.several(argument, traces, "where traces are")
    return [(one if isinstance(one, Trace) else Trace(one))._place for one in several]


def _flags(flags: Mapping[str, Any]) -> list[str]:
    """``--name value`` of each; None and False leave one out."""
    words = []
    for name, given in flags.items():
        flag = "--" + name.replace("_", "-")
        if given is True:
            words.append(flag)
        elif given is not None and given is not False:
            values = given if isinstance(given, (list, tuple)) else [given]
            # One word, so that a value that begins with a dash is none of its own.
            words += [f"{flag}={os.fspath(value) if isinstance(value, os.PathLike) else value}" for value in values]
    return words


def _run(words: list[str]) -> None:
    program = find()
    ended = subprocess.run([program, *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace")
    said = ended.stderr.strip().replace("--force", "overwrite=True")
    if ended.returncode == LOSSES:
        warnings.warn(f"{words[0]}: {said}", LossWarning, stacklevel=4)
    elif ended.returncode != 0:
        error = said[max(said.rfind("error: "), 0) :]
        raise ProgramError(f"{program} {words[0]} ended with {ended.returncode}: {error}")
