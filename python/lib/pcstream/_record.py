"""Recording, by the program ``pcstream``: a capture needs root and BPF, which a Python process should not have."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import warnings
from collections.abc import Sequence
from pathlib import Path

from ._errors import ArgumentError, LossWarning, RecordError
from ._trace import Trace

#: Exit code of the program for a trace that lacks something.
LOSSES = 3


def record(
    command: Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    *,
    on: str | os.PathLike[str] = "scratch:8G",
    overwrite: bool = False,
    options: Sequence[str] = (),
    binary: str | os.PathLike[str] | None = None,
) -> Trace:
    """Records what a command writes, and who: ``pcstream record``.

    Args:
        command: the command; ``{}`` in it is the mount point of the scratch file system.
        output: where the trace goes, a new directory ``NAME.pctrace``.
        on: ``"scratch:SIZE"`` for a file system on a scratch device, or a directory of an existing one.
        overwrite: replaces a trace that exists.
        options: more flags of ``pcstream record``, such as ``["--fs", "xfs"]``.
        binary: the program; by default PCSTREAM_BINARY, else ``pcstream`` on the PATH.

    Raises:
        RecordError: it could not record; the message is what it said.

    Warns:
        LossWarning: the trace lacks something; the message says what.
    """
    arguments = arguments_of(command, output, on, overwrite, options)
    program = find(binary)
    process = subprocess.Popen([program, *arguments], stderr=subprocess.PIPE, text=True)
    try:
        _, said = process.communicate()
    except KeyboardInterrupt:
        # It takes its scratch device down on the way out.
        process.send_signal(signal.SIGINT)
        process.communicate()
        raise
    if process.returncode == LOSSES:
        warnings.warn(said.strip(), LossWarning, stacklevel=2)
    elif process.returncode != 0:
        raise RecordError(f"{program} record ended with {process.returncode}: {said.strip()}")
    return Trace(output)


def arguments_of(
    command: Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    on: str | os.PathLike[str],
    overwrite: bool,
    options: Sequence[str],
) -> list[str]:
    """The arguments of the program."""
    if isinstance(command, (str, bytes)) or not command:
        raise ArgumentError(f"command {command!r}: expected a list of words, as in ['db_bench', '--db={{}}/db']")
    place = os.fspath(on)
    scratch, colon, size = place.partition(":")
    where = ["--size", size] if scratch == "scratch" and colon else ["--on", place]
    if place == "scratch":
        where = []
    force = ["--force"] if overwrite else []
    words = [os.fspath(word) for word in command]
    return ["record", "-o", os.fspath(output), *where, *force, *options, "--", *words]


def find(binary: str | os.PathLike[str] | None = None) -> str:
    """Where the program is."""
    given = binary or os.environ.get("PCSTREAM_BINARY")
    found = shutil.which(given or "pcstream")
    if found is None:
        where = f"{Path(given)}: no such program" if given else "pcstream is not on the PATH"
        raise RecordError(f"{where}; install it (make install), or say where it is with binary= or PCSTREAM_BINARY")
    return found
