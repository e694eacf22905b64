"""Sweeps: the same rows everywhere, whatever dies on the way."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any, cast

import numpy as np
import polars as pl
import pytest
from conftest import PATIENCE

import pcstream as pc
from pcstream import _sweep

GRID: dict[str, Any] = {"streams": [1, 3, 5], "spare_factor": [0.1, 0.2], "gc": ["own", "internal"]}
POINTS = 12


@pytest.fixture(scope="module")
def expected(small: pc.Trace) -> pl.DataFrame:
    return pc.sweep(small, ["baseline", "pcstream"], executor="here", **GRID).to_polars()


class KillsOnce(pc.Scheme):
    """Kills its process the first time that anybody asks it; places as baseline does from then on."""

    name = "kills-once"

    def __init__(self, mark: str) -> None:
        self.mark = mark

    def place(self, batch: pc.Batch) -> Any:
        try:
            # Exclusive: exactly one worker dies.
            os.close(os.open(self.mark, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return np.zeros(len(batch), np.uint8)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("it was killed")


def check_killed(sweep: pc.Sweep, mark: Path) -> None:
    frame = sweep.to_polars()
    assert mark.exists(), "a worker was killed"
    assert frame.height == 2 * POINTS
    by_scheme = [frame.filter(pl.col("scheme") == name)["flash_pages"].to_list() for name in ("kills-once", "baseline")]
    assert by_scheme[0] == by_scheme[1]


def test_a_sweep_is_the_simulations_that_it_stands_for(small: pc.Trace, expected: pl.DataFrame) -> None:
    assert expected.height == 2 * POINTS
    assert expected["streams"].to_list()[:: 2 * 4] == [1, 3, 5]
    for row in expected.sample(4, seed=1).to_dicts():
        device = pc.Device(streams=row["streams"], spare_factor=row["spare_factor"], gc=row["gc"])
        result = pc.simulate(small, row["scheme"], device)[0]
        assert (result.waf, result.erases) == (row["waf"], row["erases"])
        assert row["pcstream"] == pc.__version__ and row["trace_id"] == small.id


def test_parameters_of_schemes_are_axes(small: pc.Trace, tmp_path: Path) -> None:
    chunks, keys = [1, 64], ["context", "executable"]
    axes: dict[str, list[Any]] = {"pcstream.lifetime.chunk": chunks, "pcstream.key": keys}
    device = pc.Device(gc="own")
    sweep = pc.sweep(small, ["baseline", "pcstream"], device, executor="here", out=tmp_path / "out", set=axes)
    rows = sweep.to_polars().filter(pl.col("scheme") == "pcstream")
    at = list(rows.select("pcstream.lifetime.chunk", "pcstream.key").iter_rows())
    assert at == [(chunk, key) for chunk in chunks for key in keys]
    for row in rows.iter_rows(named=True):
        settings = {name: row[name] for name in axes}
        assert pc.simulate(small, "pcstream", device, set=settings)[0].waf == row["waf"]
    assert rows["waf"].n_unique() > 1
    sweep.plot.waf("pcstream.lifetime.chunk")
    # The rows of one value are found again.
    calls = []
    again: dict[str, Any] = {"executor": "here", "out": tmp_path / "out", "options": {"set": {"pcstream.key": keys[0]}}}
    again["set"] = {"pcstream.lifetime.chunk": chunks[0]}
    found = pc.sweep(small, ["baseline", "pcstream"], device, progress=lambda *done: calls.append(done), **again)
    assert calls == [(1, 1)]
    assert found.to_polars()["waf"].to_list() == sweep.to_polars()["waf"].to_list()[:2]


def test_seeds_are_as_large_as_a_device_takes(small: pc.Trace) -> None:
    seeds = [1, 2**63, 2**64 - 1]
    sweep = pc.sweep(small, "baseline", pc.Device(gc="own"), executor="here", seed=seeds)
    assert sweep.to_polars()["seed"].to_list() == seeds


def test_watermarks_of_background_gc_are_an_axis(small: pc.Trace) -> None:
    device = pc.Device(gc="own", superblock_pages=16)
    rows = pc.sweep(small, "baseline", device, executor="here", background_gc=[(3, 6), None, [8, 20]]).to_polars()
    assert rows["background_gc"].to_list() == ["3:6", None, "8:20"]
    for row, watermarks in zip(rows.to_dicts(), [(3, 6), None, (8, 20)], strict=True):
        (result,) = pc.simulate(small, "baseline", device.replace(background_gc=watermarks))
        assert (row["waf"], row["background_erases"]) == (result.waf, result.background_erases)
    assert rows["background_erases"].n_unique() == 3
    for one in ((8, 20), np.array([8, 20]), np.array([[8, 20]])):
        found = pc.sweep(small, "baseline", device, executor="here", background_gc=one).to_polars()
        assert found.equals(rows.slice(2))
    with pytest.raises(pc.ArgumentError, match=r"^background_gc 3: expected two numbers of free superblocks such as \(3, 6\)"):
        pc.sweep(small, background_gc=[3, None])


def test_several_gc_destinations_are_one_value_of_an_axis(small: pc.Trace) -> None:
    def rows(axis: Any) -> pl.DataFrame:
        return pc.sweep(small, "baseline", executor="here", gc=axis).to_polars()

    found = rows([["own", "internal"], "shared"])
    assert found["gc"].to_list() == ["own+internal", "own+internal", "shared"]
    assert found.equals(rows([("own", "internal"), "shared"]))


@pytest.mark.parametrize(
    "name,value,expected",
    [
        ("streams", np.int64(3), 3),
        ("streams", np.array(3), 3),
        ("streams", np.array([3, 5], "u1"), [3, 5]),
        ("spare_factor", np.float32(0.25), 0.25),
        ("pack", np.float32(0.5), 0.5),
        ("discard", np.True_, True),
        ("discard", [np.False_], False),
        ("victim", np.str_("fifo"), "fifo"),
        ("gc", [["own", "internal"], "shared"], [("own", "internal"), "shared"]),
        ("gc", np.array([["own", "internal"], ["shared", "own"]]), [("own", "internal"), ("shared", "own")]),
        ("background_gc", [[8, 20], None], [(8, 20), None]),
    ],
)
def test_an_axis_takes_what_numpy_and_lists_have(small: pc.Trace, name: str, value: Any, expected: Any) -> None:
    def points(axis: Any) -> list[tuple[Any, str]]:
        found = _sweep.grid([small], "baseline", pc.Device(gc="own"), {}, {name: axis}, kept=True)
        return [(point.axes, point.key()) for point in found]

    assert repr(points(value)) == repr(points(expected))


def test_processes_give_the_same_rows_though_one_is_killed(
    small: pc.Trace, expected: pl.DataFrame, tmp_path: Path
) -> None:
    same = pc.sweep(small, ["baseline", "pcstream"], executor="processes", workers=2, **GRID)
    assert same.to_polars().equals(expected)
    mark = tmp_path / "mark"
    check_killed(pc.sweep(small, [KillsOnce(str(mark)), "baseline"], executor="processes", workers=2, **GRID), mark)


def test_a_sweep_goes_on_where_it_ended(small: pc.Trace, expected: pl.DataFrame, tmp_path: Path) -> None:
    first = pc.sweep(small, ["baseline", "pcstream"], executor="here", out=tmp_path, **GRID)
    files = sorted(tmp_path.glob("*.parquet"))
    assert len(files) == len(first) == POINTS
    times = {file: file.stat().st_mtime_ns for file in files}
    files[0].unlink()
    again = pc.sweep(small, ["baseline", "pcstream"], executor="here", out=tmp_path, **GRID)
    assert again.to_polars().equals(expected)
    assert files[0].exists()
    assert all(file.stat().st_mtime_ns == times[file] for file in files[1:])
    assert not list(tmp_path.glob("*.partial"))


def test_a_sweep_says_what_it_has(small: pc.Trace, tmp_path: Path) -> None:
    with pytest.warns(pc.SweepWarning):
        sweep = pc.sweep(small, "baseline", executor="here", out=tmp_path, superblock_pages=[8192, 16], gc=["own", "internal"])
    assert repr(sweep) == f"<pcstream.Sweep {str(tmp_path)!r}: 2 points over superblock_pages, gc; 2 failures>"
    one = pc.sweep(small, "baseline", executor="here")
    assert repr(one) == f"<pcstream.Sweep {str(one.path)!r}: 1 points; 0 failures>"


def test_a_sweep_is_a_table(small: pc.Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep = pc.sweep(small, "baseline", pc.Device(gc="own"), executor="here", streams=[2, 3])
    assert pl.DataFrame(cast(Any, sweep)).equals(sweep.to_polars())
    assert sweep.to_pandas()["streams"].tolist() == [2, 3]
    monkeypatch.setitem(sys.modules, "pandas", None)
    for rows in (sweep, pc.simulate(small, "baseline"), small.files()):
        with pytest.raises(pc.MissingPackageError, match=r"to_pandas\(\) needs the package pandas: pip install 'pcstream\[pandas\]'"):
            rows.to_pandas()


def test_devices_that_cannot_be_are_left_out_and_named(small: pc.Trace, tmp_path: Path) -> None:
    with pytest.warns(pc.SweepWarning, match=r"1 of 2 points cannot be.*'superblock_pages': 8192.*no room") as warned:
        rows = pc.sweep(small, "baseline", executor="here", out=tmp_path, superblock_pages=[8192, 16], gc="own")
    assert issubclass(warned[0].category, pc.LossWarning) and warned[0].filename == __file__
    assert rows.to_polars()["superblock_pages"].to_list() == [16]
    (failure,) = rows.failures
    assert failure.axes["superblock_pages"] == 8192 and isinstance(failure.error, pc.DeviceError)
    assert len(list(tmp_path.glob("*.parquet"))) == len(rows) == 1
    with pytest.raises(pc.SweepError, match="1 of 1 points failed"):
        pc.sweep(small, "baseline", executor="here", superblock_pages=8192, gc="own")


@pytest.mark.parametrize("pack", [None, 0.9])
def test_devices_that_cannot_hold_the_trace_are_left_out(small: pc.Trace, pack: float | None) -> None:
    with pytest.warns(pc.SweepWarning, match="1 of 2 points cannot be"):
        rows = pc.sweep(small, "baseline", pc.Device(gc="own"), executor="here", logical_pages=[4096, 16384], pack=[pack])
    assert rows.to_polars()["logical_pages"].to_list() == [16384]
    assert [type(failure.error) for failure in rows.failures] == [pc.DeviceError]


class WrongWithThree(pc.Scheme):
    """Answers with streams that the device does not have, or with no whole numbers."""

    name = "wrong-with-three"

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def place(self, batch: pc.Batch) -> Any:
        return np.full(len(batch), 3 if self.streams == 3 else 0, self.kind if self.streams == 3 else "u1")


@pytest.mark.parametrize("kind,said", [("u1", "returned stream 3 for event 0"), ("f4", "returned float32")])
def test_a_wrong_scheme_is_no_device_that_cannot_be(small: pc.Trace, kind: str, said: str) -> None:
    with pytest.raises(pc.SweepError, match=f"1 of 2 points failed: .*{said}") as caught:
        pc.sweep(small, WrongWithThree(kind), pc.Device(gc="own"), executor="here", streams=[2, 3])
    assert [type(failure.error) for failure in caught.value.failures] == [pc.ArgumentError]


def test_rules_that_a_worker_does_not_find_are_a_failure(tmp_path: Path) -> None:
    rules = tmp_path / "mine.rules"
    rules.write_text("* -> 1\n")

    def remove(done: int, _: int) -> None:
        if done == 1:
            rules.unlink()

    with pytest.raises(pc.SweepError, match="1 of 2 points failed: .*mine.rules: there is no such file"):
        pc.sweep(
            pc.datasets.load("mixed"), "manual", pc.Device(gc="own"), executor="here", progress=remove, options={"rules": rules}, streams=[2, 3]
        )


def test_a_sweep_is_drawn_over_an_axis(small: pc.Trace, expected: pl.DataFrame) -> None:
    pytest.importorskip("matplotlib")
    grid: dict[str, Any] = {"spare_factor": [0.2, 0.1], "streams": [1, 3, 5], "gc": [("own", "internal")]}
    sweep = pc.sweep(small, ["baseline", "pcstream"], executor="here", **grid)
    lines = {line.get_label(): line for line in sweep.plot.waf().lines}
    assert len(lines) == 2 * 2 * 2, "a line for each scheme, destination and spare factor"
    line = lines["pcstream, GC to internal, spare_factor 0.2"]
    rows = expected.filter(scheme="pcstream", gc_destination="internal", spare_factor=0.2).sort("streams")
    assert np.array_equal(line.get_xydata(), rows[["streams", "waf"]].to_numpy())
    axes = sweep.plot.waf("spare_factor")
    assert axes.get_xlabel() == "spare_factor" and np.array_equal(axes.lines[0].get_xdata(), [0.1, 0.2])
    assert len(sweep.plot.waf("gc").lines) == 2 * 2 * 3
    with pytest.raises(pc.ArgumentError, match="over 'scheme': expected an axis of this sweep: spare_factor, streams, trace"):
        sweep.plot.waf("scheme")


@pytest.mark.filterwarnings("ignore::pcstream.PcstreamWarning")
def test_a_picture_has_room_for_its_legend(small: pc.Trace, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    device = pc.Device(streams=3)
    for axes in ({}, {"spare_factor": [0.1, 0.2]}):
        sweep = pc.sweep(small, "all", device, executor="here", **cast(Any, axes))
        picture: Any = sweep.plot.waf("trace")
        with warnings.catch_warnings():
            # Matplotlib's, where there is no room.
            warnings.simplefilter("error")
            picture.figure.savefig(tmp_path / "picture.png", dpi="figure")
        legend, figure = picture.get_legend().get_window_extent(), picture.figure
        assert 0 <= legend.x0 < legend.x1 <= figure.bbox.width and 0 <= legend.y0 < legend.y1 <= figure.bbox.height
        assert picture.get_window_extent().width > 3 * figure.dpi, "there is a picture beside it"


def test_points_that_are_given_twice_are_drawn_once(small: pc.Trace) -> None:
    pytest.importorskip("matplotlib")
    twice: list[tuple[list[pc.Trace], list[Any]]] = [([small], ["own", ("own", "internal")]), ([small, small], ["own"])]
    for traces, gc in twice:
        sweep = pc.sweep(traces, "baseline", executor="here", streams=[3, 1], gc=gc)
        assert {tuple(np.asarray(line.get_xdata())) for line in sweep.plot.waf("streams").lines} == {(1, 3)}
        assert all(len(np.asarray(line.get_xdata())) == 1 for line in sweep.plot.waf("trace").lines)


def test_traces_of_one_name_are_drawn_apart(small: pc.Trace, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    traces = [tmp_path / name / "t.pctrace" for name in ("a", "b")]
    for trace in traces:
        shutil.copytree(small.path, trace)
    sweep = pc.sweep([pc.open(trace) for trace in traces], "baseline", executor="here", streams=[1, 3], gc="own")
    lines = sweep.plot.waf("streams").lines
    assert [np.asarray(line.get_xdata()).tolist() for line in lines] == [[1, 3], [1, 3]]
    assert [str(line.get_label()).removeprefix("baseline, ") for line in lines] == [str(trace) for trace in traces]
    assert all(len(set(np.asarray(line.get_xdata()).tolist())) == 2 for line in sweep.plot.waf("trace").lines)


class FailsWithThree(pc.Scheme):
    """Refuses a device with three streams, or kills its process for one."""

    name = "fails-with-three"
    kills = False

    def place(self, batch: pc.Batch) -> Any:
        if self.streams == 3 and self.kills:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.streams == 3:
            raise ValueError("three streams")
        return np.zeros(len(batch), np.uint8)


def test_a_point_that_fails_leaves_the_rows_of_the_others(small: pc.Trace) -> None:
    with pytest.raises(pc.SweepError, match=r"1 of 3 points failed: \{'streams': 3\}.*three streams") as caught:
        pc.sweep(small, FailsWithThree(), executor="here", streams=[2, 3, 4])
    assert isinstance(caught.value.__cause__, ValueError)
    assert [failure.axes for failure in caught.value.failures] == [{"streams": 3}]
    assert caught.value.sweep.to_polars()["streams"].unique().sort().to_list() == [2, 4]


def test_a_point_that_kills_every_worker_does_not_take_others_with_it(small: pc.Trace) -> None:
    scheme = FailsWithThree()
    scheme.kills = True
    with pytest.raises(pc.SweepError, match="1 of 3 points failed.*terminated") as caught:
        pc.sweep(small, scheme, workers=1, streams=[3, 2, 4])
    assert len(caught.value.sweep) == 2


class Cluster:
    """What a Client is made of."""

    __module__ = "distributed.deploy.local"


@pytest.mark.parametrize(
    "call,message",
    [
        (lambda t: pc.sweep(t, stream=[1]), "axis 'stream'"),
        (lambda t: pc.sweep(t, streams=[]), "streams is empty"),
        (lambda t: pc.sweep([], streams=[1]), "at least one trace"),
        (lambda t: pc.sweep(None), "traces None: expected a trace, where one is, or several"),  # type: ignore[arg-type]
        (lambda t: pc.sweep([t, None]), "path None: expected a path"),  # type: ignore[list-item]
        (lambda t: pc.sweep(t, out=__file__), "out '.*test_sweep.py': File exists; expected a directory, new or not"),
        (lambda t: pc.sweep(t, out=__file__ + "/x"), "out '.*test_sweep.py/x': Not a directory; expected a directory"),
        (lambda t: pc.sweep(t, out=5), "out 5: expected a path"),  # type: ignore[arg-type]
        (lambda t: pc.sweep(t, streams=[1], workers=0), "workers 0: expected 1 to"),
        (lambda t: pc.sweep(t, streams=[1], workers=-1, executor="here"), "workers -1: expected 1 to"),
        (lambda t: pc.sweep(t, streams=[1], workers=4, executor="here"), "workers 4 is for 'processes' alone"),
        (lambda t: pc.sweep(t, options=5), "options 5: expected a mapping"),  # type: ignore[arg-type]
        (lambda t: pc.sweep(t, streams=[1], executor="threads"), "'here', 'processes'"),
        (lambda t: pc.sweep(t, streams=[1], executor=Cluster()), "expected .* a dask.distributed.Client"),
        (lambda t: pc.sweep(t, streams=[1], options={"rules": "rocksdb"}, schemes="pcstream"), "rules rocksdb: manual, .* not in"),
        (lambda t: pc.sweep(t, streams=[0]), "1 to 255"),
        (lambda t: pc.sweep(t, streams=[[1, 2]]), r"streams \(1, 2\): expected a whole number from 1 to 255"),
        (lambda t: pc.sweep(t, fill=[2.0]), "share from 0 to 1"),
        (lambda t: pc.sweep(t, options={"foo": 1}), "option 'foo': expected one of prefill"),
        (lambda t: pc.sweep(t, options={"settings": {}}), "option 'settings': expected one of prefill"),
        (lambda t: pc.sweep(t, options={"pack": 0.9}, pack=[0.8]), "axis pack: it is in the options, too: give it once"),
        (lambda t: pc.sweep(t, "pcstream", options={"set": [("pcstream.key", "context")]}), "option set .*: expected a mapping"),
        (lambda t: pc.sweep(t, set=["pcstream.key=executable"]), "axis set .*: expected a mapping"),
        (lambda t: pc.sweep(t, "pcstream", set={"pcstream.key": []}), "axis set pcstream.key is empty"),
        (lambda t: pc.sweep(t, "pcstream", set={"pcstream.keys": [1, 2]}), "no parameter 'keys'; did you mean key"),
        (lambda t: pc.sweep(t, "pcstream", set={"pcstream.key": ["context", "x"]}), "must be one of context"),
        (
            lambda t: pc.sweep(t, "pcstream", set={"pcstream.key": "context"}, options={"set": {"pcstream.key": "context"}}),
            "pcstream.key is in the option set, too: give it once",
        ),
        (lambda t: pc.sweep(t, device="pm963"), "profile 'pm963': expected one of"),
        (lambda t: pc.sweep(t, device=5), "device 5: expected a pcstream.Device"),  # type: ignore[arg-type]
        (lambda t: pc.sweep(t, ["baseline", "pcstrem"]), "no scheme is called 'pcstrem'"),
        (lambda t: pc.sweep(t, "baseline:best"), "'baseline' has no reading 'best'"),
        (lambda t: pc.sweep(t, "baseline", options={"set": {"pcstream.key": 1}}), "pcstream is not in this run"),
        (lambda t: pc.sweep(t, "pcstream", options={"set": {"pcstream.keys": 1}}), "no parameter 'keys'; did you mean key"),
        (lambda t: pc.sweep(t, "pcstream", options={"set": {"pcstream.key": "x"}}), "must be one of context"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_runs(small: pc.Trace, call: Any, message: str) -> None:
    with pytest.raises(pc.ArgumentError, match=message):
        call(small)


OWN = """
import pcstream as pc, numpy as np

