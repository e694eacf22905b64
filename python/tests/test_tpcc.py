"""The driver of TPC-C keeps its consistency conditions, and finds what breaks them."""

from __future__ import annotations

import importlib
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


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
    bench.run(50, rate=None)
    assert bench.broken() == []
    db.execute("DELETE FROM new_order WHERE no_d_id = 5 AND no_o_id = (SELECT max(no_o_id) FROM new_order WHERE no_d_id = 5)")
    assert bench.broken() == ["D_NEXT_O_ID - 1 = greatest NO_O_ID"]
    db.execute("UPDATE warehouse SET w_ytd = w_ytd + 1")
    db.execute("UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_id = 3")
    db.execute("DELETE FROM order_line WHERE ol_d_id = 4 AND ol_number = 1 AND ol_o_id = 1")
    assert len(bench.broken()) == 4
