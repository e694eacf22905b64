"""Sample traces: some recorded ones that come with the package, and generated ones of any size.

>>> import pcstream as pc
>>> pc.datasets.load("sqlite")
"""

from __future__ import annotations

import hashlib
import json
import shlex
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib.resources import files
from pathlib import Path
from typing import Any

from . import _check, _pcstream
from ._errors import ArgumentError
from ._remote import cache_directory, keep
from ._trace import Trace, generate

_DIRECTORY = Path(str(files("pcstream"))) / "data"


#: Columns of each table; docs/trace-format.md describes them.
COLUMNS = {
    "events": "time_ns, op, lba, pages, context, file, file_page, kind, hint, write_stream",
    "contexts": "context, signature, executable, comm, entry, unwind, frames",
    "files": "file, inode, generation, path",
}


@dataclass(frozen=True, repr=False)
class Dataset:
    """A sample trace. Printed, it is a card: how it was made, by which versions, its licence and columns."""

    name: str
    about: str
    #: What :func:`pcstream.generate` makes it of; None for a recording.
    parameters: dict[str, Any] | None
    #: What was recorded, with versions.
    programs: str | None = None
    licence: str = "MIT OR Apache-2.0"

    @property
    def card(self) -> dict[str, str]:
        """The facts by name."""
        facts = {"about": self.about, "licence": self.licence}
        if self.parameters is None:
            facts |= self._recorded()
        else:
            given = ", ".join(f"{name}={value!r}" for name, value in self.parameters.items())
            facts["made by"] = f"pcstream.generate({given}), once, in the user's cache"
        return facts | {f"{table}()": columns for table, columns in COLUMNS.items()}

    def _recorded(self) -> dict[str, str]:
        meta = json.loads((_DIRECTORY / f"{self.name}.pctrace" / "meta.json").read_text())
        totals, device, system = meta["totals"], meta["device"]["pages"], meta["file_system"]
        day = datetime.fromtimestamp(meta["created_unix_s"], timezone.utc).date()
        lost = ", ".join(f"{cause} {count}" for cause, count in meta["losses"].items() if count)
        return {
            "programs": str(self.programs),
            "command": shlex.join(meta["command"]),
            "recorded": f"{day}, pcstream {meta['pcstream_version']}, trace format {meta['format_version']}",
            "kernel": f"Linux {meta['kernel']}",
            "device": f"{device} pages of 4 KiB, {system['type']}",
            "totals": f"{totals['events']} events, {totals['host_pages']} pages written, {totals['files']} files",
            "losses": lost or "none",
        }

    def __repr__(self) -> str:
        width = max(map(len, self.card))
        return "\n".join([self.name, *(f"  {name:{width}}  {value}" for name, value in self.card.items())])


def names() -> list[str]:
    """The names of all data sets."""
    return list(_known())


def describe(name: str) -> Dataset:
    """What a data set is: print it for its card."""
    known = _known()
    if _check.text("data set", name, "a name") not in known:
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
    return {one["name"]: Dataset(one["name"], one["about"], one.get("generate"), one.get("programs")) for one in listed}
