"""Many simulations: traces x devices, in one process, several, or on a cluster.

Idea: a point is one trace on one device, with all schemes, so that a trace is read once for them. A point is a pure function
of values that can be pickled: whoever computes it, however often, gets the same rows. The process that asked for the sweep
keeps each point's rows as a Parquet file, named by a digest of the point, as soon as they come. So a worker that dies costs
its point, which is computed again, and a sweep that is begun again computes only what is missing.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import uuid
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsIndex

from . import _check, _executors, _identity, _pcstream, _scheme
from ._device import Device
from ._errors import ArgumentError, DeviceError, Error, LossWarning, PcstreamWarning, SweepError, SweepWarning, described, needs
from ._executors import Rows
from ._identity import Inputs
from ._options import Options, setting
from ._plot import SweepPlot
from ._scheme import Scheme
from ._simulate import DEFAULT_SCHEMES, device_of, simulated
from ._store import Store
from ._table import Tabular, of_rows
from ._temporary import Temporary
from ._trace import Trace

if TYPE_CHECKING:
    import pyarrow as pa

#: Fields of a device that can be swept.
AXES = (
    "profile_name",
    "logical_pages",
    "spare_factor",
    "overprovisioning",
    "superblock_pages",
    "streams",
    "gc",
    "victim",
    "background_gc",
    "seed",
)
#: Fields of the options that can be swept.
OPTION_AXES = ("prefill", "pack", "pack_live", "fill", "discard")
#: How the names of temporary directories begin.
TEMPORARY = "pcstream-sweep-"
#: Points without rows that are named one by one.
NAMED = 5


@dataclass(frozen=True)
class Point:
    """One trace on one device. Its rows depend on nothing else."""

    #: Where workers find the trace.
    place: str
    #: The trace as the user called it.
    trace: str
    trace_id: str
    device: Device
    schemes: tuple[str | Scheme, ...]
    options: Mapping[str, Any]
    axes: Mapping[str, Any]
    #: Values of all options that can be swept.
    given: Mapping[str, Any]
    inputs: Inputs

    def key(self) -> str:
        """A digest of all that decides the rows: where the trace lies, what it is called and memory do not."""
        inputs = self.inputs
        schemes = [uuid.uuid4().hex if one is None else one for one in inputs.schemes]
        parts = [_pcstream.__version__, inputs.build, inputs.trace, inputs.rules, schemes, repr(self.device)]
        options = {name: value for name, value in self.options.items() if name != "memory"}
        text = json.dumps([*parts, options], sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def head(self) -> dict[str, Any]:
        """The columns that say which point of a sweep it is. The seed is a result: that of the profile if none is given."""
        axes = {name: value for name, value in self.axes.items() if name != "seed"}
        return {"trace": self.trace, "trace_id": self.trace_id, **axes, **self.given}

    def kept_head(self) -> dict[str, Any]:
        """The same where rows are kept: the columns do not depend on what is an axis, but on what decides the rows."""
        settings = sorted((self.options.get("set") or {}).items())
        parameters = {name: _plain(name, value) for name, value in settings}
        return {"trace": self.trace, "trace_id": self.trace_id, **self.given, **parameters}

    def check(self) -> None:
        """Refuses to be computed by other code than the sweep began with."""
        self.inputs.check_code(self.schemes)

    def rows(self) -> Rows:
        """Simulates it: a row for each scheme and GC destination."""
        trace = Trace(self.place)
        self.check()
        self.inputs.check(trace, self.options)
        # The module warnings knows the process only, and points of other threads may run in it.
        results, warned = simulated(trace, self.schemes, self.device, _options(self.options))
        said = "; ".join(text for _, text in warned)
        # A copy of the trace has the same rows.
        for place in (f"{self.place}: ", f"{trace.path}/"):
            said = said.replace(place, "")
        device = {f"device.{k}": v for k, v in results.device.items() if isinstance(v, (int, float, str))}
        first = {**self.kept_head(), "seed": results.json["seed"]}
        has_losses = any(issubclass(category, LossWarning) for category, _ in warned)
        last = {**device, "warnings": said, "losses": has_losses, "pcstream": _pcstream.__version__}
        return [{**first, **result.row(), **last} for result in results]


    def within(self, memory: int) -> Point:
        """The same in at most so many bytes, unless it has a limit already: then itself."""
        if self.options.get("memory") is not None:
            return self
        return replace(self, options={**self.options, "memory": memory})


@dataclass(frozen=True)
class Failure:
    """A point of a sweep without rows."""

    #: The trace as it was given.
    trace: str
    #: Values of the axes.
    axes: Mapping[str, Any]
    #: Why.
    error: BaseException

    def __str__(self) -> str:
        return f"{dict(self.axes)} of {self.trace}: {described(self.error)}"


class Sweep(Tabular):
    """The rows of all points, kept as Parquet files."""

    def __init__(
        self, store: Store, files: Sequence[tuple[str, Point]], failures: Sequence[Failure], directory: object = None
    ) -> None:
        #: The directory or URL with a Parquet file for each point; equal points share one.
        self.path = store.place
        #: The points without rows, and why.
        self.failures = failures
        self._store = store
        self._files = files
        self._directory = directory

    def __getstate__(self) -> dict[str, Any]:
        if self._directory is None:
            return self.__dict__
        # Its directory goes with it, so its files travel along.
        return {**self.__dict__, "_directory": {file: self._store.data(file) for file, _ in self._files}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if isinstance(self._directory, dict):
            kept, self._directory = self._directory, Temporary(TEMPORARY)
            self._store = Store(self._directory.name)
            self.path = self._store.place
            for file, data in kept.items():
                Path(self.path, file).write_bytes(data)

    def __len__(self) -> int:
        return len(self._files)

    def __repr__(self) -> str:
        over = f" over {', '.join(self._axes)}" if self._axes else ""
        return f"<pcstream.Sweep {str(self.path)!r}: {len(self)} points{over}; {len(self.failures)} failures>"

    @property
    def _axes(self) -> list[str]:
        axes = [*(point.axes for _, point in self._files), *(failure.axes for failure in self.failures)]
        return list(dict.fromkeys(name for of_point in axes for name in of_point))

    @property
    def plot(self) -> SweepPlot:
        """Pictures, made by matplotlib."""
        return SweepPlot(self.to_arrow().to_pylist(), self._axes)

    def to_arrow(self) -> pa.Table:
        """All rows as a ``pyarrow.Table``, in the order of the points.

        Raises:
            Error: the files are not there any more.
        """
        needs("to_arrow()", "pyarrow", "sweep")
        import pyarrow

        try:
            tables = [_labelled(self._store.read(file), point) for file, point in self._files]
        except OSError as error:
            raise Error(f"{self.path}: rows are gone or damaged; sweep again: {described(error)}") from error
        return pyarrow.concat_tables(tables, promote_options="permissive") if tables else pyarrow.table({})


def sweep(
    traces: Trace | str | os.PathLike[str] | Iterable[Trace | str | os.PathLike[str]],
    schemes: str | Scheme | type[Scheme] | Sequence[str | Scheme | type[Scheme]] = DEFAULT_SCHEMES,
    device: Device | str | None = None,
    *,
    executor: object = "processes",
    workers: SupportsIndex | None = None,
    out: str | os.PathLike[str] | None = None,
    options: Mapping[str, Any] | None = None,
    progress: Callable[[int, int], object] | None = None,
    **axes: Any,
) -> Sweep:
    """Simulates every trace on every device of a grid.

    Args:
        traces: one or several: opened, or where they are. Workers read them from there, URLs through fsspec.
        schemes: as for :func:`pcstream.simulate`.
        device: what the devices of the grid have in common, or the name of a profile; one that has a profile and no size
            is scaled to each trace.
        executor: ``"here"`` (this process), ``"processes"``, a ``dask.distributed.Client``, or the module ``ray``.
        workers: processes of ``"processes"``, and of no other; by default one for each processor.
        out: a directory for the results, or a URL that fsspec knows; a sweep that ended early goes on there. By default a
            temporary directory.
        options: keyword arguments of :func:`pcstream.simulate` that all points have, and that are no axes.
        progress: called with the points that are done, those found again included, and with all of them, at the beginning and
            after each.
        axes: values by field of :class:`pcstream.Device`, or of ``prefill``, ``pack``, ``pack_live``, ``fill``,
            ``discard``: ``streams=range(1, 17), spare_factor=[.07, .125]``. Values of ``background_gc`` are pairs or None.
            ``set`` has values by parameter of a scheme, each an axis: ``set={"pcstream.lifetime.chunk": [1, 256]}``.

    Returns:
        The rows, in the order of the grid: the last axis varies fastest.

    Raises:
        ArgumentError: an axis, option or scheme that cannot be; ``out`` for a scheme that cannot be compared; processes
            that cannot start, or cannot read a scheme.
        SweepError: points have no rows for another reason, or none has any. It has the rows of the others, which stay in
            ``out``, too.
        RemoteError: the URL ``out`` cannot be reached.

    Warns:
        SweepWarning: devices of points cannot be, as one without room for garbage collection, and are left out;
            ``failures`` of what is returned has them, each with its :class:`pcstream.DeviceError`.
        LossWarning, PcstreamWarning: points have warnings, in the column ``warnings``; the message has the first. It is a
            LossWarning if a point has one. What the code of a scheme warns of is not among them.

    With ``"processes"``, a script that calls this needs ``if __name__ == "__main__":``, as all of multiprocessing does, and
    schemes come from modules: in a notebook, those that it defines need ``"here"``, Dask or Ray.
    """
    needs("sweep()", "pyarrow", "sweep")
    compute = _executors.of(executor, workers)
    # Held until the rows are there: temporary recordings are deleted with their objects.
    opened = _opened(traces)
    points = grid(opened, schemes, device, {} if options is None else options, axes, kept=out is not None)
    directory = None
    if out is None:
        directory = Temporary(TEMPORARY)
        out = directory.name
    store = Store(out)
    files = [(f"{point.key()}.parquet", point) for point in points]
    failed: dict[str, BaseException] = {}
    said: dict[str, tuple[str, bool]] = {}
    todo: dict[str, Point] = {}
    for file, point in files:
        if file in todo or file in said:
            continue
        found = store.find(file)
        if found is None:
            todo[file] = point
        else:
            said[file] = found["warnings"][0].as_py(), found["losses"][0].as_py()
    found_before = len(said)
    if progress is not None:
        progress(found_before, found_before + len(todo))
    with contextlib.closing(compute(todo)) as computed:
        for done, (file, rows) in enumerate(computed, 1):
            if isinstance(rows, BaseException):
                failed[file] = rows
            else:
                store.write(file, of_rows(rows, _type))
                said[file] = rows[0]["warnings"], rows[0]["losses"]
            if progress is not None:
                progress(found_before + done, found_before + len(todo))
    failures = [Failure(point.trace, point.axes, failed[file]) for file, point in files if file in failed]
    result = Sweep(store, [(file, point) for file, point in files if file not in failed], failures, directory)
    _tell_warnings(result, said)
    _tell_failures(result, kept=directory is None)
    return result


def _tell_warnings(sweep: Sweep, said: Mapping[str, tuple[str, bool]]) -> None:
    """Warns once if points have warnings; ``said`` has the text of each point's, if any, and whether something was missing."""
    points = [(point, *said[file]) for file, point in sweep._files if said[file][0]]
    if points:
        first, text, _ = next((one for one in points if one[2]), points[0])
        category = LossWarning if any(has_losses for *_, has_losses in points) else PcstreamWarning
        of = f"{len(points)} of {len(sweep)} points have warnings, in the column warnings"
        warnings.warn(f"{of}; {dict(first.axes)} of {first.trace}: {text}", category, stacklevel=3)


