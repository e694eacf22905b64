"""Tables that any Arrow library can take without a copy, by the PyCapsule interface."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ._errors import missing

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa


class Table:
    """A table in Arrow's format: give it to pyarrow, polars, DuckDB, pandas, or whatever knows the PyCapsule interface.

    Nothing is read before someone asks for rows, and every use reads from the beginning. Errors of the trace come as
    errors of the library that reads, with the same words.
    """

    def __init__(self, capsule: Callable[[], object]) -> None:
        self._capsule = capsule

    def __repr__(self) -> str:
        return "<pcstream.Table: to_polars(), to_pandas(), to_arrow(), or give it to a library that knows Arrow>"

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """A capsule with an Arrow stream; types are those of docs/trace-format.md, whatever is requested."""
        return self._capsule()

    def to_arrow(self) -> pa.Table:
        """As a ``pyarrow.Table``."""
        try:
            import pyarrow
        except ImportError as error:
            raise missing("pyarrow", "pandas", "to_arrow()") from error
        return pyarrow.RecordBatchReader.from_stream(self).read_all()

    def to_pandas(self) -> pd.DataFrame:
        """As a ``pandas.DataFrame``; names of operations and kinds are categories."""
        try:
            import pandas  # noqa: F401
        except ImportError as error:
            raise missing("pandas", "pandas", "to_pandas()") from error
        return self.to_arrow().to_pandas()

    def to_polars(self) -> pl.DataFrame:
        """As a ``polars.DataFrame``; names of operations and kinds are categories."""
        try:
            import polars
        except ImportError as error:
            raise missing("polars", "polars", "to_polars()") from error
        return polars.DataFrame(self)
