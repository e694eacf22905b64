"""The experiments of the repository: their tables from recorded sample traces, and the TPC-C driver."""

from __future__ import annotations

import importlib
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import pcstream as pc

ROOT = Path(__file__).resolve().parents[2]
#: Workloads of the experiments, and the sample traces that stand for them here.
SAMPLES = {"rocksdb": "mixed", "sqlite": "sqlite", "postgresql": "postgresql"}


@pytest.fixture(name="experiments")
def _experiments(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("experiments.figures")


@pytest.fixture(name="lab")
def _lab(experiments: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A lab whose recordings are the sample traces; other workloads do not exist."""
    lab = importlib.import_module("experiments.lab")
    workloads = importlib.import_module("experiments.workloads").all_of(True)
    made = lab.Lab(tmp_path, True, 1, workloads)

    def traces(name: str) -> list[pc.Trace]:
        if name in SAMPLES:
            return [pc.datasets.load(SAMPLES[name])]
        made.leave_out(name, "not recorded here")
        return []

    monkeypatch.setattr(made, "traces", traces)
    return made


@pytest.mark.parametrize("name", ["fast19-fig10", "fast19-fig12", "fast19-fig13", "hotstorage14-trim"])
def test_a_figure_is_made_of_recordings(experiments: Any, lab: Any, name: str) -> None:
    table = experiments.FIGURES[name].make(lab)
    path = lab.write(table)
    text = path.read_text()
    assert table.rows and all(len(row) == len(table.columns) for row in table.rows)
    assert "Left out: gcc: not recorded here." in text, "what is missing is said"
    assert (path.with_suffix(".svg")).exists() == (table.picture is not None)


def test_figures_agree_with_a_simulation(experiments: Any, lab: Any) -> None:
    table = experiments.FIGURES["fast19-fig10"].make(lab)
    row = dict(zip(table.columns, next(row for row in table.rows if row[0] == "sqlite"), strict=True))
    trace = pc.datasets.load("sqlite")
    device = pc.Device.profile("pm963-480g", gc="own").scaled(trace)
    assert row["baseline"] == f"{pc.simulate(trace, ['baseline'], device)['baseline'].waf:.3f}"
    assert float(row["oracle"]) < float(row["pcstream"]) < float(row["baseline"])


@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_tpcc_is_consistent(tmp_path: Path, journal: str) -> None:
    driver = ROOT / "experiments" / "workloads" / "tpcc.py"
    file = tmp_path / "tpcc.db"
    command = [sys.executable, str(driver), str(file), "--scale", "0.02", "--transactions", "400", "--journal", journal]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stderr
    assert said.startswith("transactions [")
    db = sqlite3.connect(file)
    orders, lines = (db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in ("orders", "order_line"))
    assert orders > 600 and 5 * orders <= lines <= 15 * orders


def test_tpcc_finds_what_is_inconsistent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    tpcc = importlib.import_module("experiments.workloads.tpcc")
    db = sqlite3.connect(tmp_path / "tpcc.db", isolation_level=None)
    bench = tpcc.Warehouse(db, 1, 0.01, 7)
    bench.load()
    bench.run(50)
    assert bench.broken() == []
    db.execute("UPDATE warehouse SET w_ytd = w_ytd + 1")
    db.execute("UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_id = 3")
    db.execute("DELETE FROM order_line WHERE ol_d_id = 4 AND ol_number = 1 AND ol_o_id = 1")
    assert len(bench.broken()) == 3
