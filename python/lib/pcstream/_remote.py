"""Traces on object stores: fetched once by fsspec, into a cache on local disk."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from ._errors import TraceNotFoundError, missing


def cache_directory() -> Path:
    """Where fetched traces are kept: PCSTREAM_CACHE, else ``pcstream`` in the user's cache directory."""
    given = os.environ.get("PCSTREAM_CACHE")
    if given:
        return Path(given).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pcstream"


def local(path: str) -> str:
    """The path itself, or that of a local copy of what a URL names.

    The copy is named by the remote ``meta.json``, so that a trace that is replaced is fetched again.
    """
    if "://" not in path:
        return path
    try:
        import fsspec
    except ImportError as error:
        raise missing("fsspec", "remote", f"a trace at {path}") from error
    system, inside = fsspec.core.url_to_fs(path)
    inside = inside.rstrip("/")
    try:
        meta = system.cat_file(f"{inside}/meta.json")
    except FileNotFoundError as error:
        raise TraceNotFoundError(f"{path}: no such trace; expected a directory with meta.json") from error
    digest = hashlib.sha256(path.encode() + b"\0" + meta).hexdigest()[:32]
    target = cache_directory() / "traces" / f"{digest}.pctrace"

    def fetch(copy: Path) -> None:
        copy.mkdir()
        for name in ("meta.json", "events.parquet", "contexts.parquet", "files.parquet"):
            system.get_file(f"{inside}/{name}", str(copy / name))

    keep(target, fetch)
    return str(target)


def keep(target: Path, make: Callable[[Path], object]) -> None:
    """Makes the directory ``target`` of the cache, unless it is there.

    Threads and processes that make the same one do not disturb each other: each renames a whole copy, and the first wins.
    """
    if target.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as directory:
        copy = Path(directory) / target.name
        make(copy)
        try:
            copy.rename(target)
        except OSError:
            if not target.exists():
                raise
