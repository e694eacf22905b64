"""Recording, by the program ``pcstream``: a capture needs root and BPF, which a Python process should not have."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from . import _check, _interrupt, _remote
from ._errors import ArgumentError, CommandWarning, Error, LossWarning, RecordError
from ._temporary import Temporary
from ._trace import Trace

#: Exit code of the program for a trace that lacks something.
LOSSES = 3
#: Seconds for what the program said last. Daemons of the command may hold its stderr for ever.
LAST_WORDS_S = 0.5
#: An error. What its parser of arguments says after an empty line is for people at a shell.
ERROR = re.compile(r"^error: .*?(?=\n\n|\nerror: |\s*\Z)", re.MULTILINE | re.DOTALL)


def record(
    command: Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str] | None = None,
    *,
    on: str | os.PathLike[str] = "scratch:8G",
    overwrite: bool = False,
    options: Sequence[str] = (),
    binary: str | os.PathLike[str] | None = None,
) -> Trace:
    """Records what a command writes, and who: ``pcstream record``.

    Args:
        command: the command; ``{}`` in it is the mount point of the scratch file system.
        output: where the trace goes, a new directory ``NAME.pctrace``; by default a temporary one, which is deleted with the
            object that is returned, or at the end of the process.
        on: ``"scratch:SIZE"`` for a file system on a scratch device, or a directory of an existing one.
        overwrite: replaces a trace that exists.
        options: more flags of ``pcstream record``, such as ``["--fs", "xfs"]``. No configuration file is read, unless
            ``--config`` names one.
        binary: the program; by default PCSTREAM_BINARY, else ``pcstream`` on the PATH.

    What the program and the command say on stderr is passed on.

    Raises:
        RecordError: it could not record; the message is what it said. Where it failed later, as with a scratch file system
            that stays busy, the trace is there, and the message says where.

    Warns:
        LossWarning: the trace lacks something; the message says what.
        CommandWarning: the command failed; the trace has what it wrote.
    """
    temporary = None
    if output is None:
        temporary = Temporary("pcstream-record-")
        output = Path(temporary.name) / "recording.pctrace"
    arguments = arguments_of(command, output, on, overwrite, options)
    program, before = find(binary), _version(output)
    code, said = _run([program, *arguments])
    trace = Trace(output) if code in (0, LOSSES) or _version(output) not in (None, before) else None
    failure = failure_of(trace.meta) if trace else None
    if trace is None or (failure is None and code not in (0, LOSSES)):
        error = error_of(said).replace("replace it with --force", "replace it with overwrite=True")
        if "--size" in error:
            error += '; --size is the SIZE of on="scratch:SIZE"'
        if trace is not None:
            # Such as a scratch file system that stays busy, after the recording.
            error += f"; the trace is in {output}"
            if temporary is not None:
                temporary.keep()
        raise RecordError(f"{program} record ended with {code}: {error}")
    trace._kept_alive = temporary
    lost = ", ".join(f"{cause} {count}" for cause, count in trace.meta["losses"].items() if count)
    if lost:
        warnings.warn(f"{trace._given}: something was lost when it was recorded: {lost}", LossWarning, stacklevel=2)
    if failure is not None:
        text = f"{trace._given}: the recorded command failed, {failure}; the trace has what it wrote until then"
        warnings.warn(text, CommandWarning, stacklevel=2)
    return trace


def _run(words: list[str]) -> tuple[int, str]:
    """Runs the program: its exit code, and what it and its command said on stderr, which is passed on at once."""
    process = reader = None
    said: list[str] = []
    try:
        with _interrupt.held():
            process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, errors="replace")
            # Where a daemon of the command holds the pipe, this thread passes on what it says later.
            reader = threading.Thread(target=_pass_on, args=(process.stderr, said), daemon=True)
            reader.start()
        process.wait()
    except BaseException:
        # Ctrl-C, or what the handler of another signal raises.
        if process is not None:
            # It takes its scratch device down on the way out.
            process.send_signal(signal.SIGINT)
            process.wait()
        raise
    finally:
        if reader is not None:
            reader.join(LAST_WORDS_S)
    return process.returncode, "".join(said)


def _pass_on(pipe: IO[str], said: list[str]) -> None:
    with pipe:
        for line in pipe:
            sys.stderr.write(line)
            said.append(line)


def _version(output: str | os.PathLike[str]) -> tuple[int, int] | None:
    """What tells a new trace from the one that was there."""
    try:
        status = (Path(output) / "meta.json").stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def failure_of(meta: Mapping[str, Any]) -> str | None:
    """How the recorded command failed, if it did."""
    ended = meta.get("exit")
    if ended is None or ended["code"] == 0:
        return None
    return f"exit status {ended['code']}" if ended["signal"] is None else f"signal {ended['signal']}"


def error_of(said: str) -> str:
    """The program's own error, which comes last: errors of a command that it ran come before it."""
    errors = ERROR.findall(said)
    return errors[-1] if errors else said.strip()


def arguments_of(
    command: Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    on: str | os.PathLike[str],
    overwrite: bool,
    options: Sequence[str],
) -> list[str]:
    """The arguments of the program."""
    if isinstance(command, (str, bytes)) or not isinstance(command, Sequence) or not command:
        raise ArgumentError(f"command {command!r}: expected a list of words, as in ['db_bench', '--db={{}}/db']")
    place = _check.place("on", on)
    scratch, colon, size = place.partition(":")
    where = ["--size", size] if scratch == "scratch" and colon else ["--on", place]
    if place == "scratch":
        where = []
    force = ["--force"] if _check.flag("overwrite", overwrite) else []
    output = _remote.on_this_machine(output)
    flags = [_check.text("options", flag, "flags") for flag in _check.several("options", options, "a list of flags")]
    if any(flag == "--on" or flag.startswith("--on=") for flag in flags):
        raise ArgumentError("options: --on is given as on=; several devices have several traces: run `pcstream record` itself")
    words = [_check.path("command", word) for word in command]
    return ["record", *without_configuration(flags), "-o", output, *where, *force, *flags, "--", *words]


def without_configuration(flags: Sequence[str]) -> list[str]:
    """What keeps the configuration of a user out of a script, unless its flags name one."""
    named = any(flag.split("=")[0] in ("--config", "--no-config") for flag in flags)
    return [] if named else ["--no-config"]


def find(
    binary: str | os.PathLike[str] | None = None, error: type[Error] = RecordError, remedy: str = "binary= or PCSTREAM_BINARY"
) -> str:
    """Where the program is; raises ``error`` with the remedy if it is nowhere."""
    given = (_check.path("binary", binary) if binary else None) or os.environ.get("PCSTREAM_BINARY")
    found = shutil.which(given or "pcstream")
    if found is None:
        where = f"{Path(given)}: no such program" if given else "pcstream is not on the PATH"
        raise error(f"{where}; install it (make install), or say where it is with {remedy}")
    return found
