"""Exceptions and warnings. Messages name the place, the value and the remedy, as the command line's do."""

from __future__ import annotations

import importlib
import re
from collections.abc import Sequence
from typing import Any


#: Colours and the like in texts for a terminal.
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
#: Packages of which older versions give wrong results without an error: the oldest that does not, and what others do.
OLDER = {"polars": ("1.10", "takes some of a table's rows for all")}


class Error(Exception):
    """Anything that pcstream refuses or cannot do."""


class ArgumentError(Error, ValueError):
    """What was asked for cannot be: an unknown scheme, a value out of range, a device that cannot be."""


class DeviceError(ArgumentError):
    """A device cannot be, as one without room for garbage collection, or cannot hold the trace. Sweeps leave such points out."""


class TraceError(Error):
    """A trace cannot be read or written."""


class TraceNotFoundError(TraceError, FileNotFoundError):
    """There is no trace at this place."""


class RemoteError(Error):
    """A place on an object store cannot be reached."""


class SimulationError(Error):
    """A simulation cannot go on: an event contradicts the device."""


class NotEnoughMemoryError(Error, MemoryError):
    """A simulation would take more memory than it may."""


class MissingPackageError(Error, ImportError):
    """An optional Python package is not installed."""


class RecordError(Error):
    """The program ``pcstream`` could not record."""


class ProgramError(Error):
    """The program ``pcstream`` refused or failed at what it was called for."""


class SweepError(Error):
    """Points of a sweep have no rows, for another reason than that they cannot be.

    Attributes:
        sweep: the :class:`pcstream.Sweep` with the rows of the other points; None if the sweep did not begin.
        failures: the :class:`pcstream.Failure` of each point without rows.
    """

    def __init__(self, text: str, sweep: Any = None, failures: Sequence[Any] = ()) -> None:
        super().__init__(text)
        self.sweep = sweep
        self.failures = failures


class PcstreamWarning(UserWarning):
    """Something that limits what a result says."""


class LossWarning(PcstreamWarning):
    """Something is missing: from the trace, or of what a scheme knew. The command line ends with exit code 3."""


class CommandWarning(PcstreamWarning):
    """The command failed that was recorded: the trace has what it wrote until then."""


class SweepWarning(LossWarning):
    """Points of a sweep cannot be, so they have no rows. The command line ends with exit code 3."""


class SizeWarning(PcstreamWarning):
    """The size of the simulated device limits what a result says: the trace writes less than it holds, or to more addresses."""


def needs(what: str, package: str, extra: str) -> None:
    """Raises how to install an optional package if it is not there, or too old; whoever calls this imports it then."""
    try:
        found = importlib.import_module(package)
    except ImportError as error:
        raise MissingPackageError(f"{what} needs the package {package}: pip install 'pcstream[{extra}]'") from error
    if package in OLDER:
        least, why = OLDER[package]
        if _release(found.__version__) < _release(least):
            older = f"{package} {found.__version__} is installed, but {why}"
            raise MissingPackageError(f"{what} needs {package} {least} or newer: {older}: pip install --upgrade 'pcstream[{extra}]'")


def _release(version: str) -> list[int]:
    """The two numbers that a version begins with, as they compare."""
    return [int(number) for number in re.findall(r"\d+", version)[:2]]


def described(error: BaseException) -> str:
    """What an error says, with its type unless it is one of this package; without the colours of a terminal."""
    text, name = ESCAPES.sub("", str(error)), type(error).__name__
    if isinstance(error, Error) and text:
        return text
    return f"{name}: {text}" if text else name
