"""Traces from columns of events: workloads that are made in Python."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex

from . import _check, _pcstream, _remote
from ._errors import ArgumentError, needs
from ._scheme import HINTS, KINDS, OPS
from ._trace import Trace

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: Columns of events in the order in which the module takes them, and their types.
TYPES = {
    "op": "u1",
    "kind": "u1",
    "hint": "u1",
    "write_stream": "u1",
    "time_ns": "u8",
    "lba": "u8",
    "pages": "u4",
    "context": "u4",
    "file": "u4",
    "file_page": "u8",
}
#: Columns that may hold names.
NAMES = {"op": OPS, "kind": KINDS, "hint": HINTS}
#: Of a device.
MOST_PAGES = 2**62
#: Of a trace.
MOST_TIME_NS = 2**62
#: Of a first event, 31 years: what is later is the time of the day, since 1970.
LATEST_BEGIN_NS = 10**18
#: Of a file.
MOST_FILE_PAGES = 2**64 - 1
#: Operations on no pages.
WITHOUT_PAGES = (OPS.index("flush"), OPS.index("exit"))


def write(
    output: str | os.PathLike[str],
    events: Mapping[str, Any] | Any,
    *,
    device_pages: SupportsIndex | None = None,
    labels: Sequence[str] = (),
    files: Sequence[str] = (),
    prefilled_pages: SupportsIndex = 0,
    overwrite: bool = False,
) -> Trace:
    """Writes a workload of one's own as a trace, and opens it. ::

        random = np.random.default_rng(1)
        hot = random.random(1_000_000) < 0.9
        lba = np.where(hot, random.integers(0, 4096, hot.size), random.integers(4096, 32768, hot.size))
        pc.write("mine.pctrace", {"lba": lba, "context": 1 + hot}, device_pages=32768, labels=["cold", "hot"],
                 prefilled_pages=32768)

    Args:
        output: a new directory ``NAME.pctrace``.
        events: columns of equal length by name, or a table of pandas, polars or any library that knows Arrow. ``lba`` is the
            first page of an event; that of flush and exit may be any from 0 on, and is 0 in the trace. Others may be left out:
            ``pages`` (1), ``op`` (names or numbers of :data:`pcstream.OPS`; write), ``context`` (a number of ``labels`` from
            1; 0, unknown), ``kind`` (of :data:`pcstream.KINDS`; data), ``time_ns`` (since the trace began; without it, the
            events are 1 us apart, and no result speaks of a day), ``hint`` (of :data:`pcstream.HINTS`; not_set),
            ``write_stream`` (that the program asked for; 0, none), ``file`` (a number of ``files`` from 1; 0, unknown),
            ``file_page`` (the first page's index in its file; 0).
        device_pages: pages of 4 KiB of the device; by default it ends with the last page that is used.
        labels: names of contexts 1, 2, ...: what a program context stands for here. A context is known by its name,
            so no two are equal, but for empty ones.
        files: paths of files 1, 2, ..., for schemes that go by files.
        prefilled_pages: so many pages, from 0 on, hold data before the first event.
        overwrite: replaces a trace that exists.

    All events are in memory at once, with several times the size of the columns.
    """
    needs("a trace from columns", "numpy", "scheme")
    import numpy as np

    events = _by_name(events)
    names = list(events)
    if unknown := [name for name in names if name not in TYPES]:
        raise ArgumentError(f"column {unknown[0]!r}: expected {', '.join(TYPES)}")
    if "lba" not in names:
        raise ArgumentError("column 'lba' is missing: it is the first page of each event")
    given = {name: _given(name, events[name]) for name in names}
    count = len(given["lba"])
    columns = {"time_ns": np.arange(count, dtype="u8") * 1000}
    for name, kind in TYPES.items():
        if name in names:
            columns[name] = _column(name, given[name], np.dtype(kind), count)
        elif name == "pages":
            columns[name] = 1 - np.isin(columns["op"], WITHOUT_PAGES).astype(kind)
        elif name not in columns:
            columns[name] = np.zeros(count, kind)
    pages = MOST_PAGES if device_pages is None else _check.whole("device_pages", device_pages, 1, MOST_PAGES)
    prefilled = _check.whole("prefilled_pages", prefilled_pages, 0, pages)
    named = _names("labels", labels), _names("files", files)
    _check_labels(named[0])
    columns["lba"][np.isin(columns["op"], WITHOUT_PAGES)] = 0
    _check_events(columns, pages, {"context": ("labels", len(named[0])), "file": ("files", len(named[1]))})
    if device_pages is None:
        ends = (columns["lba"] + columns["pages"])[columns["pages"] > 0]
        pages = max(1, prefilled, int(ends.max(initial=0)))
    place, sizes = _remote.on_this_machine(output), (pages, prefilled)
    made_times = "time_ns" not in names
    as_bytes = tuple(columns[name].tobytes() for name in TYPES)
    _pcstream.write(place, as_bytes, sizes, named, made_times, _check.flag("overwrite", overwrite))
    return Trace(place)


def _by_name(events: Any) -> Mapping[str, Any]:
    """The columns of whatever table it is."""
    if isinstance(events, Mapping):
        return events
    kind = type(events)
    unread = hasattr(events, "collect")
    # What is not read yet may have to be planned for its columns.
    if not unread and kind.__module__.partition(".")[0] in ("pandas", "polars") and hasattr(events, "columns"):
        _check_once([str(name) for name in events.columns])
        return {str(name): events[name] for name in events.columns}
    if unread or not hasattr(events, "__arrow_c_stream__"):
        hint = "; collect() it first" if unread else ""
        raise ArgumentError(
            f"events of the type {kind.__name__}: expected columns by name, such as {{'lba': [...]}}, or a table of pandas, "
            f"polars, or any library that knows Arrow{hint}"
        )
    needs("a trace from an Arrow table", "pyarrow", "pandas")
    import pyarrow as pa

    table = pa.RecordBatchReader.from_stream(events).read_all()
    _check_once(table.column_names)
    columns = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        if column.null_count:
            raise ArgumentError(f"column {name!r} holds {column.null_count} nulls: expected a value for each event")
        is_dictionary = pa.types.is_dictionary(column.type)
        columns[name] = _decoded(column.chunks) if is_dictionary and len(column) else column.to_numpy()
    return columns


def _check_once(names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise ArgumentError(f"column {name!r} is there {names.count(name)} times: expected one of each name")


def _decoded(chunks: Sequence[Any]) -> NDArray[Any]:
    """The names that dictionaries of Arrow stand for."""
    import numpy as np

    return np.concatenate([np.array(chunk.dictionary.to_pylist())[chunk.indices.to_numpy()] for chunk in chunks])


def _names(argument: str, names: Sequence[str]) -> list[str]:
    listed = [_check.text(argument, name, "names") for name in _check.several(argument, names, "a list of names")]
    for name in listed:
        try:
            name.encode()
        except UnicodeEncodeError:
            text = f"{argument} {name!r}: is no text; expected characters that UTF-8 has, so no surrogates"
            raise ArgumentError(text) from None
    return listed


def _check_labels(labels: Sequence[str]) -> None:
    """Refuses two contexts of one name, which would have one signature."""
    first = dict[str, int]()
    for context, name in enumerate(labels, 1):
        if name and first.setdefault(name, context) != context:
            text = f"labels has {name!r} for context {first[name]} and context {context}: expected a name of its own for each"
            raise ArgumentError(text)


def _check_events(columns: Mapping[str, NDArray[Any]], device_pages: int, tables: Mapping[str, tuple[str, int]]) -> None:
    """Refuses events that no trace can have; ``tables`` has the argument that names what a column numbers, and its length."""
    import numpy as np

    def refuse(wrong: NDArray[Any], name: str, why: str) -> None:
        if wrong.any():
            at = int(wrong.argmax())
            raise ArgumentError(f"column {name!r} has {columns[name][at]} for event {at}{why}")

    time, lba, pages = columns["time_ns"], columns["lba"], columns["pages"]
    refuse(np.append(False, time[1:] < time[:-1]), "time_ns", ", less than before: expected times that never decrease")
    refuse(time > MOST_TIME_NS, "time_ns", f": expected 0 to {MOST_TIME_NS}")
    since = ": expected nanoseconds since the trace began, not since 1970; subtract the first time from all"
    refuse(time[:1] > LATEST_BEGIN_NS, "time_ns", since)
    none = np.isin(columns["op"], WITHOUT_PAGES)
    refuse(~none & (pages == 0), "pages", ": expected at least 1 (0 of flush and exit)")
    refuse(none & (pages > 0), "pages", ": expected 0, because its op is flush or exit")
    refuse(~none & (lba >= device_pages), "lba", f": expected 0 to {device_pages - 1}, because device_pages is {device_pages}")
    refuse(~none & (pages > device_pages - lba), "pages", f", which ends beyond the device: device_pages is {device_pages}")
    # A sum that is too large begins at 0 again.
    ends = columns["file_page"] + pages
    refuse(ends < pages, "file_page", f", which ends beyond any file: expected file_page + pages of at most {MOST_FILE_PAGES}")
    for name, (argument, known) in tables.items():
        refuse(columns[name] > known, name, f", but {argument} has {known} names: expected 0 to {known}")


def _given(name: str, values: Any) -> NDArray[Any]:
    """The column as NumPy understands it."""
    import numpy as np

    try:
        array = np.asarray(values)
        if array.dtype.kind == "U" and not isinstance(values, np.ndarray):
            # NaN beside names became a name.
            array = np.asarray(values, object)
    except ValueError as error:
        raise ArgumentError(f"column {name!r}: {error}") from error
    if array.ndim != 1:
        raise ArgumentError(f"column {name!r} has the shape {array.shape}: expected one value for each event")
    is_null = _is_null(array)
    if np.ma.isMaskedArray(values):
        # The array has values there, too. DuckDB's fetchnumpy() masks nulls.
        is_null |= np.ma.getmaskarray(values)
    if is_null.any():
        raise ArgumentError(f"column {name!r} holds nulls: expected a value for each event")
    return array


def _column(name: str, values: NDArray[Any], kind: np.dtype[Any], count: int) -> NDArray[Any]:
    """The column as numbers of the type that a trace has."""
    if values.shape != (count,):
        raise ArgumentError(f"column {name!r} has the shape {values.shape}, expected ({count},) as 'lba' has")
    if name in NAMES and values.dtype.kind in "UOT":
        known = {text: number for number, text in enumerate(NAMES[name])}
        if unknown := set(values.tolist()) - set(known):
            raise ArgumentError(f"column {name!r} has {unknown.pop()!r}: expected {', '.join(known)}")
        numbers = values.astype(object)
        numbers[:] = [known[text] for text in values.tolist()]
        return numbers.astype(kind)
    if not count:
        # Of what is empty, the type says nothing.
        return values.astype(kind)
    if values.dtype.kind not in "iub":
        cast = "; cast it first, as with .astype('int64'), or to BIGINT in SQL" if _are_whole(values) else ""
        raise ArgumentError(f"column {name!r} is of {values.dtype}: expected whole numbers{cast}")
    most = len(NAMES[name]) - 1 if name in NAMES else 2 ** (8 * kind.itemsize) - 1
    if int(values.min()) < 0 or int(values.max()) > most:
        raise ArgumentError(f"column {name!r} is from {values.min()} to {values.max()}: expected 0 to {most}")
    return values.astype(kind)


def _are_whole(values: NDArray[Any]) -> bool:
    """Whether they are whole numbers of another type, such as DuckDB's sums."""
    try:
        return all(int(value) == value for value in values.tolist())
    except (OverflowError, TypeError, ValueError):
        return False


def _is_null(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Where nothing is: NaN, None, and what pandas and NumPy have for them."""
    import numpy as np

    if values.dtype.kind == "f":
        return np.asarray(values != values)
    if values.dtype.kind not in "OT":
        return np.zeros(values.shape, bool)
    absent = ("NoneType", "NAType", "NaTType", "MaskedConstant")
    found = (type(v).__name__ in absent or (isinstance(v, float) and v != v) for v in values.tolist())
    return np.fromiter(found, bool, len(values))
