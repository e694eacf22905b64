"""What decides the rows of a point besides its values: the trace, the rules, the schemes in Python, the build of the package.

Two points share rows only if all of it is equal. What is like no other gets a name that nothing else has.
"""

from __future__ import annotations

import functools
import hashlib
import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import _fingerprint, _pcstream
from ._errors import ArgumentError, SweepError
from ._options import Options
from ._scheme import Scheme
from ._trace import Trace

#: Bytes that are read at a time.
_BLOCK = 1 << 20
#: What to do about what is not the same everywhere.
_OTHER = "not what it was where and when the sweep began; begin again when it is the same for all workers, and stays so"
#: Schemes in Python that were looked at in this process. Once: running one may change what its code uses.
_compared: set[str] = set()


@dataclass(frozen=True)
class Inputs:
    """Digests of what a point depends on."""

    build: str
    #: Of ``meta.json`` and the tables.
    trace: str
    #: Of ``meta.json`` alone.
    meta: str
    rules: str
    #: Of each scheme: its name, or the digest of one in Python; None if it cannot be compared.
    schemes: tuple[str | None, ...]

    def check(self, trace: Trace, options: Mapping[str, Any]) -> None:
        """Refuses to compute a point elsewhere, or later, from another trace or other rules."""
        if meta(trace) != self.meta:
            raise SweepError(f"{trace._place}: {_OTHER}")
        if rules(options) != self.rules:
            raise SweepError(f"rules {options['rules']}: {_OTHER}")

    def check_code(self, schemes: Sequence[str | Scheme]) -> None:
        """Likewise with another build of the package or other schemes."""
        if build() != self.build:
            raise SweepError(f"{Path(__file__).parent}, the package pcstream: {_OTHER}")
        for given, digest in zip(schemes, self.schemes, strict=True):
            if isinstance(given, str) or digest is None or digest in _compared:
                continue
            if scheme(given) != digest:
                raise SweepError(
                    f"the scheme {given.name} is another one in the process that simulates it: its class, or what it uses, was "
                    "changed after its import; make the change in its module or its instance, or use executor='here'"
                )
            _compared.add(digest)


@functools.cache
def build() -> str:
    """Tells builds of one version apart: a digest of the package's code."""
    package = Path(__file__).parent
    return _files([Path(str(_pcstream.__file__)), *sorted(package.glob("*.py"))])


def meta(trace: Trace) -> str:
    """Of what a trace says about itself: device, what was allocated before, losses, sums."""
    return _text(trace.meta)


def trace(opened: Trace) -> str:
    """Of all that a trace holds, wherever it lies; of one that is being written, like no other."""
    try:
        tables = _files(sorted(opened.path.glob("*.parquet")))
    except OSError:
        return uuid.uuid4().hex
    return _text([meta(opened), tables])


def rules(options: Mapping[str, Any]) -> str:
    """Of the rules for ``manual``, where they are a file."""
    given = options.get("rules")
    return "" if given is None else _text(Options(rules=given).rules_text)


def schemes(given: Iterable[str | Scheme], kept: bool) -> tuple[str | None, ...]:
    """Of each scheme; if the results are ``kept``, there must be one."""
    found: list[str | None] = []
    for one in given:
        try:
            found.append(one if isinstance(one, str) else scheme(one))
        except _fingerprint.UnknownError as error:
            if kept:
                raise ArgumentError(
                    f"out: results of the scheme {getattr(one, 'name', one)} cannot be found again, because it cannot be "
                    f"compared with others of that name: {error}; leave out away, or keep such things out of the scheme"
                ) from error
            found.append(None)
    _compared.update(digest for digest in found if digest is not None)
    return tuple(found)


def scheme(given: Scheme) -> str:
    """Of a scheme in Python: its code and its values."""
    return f"{given.name} {_fingerprint.of(given)}"


def _text(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _files(paths: Iterable[Path]) -> str:
    digest = hashlib.blake2b()
    for path in paths:
        digest.update(f"{path.name}\0{path.stat().st_size}\0".encode())
        with path.open("rb") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
    return digest.hexdigest()
