"""Tables that any Arrow library can take without a copy, by the PyCapsule interface."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ._errors import needs

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa


class Tabular:
    """What has rows: whoever knows the PyCapsule interface of Arrow takes it as it is; polars takes a sequence for a list."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """A capsule with an Arrow stream of the rows."""
        capsule: object = self.to_arrow().__arrow_c_stream__(requested_schema)  # type: ignore[no-untyped-call]
        return capsule

    def to_arrow(self) -> pa.Table:
        """The rows as a ``pyarrow.Table``."""
        raise NotImplementedError

    def to_pandas(self) -> pd.DataFrame:
        """The rows as a ``pandas.DataFrame``."""
        needs("to_pandas()", "pandas", "pandas")
        return self.to_arrow().to_pandas()

    def to_polars(self) -> pl.DataFrame:
        """The rows as a ``polars.DataFrame``."""
        needs("to_polars()", "polars", "polars")
        import polars

        return polars.DataFrame(self)


class Table(Tabular):
    """A table in Arrow's format: give it to pyarrow, polars, DuckDB, pandas, or whatever knows the PyCapsule interface.

    Nothing is read before someone asks for rows, and every use reads from the beginning. Errors of the trace come as
    errors of the library that reads, with the same words. Names of operations and kinds are categories in pandas and polars.
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
        needs("to_arrow()", "pyarrow", "pandas")
        import pyarrow

        return pyarrow.RecordBatchReader.from_stream(self).read_all()


def of_rows(rows: Sequence[Mapping[str, Any]], type_of: Callable[[str], pa.DataType | None] = lambda name: None) -> pa.Table:
    """Rows as a table: the same columns in every row, though schemes have facts of their own.

    Args:
        rows: values by column; null where a row has none.
        type_of: the type of a column, or None for that of its values.
    """
    import pyarrow

    names = dict.fromkeys(name for row in rows for name in row)
    return pyarrow.table({name: pyarrow.array([row.get(name) for row in rows], type_of(name)) for name in names})
