"""A trace through schemes into a model of an SSD."""

from __future__ import annotations

import html
import json
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex, overload

from . import _errors, _pcstream, _remote, _scheme
from ._device import Device
from ._errors import ArgumentError, LossWarning, SizeWarning, needs
from ._options import Options
from ._plot import Plot
from ._result import Result
from ._scheme import Scheme
from ._table import Tabular, of_rows
from ._trace import Trace

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

#: Schemes compared by default, as by ``pcstream simulate``: the papers', ours and their limit.
DEFAULT_SCHEMES = ("baseline", "manual", "autostream-mq", "autostream-sfr", "pcstream", "pcstream-plus", "oracle")


class Results(Tabular, Sequence[Result]):
    """All results of a simulation, in the order of schemes and GC destinations."""

    def __init__(
        self,
        text: str,
        contexts: str,
        curves: Sequence[Sequence[tuple[int, int]]],
        dropped: Sequence[tuple[str, int, str]],
        remarks: Sequence[tuple[str, str]],
    ) -> None:
        #: The result as ``pcstream simulate --json`` writes it.
        self.json: dict[str, Any] = json.loads(text)
        #: Schemes that dropped what they knew of live data, how often, and the parameter that bounds their memory.
        self.dropped: Sequence[tuple[str, int, str]] = dropped
        #: What else limits what they say: the class of the warning, and its text.
        self.remarks: Sequence[tuple[str, str]] = remarks
        self._contexts: dict[str, Any] = json.loads(contexts)
        pairs = zip(self.json["results"], curves, strict=True)
        self._results = [Result(fields, curve) for fields, curve in pairs]

    def __len__(self) -> int:
        return len(self._results)

    def __iter__(self) -> Iterator[Result]:
        return iter(self._results)

    @overload
    def __getitem__(self, key: SupportsIndex | str | tuple[str, str]) -> Result: ...
    @overload
    def __getitem__(self, key: slice) -> Sequence[Result]: ...
    def __getitem__(self, key: SupportsIndex | str | tuple[str, str] | slice) -> Result | Sequence[Result]:
        """By index; by name of the scheme (on its first device); or by name and GC destination."""
        if isinstance(key, (SupportsIndex, slice)):
            return self._results[key]
        found = self._find(key)
        if found is None:
            there = ", ".join(f"{r.scheme} {r.gc_destination}" for r in self._results)
            raise KeyError(f"{key!r}: expected one of {there}")
        return found

    def __contains__(self, key: object) -> bool:
        """Whether there is such a result, or one by this name, or by this name and GC destination."""
        return key in self._results if isinstance(key, Result) else self._find(key) is not None

    def _find(self, key: object) -> Result | None:
        scheme, destination = key if isinstance(key, tuple) and len(key) == 2 else (key, None)
        for result in self._results:
            if result.scheme == scheme and destination in (None, result.gc_destination):
                return result
        return None

    def __repr__(self) -> str:
        width = max((len(r.scheme) for r in self), default=0)
        lines = [f"{r.scheme:{width}} {r.gc_destination:9} {'-' if r.waf is None else format(r.waf, '.3f')}" for r in self]
        return "\n".join([f"{'scheme':{width}} {'GC to':9} WAF", *lines])

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
        """Who wrote what, heaviest first, and how long it lived. Streams are those of the result that
        :attr:`verdict` recommends, else of the first."""
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

    def _repr_html_(self) -> str:
        cells = [(r.scheme, r.gc_destination, "-" if r.waf is None else format(r.waf, ".3f")) for r in self]
        rows = [("scheme", "GC to", "WAF"), *cells]
        lines = ("".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in rows)
        return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"

    def to_arrow(self) -> pa.Table:
        """:attr:`rows` as a ``pyarrow.Table``."""
        needs("to_arrow()", "pyarrow", "pandas")
        return of_rows(self.rows)

    def to_polars(self) -> pl.DataFrame:
        """:attr:`rows` as a ``polars.DataFrame``; without pyarrow."""
        needs("to_polars()", "polars", "polars")
        import polars

        return polars.DataFrame(self.rows, infer_schema_length=None)


