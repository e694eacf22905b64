"""A trace through schemes into a model of an SSD."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import _pcstream, _scheme
from ._device import Device
from ._errors import ArgumentError, LossWarning, SizeWarning, missing
from ._options import Options
from ._plot import Plot
from ._result import Result
from ._scheme import Scheme
from ._trace import Trace

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

#: Schemes compared by default, as by ``pcstream simulate``: the papers', ours and their limit.
DEFAULT_SCHEMES = ("baseline", "manual", "autostream-mq", "autostream-sfr", "pcstream", "pcstream-plus", "oracle")


class Results(Sequence[Result]):
    """All results of a simulation, in the order of schemes and GC destinations."""

    def __init__(self, text: str, contexts: str, curves: Sequence[Sequence[tuple[int, int]]]) -> None:
        #: The result as ``pcstream simulate --json`` writes it.
        self.json: dict[str, Any] = json.loads(text)
        self._contexts: dict[str, Any] = json.loads(contexts)
        pairs = zip(self.json["results"], curves, strict=True)
        self._results = [Result(fields, curve) for fields, curve in pairs]

    def __len__(self) -> int:
        return len(self._results)

    def __iter__(self) -> Iterator[Result]:
        return iter(self._results)

    def __getitem__(self, key: Any) -> Any:
        """By index; by name of the scheme (on its first device); or by name and GC destination."""
        if isinstance(key, (int, slice)):
            return self._results[key]
        scheme, destination = key if isinstance(key, tuple) else (key, None)
        for result in self._results:
            if result.scheme == scheme and destination in (None, result.gc_destination):
                return result
        there = ", ".join(f"{r.scheme} {r.gc_destination}" for r in self._results)
        raise KeyError(f"{key!r}: expected one of {there}")

    def __repr__(self) -> str:
        lines = [f"{r.scheme:20} {r.gc_destination:9} {'-' if r.waf is None else format(r.waf, '.3f')}" for r in self]
        return "\n".join([f"{'scheme':20} {'GC to':9} WAF", *lines])

    @property
    def verdict(self) -> Mapping[str, Any]:
        """What it means, as the command line says it."""
        verdict: dict[str, Any] = self.json["verdict"]
        return verdict

    @property
    def device(self) -> Mapping[str, Any]:
        """The device that was simulated."""
        device: dict[str, Any] = self.json["device"]
        return device

    @property
    def contexts(self) -> Sequence[Mapping[str, Any]]:
        """Who wrote what, heaviest first, and how long it lived. Streams are those of ``pcstream``, else of the first scheme."""
        contexts: list[dict[str, Any]] = self._contexts["contexts"]
        return contexts

    @property
    def rows(self) -> list[dict[str, Any]]:
        """A flat row for every result."""
        return [result.row() for result in self]

    @property
    def plot(self) -> Plot:
        """Pictures, made by matplotlib."""
        return Plot(self)

    def to_pandas(self) -> pd.DataFrame:
        """:attr:`rows` as a ``pandas.DataFrame``."""
        try:
            import pandas
        except ImportError as error:
            raise missing("pandas", "pandas", "to_pandas()") from error
        frame: pd.DataFrame = pandas.DataFrame(self.rows)
        return frame

    def to_polars(self) -> pl.DataFrame:
        """:attr:`rows` as a ``polars.DataFrame``."""
        try:
            import polars
        except ImportError as error:
            raise missing("polars", "polars", "to_polars()") from error
        return polars.DataFrame(self.rows, infer_schema_length=None)


def simulate(
    trace: Trace | str | os.PathLike[str],
    schemes: str | Scheme | type[Scheme] | Sequence[str | Scheme | type[Scheme]] = DEFAULT_SCHEMES,
    device: Device | None = None,
    *,
    prefill: float | None = None,
    timing: bool = False,
    queue_depth: int = 32,
    open_loop: bool = False,
    pack: float | None = None,
    fill: float | None = None,
    discard: bool = True,
    memory: int | None = None,
    rules: str | os.PathLike[str] | None = None,
    set: Mapping[str, object] | None = None,  # noqa: A002 (as the flag is called)
) -> Results:
    """Runs a trace through placement schemes into a model of an SSD: ``pcstream simulate`` with the same results.

    Other Python threads run meanwhile, and Ctrl-C ends it.

    Args:
        trace: a trace, or where it is.
        schemes: names (``NAME:READING`` takes a reading), ``"all"``, instances of :class:`pcstream.Scheme`.
        device: the SSD; by default one of the trace's size, with and without internal streams.
        prefill: share of the address space that holds data before counting; by default what the trace says.
        timing: simulates time, too: IOPS and latencies.
        queue_depth: requests outstanding at any time, with ``timing``.
        open_loop: requests arrive at the times of the trace, with ``timing``.
        pack: moves the addresses that the trace writes together, so that they fill this share of the device.
        fill: adds static data until this share of the device holds data.
        discard: whether the trace's discards reach the device.
        memory: bytes that it may take; by default three quarters of what is free. What does not fit takes more passes.
        rules: rules of ``manual``: the name of a preset, or a file.
        set: parameters of schemes, ``{"SCHEME.PARAMETER": value}``; :func:`pcstream.schemes` lists them.

    Raises:
        ArgumentError: a device or scheme that cannot be.
        TraceError: the trace cannot be read.
        SimulationError: an event contradicts the device.
        NotEnoughMemoryError: more memory would be needed.

    Warns:
        LossWarning: the trace lacks something.
        SizeWarning: the trace writes less than its device holds, and is not packed.
    """
    options = Options(prefill, timing, queue_depth, open_loop, pack, fill, discard, memory, rules, set or {})
    opened = trace if isinstance(trace, Trace) else Trace(trace)
    chosen = _scheme.chosen(schemes)
    if not chosen:
        raise ArgumentError("schemes is empty: expected at least one; pcstream.schemes() lists them")
    given = opened._given
    results = Results(*_pcstream.simulate(opened._native, given, chosen, device or Device(), options))
    _warn(opened, results, options)
    return results


def _warn(trace: Trace, results: Results, options: Options) -> None:
    said = results.json["trace"]
    if said["damage"] is not None or not said["complete"]:
        damage = said["damage"] or "the recording was not finished"
        warnings.warn(f"{trace._given}: results are for what can be read: {damage}", LossWarning, stacklevel=3)
    elif any(said["losses"].values()):
        lost = ", ".join(f"{cause} {count}" for cause, count in said["losses"].items() if count)
        warnings.warn(f"{trace._given}: something was lost when it was recorded: {lost}", LossWarning, stacklevel=3)
    written = trace.meta["totals"]["host_pages"]
    if written < trace.device_pages and options.pack is None:
        text = f"{trace._given}: {written} pages written to a device of {trace.device_pages}: too little to say anything"
        warnings.warn(f"{text}; pack=0.9 simulates what is written as if it filled 90 %", SizeWarning, stacklevel=3)