def _tell_failures(sweep: Sweep, kept: bool) -> None:
    """Says which points have no rows: as a warning if they cannot be and others can."""
    failures = sweep.failures
    if not failures:
        return
    named = "; ".join(str(failure) for failure in failures[:NAMED])
    more = f"; and {len(failures) - NAMED} more" if len(failures) > NAMED else ""
    of = f"{len(failures)} of {len(failures) + len(sweep)} points"
    if len(sweep) and all(isinstance(failure.error, DeviceError) for failure in failures):
        warnings.warn(f"{of} cannot be and are left out: {named}{more}", SweepWarning, stacklevel=3)
        return
    where = f"; the others are in {sweep.path}" if kept else ""
    others = f"; the error's .sweep has the rows of the others{where}" if len(sweep) else ""
    raise SweepError(f"{of} failed: {named}{more}{others}", sweep, failures) from failures[0].error


def _opened(traces: Trace | str | os.PathLike[str] | Iterable[Trace | str | os.PathLike[str]]) -> list[Trace]:
    one = isinstance(traces, (Trace, str, os.PathLike))
    several = (traces,) if one else _check.several("traces", traces, "a trace, where one is, or several of these")
    return [t if isinstance(t, Trace) else Trace(t) for t in several]


def grid(
    opened: Sequence[Trace],
    schemes: Any,
    device: Device | str | None,
    options: Mapping[str, Any],
    axes: Mapping[str, Any],
    kept: bool,
) -> list[Point]:
    """All points, checked before the first is simulated; ``kept`` if a later sweep may find their rows."""
    chosen = tuple(_scheme.chosen(schemes))
    if not opened or not chosen:
        raise ArgumentError("a sweep needs at least one trace and one scheme")
    unknown = [name for name in axes if name not in (*AXES, *OPTION_AXES, "set")]
    if unknown:
        raise ArgumentError(f"axis {unknown[0]!r}: expected one of {', '.join((*AXES, *OPTION_AXES, 'set'))}")
    fixed = _fixed(options, axes)
    values = {name: _values(name, axis) for name, axis in axes.items() if name != "set"}
    settings = _settings(axes.get("set", {}), fixed)
    values |= settings
    for combination in itertools.product(*settings.values()):
        every = {**fixed, **dict(zip(settings, combination, strict=True))}
        _pcstream.check_schemes(list(chosen), Options(settings=every, rules=options.get("rules")))
    common = _identity.build(), _identity.rules(options), _identity.schemes(chosen, kept)
    base = device_of(device)
    points = []
    for (trace, inputs), *picked in itertools.product(_inputs(opened, kept, *common), *values.values()):
        at = dict(zip(values, picked, strict=True))
        changes = {name: value for name, value in at.items() if name in AXES}
        fitted = base.replace(**changes)
        if fitted.profile_name is not None and fitted.logical_pages is None:
            fitted = fitted.scaled()
        all_options = {**options, **{name: value for name, value in at.items() if name in OPTION_AXES}}
        if settings:
            all_options["set"] = {**fixed, **{name: at[name] for name in settings}}
        checked = _options(all_options)
        given = {name: getattr(checked, name) for name in OPTION_AXES}
        shown = {name: _shown(name, value) for name, value in at.items()}
        of = (trace._place, trace._given, trace.id)
        points.append(Point(*of, fitted, chosen, all_options, shown, given, inputs))
    return points


