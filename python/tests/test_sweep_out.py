"""What a sweep may find again: rows of the same trace, rules, scheme and build, and of no other."""

from __future__ import annotations

import gc
import importlib
import json
import multiprocessing
import os
import pickle
import shutil
import signal
import subprocess
import sys
import textwrap
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pcstream as pc
from pcstream import _fingerprint, _identity, _sweep

SCHEME = """
import functools
import statistics
import numpy as np
import pcstream as pc

SHIFT = 0
SHARED = [0]

def helper(lba):
    return lba % 2

class Kernel:
    def __init__(self, function, more):
        self.py_func = function
        self.more = more
    def __call__(self, lba):
        return self.py_func(lba) + self.more

def kernel(lba):
    return lba * 0
kernel = Kernel(kernel, 0)

@functools.wraps(statistics.median)
def named(lba):
    return lba - lba

class Base(pc.Scheme):
    name = "own"
    factor = 1
    @functools.lru_cache
    def offset(self):
        return 0

class Own(Base):
    def __init__(self):
        self.shared = SHARED
    def place(self, batch):
        lba = batch.lba.astype(np.int64)
        shift = SHIFT + SHARED[0] + self.shared[0] + self.offset()
        return (helper(lba) * self.factor + kernel(lba) + named(lba) + shift) % self.streams
"""


def copy(trace: pc.Trace, to: Path, change: Callable[[dict[str, Any]], None] = lambda meta: None) -> pc.Trace:
    """A copy whose ``meta.json`` is changed."""
    shutil.copytree(trace.path, to)
    meta = json.loads((to / "meta.json").read_text())
    change(meta)
    (to / "meta.json").write_text(json.dumps(meta))
    return pc.open(to)


def wafs(*traces: pc.Trace, schemes: Any = "baseline", device: pc.Device | None = None, **more: Any) -> list[float]:
    device = device or pc.Device(gc="own", streams=3)
    return pc.sweep(traces, schemes, device, executor="here", **more).to_polars()["waf"].to_list()


def test_a_trace_of_the_same_events_that_differs_elsewhere_has_its_own_rows(small: pc.Trace, tmp_path: Path) -> None:
    def empty(meta: dict[str, Any]) -> None:
        meta["prefilled"] = []

    def enlarge(meta: dict[str, Any]) -> None:
        meta["device"]["pages"] = 10_000

    others = [copy(small, tmp_path / "empty.pctrace", empty), copy(small, tmp_path / "large.pctrace", enlarge)]
    assert {trace.id for trace in others} == {small.id}
    together = wafs(small, *others, out=tmp_path / "out")
    assert together == [pc.simulate(t, "baseline", pc.Device(gc="own", streams=3))[0].waf for t in (small, *others)]
    assert len(set(together)) == 3


def test_a_trace_edited_with_another_tool_has_its_own_rows(small: pc.Trace, tmp_path: Path) -> None:
    edited = copy(small, tmp_path / "edited.pctrace", lambda meta: meta.update(checksums=None))
    before = wafs(edited, out=tmp_path / "out")
    table = pq.read_table(edited.path / "events.parquet")
    lba = table["lba"].to_numpy().copy()
    lba[::2] %= 64
    table = table.set_column(table.column_names.index("lba"), "lba", pa.array(lba))
    pq.write_table(table, edited.path / "events.parquet")
    again = pc.open(edited.path)
    assert again.id == edited.id
    after = wafs(again, out=tmp_path / "out")
    assert after == [pc.simulate(again, "baseline", pc.Device(gc="own", streams=3))[0].waf] != before


def test_unfinished_traces_have_their_own_rows(tmp_path: Path) -> None:
    traces = []
    for seed in (1, 2):
        path = tmp_path / f"{seed}.pctrace"
        code = f"import pcstream as pc; pc.generate('zipf', {str(path)!r}, pages=8192, writes=10**9, seed={seed})"
        recorder = subprocess.Popen([sys.executable, "-c", code])
        partial = path.with_suffix(".pctrace.partial")
        while not list(partial.glob("events-000001-*")):
            assert recorder.poll() is None
            time.sleep(0.01)
        recorder.send_signal(signal.SIGKILL)
        recorder.wait()
        traces.append(pc.open(path))
    assert [trace.id for trace in traces] == ["", ""]
    with pytest.warns(pc.LossWarning, match="2 of 2 points have warnings"):
        found = pc.sweep(traces, "baseline", pc.Device(gc="own"), executor="here").to_polars()
    assert found["flash_pages"].n_unique() == 2
    assert all("not finished" in said or "results are for" in said for said in found["warnings"])


