"""How a device is used and what is measured: what simulations and sweeps share."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ._errors import ArgumentError


@dataclass(frozen=True)
class Options:
    """Checked options of a simulation; see :func:`pcstream.simulate` for what they mean."""

    prefill: float | None = None
    timing: bool = False
    queue_depth: int = 32
    open_loop: bool = False
    pack: float | None = None
    fill: float | None = None
    discard: bool = True
    memory: int | None = None
    rules: str | os.PathLike[str] | None = None
    settings: Mapping[str, object] = field(default_factory=dict)
    rules_text: str | None = field(init=False, default=None)
    rules_name: str | None = field(init=False, default=None)
    set: list[tuple[str, str, str]] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        for name in ("prefill", "pack", "fill"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= 1:
                raise ArgumentError(f"{name} {value}: expected a share from 0 to 1")
        if self.pack == 0:
            raise ArgumentError("pack 0: expected a share above 0")
        if self.fill is not None and (self.pack is not None or self.prefill is not None):
            raise ArgumentError("fill comes without pack and prefill: give one of them")
        if not 1 <= self.queue_depth <= 65536:
            raise ArgumentError(f"queue_depth {self.queue_depth}: expected 1 to 65536")
        if self.open_loop and not self.timing:
            raise ArgumentError("open_loop without timing: expected timing=True beside it")
        if self.memory is not None and self.memory < 1:
            raise ArgumentError(f"memory {self.memory}: expected a number of bytes, 1 or more")
        object.__setattr__(self, "set", [setting(key, value) for key, value in self.settings.items()])
        if self.rules is not None:
            name, path = os.fspath(self.rules), Path(self.rules)
            object.__setattr__(self, "rules_name", name)
            if isinstance(self.rules, os.PathLike) or path.exists():
                try:
                    object.__setattr__(self, "rules_text", path.read_text())
                except OSError as error:
                    raise ArgumentError(f"rules {name}: {error.strerror}") from error

    @property
    def changes_size(self) -> bool:
        """Whether the simulated device is not of the trace's size, or static data fills it."""
        return self.pack is not None or self.fill is not None


def setting(key: str, value: object) -> tuple[str, str, str]:
    """Scheme, parameter and value of ``{"SCHEME.PARAMETER": value}``."""
    scheme, dot, parameter = key.partition(".")
    if not dot or not scheme or not parameter:
        raise ArgumentError(f"set {key!r}: expected SCHEME.PARAMETER, as in 'pcstream.mapper.distance'")
    return scheme, parameter, str(value).lower() if isinstance(value, bool) else str(value)