def _fixed(options: Any, axes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Parameters of schemes that all points have. Refuses options that cannot be, or that an axis would replace."""
    if not isinstance(options, Mapping):
        raise ArgumentError(f"options {options!r}: expected a mapping such as {{'pack': 0.9}}")
    known = ["set" if each.name == "settings" else each.name for each in fields(Options) if each.init]
    for name in options:
        if name not in known:
            raise ArgumentError(f"option {name!r}: expected one of {', '.join(known)}")
        if name in axes and name != "set":
            raise ArgumentError(f"axis {name}: it is in the options, too: give it once")
    fixed = options.get("set") or {}
    if not isinstance(fixed, Mapping):
        raise ArgumentError(f"option set {fixed!r}: expected a mapping such as {{'pcstream.lifetime.chunk': 256}}")
    return fixed


def _inputs(
    traces: Sequence[Trace], kept: bool, build: str, rules: str, schemes: tuple[str | None, ...]
) -> list[tuple[Trace, Inputs]]:
    # Where nothing is looked for later, the place of a trace tells it from the others.
    digests = [_identity.trace(one) if kept else one._place for one in traces]
    return [(one, Inputs(build, of, _identity.meta(one), rules, schemes)) for one, of in zip(traces, digests, strict=True)]


def _options(given: Mapping[str, Any]) -> Options:
    """Keyword arguments of :func:`pcstream.simulate`, checked."""
    return Options(**{"settings" if name == "set" else name: value for name, value in given.items()})


def _values(name: str, axis: Any) -> list[Any]:
    axis = _check.plain(axis)
    one = isinstance(axis, (str, int, float)) or axis is None
    several = (axis,) if one else _check.several(f"axis {name}", axis, "a value or several")
    values = [_value(value) for value in several]
    if name == "background_gc" and values and all(isinstance(value, int) for value in values):
        # Numbers are one pair.
        values = [tuple(values)]
    if not values:
        raise ArgumentError(f"axis {name} is empty: expected at least one value")
    # As a column, it is a number or none.
    return [None if name == "prefill" and value == "trace" else value for value in values]


def _value(given: Any) -> Any:
    """One value of an axis. Several that are one value, such as GC destinations, are a tuple, whatever they were given as."""
    value = _check.plain(given)
    return value if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__") else tuple(map(_value, value))


def _settings(swept: Any, fixed: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Values of parameters of schemes that are swept, by parameter: all numbers, or all texts."""
    if not isinstance(swept, Mapping):
        raise ArgumentError(f"axis set {swept!r}: expected a mapping such as {{'pcstream.lifetime.chunk': [1, 256]}}")
    settings = {}
    for name, axis in swept.items():
        if name in fixed:
            raise ArgumentError(f"axis set: {name} is in the option set, too: give it once")
        values = _values(f"set {name}", axis)
        plain = [_plain(name, value) for value in values]
        settings[name] = [setting(name, value)[2] for value in values] if any(isinstance(one, str) for one in plain) else plain
    return settings


def _plain(name: str, value: Any) -> int | float | str:
    """The value of a parameter of a scheme: a number that a column can have, or else its text."""
    value = _check.plain(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 2**63:
        return value
    return setting(name, value)[2]


def _shown(name: str, value: Any) -> Any:
    """A value as a column has it."""
    if name == "background_gc" and value is not None:
        return ":".join(str(number) for number in value)
    return "+".join(value) if isinstance(value, tuple) else value


def _labelled(table: pa.Table, point: Point) -> pa.Table:
    """Rows under the name and the axes of a point, whoever computed them first."""
    import pyarrow

    head = point.head()
    others = {*head, *point.kept_head()}
    rest = table.select([name for name in table.column_names if name not in others])
    for at, (name, value) in enumerate(head.items()):
        rest = rest.add_column(at, name, pyarrow.array([value] * rest.num_rows, _type(name)))
    return rest


def _type(name: str) -> pa.DataType | None:
    """That of a column: options have one also where no point has a value, and that of seeds has room for the largest."""
    import pyarrow

    if name == "seed":
        return pyarrow.uint64()
    if name not in OPTION_AXES:
        return None
    return pyarrow.bool_() if name == "discard" else pyarrow.float64()