def test_a_copy_keeps_its_name_and_shares_the_work(small: pc.Trace, tmp_path: Path) -> None:
    same = copy(small, tmp_path / "copy.pctrace")
    rows = pc.sweep([same, small], "baseline", executor="here", out=tmp_path / "out", gc="own", streams=[2, 3])
    frame = rows.to_polars()
    assert frame["trace"].to_list() == [str(same.path)] * 2 + [str(small.path)] * 2
    assert frame["streams"].to_list() == [2, 3, 2, 3]
    assert len(list((tmp_path / "out").iterdir())) == 2
    # What is an axis here was a field of the device there.
    base = pc.Device(gc="own", streams=2)
    fixed = pc.sweep(small, "baseline", base, executor="here", out=tmp_path / "out", seed=None).to_polars()
    assert "streams" not in fixed.columns and fixed["seed"].to_list() == [1]
    assert len(list((tmp_path / "out").iterdir())) == 2


def test_other_rules_under_the_same_name_are_read(tmp_path: Path) -> None:
    trace = pc.datasets.load("mixed")
    rules = tmp_path / "mine.rules"
    rows = []
    for stream in (0, 1):
        rules.write_text(f"* -> {stream}\n")
        sweep = pc.sweep(trace, "manual", executor="here", out=tmp_path / "out", gc="own", options={"rules": rules})
        rows.append(sweep.to_polars()["default_stream_share"][0])
    assert rows == [1.0, 0.0]


def reload(directory: Path, text: str) -> ModuleType:
    """The module of the scheme with this text."""
    (directory / "own_scheme.py").write_text(textwrap.dedent(text))
    sys.modules.pop("own_scheme", None)
    sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
    importlib.invalidate_caches()
    module = importlib.import_module("own_scheme")
    sys.dont_write_bytecode = before
    return module


