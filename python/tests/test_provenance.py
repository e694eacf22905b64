"""What results of the experiments say of their recordings: versions of programs, and seeds."""

from __future__ import annotations

import importlib
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

import pcstream as pc

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(name="provenance")
def _provenance(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("experiments.provenance")


def test_versions_are_those_that_programs_had_when_they_were_recorded(provenance: Any, tmp_path: Path) -> None:
    make = importlib.import_module("experiments.workload").Workload
    printed = (sys.executable, "-c", "print('Ver 10.11.19-deb12u1, for Linux')")
    programs = (("Store", printed), ("Client", ("no-such-program",)))
    workload = make("store", "", ("true",), "64M", 0, (), programs=programs, unseeded="Client")
    recordings = [tmp_path / f"store-{number}.pctrace" for number in (1, 2)]
    for path in recordings:
        shutil.copytree(pc.datasets.load("sqlite").path, path)
    provenance.keep_versions(workload, recordings[0])
    traces = [pc.open(path) for path in recordings]
    assert provenance.versions(workload, traces[:1]) == ["Store 10.11.19-deb12u1", "Client version unknown"]
    assert provenance.versions(workload, traces) == ["Store 10.11.19-deb12u1 or version unknown", "Client version unknown"]
    said = provenance.said_of_programs({"store": workload}, {"store": traces, "other": []})
    meta = traces[0].meta
    assert f"Recorded by pcstream {meta['pcstream_version']} on Linux {meta['kernel']}. Seeds: the number of the recording" in said
    assert said.endswith("; without a seed: Client (store).\n") and "other" not in said
    assert provenance.said_of_programs({}, {"other": []}) == ""


@pytest.mark.parametrize("quick", [True, False])
def test_a_workload_has_a_seed_or_says_that_it_has_none(provenance: Any, quick: bool) -> None:
    workloads = importlib.import_module("experiments.workloads").all_of(quick)
    for name, workload in workloads.items():
        assert workload.unseeded or any("{number}" in word for word in workload.command), name
        assert workload.programs, name
