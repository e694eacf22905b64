"""What a sweep says of points that fail, and of those with warnings."""

from __future__ import annotations

import json
import shutil
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pcstream as pc
from pcstream import _sweep


class Fails(pc.Scheme):
    """Raises what it was made with, and counts how often."""

    name = "fails"

    def __init__(self, error: Exception, calls: Path | None = None) -> None:
        self.error, self.calls = error, calls

    def place(self, batch: pc.Batch) -> Any:
        if self.calls is not None:
            with self.calls.open("a") as file:
                file.write("called\n")
        raise self.error


@pytest.mark.parametrize(
    "error,said",
    [
        (AssertionError(), "AssertionError"),
        (RuntimeError("boom"), "RuntimeError: boom"),
        (RuntimeError("\x1b[36mboom\x1b[39m"), "RuntimeError: boom"),
        (pc.SimulationError("what the package says"), "what the package says"),
        (pc.Error(), "Error"),
    ],
)
def test_a_failure_is_said_with_its_type(small: pc.Trace, error: Exception, said: str) -> None:
    with pytest.raises(pc.SweepError) as caught:
        pc.sweep(small, Fails(error), executor="here", streams=2)
    (failure,) = caught.value.failures
    assert str(failure) == f"{{'streams': 2}} of {small.path}: {said}"
    assert str(caught.value) == f"1 of 1 points failed: {failure}"


class TwoParts(Exception):
    """Cannot be made again of its text alone, as pickle does."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} and {second}")


class FailsUnreadably(pc.Scheme):
    """Raises what no other process can read, or what none can write."""

    name = "fails-unreadably"

    def __init__(self, calls: Path, is_local: bool) -> None:
        self.calls, self.is_local = calls, is_local

    def place(self, batch: pc.Batch) -> Any:
        class Local(TwoParts):
            """No other process finds it."""

        with self.calls.open("a") as file:
            file.write("called\n")
        raise (Local if self.is_local else TwoParts)("this", "that")


@pytest.mark.parametrize("is_local,kind", [(False, "TwoParts"), (True, "Local")])
def test_an_exception_that_cannot_travel_is_described(small: pc.Trace, tmp_path: Path, is_local: bool, kind: str) -> None:
    calls = tmp_path / "calls"
    with pytest.raises(pc.SweepError, match=f"1 of 1 points failed: .*: {kind}: this and that$") as caught:
        pc.sweep(small, FailsUnreadably(calls, is_local), pc.Device(gc="own"), workers=1, streams=2)
    assert calls.read_text() == "called\n", "it is computed once"
    assert "in place" in str(caught.value.failures[0].error.__cause__), "it comes with its traceback"


def test_a_point_that_fails_is_computed_once_by_dask(small: pc.Trace, tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="Dask is not installed: pip install 'pcstream[dask]'")
    calls = tmp_path / "calls"
    with (
        distributed.Client(
            processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None, local_directory=str(tmp_path)
        ) as client,
        pytest.raises(pc.SweepError, match="ValueError: no"),
    ):
        pc.sweep(small, Fails(ValueError("no"), calls), pc.Device(gc="own"), executor=client, streams=2)
    assert calls.read_text() == "called\n"


def test_a_sweep_says_once_that_points_have_warnings(small: pc.Trace, tmp_path: Path) -> None:
    damaged = pc.generate("uniform", tmp_path / "t.pctrace", pages=100_000, writes=1_000_000)
    events = damaged.path / "events.parquet"
    data = bytearray(events.read_bytes())
    data[len(data) // 2] ^= 0xFF
    events.write_bytes(data)
    traces, little = [small, pc.open(damaged.path)], pc.Device(gc="own", spare_factor=0.9)
    said = r"2 of 4 points have warnings, in the column warnings; {'streams': 2} of .*t.pctrace: results are for what can be read"
    with pytest.warns(pc.LossWarning, match=said) as warned:
        sweep = pc.sweep(traces, "baseline", pc.Device(gc="own"), executor="here", out=tmp_path / "out", streams=[2, 3])
    assert len(warned) == 1 and warned[0].filename == __file__
    assert [bool(text) for text in sweep.to_polars()["warnings"]] == [False, False, True, True]
    with pytest.warns(pc.LossWarning, match=said) as warned:
        found = pc.sweep(traces, "baseline", pc.Device(gc="own"), executor="here", out=tmp_path / "out", streams=[2, 3])
    assert len(warned) == 1 and found.to_polars().equals(sweep.to_polars()), "rows that are found say what they lack, too"
    with pytest.warns(pc.PcstreamWarning, match="1 of 1 points .*too little to say anything") as warned:
        sweep = pc.sweep(small, "baseline", little, workers=1)
    assert [one.category for one in warned] == [pc.PcstreamWarning] and len(sweep) == 1


class Warns(pc.Scheme):
    """Warns by itself."""

    name = "warns"

    def place(self, batch: pc.Batch) -> Any:
        warnings.warn("of the scheme", stacklevel=1)
        return np.zeros(len(batch), np.uint8)


def test_what_a_scheme_warns_of_goes_where_python_sends_it(small: pc.Trace) -> None:
    with pytest.warns(UserWarning, match="^of the scheme$"):
        rows = pc.sweep(small, Warns(), pc.Device(gc="own"), executor="here").to_polars()
    assert rows["warnings"].to_list() == [""] and rows["losses"].to_list() == [False]


class Meets(pc.Scheme):
    """Says that it places, and goes on when another does, or when that has ended."""

    name = "meets"

    def __init__(self, begun: threading.Event, awaited: threading.Event) -> None:
        self.begun, self.awaited = begun, awaited

    def __deepcopy__(self, memo: object) -> Meets:
        return self

    def place(self, batch: pc.Batch) -> Any:
        self.begun.set()
        assert self.awaited.wait(60)
        return np.zeros(len(batch), np.uint8)


def test_points_of_several_threads_have_their_own_warnings(small: pc.Trace, tmp_path: Path) -> None:
    shutil.copytree(small.path, tmp_path / "lossy.pctrace")
    meta = json.loads((tmp_path / "lossy.pctrace" / "meta.json").read_text())
    meta["losses"][next(iter(meta["losses"]))] = 5
    (tmp_path / "lossy.pctrace" / "meta.json").write_text(json.dumps(meta))
    before = list(warnings.filters), warnings.showwarning
    first, second, ended = threading.Event(), threading.Event(), threading.Event()
    with ThreadPoolExecutor(2) as pool:

        def begin(scheme: pc.Scheme) -> Any:
            device = pc.Device(gc="own")
            (point,) = _sweep.grid([pc.open(tmp_path / "lossy.pctrace")], scheme, device, {}, {}, kept=False)
            return pool.submit(point.rows)

        # The one that begins first ends first.
        one = begin(Meets(first, second))
        assert first.wait(60)
        other = begin(Meets(second, ended))
        rows = one.result()
        ended.set()
        rows += other.result()
    assert [row["losses"] for row in rows] == [True, True], rows
    assert ["was lost when it was recorded or imported" in row["warnings"] for row in rows] == [True, True]
    assert (list(warnings.filters), warnings.showwarning) == before
