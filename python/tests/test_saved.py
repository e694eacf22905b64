"""Figures of the experiments are kept where their saved results would be made of the same again."""

from __future__ import annotations

import importlib
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

import pcstream as pc

ROOT = Path(__file__).resolve().parents[2]
#: A figure of a recording that the package has, and its workloads; only the first has a recording.
FIGURE, WORKLOADS = "fast19-fig13", ("sqlite", "rocksdb", "gcc")


@pytest.fixture(name="command")
def _command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """The command on a directory with a recording of SQLite: exit code, and what it prints."""
    monkeypatch.syspath_prepend(str(ROOT))
    module = importlib.import_module("experiments.__main__")
    workloads = importlib.import_module("experiments.workloads").all_of(True)
    lab = importlib.import_module("experiments.lab").Lab(tmp_path, True, 2, workloads)
    path = lab._path(workloads["sqlite"], 1)
    path.parent.mkdir()
    shutil.copytree(pc.datasets.load("sqlite").path, path)

    def run(*words: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["experiments", "--quick", "--recorded", "--out", str(tmp_path), *words, FIGURE])
        return module.main(), capsys.readouterr().out

    return run


def test_a_figure_of_the_same_is_kept(command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, said = command()
    assert code == 3 and "kept" not in said, "there are no recordings of RocksDB and GCC"
    made = tmp_path / "results" / f"{FIGURE}.made.json"
    assert set(json.loads(made.read_text())["of"]["recordings"]) == set(WORKLOADS)
    rows = made.with_name(f"{FIGURE}.csv")
    rows.write_text("earlier")
    assert command() == (3, f"{rows.with_suffix('.md')}: kept\n") and rows.read_text() == "earlier"
    assert "kept" not in command("--again")[1] and rows.read_text() != "earlier"
    saved = importlib.import_module("experiments.saved")
    monkeypatch.setattr(saved, "BUILD", "changed")
    assert "kept" not in command()[1]
    assert "kept" in command()[1]


@pytest.mark.parametrize("lost", ["the recording", "what it was made of", "its rows"])
def test_a_figure_of_something_else_is_made_again(command: Any, tmp_path: Path, lost: str) -> None:
    command()
    if lost == "the recording":
        (recording,) = (tmp_path / "traces").iterdir()
        meta = json.loads((recording / "meta.json").read_text())
        (recording / "meta.json").write_text(json.dumps(meta | {"trace_id": "00000000000000ff"}))
    elif lost == "its rows":
        (tmp_path / "results" / f"{FIGURE}.csv").unlink()
    else:
        (tmp_path / "results" / f"{FIGURE}.made.json").write_text("{")
    assert "kept" not in command()[1]


def test_a_workload_that_could_be_recorded_now_is_not_kept_without(command: Any, tmp_path: Path) -> None:
    command()
    workloads = importlib.import_module("experiments.workloads").all_of(True)
    saved = importlib.import_module("experiments.saved")
    lab = importlib.import_module("experiments.lab").Lab(tmp_path, True, 1, workloads)
    for name in WORKLOADS:
        object.__setattr__(workloads[name], "needs", ("no-such-program",))
    assert saved.keep(lab, FIGURE) is not None
    object.__setattr__(workloads["gcc"], "needs", ())
    assert saved.keep(lab, FIGURE) is None


@pytest.mark.parametrize("number", ["0", "-3"])
def test_no_recordings_are_no_number_of_recordings(command: Any, tmp_path: Path, number: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command("--recordings", number)
    assert ended.value.code == 2 and f"--recordings {number}: expected at least 1" in capsys.readouterr().err
    assert not (tmp_path / "results").exists()
