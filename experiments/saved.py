"""What saved results were made of: a figure with the same is kept. So a call that was interrupted goes on where it ended.

The same are: the package's build, the code of the experiments, sizes, and the recordings. ``NAME.made.json`` beside a result has all
that, and whether something was lost, and is written last. A measurement has no recordings, and depends on the machine, so it is made each time.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from pcstream import _identity

from .lab import Lab, Table

HERE = Path(__file__).resolve().parent


def build() -> str:
    """Tells builds apart: digests of the package, its native half included, and of the experiments' Python."""
    files = [file for folder in (HERE, HERE / "figures", HERE / "workloads") for file in sorted(folder.glob("*.py"))]
    digest = hashlib.sha256(b"".join(hashlib.sha256(file.read_bytes()).digest() for file in files)).hexdigest()[:16]
    return f"{_identity.build()} {digest}"


#: Of the code that runs: the checkout may change meanwhile.
BUILD = build()


def file_of(lab: Lab, name: str) -> Path:
    """Where it is said what a figure's saved result was made of."""
    return lab.out / "results" / f"{name}.made.json"


def parts(lab: Lab, recordings: dict[str, list[str]]) -> dict[str, Any]:
    """What a result depends on. ``recordings``: ids of traces by workload."""
    return {"build": BUILD, "quick": lab.quick, "recordings": recordings}


def made_of(lab: Lab) -> dict[str, Any]:
    """What the lab's current table is made of."""
    return parts(lab, {name: [str(trace.meta["trace_id"]) for trace in traces] for name, traces in lab.found.items()})


def write(lab: Lab, table: Table) -> Path:
    """Writes the lab's current table, and then what it was made of."""
    made, place = {"of": made_of(lab), "losses": bool(lab.losses)}, file_of(lab, table.name)
    if table.rows:
        place.unlink(missing_ok=True)
    path = lab.write(table)
    if table.rows:
        place.write_text(json.dumps(made, indent=4) + "\n")
    return path


def keep(lab: Lab, name: str) -> Path | None:
    """The saved result of a figure, if it would be made of the same again. What it lacks counts as left out."""
    try:
        made = json.loads(file_of(lab, name).read_text())
        recordings = {workload: [str(trace.meta["trace_id"]) for trace in lab.recorded(workload)] for workload in made["of"]["recordings"]}
        same, losses = made["of"] == parts(lab, recordings), bool(made["losses"])
    except (OSError, ValueError, KeyError):
        return None
    there = bool(recordings) and (lab.out / "results" / f"{name}.csv").is_file()
    if not same or not there or (lab.may_record and any(may_change(lab, workload, len(ids)) for workload, ids in recordings.items())):
        return None
    for workload, ids in recordings.items():
        if not ids:
            lab.leave_out(workload, f"not in {name}, which is kept")
    lab.had_losses |= losses
    return lab.out / "results" / f"{name}.md"


def may_change(lab: Lab, workload: str, recordings: int) -> bool:
    """Whether recording now would give a workload more recordings."""
    return recordings < lab.recordings and not lab.workloads[workload].missing()
