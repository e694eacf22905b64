"""What made a result: this checkout, and the recordings with the versions of their programs and their seeds.

Versions are asked for when a workload is recorded, and kept beside the recording. An earlier recording has none, and they are unknown.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pcstream as pc

from .manual import kept
from .workload import Workload

#: In the directory of what is kept beside a recording.
FILE = "versions.json"
UNKNOWN = "version unknown"


def commit(root: Path) -> str:
    """That of a checkout."""
    found = subprocess.run(["git", "-C", str(root), "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return found.stdout.strip() or "unknown"


def sentence(commit: str, quick: bool, used: Mapping[str, Sequence[pc.Trace]]) -> str:
    """Versions, machine, mode, how many recordings of each workload, day."""
    recordings = ", ".join(f"{name} {len(traces)}" for name, traces in used.items() if traces)
    return (
        f"pcstream {pc.__version__}, commit {commit}, Linux {platform.release()}, {os.cpu_count()} processors, "
        f"{'quick' if quick else 'full'} sizes, recordings: {recordings or 'none'}, {time.strftime('%Y-%m-%d')}."
    )


def keep_versions(workload: Workload, recording: Path) -> None:
    """Asks the workload's programs for their versions, and keeps the answers beside the recording."""
    answers = {name: version(command) for name, command in workload.programs}
    folder = kept(recording)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / FILE).write_text(json.dumps({name: answer for name, answer in answers.items() if answer}, indent=4) + "\n")


def version(command: Sequence[str]) -> str:
    """What looks like a version in what a command prints; nothing if it fails or prints none."""
    try:
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return ""
    found = re.search(r"\d+(?:\.\d+)+[^\s,)]*", printed)
    return found[0] if found else ""


def said_of_programs(workloads: Mapping[str, Workload], used: Mapping[str, Sequence[pc.Trace]]) -> str:
    """Versions of programs, kernel and recorder, and seeds, of the recordings that a table has; nothing without any."""
    there = {name: traces for name, traces in used.items() if traces}
    if not there:
        return ""
    programs = (f"{name}: {', '.join(versions(workloads[name], traces))}" for name, traces in there.items() if workloads[name].programs)
    metas = [trace.meta for traces in there.values() for trace in traces]
    kernels, recorders = (sorted({str(meta.get(key) or "unknown") for meta in metas}) for key in ("kernel", "pcstream_version"))
    drawing: dict[str, list[str]] = {}
    for name in there:
        if workloads[name].unseeded:
            drawing.setdefault(workloads[name].unseeded, []).append(name)
    unseeded = [f"{program} ({', '.join(names)})" for program, names in drawing.items()]
    seeds = "the number of the recording, from 1 on" + (f"; without a seed: {', '.join(unseeded)}" if unseeded else "")
    return f"\nPrograms: {'; '.join(programs)}. Recorded by pcstream {', '.join(recorders)} on Linux {', '.join(kernels)}. Seeds: {seeds}.\n"


def versions(workload: Workload, traces: Sequence[pc.Trace]) -> list[str]:
    """Each program, with the versions that the recordings had."""
    files = [kept(trace.path) / FILE for trace in traces]
    answers = [json.loads(file.read_text()) if file.is_file() else {} for file in files]
    return [f"{name} {' or '.join(sorted({answer.get(name, UNKNOWN) for answer in answers}))}" for name, _ in workload.programs]