@pytest.mark.parametrize(
    "old,new",
    [
        ("lba % 2", "lba % 3"),
        ("factor = 1", "factor = 2"),
        ("SHIFT = 0", "SHIFT = 1"),
        ("lba * 0", "lba * 0 + 1"),
        ("Kernel(kernel, 0)", "Kernel(kernel, 1)"),
        ("lba - lba", "lba - lba + 1"),
        ("SHARED = [0]", "SHARED = [2]"),
        ("        return 0\n", "        return 1\n"),
        ("helper(lba) * self.factor", "self.factor"),
    ],
)
def test_a_changed_scheme_is_simulated_again(
    small: pc.Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    first = wafs(small, schemes=reload(tmp_path, SCHEME).Own(), out=tmp_path / "out")
    assert wafs(small, schemes=reload(tmp_path, "# A remark.\n" + SCHEME).Own(), out=tmp_path / "out") == first
    assert len(list((tmp_path / "out").iterdir())) == 1, "lines may move"
    changed = reload(tmp_path, SCHEME.replace(old, new)).Own()
    expected = pc.simulate(small, changed, pc.Device(gc="own", streams=3))[0].waf
    assert wafs(small, schemes=changed, out=tmp_path / "out") == [expected]
    assert len(list((tmp_path / "out").iterdir())) == 2


def test_of_a_module_that_is_used_as_one_the_file_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    scheme = "import own_helpers\n\ndef ask(module):\n    return module.g()\n" + SCHEME
    scheme = scheme.replace("        shift = ", "        own_helpers.f(ask(own_helpers))\n        shift = ")

    def digest(text: str) -> str:
        (tmp_path / "own_helpers.py").write_text(text)
        monkeypatch.delitem(sys.modules, "own_helpers", raising=False)
        return _fingerprint.of(reload(tmp_path, scheme).Own())

    helpers = "def f(asked):\n    pass\n\ndef g():\n    return 1\n"
    assert digest(helpers) == digest(helpers) != digest(helpers.replace("return 1", "return 2")), "what only others ask for"
    assert digest("# A remark.\n" + helpers) != digest(helpers)


def test_a_class_that_is_defined_again_without_a_file_is_another(small: pc.Trace, tmp_path: Path) -> None:
    keys = []
    for factor in (0, 1, 0):
        names: dict[str, Any] = {"__name__": "__main__"}
        exec(SCHEME.replace("factor = 1", f"factor = {factor}"), names)
        wafs(small, schemes=names["Own"], out=tmp_path / "out")
        keys.append(len(list((tmp_path / "out").iterdir())))
    assert keys == [1, 2, 2]


def test_attributes_that_are_set_later_count(small: pc.Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    module = reload(tmp_path, SCHEME)
    scheme = module.Own()
    first = _fingerprint.of(scheme)
    assert _fingerprint.of(pickle.loads(pickle.dumps(scheme))) == first, "a worker has its own SHARED, and a copy of it"
    scheme.factor = 2
    assert _fingerprint.of(scheme) != first
    del scheme.factor
    assert _fingerprint.of(scheme) == first
    monkeypatch.setattr(module.Base, "factor", 2)
    assert _fingerprint.of(scheme) != first
    # Workers import the module as it is on disk.
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(pc.SweepError, match="own is another one in the process that simulates it"):
        pc.sweep(small, scheme, workers=1, streams=[2])


def test_a_scheme_that_cannot_be_compared_is_refused(small: pc.Trace, tmp_path: Path) -> None:
    class Opaque(pc.Scheme):
        name = "opaque"

        def __deepcopy__(self, memo: Any) -> Opaque:
            return self

        def place(self, batch: pc.Batch) -> Any:
            return batch.kind * 0

    scheme = Opaque()
    scheme.lock = multiprocessing.get_context("spawn").Lock()  # type: ignore[attr-defined]
    with pytest.raises(pc.ArgumentError, match=r"scheme opaque cannot be found again.*'lock' .*leave out away"):
        wafs(small, schemes=scheme, out=tmp_path / "out")
    assert len(wafs(small, schemes=scheme)) == 1


def test_another_build_is_another_point(small: pc.Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wafs(small, out=tmp_path / "out")
    monkeypatch.setattr(_identity, "build", lambda: "another build of the same version")
    wafs(small, out=tmp_path / "out")
    assert len(list((tmp_path / "out").iterdir())) == 2


def test_an_executor_that_cannot_be_is_refused_though_all_rows_are_there(small: pc.Trace, tmp_path: Path) -> None:
    pc.sweep(small, "baseline", pc.Device(gc="own"), executor="here", out=tmp_path)
    with pytest.raises(pc.ArgumentError, match="executor 'nope': expected"):
        pc.sweep(small, "baseline", pc.Device(gc="own"), executor="nope", out=tmp_path)


def test_a_worker_with_another_trace_is_refused(small: pc.Trace, tmp_path: Path) -> None:
    path = tmp_path / "t.pctrace"
    (point,) = _sweep.grid([copy(small, path)], "baseline", None, {}, {}, kept=True)
    assert point.rows()
    shutil.rmtree(path)
    pc.generate("hotcold", path, pages=8192, writes=1000)
    with pytest.raises(pc.SweepError, match="t.pctrace: not what it was"):
        point.rows()


def test_damaged_rows_are_computed_again(small: pc.Trace, tmp_path: Path) -> None:
    first = wafs(small, out=tmp_path)
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    for damaged in (whole[: len(whole) // 2], b"", whole[:40] + b"\xff" * 8 + whole[48:]):
        file.write_bytes(damaged)
        with pytest.warns(pc.PcstreamWarning, match="parquet: damaged, so its point is computed again"):
            assert wafs(small, out=tmp_path) == first
        assert pl.read_parquet(file)["waf"].to_list() == first


def test_damage_outside_of_the_rows_is_seen(small: pc.Trace, tmp_path: Path) -> None:
    sweep = pc.sweep(small, "baseline", pc.Device(gc="own"), executor="here", out=tmp_path)
    (file,) = tmp_path.iterdir()
    whole, rows = file.read_bytes(), sweep.to_arrow()
    assert not rows.schema.metadata and whole.count(b"steady_waf")
    # The second is no text in UTF-8.
    for name in (b"steady_waq", b"\xffteady_waf"):
        damaged = whole.replace(b"steady_waf", name)
        file.write_bytes(damaged)
        with pytest.raises(pc.Error, match=f"{tmp_path}: rows are gone or damaged; sweep again"):
            sweep.to_polars()
        with pytest.warns(pc.PcstreamWarning, match="parquet: damaged, so its point is computed again"):
            again = pc.sweep(small, "baseline", pc.Device(gc="own"), executor="here", out=tmp_path)
        assert again.to_arrow().equals(rows)


def test_a_directory_in_the_place_of_rows_is_refused(small: pc.Trace, tmp_path: Path) -> None:
    wafs(small, out=tmp_path)
    (file,) = tmp_path.iterdir()
    file.unlink()
    file.mkdir()
    with pytest.raises(pc.ArgumentError, match=f"{file}: is a directory, but rows go there; remove it, or use another out"):
        wafs(small, out=tmp_path)


def test_results_on_an_object_store_are_found_again(
    small: pc.Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = pytest.importorskip("fsspec").filesystem("memory")
    monkeypatch.chdir(tmp_path)
    first = pc.sweep(small, "baseline", pc.Device(gc="own"), executor="here", out="memory://bucket/out", streams=[2, 3])
    assert first.path == "memory://bucket/out" and not list(tmp_path.iterdir())
    found = store.ls("/bucket/out")
    assert len(found) == 2 and all(one["name"].endswith(".parquet") for one in found)
    store.rm(found[0]["name"])
    store.pipe_file(found[1]["name"], store.cat_file(found[1]["name"])[:-100])
    with pytest.warns(pc.PcstreamWarning, match="memory://bucket/out/.*parquet: damaged") as warned:
        again = pc.sweep(small, "baseline", pc.Device(gc="own"), executor="here", out="memory://bucket/out", streams=[2, 3])
    assert [one.filename for one in warned] == [__file__]
    assert again.to_polars().equals(first.to_polars())
    created = [one["created"] for one in store.ls("/bucket/out")]
    pc.sweep(small, "baseline", pc.Device(gc="own"), executor="here", out="memory://bucket/out", streams=[2, 3])
    assert [one["created"] for one in store.ls("/bucket/out")] == created, "nothing is computed again"
    with pytest.raises(pc.ArgumentError, match="no-such-store://x: Protocol not known"):
        wafs(small, out="no-such-store://x")


def test_two_sweeps_with_the_same_directory_do_not_disturb_each_other(
    small: pc.Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = pq.write_table
    inner: list[list[float]] = []

    def while_the_other_writes(table: Any, where: Any, **more: Any) -> None:
        write(table, where, **more)
        if not inner:
            inner.append([])
            inner[0] = wafs(small, out=tmp_path)

    monkeypatch.setattr(pq, "write_table", while_the_other_writes)
    assert wafs(small, out=tmp_path) == inner[0]
    assert [file.suffix for file in tmp_path.iterdir()] == [".parquet"]


def test_rows_say_with_what_options_they_were_made(small: pc.Trace, tmp_path: Path) -> None:
    device = pc.Device(gc="own", seed=7)
    options: dict[str, Any] = {"pack": 0.9}
    pc.sweep(small, "baseline", device, executor="here", out=tmp_path, options=options, discard=[True, False])
    pc.sweep(small, ["pcstream", "autostream-mq"], pc.Device(gc="own"), executor="here", out=tmp_path, prefill=[0.5, "trace"])
    # Schemes have facts of their own, so tables differ in their columns.
    frame = pl.concat([pl.read_parquet(file) for file in tmp_path.glob("*.parquet")], how="diagonal_relaxed")
    columns = ["prefill", "pack", "pack_live", "fill", "discard", "seed"]
    assert set(frame.select(columns).unique().rows()) == {
        (None, 0.9, None, None, True, 7),
        (None, 0.9, None, None, False, 7),
        (0.5, None, None, None, True, 1),
        (None, None, None, None, True, 1),
    }
    types = [pl.Float64] * 4 + [pl.Boolean]
    for file in tmp_path.glob("*.parquet"):
        assert pl.read_parquet(file, columns=columns[:5]).dtypes == types
    one = pc.sweep(small, "baseline", device, executor="here", options=options).to_polars()
    assert one.select(columns[:5]).dtypes == types and one.select(columns).rows() == [(None, 0.9, None, None, True, 7)]


def test_columns_do_not_depend_on_who_computed_first(small: pc.Trace, tmp_path: Path) -> None:
    def swept(out: str, **grid: Any) -> tuple[list[str], list[list[str]]]:
        frame = pc.sweep(small, "pcstream", executor="here", out=tmp_path / out, **grid).to_polars()
        return frame.columns, [pl.read_parquet(file).columns for file in (tmp_path / out).iterdir()]

    chunk = "pcstream.lifetime.chunk"
    axes: dict[str, Any] = {"device": pc.Device(gc="own"), "set": {chunk: [64]}, "streams": [3]}
    fixed: dict[str, Any] = {"device": pc.Device(gc="own", streams=3), "options": {"set": {chunk: 64}, "memory": 1 << 30}}
    first = [swept("a", **axes), swept("a", **fixed)]
    second = [swept("b", **fixed), swept("b", **axes)]
    assert first == second[::-1], "memory is no reason to compute again"
    assert {chunk, "streams"} <= set(first[0][0]) and {chunk, "streams"}.isdisjoint(first[1][0])
    ((kept,),) = {tuple(map(tuple, files)) for _, files in first + second}
    assert chunk in kept and "device.streams" in kept and "streams" not in kept


def test_a_sweep_without_a_place_of_its_own_travels_with_its_rows(small: pc.Trace, tmp_path: Path) -> None:
    def made(out: Path | None) -> tuple[bytes, pl.DataFrame]:
        sweep = pc.sweep(small, "baseline", pc.Device(gc="own"), executor="here", out=out, streams=[2, 3])
        return pickle.dumps(sweep), sweep.to_polars()

    for out in (None, tmp_path / "out"):
        data, rows = made(out)
        again = pickle.loads(pickle.dumps(pickle.loads(data)))
        assert again.to_polars().equals(rows) and len(again) == 2
        assert (again.path == out) == (out is not None)


def test_a_sweep_without_a_place_of_its_own_goes_without_a_warning(small: pc.Trace) -> None:
    sweep = pc.sweep(small, "baseline", pc.Device(gc="own"), executor="here")
    again = pickle.loads(pickle.dumps(sweep))
    places = [Path(sweep.path), Path(again.path)]
    assert len(set(places)) == 2 and all(place.exists() for place in places)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del sweep, again
        gc.collect()
    assert not any(place.exists() for place in places)
    assert not [str(one.message) for one in caught if any(str(place) in str(one.message) for place in places)]


#: A child that was forked ends before its parent.
FORKS = """
import os
import sys
from pathlib import Path
from pcstream._temporary import Temporary

kept = Temporary("pcstream-test-")
if os.fork() == 0:
    sys.exit()
os.wait()
print(kept.name, Path(kept.name).is_dir())
"""


def test_a_forked_child_leaves_the_directories_of_its_parent() -> None:
    done = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True, check=True)
    name, is_there = done.stdout.split()
    assert is_there == "True" and not Path(name).exists(), done.stdout


def test_rows_that_are_gone_are_an_error_with_their_place(small: pc.Trace, tmp_path: Path) -> None:
    sweep = pc.sweep(small, "baseline", pc.Device(gc="own"), executor="here", out=tmp_path / "out")
    shutil.rmtree(tmp_path / "out")
    with pytest.raises(pc.Error, match=f"{tmp_path / 'out'}: rows are gone or damaged; sweep again: FileNotFoundError"):
        sweep.to_polars()


@pytest.mark.parametrize("executor", ["here", "processes"])
def test_rows_that_cannot_be_written_are_an_error_with_their_place(small: pc.Trace, tmp_path: Path, executor: str) -> None:
    out = tmp_path / "out"

    def remove(done: int, _: int) -> None:
        if done == 1:
            shutil.rmtree(out)

    with pytest.raises(pc.Error, match=f"{out}: rows cannot be written: No such file or directory; with the same out, a sweep goes"):
        pc.sweep(small, "baseline", pc.Device(gc="own"), executor=executor, out=out, progress=remove, streams=[2, 3, 4])
