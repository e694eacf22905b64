"""Traces: who wrote what, where and when."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, SupportsIndex

from . import _check, _pcstream, _remote
from ._errors import ArgumentError
from ._table import Table


class Trace:
    """A recorded, imported or generated trace. Contexts and files are in memory, events stay on disk.

    Made by :func:`pcstream.open`. Units: pages of 4 KiB, nanoseconds since the trace began.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._given = _check.place("path", path)
        #: Where it lies, also after a change of the working directory.
        self._place = self._given if "://" in self._given else str(Path(self._given).absolute())
        local = _remote.local(self._place)
        with _remote.copied(self._place, local):
            self._native = _pcstream.open(local)
        #: A temporary directory that it lies in, and that is deleted with it.
        self._kept_alive: object = None
        self._meta: dict[str, Any] = json.loads(self._native.meta_json())

    def __reduce__(self) -> tuple[type[Trace], tuple[str]]:
        return Trace, (self._place,)

    def __repr__(self) -> str:
        totals = self._meta["totals"]
        return f"<pcstream.Trace {self._given!r}: {totals['events']} events, {totals['contexts']} contexts>"

    @property
    def path(self) -> Path:
        """Where it was found: the path given, its ``.partial`` if the recording was killed, or the copy of a URL."""
        return self._native.path

    @property
    def meta(self) -> Mapping[str, Any]:
        """``meta.json``: where and how the trace was taken, what it lost, what it sums to."""
        return self._meta

    @property
    def id(self) -> str:
        """Digest of its events."""
        return str(self._meta["trace_id"])

    @property
    def device_pages(self) -> int:
        """Pages of the traced device; 0 if its recorder ended before it knew."""
        return self._native.device_pages

    @property
    def damage(self) -> str | None:
        """What is missing of it, in words; None for a whole trace."""
        return self._native.damage

    def events(self) -> Table:
        """Every request: ``time_ns, op, lba, pages, context, file, file_page, kind, hint,
        write_stream``.

        ``context`` and ``file`` are ids of the other two tables; 0 is unknown.
        """
        return Table(lambda: self._native.events())

    def contexts(self) -> Table:
        """Every call path that wrote: ``context, signature, executable, comm, entry, unwind, frames``.

        Some occur in no event, such as those whose data was overwritten or deleted before it reached the device.
        """
        return Table(lambda: self._native.contexts())

    def files(self) -> Table:
        """Every file that was written: ``file, inode, generation, path``.

        Some occur in no event, such as those that were deleted before their data reached the device.
        """
        return Table(lambda: self._native.files())


def open(path: str | os.PathLike[str]) -> Trace:  # noqa: A001 (as polars and DuckDB call it)
    """Opens the trace at ``path``: a directory ``NAME.pctrace``, or a URL that fsspec knows.

    Raises:
        TraceNotFoundError: there is none.
        TraceError: it cannot be read; the message says where it is damaged and what to do.
        MissingPackageError, ArgumentError, RemoteError: its URL needs a package, is none, or cannot be reached.
    """
    return Trace(path)


def generate(
    name: str,
    output: str | os.PathLike[str],
    *,
    pages: SupportsIndex,
    writes: SupportsIndex,
    seed: SupportsIndex = 1,
    overwrite: bool = False,
    **options: float,
) -> Trace:
    """Writes a synthetic trace, and opens it. Closed forms know the write amplification of all but ``files``.

    Args:
        name: ``uniform``, ``hotcold``, ``zipf`` or ``files``.
        output: a new directory ``NAME.pctrace``.
        pages: size of the address space in pages of 4 KiB.
        writes: number of pages written.
        seed: of everything random.
        overwrite: replaces a trace that exists.
        options: the generator's own, as ``pcstream generate NAME --help`` lists them, with ``_`` for ``-``.
    """
    if "force" in options:
        raise ArgumentError("force: use overwrite=True")
    own = {key.replace("_", "-"): _check.real(key, value, "a number") for key, value in options.items()}
    most = 2**64 - 1
    sizes = _check.whole("pages", pages, 0, most), _check.whole("writes", writes, 0, most)
    common = (*sizes, _check.whole("seed", seed, 0, most))
    place = _remote.on_this_machine(output)
    kind, replaces = _check.text("name", name, "uniform, hotcold, zipf or files"), _check.flag("overwrite", overwrite)
    _pcstream.generate(kind, common, own, place, replaces)
    return Trace(place)
