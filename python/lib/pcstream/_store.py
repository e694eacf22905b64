"""Where a sweep keeps the rows of its points: a directory, or a place on an object store."""

from __future__ import annotations

import hashlib
import io
import json
import os
import uuid
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _check, _remote
from ._errors import ArgumentError, Error, PcstreamWarning

if TYPE_CHECKING:
    import pyarrow as pa

#: Where a file has the digest of its table: checksums of Parquet are of the rows, not of the names of their columns.
DIGEST = b"pcstream.digest"


class Store:
    """Tables by name, each a whole Parquet file or none. Those who write the same one do not disturb each other: any is right."""

    def __init__(self, place: str | os.PathLike[str]) -> None:
        url = _check.place("out", place)
        #: The directory, or the URL as it was given.
        self.place: Path | str = url if "://" in url else Path(url).absolute()
        self._system: Any = None
        self._inside = ""
        if isinstance(self.place, Path):
            try:
                self.place.mkdir(parents=True, exist_ok=True)
            except (OSError, ValueError) as error:
                reason = getattr(error, "strerror", None) or error
                raise ArgumentError(f"out {url!r}: {reason}; expected a directory, new or not, or a URL") from error
        else:
            self._system, self._inside = _remote.opened(url)
            with _remote.reached(self.place):
                self._system.makedirs(self._inside, exist_ok=True)

    def read(self, name: str) -> pa.Table:
        """A table; an OSError if it is not there, or not as it was written."""
        import pyarrow
        import pyarrow.parquet

        if isinstance(self.place, Path):
            data = self.data(name)
        else:
            with _remote.reached(self.place, absent=True):
                data = self._system.cat_file(f"{self._inside}/{name}")
        try:
            table = pyarrow.parquet.read_table(pyarrow.BufferReader(data), page_checksum_verification=True)
            kept, table = (table.schema.metadata or {}).get(DIGEST), table.replace_schema_metadata(None)
            if kept != _digest(table):
                raise ValueError("the table is not the one that was written")
        except (ValueError, OverflowError, pyarrow.ArrowException) as error:
            raise OSError(str(error)) from error
        return table

    def data(self, name: str) -> bytes:
        """A table of a directory, as it is in its file."""
        return Path(self.place, name).read_bytes()

    def find(self, name: str) -> pa.Table | None:
        """A table that is there and whole; a damaged one is said, and counts as none."""
        try:
            return self.read(name)
        except FileNotFoundError:
            return None
        except IsADirectoryError as error:
            text = f"{self.place}/{name}: is a directory, but rows go there; remove it, or use another out"
            raise ArgumentError(text) from error
        except OSError as error:
            text = f"{self.place}/{name}: damaged, so its point is computed again: {error}"
            warnings.warn(text, PcstreamWarning, stacklevel=3)
            return None

    def write(self, name: str, table: pa.Table) -> None:
        """Keeps a table."""
        import pyarrow.parquet

        table = table.replace_schema_metadata({DIGEST: _digest(table)})
        if isinstance(self.place, Path):
            partial = self.place / f"{name}.{uuid.uuid4().hex}.partial"
            try:
                pyarrow.parquet.write_table(table, partial, write_page_checksum=True)
                partial.replace(self.place / name)
            except OSError as error:
                # Of pyarrow's, the text of the system is only a part.
                reason = os.strerror(error.errno) if error.errno else error
                text = f"{self.place}: rows cannot be written: {reason}; with the same out, a sweep goes on where this one ended"
                raise Error(text) from error
            finally:
                partial.unlink(missing_ok=True)
            return
        data = io.BytesIO()
        pyarrow.parquet.write_table(table, data, write_page_checksum=True)
        with _remote.reached(self.place):
            self._system.pipe_file(f"{self._inside}/{name}", data.getvalue())


def _digest(table: pa.Table) -> bytes:
    """Of names, types and rows."""
    columns = [[field.name, str(field.type), table[at].to_pylist()] for at, field in enumerate(table.schema)]
    # Damage makes columns of other types.
    return hashlib.sha256(json.dumps(columns, default=repr).encode()).hexdigest().encode()