def simulate(
    trace: Trace | str | os.PathLike[str],
    schemes: str | Scheme | type[Scheme] | Sequence[str | Scheme | type[Scheme]] = DEFAULT_SCHEMES,
    device: Device | str | None = None,
    *,
    prefill: float | str | None = None,
    timing: bool = False,
    queue_depth: SupportsIndex | None = None,
    open_loop: bool = False,
    pack: float | None = None,
    pack_live: float | None = None,
    fill: float | None = None,
    discard: bool = True,
    memory: SupportsIndex | None = None,
    rules: str | os.PathLike[str] | None = None,
    set: Mapping[str, object] | None = None,  # noqa: A002 (as the flag is called)
) -> Results:
    """Runs a trace through placement schemes into a model of an SSD: ``pcstream simulate`` with the same results.

    Other Python threads run meanwhile, and Ctrl-C ends it.

    Args:
        trace: a trace, or where it is.
        schemes: names (``NAME:READING`` takes a reading, ``NAME:best`` every one), ``"all"``, instances of
            :class:`pcstream.Scheme`.
        device: the SSD, or the name of a profile, which is scaled to the trace; by default one of the trace's size, with and
            without internal streams.
        prefill: share of the address space that holds data before counting; by default, or as ``"trace"``, what the trace says.
        timing: simulates time, too: IOPS and latencies.
        queue_depth: requests outstanding at any time, with ``timing``; by default 32.
        open_loop: instead of that, requests arrive at the times of the trace.
        pack: moves the addresses that the trace writes together, so that they fill this share of the device; a profile is
            scaled to them, unless its size is given.
        pack_live: the same for the data that lives at once, at most; for traces with discards, which leave many addresses
            without data.
        fill: adds static data until this share of the device holds data; a profile is scaled to the trace, likewise.
        discard: whether the trace's discards reach the device.
        memory: bytes that it may take; by default three quarters of what is free. What does not fit takes more passes.
        rules: rules of ``manual``: the name of a preset, or a file.
        set: parameters of schemes, ``{"SCHEME.PARAMETER": value}``; :func:`pcstream.schemes` lists them.

    Raises:
        DeviceError: a device that cannot be, or cannot hold the trace; it is an ArgumentError, too.
        ArgumentError: a scheme or an option that cannot be.
        TraceError: the trace cannot be read.
        SimulationError: an event contradicts the device.
        NotEnoughMemoryError: more memory would be needed.

    Warns:
        LossWarning: the trace lacks something, or a scheme dropped what it knew because its memory is bounded.
        SizeWarning: the trace writes less than the simulated device holds, and is not packed; with ``pack``: discards leave
            the device emptier than that; with ``pack_live``: a scheme goes by neighbouring addresses, of which the recording
            used more than such a device has.
        PcstreamWarning: rules of a file matched nothing, or name streams that the device lacks (a preset's are for many
            programs, and ``folded_rules`` of its ``facts`` counts the latter); superblocks are smaller than by default, because
            garbage collection has no room with those; with ``timing``: superblocks are too small for its times.
    """
    options = Options(prefill, timing, queue_depth, open_loop, pack, pack_live, fill, discard, memory, rules, set or {})
    results, said = simulated(trace if isinstance(trace, Trace) else Trace(trace), schemes, device, options)
    for category, text in said:
        warnings.warn(text, category, stacklevel=2)
    return results


def simulated(
    trace: Trace,
    schemes: str | Scheme | type[Scheme] | Sequence[str | Scheme | type[Scheme]],
    device: Device | str | None,
    options: Options,
) -> tuple[Results, list[tuple[type[Warning], str]]]:
    """Results, and what limits what they say: the classes of warnings, and their texts."""
    chosen = _scheme.chosen(schemes)
    if not chosen:
        raise ArgumentError("schemes is empty: expected at least one; pcstream.schemes() lists them")
    given = trace._given
    fitted = _fitted(device, options)
    with _remote.copied(trace._place, trace.path):
        results = Results(*_pcstream.simulate(trace._native, given, chosen, fitted, options))
    said: list[tuple[type[Warning], str]] = [(LossWarning, text) for text in _losses(given, results)]
    said += [(getattr(_errors, category), f"{given}: {text}") for category, text in results.remarks]
    too_little = "" if options.is_packed else _too_little(trace, fitted, results)
    of_size = (too_little, _spread(given, results) if options.pack_live is not None else "")
    return results, said + [(SizeWarning, text) for text in of_size if text]


def device_of(device: Device | str | None) -> Device:
    """A device, or the profile of that name, scaled; without either, the default one."""
    if isinstance(device, str):
        return Device.profile(device).scaled()
    if device is not None and not isinstance(device, Device):
        raise ArgumentError(f"device {device!r}: expected a pcstream.Device, or the name of a profile")
    return device or Device()


def _fitted(device: Device | str | None, options: Options) -> Device:
    """The device, scaled to the trace where that was not ruled out by a size, as the program does it."""
    fitted = device_of(device)
    whole_drive = fitted.profile_name is not None and fitted.logical_pages is None
    return fitted.scaled() if whole_drive and options.changes_size else fitted


def _losses(given: str, results: Results) -> Iterator[str]:
    """All for which the program ends with exit code 3."""
    said = results.json["trace"]
    if said["damage"] is not None or not said["complete"]:
        damage = said["damage"] or "the recording was not finished"
        yield f"{given}: results are for what can be read: {damage}"
    lost = ", ".join(f"{cause} {count}" for cause, count in said["losses"].items() if count)
    if lost:
        yield f"{given}: something was lost when it was recorded or imported: {lost}"
    for scheme, count, parameter in results.dropped:
        more = f"set={{'{scheme.partition(':')[0]}.{parameter}': BYTES}}"
        text = f"{given}: {scheme} dropped what it knew of live data {count} times at its memory bound"
        yield f"{text}, which may change its result: more with {more}"


def _spread(given: str, results: Results) -> str:
    """What to say if schemes see more addresses than a device of this size has."""
    schemes = dict.fromkeys(result["scheme"] for result in results.json["results"] if result["reads_addresses"])
    if not schemes:
        return ""
    text = f"{given}: {', '.join(sorted(schemes))}: neighbouring addresses matter, and are those of the recording"
    return f"{text}; on a device of this size a file system would use freed ones again"


def _too_little(trace: Trace, device: Device, results: Results) -> str:
    """What to say if the flash of the simulated device is not even written once."""
    written = trace.meta["totals"]["host_pages"]
    before, flash = results.device["prefill_pages"], results.device["physical_pages"]
    if written + before >= flash:
        return ""
    more = f", and {before} before" if before else ""
    text = f"{trace._given}: {written} pages written to {flash} pages of flash{more}: too little to say anything"
    whole_drive = device.profile_name is not None and device.logical_pages is None and not device.to_trace
    scale = "Device.scaled() makes a profile as large as the traced device, and " if whole_drive else ""
    return f"{text}; {scale}pack=0.9 simulates what is written as if it filled 90 %"
