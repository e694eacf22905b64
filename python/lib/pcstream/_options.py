"""How a device is used and what is measured: what simulations and sweeps share."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import SupportsIndex

from . import _check, _pcstream
from ._errors import ArgumentError


@dataclass(frozen=True)
class Options:
    """Checked options of a simulation; see :func:`pcstream.simulate` for what they mean."""

    prefill: float | str | None = None
    timing: bool = False
    queue_depth: SupportsIndex | None = None
    open_loop: bool = False
    pack: float | None = None
    pack_live: float | None = None
    fill: float | None = None
    discard: bool = True
    memory: SupportsIndex | None = None
    rules: str | os.PathLike[str] | None = None
    settings: Mapping[str, object] = field(default_factory=dict)
    rules_text: str | None = field(init=False, default=None)
    rules_name: str | None = field(init=False, default=None)
    set: list[tuple[str, str, str]] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        if self.prefill == "trace":
            object.__setattr__(self, "prefill", None)
        self._check_types()
        for name in ("prefill", "pack", "pack_live", "fill"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= 1:
                raise ArgumentError(f"{name} {value}: expected a share from 0 to 1")
        for name in ("pack", "pack_live"):
            if getattr(self, name) == 0:
                raise ArgumentError(f"{name} 0: expected a share above 0")
        if self.fill is not None and (self.is_packed or self.prefill is not None):
            raise ArgumentError("fill comes without pack, pack_live and prefill: give one of them")
        if self.pack_live is not None and (self.pack is not None or self.prefill is not None):
            raise ArgumentError("pack_live comes without pack, fill and prefill: give one of them")
        for name in ("open_loop", "queue_depth"):
            if getattr(self, name) not in (None, False) and not self.timing:
                raise ArgumentError(f"{name} without timing: expected timing=True beside it")
        if self.open_loop and self.queue_depth is not None:
            raise ArgumentError("queue_depth with open_loop: requests arrive at the times of the trace; give one of them")
        object.__setattr__(self, "set", [setting(key, value) for key, value in self.settings.items()])
        if self.rules is not None:
            object.__setattr__(self, "rules_name", str(self.rules))
            object.__setattr__(self, "rules_text", rules_text(self.rules))

    def _check_types(self) -> None:
        for name in ("prefill", "pack", "pack_live", "fill"):
            value, more = getattr(self, name), ", or 'trace'" if name == "prefill" else ""
            if value is not None:
                object.__setattr__(self, name, _check.real(name, value, f"a share from 0 to 1{more}"))
        for name in ("timing", "open_loop", "discard"):
            object.__setattr__(self, name, _check.flag(name, getattr(self, name)))
        if self.queue_depth is not None:
            object.__setattr__(self, "queue_depth", _check.whole("queue_depth", self.queue_depth, 1, 65536))
        if self.memory is not None:
            object.__setattr__(self, "memory", _check.whole("memory", self.memory, 1, 2**64 - 1))
        if not isinstance(self.settings, Mapping):
            raise ArgumentError(f"set {self.settings!r}: expected a mapping such as {{'pcstream.mapper.distance': 'log'}}")
        if self.rules is not None and not isinstance(self.rules, (str, os.PathLike)):
            raise ArgumentError(f"rules {self.rules!r}: expected the name of a preset, or a file")

    @property
    def changes_size(self) -> bool:
        """Whether the simulated device is not of the trace's size, or static data fills it."""
        return self.is_packed or self.fill is not None

    @property
    def is_packed(self) -> bool:
        """Whether the size of the simulated device goes by what the trace writes."""
        return self.pack is not None or self.pack_live is not None


def rules_text(rules: str | os.PathLike[str]) -> str | None:
    """The rules in a file; None for a preset, which is what a name stands for if it can."""
    presets = _pcstream.presets()
    if isinstance(rules, str) and rules in presets:
        return None
    try:
        return Path(rules).read_bytes().decode()
    except FileNotFoundError as error:
        known = ", ".join(presets)
        raise ArgumentError(f"rules {rules}: there is no such file, and the presets are {known}") from error
    except OSError as error:
        raise ArgumentError(f"rules {rules}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ArgumentError(f"rules {rules}: expected a text file, but it is not UTF-8: {error}") from error


def setting(key: str, value: object) -> tuple[str, str, str]:
    """Scheme, parameter and value of ``{"SCHEME.PARAMETER": value}``."""
    scheme, dot, parameter = _check.text("set", key, "SCHEME.PARAMETER, as in 'pcstream.mapper.distance'").partition(".")
    if not dot or not scheme or not parameter:
        raise ArgumentError(f"set {key!r}: expected SCHEME.PARAMETER, as in 'pcstream.mapper.distance'")
    return scheme, parameter, str(value).lower() if isinstance(value, bool) else str(value)