class Own(pc.Scheme):
    name = "own"
    def place(self, batch):
        return np.zeros(len(batch), np.uint8)

def run():
    print(len(pc.sweep({trace!r}, ["baseline", Own()], workers=2, streams=[2, 3])), "points")

"""


@pytest.mark.parametrize(
    "how,said",
    [
        ("script", "processes calls sweep.* again while it starts; use executor='here'.*ended while it started. It runs the"),
        ("-c", "defined in a notebook or an interactive session; use executor='here'"),
        ("-", "a script from standard input cannot be run again; use executor='here'"),
    ],
)
def test_processes_that_cannot_work_say_why_at_once(small: pc.Trace, tmp_path: Path, how: str, said: str) -> None:
    ended = run_python(OWN.replace("{trace!r}", repr(str(small.path))) + "run()\n", how, tmp_path)
    assert ended.returncode == 1
    assert re.search(said, ended.stderr, re.DOTALL), ended.stderr
    assert ended.stderr.count("_errors.ArgumentError:") <= 2, "one process tried, once"


def test_a_guarded_script_may_define_its_scheme(small: pc.Trace, tmp_path: Path) -> None:
    code = OWN.replace("{trace!r}", repr(str(small.path))) + "if __name__ == '__main__':\n    run()\n"
    ended = run_python(code, "script", tmp_path)
    assert (ended.stdout, ended.returncode) == ("2 points\n", 0), ended.stderr


def run_python(code: str, how: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """Runs code as a script, as ``python -c``, which like a notebook has no file, or from standard input."""
    script = directory / "script.py"
    script.write_text(code)
    words = {"script": [str(script)], "-c": ["-c", code], "-": ["-"]}[how]
    given = code if how == "-" else None
    return subprocess.run([sys.executable, *words], input=given, capture_output=True, text=True, cwd=directory)


def test_dask_gives_the_same_rows_though_workers_are_killed(
    small: pc.Trace, expected: pl.DataFrame, tmp_path: Path
) -> None:
    distributed = pytest.importorskip("distributed", reason="Dask is not installed: pip install 'pcstream[dask]'")
    mark = tmp_path / "mark"
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, local_directory=str(tmp_path)
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        check_killed(pc.sweep(small, [KillsOnce(str(mark)), "baseline"], executor=client, **GRID), mark)
        # And from outside, in the middle, once another worker stands for the one that was killed.
        client.wait_for_workers(2, timeout=PATIENCE)
        victim = next(iter(cluster.workers.values())).pid
        killed: list[int] = []

        def kill(done: int, points: int) -> None:
            if done == 1:
                os.kill(victim, signal.SIGKILL)
                killed.append(points - done)

        rows = pc.sweep(small, ["baseline", "pcstream"], executor=client, progress=kill, **GRID).to_polars()
    assert killed == [POINTS - 1], "points were left"
    assert rows.equals(expected)


def test_ray_gives_the_same_rows_though_a_worker_is_killed(
    small: pc.Trace, expected: pl.DataFrame, tmp_path: Path
) -> None:
    ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'pcstream[ray]'")
    mark = tmp_path / "mark"
    environment = {"env_vars": {"PYTHONPATH": str(Path(__file__).parent)}}
    ray.init(
        address="local",
        num_cpus=2,
        include_dashboard=False,
        object_store_memory=100 << 20,
        runtime_env=environment,
        log_to_driver=False,
    )
    try:
        assert pc.sweep(small, ["baseline", "pcstream"], executor=ray, **GRID).to_polars().equals(expected)
        check_killed(pc.sweep(small, [KillsOnce(str(mark)), "baseline"], executor=ray, **GRID), mark)
        with pytest.raises(pc.SweepError) as caught:
            pc.sweep(small, FailsWithThree(), executor=ray, streams=3)
        assert str(caught.value) == f"1 of 1 points failed: {{'streams': 3}} of {small.path}: ValueError: three streams"
    finally:
        ray.shutdown()


def test_progress_is_called_for_each_point(small: pc.Trace, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    again: dict[str, Any] = {"executor": "here", "progress": lambda *at: seen.append(at), "out": tmp_path / "out"}
    pc.sweep(small, ["baseline"], streams=[2, 3], **again)
    assert seen == [(0, 2), (1, 2), (2, 2)]
    seen.clear()
    pc.sweep(small, ["baseline"], streams=[2, 3, 4], **again)
    assert seen == [(2, 3), (3, 3)], "two are found again"
