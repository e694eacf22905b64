"""What the program ``pcstream`` does with traces, called from Python: import, merge, extract, compare, advise, report.

Each function is one command of the program, and takes its flags as keyword arguments: ``assume_filled=True`` is
``--assume-filled``, ``pack=0.9`` is ``--pack 0.9``, and a list repeats the flag, or is its LIST. docs/commands has the flags.
Values have the forms that :func:`pcstream.simulate` and :class:`pcstream.Device` take, too: ``discard=False`` is
``--no-discard``, ``set={"pcstream.averaging": 0.3}`` is ``--set pcstream.averaging=0.3``, and ``background_gc=(4, 8)`` is
``--background-gc 4:8``. None and False leave a flag out; one that the command does not have is refused all the same.
No configuration file is read, unless ``config=`` names one.
Messages of the program name them as the arguments that they are here.

What the program remarks on stderr goes to the logger ``pcstream``, at the level INFO.
"""

from __future__ import annotations

import difflib
import json
import logging
import os
import re
import signal
import subprocess
import tempfile
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from . import _check, _interrupt, _remote
from ._device import watermarks
from ._errors import ESCAPES, ArgumentError, LossWarning, ProgramError
from ._options import setting
from ._record import LOSSES, error_of, find, without_configuration
from ._trace import Trace

#: Where a trace is.
Place = Trace | str | os.PathLike[str]
#: Flags that are none of these functions, and what to use.
USE_INSTEAD = {
    "force": "use overwrite=True where a function has it",
    "output": "use the argument output where a function has it",
    "json": "use what compare and advise return",
    "help": "see docs/commands",
    "version": "use pcstream.__version__",
    "color": "leave it out, because what the program says is no terminal's",
    "quiet": "leave it out; logging.getLogger('pcstream') has the remarks",
}

#: Seconds in which the program should end after Ctrl-C.
LAST_S = 5

#: Flags that take a LIST, separated by commas, once.
LISTS = ("scheme", "gc", "pools")

#: A flag that the help of a command lists. Text about one is further to the right.
LISTED = re.compile(r"^(?:  -\w, |      )--([a-z][a-z0-9-]*)", re.MULTILINE)

#: A command in backticks, which stays as it is, or a flag; not the middle of a word or path.
FLAG = re.compile(r"`[^`]*`|(?<![\w./-])--([a-z][a-z0-9-]*)")

#: What the program says of a flag that it does not know.
UNEXPECTED = re.compile(r"^error: unexpected argument '--([^']+)' found", re.MULTILINE)

LOG = logging.getLogger("pcstream")


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
    options = [f"--format={_check.text('format', format, 'the name of a format')}", *_force(overwrite)]
    return Trace(_made("import", [_check.place("source", source)], output, flags, options))


def merge(traces: Iterable[Place], output: str | os.PathLike[str], *, overwrite: bool = False, **flags: Any) -> Trace:
    """Makes one trace of several, as if their programs had shared a device: ``pcstream merge``.

    Args:
        traces: two or more.
        output: a new directory ``NAME.pctrace``.
        overwrite: replaces a trace that exists.
        flags: more flags of ``pcstream merge``, such as ``by_start=True``.
    """
    return Trace(_made("merge", _places("traces", traces), output, flags, _force(overwrite)))


def extract(trace: Place, output: str | os.PathLike[str], *, overwrite: bool = False, **flags: Any) -> Trace:
    """Makes a trace of what some files or programs wrote: ``pcstream extract``. ::

        mysql = pc.extract(trace, "mysql.pctrace", file="/var/lib/mysql/**")

    Args:
        trace: the whole.
        output: a new directory ``NAME.pctrace``.
        overwrite: replaces a trace that exists.
        flags: ``file=``, ``program=``, ``metadata=True``; one of the first two is needed. Each may be a list: a page is taken
            if it matches one of each that is given.
    """
    return Trace(_made("extract", _places("trace", [trace]), output, flags, _force(overwrite)))


