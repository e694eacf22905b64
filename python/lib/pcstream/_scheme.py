"""Placement schemes: the registered ones, and those that are written in Python."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import _check, _pcstream
from ._errors import ArgumentError, described, needs

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: Operations by the numbers that batches hold.
OPS = ("write", "discard", "read", "flush", "write_zeroes", "exit")
#: Kinds of pages by the numbers that batches hold.
KINDS = ("data", "journal", "inode", "directory", "bitmap", "other")
#: Hints on lifetimes by the numbers that batches hold.
HINTS = ("not_set", "none", "short", "medium", "long", "extreme")


@dataclass(frozen=True)
class Batch:
    """Up to some thousand events in the order of time, as NumPy arrays of equal length that cannot be written.

    Attributes:
        time_ns: nanoseconds since the trace began.
        lba: first page on the device.
        pages: number of pages.
        context: id of the writer in ``trace.contexts()``; 0 is unknown.
        file: id in ``trace.files()``; 0 is unknown.
        file_page: index of the first page within the file.
        op: index into :data:`pcstream.OPS`; 0 is a write.
        kind: index into :data:`pcstream.KINDS`; 0 is file data.
        hint: index into :data:`pcstream.HINTS`: what the program said of the data's lifetime; 0 is nothing.
        write_stream: the write stream that the program asked for; 0 is none.
        now: pages that the host wrote before the first event.
    """

    time_ns: NDArray[np.uint64]
    lba: NDArray[np.uint64]
    pages: NDArray[np.uint32]
    context: NDArray[np.uint32]
    file: NDArray[np.uint32]
    file_page: NDArray[np.uint64]
    op: NDArray[np.uint8]
    kind: NDArray[np.uint8]
    hint: NDArray[np.uint8]
    write_stream: NDArray[np.uint8]
    now: int

    def __len__(self) -> int:
        return len(self.lba)


class Scheme:
    """A scheme of one's own, for prototypes: subclass it, and give an instance to :func:`pcstream.simulate`.

    It answers a batch of events at once, so that NumPy or numba do the work. It sees up to some thousand events ahead; a
    scheme that uses them knows more than a real one would. Each device gets a deep copy of the instance, so what cannot be
    copied, such as a lock, is made in :meth:`start`. ::

        class ByKind(pc.Scheme):
            name = "by-kind"
            def place(self, batch):
                return (batch.kind > 0).astype("u1")        # metadata to S1
    """

    #: The name in results: no registered scheme's, and no other's of the same simulation.
    name: str = "python"
    #: Streams of the device, S0 included; known from :meth:`start` on.
    streams: int = 0
    #: Pages of a superblock of the device; known from :meth:`start` on.
    superblock_pages: int = 0

    def start(self, streams: int, superblock_pages: int) -> None:
        """Called once for each device, before the first batch. An override calls this one."""
        self.streams, self.superblock_pages = streams, superblock_pages

    def place(self, batch: Batch) -> NDArray[Any]:
        """A stream for every event of the batch, 0 to ``streams - 1``; those of events that are no writes do not count."""
        raise NotImplementedError(f"{type(self).__name__}.place(batch) is not defined: return a stream for every event")

    def _started(self, streams: int, superblock_pages: int) -> Scheme:
        """A copy of its own for a device, before the first batch."""
        try:
            own = copy.deepcopy(self)
        except Exception as error:
            name = type(self).__name__
            raise ArgumentError(
                f"scheme {name} is copied for each device, and cannot be: {described(error)}; make what cannot be copied in "
                f"start(), or define {name}.__deepcopy__()"
            ) from error
        own.start(streams, superblock_pages)
        return own

    def _place_columns(
        self,
        time_ns: bytes,
        lba: bytes,
        pages: bytes,
        context: bytes,
        file: bytes,
        file_page: bytes,
        op: bytes,
        kind: bytes,
        hint: bytes,
        write_stream: bytes,
        now: int,
    ) -> bytes:
        needs("a scheme in Python", "numpy", "scheme")
        import numpy as np

        batch = Batch(
            time_ns=np.frombuffer(time_ns, np.uint64),
            lba=np.frombuffer(lba, np.uint64),
            pages=np.frombuffer(pages, np.uint32),
            context=np.frombuffer(context, np.uint32),
            file=np.frombuffer(file, np.uint32),
            file_page=np.frombuffer(file_page, np.uint64),
            op=np.frombuffer(op, np.uint8),
            kind=np.frombuffer(kind, np.uint8),
            hint=np.frombuffer(hint, np.uint8),
            write_stream=np.frombuffer(write_stream, np.uint8),
            now=now,
        )
        answer = self.place(batch)
        streams = np.asarray(answer)
        if streams.dtype.kind not in "iub" or streams.shape != (len(batch),):
            raise ArgumentError(
                f"{type(self).__name__}.place() returned {streams.dtype} of shape {streams.shape}, expected whole numbers of "
                f"shape ({len(batch)},)"
            )
        writes = batch.op == OPS.index("write")
        if np.ma.isMaskedArray(answer) and (masked := writes & np.ma.getmaskarray(answer)).any():
            raise ArgumentError(
                f"{type(self).__name__}.place() returned a masked stream for event {int(masked.argmax())} of a batch, expected "
                f"0 to {self.streams - 1}"
            )
        streams = np.where(writes, streams, 0)
        wrong = (streams < 0) | (streams >= self.streams)
        if wrong.any():
            index = int(wrong.argmax())
            raise ArgumentError(
                f"{type(self).__name__}.place() returned stream {streams[index]} for event {index} of a batch, expected 0 to "
                f"{self.streams - 1}; does start() call super().start()?"
            )
        return streams.astype(np.uint8).tobytes()


@dataclass(frozen=True)
class Parameter:
    """Something that can be set of a scheme: ``set={"SCHEME.NAME": value}``."""

    name: str
    default: str
    unit: str
    about: str
    source: str


@dataclass(frozen=True)
class SchemeInfo:
    """A registered scheme."""

    name: str
    summary: str
    #: Whether it knows the future: a bound, no scheme to use.
    knows_future: bool
    #: Names of its readings, for ``NAME:READING``.
    readings: Sequence[str]
    parameters: Sequence[Parameter]


def schemes() -> dict[str, SchemeInfo]:
    """Every registered scheme by name, in the order of reports."""
    found = {}
    for name, summary, future, readings, parameters in _pcstream.schemes():
        known = tuple(Parameter(*parameter) for parameter in parameters)
        found[name] = SchemeInfo(name, summary, future, tuple(readings), known)
    return found


def chosen(given: str | Scheme | type[Scheme] | Sequence[str | Scheme | type[Scheme]]) -> list[str | Scheme]:
    """A list of schemes from what users give: one or several, ``"all"``, names with commas, classes."""
    one_given = isinstance(given, (str, Scheme, type))
    several = (given,) if one_given else _check.several("schemes", given, "names, or instances of pcstream.Scheme")
    found: list[str | Scheme] = []
    for one in several:
        if isinstance(one, str):
            names = [name.strip() for name in one.split(",")]
            names = [name for part in names for name in _expanded(part)]
            found += [name for name in dict.fromkeys(names) if name not in found]
        elif isinstance(one, type) and issubclass(one, Scheme):
            found.append(one())
        elif isinstance(one, Scheme):
            found.append(one)
        else:
            raise ArgumentError(f"schemes: {one!r} is neither a name nor a pcstream.Scheme")
    _check_names([one for one in found if isinstance(one, Scheme)])
    return found


def _expanded(name: str) -> list[str]:
    """The names that one stands for: ``all``, or ``NAME:best`` for every reading of a scheme."""
    if name == "all":
        return list(schemes())
    scheme, _, reading = name.partition(":")
    known = schemes() if reading == "best" else {}
    readings = known[scheme].readings if scheme in known else ()
    return [f"{scheme}:{each}" for each in readings] or [name]


def _check_names(own: Sequence[Scheme]) -> None:
    """Results are found by the names of schemes."""
    if not own:
        return
    registered, seen = schemes(), dict[str, Scheme]()
    for one in own:
        name = _check.text(f"{type(one).__name__}.name", one.name, "a string")
        if not name.strip():
            raise ArgumentError(f"{type(one).__name__}.name {name!r}: expected a name, which results show")
        if name in registered:
            raise ArgumentError(f"{type(one).__name__}.name {name!r}: a registered scheme has this name; choose another")
        if name in seen:
            first, second = type(seen[name]).__name__, type(one).__name__
            raise ArgumentError(f"schemes {first} and {second} have the same name {name!r}: give one of them another .name")
        seen[name] = one
