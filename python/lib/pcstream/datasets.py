"""Sample traces: some recorded ones that come with the package, and generated ones of any size.

>>> import pcstream as pc
>>> pc.datasets.load("sqlite")
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from . import _pcstream
from ._errors import ArgumentError
from ._remote import cache_directory, keep
from ._trace import Trace, generate

_DIRECTORY = Path(str(files("pcstream"))) / "data"


@dataclass(frozen=True)
class Dataset:
    """A sample trace."""

    name: str
    about: str
    #: What :func:`pcstream.generate` makes it of; None for a recording.
    parameters: dict[str, Any] | None


def names() -> list[str]:
    """The names of all data sets."""
    return list(_known())


def describe(name: str) -> Dataset:
    """What a data set is: how it was made, of what size."""
    known = _known()
    if name not in known:
        raise ArgumentError(f"data set {name!r}: expected one of {', '.join(known)}")
    return known[name]


def load(name: str) -> Trace:
    """Opens a data set; a generated one is made first, once, in the user's cache directory."""
    dataset = describe(name)
    if dataset.parameters is None:
        return Trace(_DIRECTORY / f"{name}.pctrace")
    text = json.dumps([_pcstream.__version__, dataset.parameters], sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    path = cache_directory() / "datasets" / f"{name}-{digest}.pctrace"
    parameters = dataset.parameters
    keep(path, lambda copy: generate(output=copy, **parameters))
    return Trace(path)


def _known() -> dict[str, Dataset]:
    listed = json.loads((_DIRECTORY / "datasets.json").read_text())
    return {entry["name"]: Dataset(entry["name"], entry["about"], entry.get("generate")) for entry in listed}
