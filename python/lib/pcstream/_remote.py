"""Places on object stores, by fsspec. Traces are fetched once from there, into a cache on local disk."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from . import _check
from ._errors import ArgumentError, MissingPackageError, RemoteError, TraceError, TraceNotFoundError, needs

#: Files of a trace beside ``meta.json``.
TABLES = ("events.parquet", "contexts.parquet", "files.parquet")


def cache_directory() -> Path:
    """Where fetched traces are kept: PCSTREAM_CACHE, else ``pcstream`` in the user's cache directory."""
    given = os.environ.get("PCSTREAM_CACHE")
    if given:
        return Path(given).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pcstream"


def opened(url: str) -> tuple[Any, str]:
    """The file system of a URL, and the path inside it."""
    needs(url, "fsspec", "remote")
    import fsspec

    with reached(url):
        system, inside = fsspec.core.url_to_fs(url)
    return system, inside.rstrip("/")


@contextmanager
def reached(url: str, absent: bool = False) -> Iterator[None]:
    """What fails in an access becomes an error with the place. The packages behind fsspec have exceptions of their own.

    With ``absent``, the caller expects a ``FileNotFoundError``.
    """
    try:
        yield
    except ImportError as error:
        raise MissingPackageError(f"{url}: {error}") from error
    except ValueError as error:
        raise ArgumentError(f"{url}: {error}") from error
    except Exception as error:
        if absent and isinstance(error, FileNotFoundError):
            raise
        raise RemoteError(f"{url}: {error or type(error).__name__}; check the address and the access to it") from error


def local(path: str) -> str:
    """The path itself, or that of a local copy of what a URL names.

    The copy is named by the remote ``meta.json``, so that a trace that is replaced is fetched again. One whose tables have
    not the sizes that this file gives, as while they are uploaded, is not kept.
    """
    if "://" not in path:
        return path
    system, inside = opened(path)
    try:
        with reached(path, absent=True):
            meta = system.cat_file(f"{inside}/meta.json")
    except FileNotFoundError as error:
        raise TraceNotFoundError(f"{path}: no such trace; expected a directory with meta.json") from error
    digest = hashlib.sha256(path.encode() + b"\0" + meta).hexdigest()[:32]
    target = cache_directory() / "traces" / f"{digest}.pctrace"

    sizes = _sizes(meta)
    if target.exists() and _damaged(target, sizes):
        shutil.rmtree(target, ignore_errors=True)

    def fetch(copy: Path) -> None:
        copy.mkdir()
        # As it was when its digest was made.
        (copy / "meta.json").write_bytes(meta)
        for name in TABLES:
            with reached(path):
                system.get_file(f"{inside}/{name}", str(copy / name))
        if wrong := _damaged(copy, sizes):
            found = f"{(copy / wrong).stat().st_size} bytes, but {sizes[wrong]} by its meta.json"
            raise TraceError(f"{path}/{wrong}: {found}; if it is being uploaded, open it when that has ended, else upload it again")

    keep(target, fetch)
    return str(target)


@contextmanager
def copied(place: str, path: str | os.PathLike[str]) -> Iterator[None]:
    """Damage in the local copy of what a URL names becomes an error that says how to fetch it again."""
    try:
        yield
    except TraceError as error:
        if "://" not in place:
            raise
        copy = os.fspath(path)
        raise type(error)(f"{error}; this is a copy of {place}: delete {copy}, and it is fetched again") from error


def _sizes(meta: bytes) -> dict[str, int]:
    """The bytes of each table by ``meta.json``; none where it does not say, or cannot be read, which whoever opens it says."""
    try:
        sums = json.loads(meta)["checksums"]
        return {name: int(sums[name]["bytes"]) for name in TABLES if name in sums}
    except (KeyError, TypeError, ValueError):
        return {}


def _damaged(copy: Path, sizes: Mapping[str, int]) -> str | None:
    """The first table that is not there, or not of its size."""
    for name, size in sizes.items():
        table = copy / name
        if not table.is_file() or table.stat().st_size != size:
            return name
    return None


def on_this_machine(output: str | os.PathLike[str]) -> str:
    """The place of something new. A URL would become a directory of its name, and ``-`` is stdout for the program."""
    place = _check.place("output", output)
    if "://" in place:
        raise ArgumentError(f"output {place!r}: expected a directory of this machine; write there, then copy it")
    if place == "-":
        raise ArgumentError("output '-': expected a path; nothing is written to stdout")
    return place


def keep(target: Path, make: Callable[[Path], object]) -> None:
    """Makes the directory ``target`` of the cache, unless it is there.

    Threads and processes that make the same one do not disturb each other: each renames a whole copy, and the first wins.
    """
    if target.exists():
        return
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = tempfile.TemporaryDirectory(dir=target.parent)
    except OSError as error:
        remedy = "set PCSTREAM_CACHE to a directory, new or not, that can be written to"
        raise ArgumentError(f"{target.parent}, in the cache: {error.strerror}; {remedy}") from error
    with temporary as directory:
        copy = Path(directory) / target.name
        make(copy)
        try:
            copy.rename(target)
        except OSError:
            if not target.exists():
                raise