def compare(*runs: Place | Iterable[Place], **flags: Any) -> dict[str, Any]:
    """What changed between runs, and whether it is more than noise: ``pcstream compare``. ::

        changes = pl.DataFrame(pc.compare(["a1.pctrace", "a2.pctrace"], ["b1.pctrace", "b2.pctrace"], pack=0.9)["changes"])

    Args:
        runs: each a trace, or several that are its repetitions.
        flags: flags of ``pcstream compare``.

    Returns:
        What ``--json`` has: ``runs`` with means and 95 % intervals, ``changes``, ``contexts``, ``remarks``.
    """
    repeated = [_places("runs", [run] if isinstance(run, (Trace, str, os.PathLike)) else run) for run in runs]
    for place in (place for places in repeated for place in places if "," in place):
        raise ArgumentError(f"runs {place!r}: a comma separates repetitions; rename the trace, or give a link without a comma")
    return _answered("compare", [",".join(places) for places in repeated], flags)


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
    # That of pathlib raises where nobody can look; the program says why nobody can write.
    if os.path.exists(place) and not _check.flag("overwrite", overwrite):
        raise ArgumentError(f"{place}: exists already; replace it with overwrite=True")
    return Path(_made("report", _places("trace", [trace]), place, flags))


def _force(overwrite: bool) -> list[str]:
    return ["--force"] if _check.flag("overwrite", overwrite) else []


def _made(
    command: str, sources: list[str], output: str | os.PathLike[str], flags: Mapping[str, Any], options: Sequence[str] = ()
) -> str:
    place = _remote.on_this_machine(output)
    _run(command, [*options, f"--output={place}"], flags, sources)
    return place


def _answered(command: str, sources: list[str], flags: Mapping[str, Any]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="pcstream-") as directory:
        place = Path(directory) / "answer.json"
        _run(command, [f"--json={place}"], flags, sources)
        answer: dict[str, Any] = json.loads(place.read_bytes())
    return answer


def _places(argument: str, traces: Iterable[Place]) -> list[str]:
    several = _check.several(argument, traces, "where traces are")
    opened = [one if isinstance(one, Trace) else Trace(one) for one in several]
    # The program reads the local copy of what a URL names.
    return [str(one.path) if "://" in one._place else one._place for one in opened]


def _flags(command: str, known: Sequence[str], flags: Mapping[str, Any]) -> list[str]:
    """``--name=value`` of each, one word, so that a value that begins with a dash is no flag; None and False leave one out.

    ``known`` are those that the help lists. The program knows more, such as other names, or has a reason to refuse one.
    """
    words = []
    for name, given in flags.items():
        flag = name.replace("_", "-")
        if flag in USE_INSTEAD:
            raise ArgumentError(f"flag {name!r}: no flag of this function; {USE_INSTEAD[flag]}")
        if flag not in known and f"no-{flag}" in known:
            if f"no_{name}" in flags:
                raise ArgumentError(f"{name} and no_{name}: expected one of them")
            words += [] if given is None or _check.flag(name, given) else [f"--no-{flag}"]
            continue
        given_words = _given(name, flag, given)
        if flag not in known and not given_words:
            # Nobody else would say so.
            raise _no_flag(command, name, known)
        words += given_words
    return words


def _given(name: str, flag: str, given: Any) -> list[str]:
    """The words of a flag; none leave it out."""
    if given is None or _check.is_flag(given):
        return [f"--{flag}"] if given else []
    return [f"--{flag}={value}" for value in _values(name, flag, given)]


def _no_flag(command: str, name: str, known: Sequence[str]) -> ArgumentError:
    return ArgumentError(f"flag {name!r}: pcstream {command} has no such flag; {_alike(name, known)}")


