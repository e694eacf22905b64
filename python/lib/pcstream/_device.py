"""Devices: plain values, until a simulation makes models of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, SupportsIndex

from . import _check, _pcstream
from ._errors import ArgumentError
from ._trace import Trace


def _names(name: str, value: Any) -> tuple[str, ...]:
    several = (value,) if isinstance(value, str) else _check.several(name, value, "own, internal, shared, or several")
    return tuple(_check.text(name, one, "own, internal or shared") for one in several)


def _sizes(name: str, value: Any) -> tuple[float, ...]:
    expected = "relative sizes such as (2, 1)"
    return tuple(_check.real(name, one, expected) for one in _check.several(name, value, expected))


def watermarks(name: str, value: Any) -> tuple[int, ...]:
    expected = "two numbers of free superblocks such as (3, 6)"
    numbers = tuple(_check.whole(name, one, 0, 2**32 - 1) for one in _check.several(name, value, expected))
    if len(numbers) != 2:
        raise ArgumentError(f"{name} {value!r}: expected {expected}")
    return numbers


def _times(name: str, value: Any) -> tuple[tuple[str, int], ...]:
    expected = "numbers by name such as {'channels': 4, 'program_ns': 600_000}"
    pairs = value.items() if isinstance(value, Mapping) else _check.several(name, value, expected)
    try:
        given = {_check.text(name, key, expected): number for key, number in pairs}
    except (TypeError, ValueError):
        raise ArgumentError(f"{name} {value!r}: expected {expected}") from None
    most = {key: 2**63 - 1 if key.endswith("_ns") else 2**32 - 1 for key in given}
    return tuple((key, _check.whole(f"{name} {key}", given[key], 0, most[key])) for key in sorted(given))


def _whole(least: int, most: int) -> Callable[[str, Any], int]:
    return lambda name, value: _check.whole(name, value, least, most)


#: What each field has to be, if it is given, and what it becomes.
FIELDS: dict[str, Callable[[str, Any], object]] = {
    "profile_name": lambda name, value: _check.text(name, value, "a name; pcstream.profiles() lists them"),
    "logical_pages": _whole(1, 2**62),
    "spare_factor": lambda name, value: _check.real(name, value, "a number from 0, below 1"),
    "overprovisioning": lambda name, value: _check.real(name, value, "a fraction from 0 to 2"),
    "superblock_pages": _whole(1, 2**32 - 1),
    "streams": _whole(1, 255),
    "gc": _names,
    "victim": lambda name, value: _check.text(name, value, "the name of a policy such as 'greedy'"),
    "pools": _sizes,
    "background_gc": watermarks,
    "timing": _times,
    "seed": _whole(0, 2**64 - 1),
}


@dataclass(frozen=True, kw_only=True)
class Device:
    """A multi-streamed SSD. What is None is the profile's, or the default of ``pcstream simulate``.

    A profile without ``logical_pages`` has the size of its drive, unless it is :meth:`scaled`, or packed or filled by
    :func:`pcstream.simulate`.

    A legacy multi-stream device is simulated twice, unless ``gc`` says otherwise: as it is, and with internal streams.

    Attributes:
        profile_name: a named device to start from; see :meth:`profile`.
        logical_pages: pages of 4 KiB that the host can address; by default those of the profile, or of the trace.
        to_trace: the profile is scaled to the trace that is simulated; see :meth:`scaled`.
        spare_factor: (T-U)/T of T physical and U logical pages, from 0, below 1.
        overprovisioning: (T-U)/U, a fraction from 0 to 2, instead of the spare factor.
        superblock_pages: pages of a superblock (FDP: reclaim unit), the unit of erasing.
        streams: external streams, S0 included: 1 to 255.
        gc: where garbage collection puts what it copies: ``"own"``, ``"internal"``, ``"shared"``, one or several.
        victim: which superblock it empties next: ``"greedy"``, ``"fifo"``, ``"d-choices:3"``, …
        pools: relative sizes of pools: streams from S0 on, then internal streams or the shared destination.
        background_gc: free superblocks (low, high) between which it works in the background.
        timing: parallelism and speeds of ``simulate(..., timing=True)``, by their names in the table ``[timing]`` of a device
            file: ``{"channels": 4, "dies_per_channel": 2, "program_ns": 600_000}``. What is not given is the profile's.
        seed: of everything random.
    """

    profile_name: str | None = None
    logical_pages: SupportsIndex | None = None
    to_trace: bool = False
    spare_factor: float | None = None
    overprovisioning: float | None = None
    superblock_pages: SupportsIndex | None = None
    streams: SupportsIndex | None = None
    gc: str | Sequence[str] | None = None
    victim: str | None = None
    pools: Sequence[float] | None = None
    background_gc: Sequence[SupportsIndex] | None = None
    timing: Mapping[str, SupportsIndex] | Sequence[tuple[str, SupportsIndex]] | None = None
    seed: SupportsIndex | None = None

    def __post_init__(self) -> None:
        values = {name: value for name in FIELDS if (value := getattr(self, name)) is not None}
        for name, value in values.items():
            object.__setattr__(self, name, FIELDS[name](name, value))
        object.__setattr__(self, "to_trace", _check.flag("to_trace", self.to_trace))
        if self.gc == ():
            raise ArgumentError("gc is empty: expected own, internal, shared, one or several")
        if self.spare_factor is not None and self.overprovisioning is not None:
            raise ArgumentError(
                f"spare_factor {self.spare_factor} and overprovisioning {self.overprovisioning}: give one of them"
            )
        if self.spare_factor is not None and not 0 <= self.spare_factor < 1:
            raise ArgumentError(f"spare_factor {self.spare_factor}: expected from 0, below 1")
        if self.overprovisioning is not None and not 0 <= self.overprovisioning <= 2:
            raise ArgumentError(f"overprovisioning {self.overprovisioning}: expected a fraction from 0 to 2, such as 0.14 for 14 %")
        _pcstream.check(self)

    def __repr__(self) -> str:
        given = [(each.name, getattr(self, each.name)) for each in fields(self)]
        named = (f"{name}={value!r}" for name, value in given if value is not None and value is not False)
        return f"Device({', '.join(named)})"

    @classmethod
    def profile(cls, name: str, **changes: Any) -> Device:
        """A named device, such as ``pm963-480g``; :func:`pcstream.profiles` lists them."""
        known = profiles()
        if _check.text("profile", name, "a name; pcstream.profiles() lists them") not in known:
            raise ArgumentError(f"profile {name!r}: expected one of {', '.join(known)}")
        return cls(profile_name=name, **changes)

    def scaled(self, to: Trace | SupportsIndex | None = None) -> Device:
        """The same device at another size: superblocks, buffers and erase times shrink with it.

        Args:
            to: nothing, for the size of whatever trace is simulated, packed if it is; a trace, whose device's size is taken,
                so that a packed trace gets static data beside it; or a number of pages.
        """
        if to is None:
            return replace(self, to_trace=True, logical_pages=None)
        pages = to.device_pages if isinstance(to, Trace) else _check.whole("to", to, 1, 2**62)
        return replace(self, to_trace=False, logical_pages=pages)

    def replace(self, **changes: Any) -> Device:
        """The same device with other values."""
        return replace(self, **changes)

    def geometry(self) -> Mapping[str, Any]:
        """Its sizes and budgets, as ``pcstream geometry --json`` writes them.

        Raises:
            ArgumentError: it is scaled to whatever trace is simulated, so it has no size yet.
        """
        if self.to_trace and self.logical_pages is None:
            text = "geometry: the simulated trace decides the size of this device; give one: scaled(trace).geometry()"
            raise ArgumentError(text)
        derived: dict[str, Any] = json.loads(_pcstream.derive(self))
        return derived


def profiles() -> dict[str, str]:
    """Named devices, and what each is: which of its numbers are known, which are assumptions."""
    return dict(_pcstream.profiles())