def _alike(name: str, known: Sequence[str]) -> str:
    """What may have been meant."""
    flags = [*known, *(flag.removeprefix("no-") for flag in known)]
    names = dict.fromkeys(flag.replace("-", "_") for flag in flags if flag not in USE_INSTEAD)
    alike = difflib.get_close_matches(name, names)
    return f"did you mean {' or '.join(alike)}?" if alike else f"expected one of {', '.join(names)}"


def _values(name: str, flag: str, given: Any) -> list[str]:
    """What a flag is given, as texts: it is repeated for each."""
    given = _check.plain(given)
    if isinstance(given, (str, os.PathLike)) or not hasattr(given, "__iter__"):
        return [os.fspath(given) if isinstance(given, os.PathLike) else str(given)]
    if isinstance(given, Mapping) and flag == "set":
        return [f"{scheme}.{parameter}={value}" for scheme, parameter, value in (setting(*one) for one in given.items())]
    expected = "True, a text, a number, or several of these"
    if isinstance(given, Mapping):
        raise ArgumentError(f"{name} {given!r}: expected {expected}")
    if flag == "background-gc":
        low, high = watermarks(name, given)
        return [f"{low}:{high}"]
    several = _check.several(name, given, expected)
    values = [os.fspath(value) if isinstance(value, os.PathLike) else str(value) for value in several]
    return [",".join(values)] if flag in LISTS else values


def _known(program: str, command: str) -> list[str]:
    """The flags that the help of a command lists."""
    words = [program, command, "--no-config", "--help"]
    asked = subprocess.run(words, capture_output=True, text=True, errors="replace", check=False)
    known = LISTED.findall(ESCAPES.sub("", asked.stdout))
    if asked.returncode != 0 or not known:
        said = error_of(asked.stderr) or "its help lists no flags"
        raise ProgramError(f"{program} {command} --help ended with {asked.returncode}: {said}")
    return known


def _run(command: str, options: Sequence[str], flags: Mapping[str, Any], sources: list[str]) -> None:
    """Runs the program. Its warning is for the caller of the function that calls the caller of this one."""
    program = find(error=ProgramError, remedy="PCSTREAM_BINARY")
    known = _known(program, command) if flags else []
    given = [*options, *_flags(command, known, flags)]
    # After the two dashes, a source that begins with a dash is no flag.
    words = [program, command, *without_configuration(given), *given, "--", *sources]
    code, stderr = _ended(words)
    stderr = ESCAPES.sub("", stderr)
    said = _with_arguments(stderr.strip())
    if code == LOSSES:
        warnings.warn(f"{command}: {said}", LossWarning, stacklevel=4)
    elif code != 0:
        unexpected = UNEXPECTED.search(stderr)
        names = [name for name in flags if unexpected and name.replace("_", "-") == unexpected[1]]
        if names:
            raise _no_flag(command, names[0], known)
        raise ProgramError(f"{program} {command} ended with {code}: {error_of(said)}")
    elif said:
        LOG.info("%s: %s", command, said)


def _ended(words: list[str]) -> tuple[int, str]:
    """Runs the program: its exit code, and what it said on stderr."""
    # A second SIGINT ends it at once. In a session of its own, it gets none from the terminal, and one from here.
    process = None
    try:
        with _interrupt.held():
            process = subprocess.Popen(
                words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True
            )
        said = process.communicate()[1]
    except BaseException:
        # Ctrl-C, or what the handler of another signal raises.
        if process is not None:
            # It removes what it has begun, unless it waits for input that does not come.
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=LAST_S)
        raise
    finally:
        if process is not None:
            with process:
                process.kill()
    return process.returncode, said


def _with_arguments(said: str) -> str:
    """What the program said, with the names of arguments instead of flags."""

    def argument(found: re.Match[str]) -> str:
        flag = found[1]
        return found[0] if flag is None else "overwrite=True" if flag == "force" else flag.replace("-", "_")

    return FLAG.sub(argument, said)
