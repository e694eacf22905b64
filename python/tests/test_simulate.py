"""Simulations: equal to the command line's, with errors that say what to do, and ended by Ctrl-C."""

from __future__ import annotations

import json
import math
import os
import pickle
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import pcstream as pc

CASES: list[tuple[list[str], pc.Device | None, dict[str, Any]]] = [
    ([], None, {}),
    (["--profile", "pm963-480g"], pc.Device.profile("pm963-480g").scaled(), {}),
    (["--profile", "fdp-3.84t", "--timing"], pc.Device.profile("fdp-3.84t").scaled(), {"timing": True}),
    (
        ["--streams", "4", "--overprovision", "0.2", "--gc", "shared", "--victim", "d-choices:3", "--prefill", "0.5"],
        pc.Device(streams=4, overprovisioning=0.2, gc="shared", victim="d-choices:3"),
        {"prefill": 0.5},
    ),
    (["--profile", "femu", "--pack", "0.9"], pc.Device.profile("femu"), {"pack": 0.9}),
    (["--profile", "femu", "--fill", "0.9"], pc.Device.profile("femu"), {"fill": 0.9}),
    (["--profile", "femu"], cast(Any, "femu"), {}),
    (["--pack", "0.9", "--no-discard"], None, {"pack": 0.9, "discard": False}),
    (["--pack-live", "0.9"], None, {"pack_live": 0.9}),
    (["--fill", "0.95", "--spare-factor", "0.2"], pc.Device(spare_factor=0.2), {"fill": 0.95}),
    (
        ["--set", "pcstream.mapper.distance=log", "--rules", "rocksdb", "--memory", "200000000"],
        None,
        {"set": {"pcstream.mapper.distance": "log"}, "rules": "rocksdb", "memory": 200_000_000},
    ),
]


def without_build(results: dict[str, Any]) -> dict[str, Any]:
    """The package and the program may be of different builds."""
    assert results.pop("pcstream").partition("+")[0] == pc.__version__.partition("+")[0]
    return results


@pytest.mark.filterwarnings("ignore::pcstream.PcstreamWarning")
@pytest.mark.parametrize("flags,device,options", CASES, ids=[" ".join(flags) or "default" for flags, *_ in CASES])
def test_results_are_the_command_lines(
    binary: str, flags: list[str], device: pc.Device | None, options: dict[str, Any]
) -> None:
    trace = pc.datasets.load("mixed")
    command = [binary, "simulate", str(trace.path), "--json", "-", "--scheme", "baseline,manual,pcstream,oracle", *flags]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    results = pc.simulate(trace, "baseline,manual,pcstream,oracle", device, **options)
    assert without_build(results.json) == without_build(json.loads(ran.stdout))


def test_a_device_is_filled_by_what_lives_at_once(tmp_path: Path) -> None:
    steps = np.arange(20_000)
    # A page dies when 2,000 more are written, just after the last of them: 2,001 of 20,000 addresses hold data at once.
    lba = np.stack([steps, np.maximum(steps - 2000, 0)], axis=1).ravel()
    op = np.tile(np.array([0, 1], dtype=np.uint8), len(steps))
    trace = pc.write(tmp_path / "moving.pctrace", {"lba": lba.astype(np.uint64), "op": op}, device_pages=20_000)
    device = pc.Device(streams=2, gc="own", superblock_pages=16)
    with pytest.warns(pc.SizeWarning, match="autostream-mq: neighbouring addresses matter"):
        live = pc.simulate(trace, ["baseline", "autostream-mq"], device, pack_live=0.9)
    assert live.device["address_pages"] == 20_000 and live.device["logical_pages"] == math.ceil(2001 / 0.9)
    with pytest.warns(pc.SizeWarning, match="discards leave the device emptier than 90.0 %"):
        packed = pc.simulate(trace, "baseline", device, pack=0.9)
    assert packed.device["logical_pages"] == math.ceil(20_000 / 0.9)
    assert live["baseline"].waf == 1, "what was written first dies first"
    for refused in ({"pack": 0.9}, {"fill": 0.9}, {"prefill": 0.9}):
        with pytest.raises(pc.ArgumentError, match="pack_live"):
            pc.simulate(trace, "baseline", device, pack_live=0.9, **cast(Any, refused))


def test_the_capacity_of_a_device_is_the_flag(binary: str, small: pc.Trace) -> None:
    command = [binary, "simulate", str(small.path), "--json", "-", "--scheme", "pcstream", "--capacity", "64M"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    results = pc.simulate(small, "pcstream", pc.Device(logical_pages=16384))
    assert without_build(results.json) == without_build(json.loads(ran.stdout))


def test_results_as_tables_objects_and_pictures(small: pc.Trace, tmp_path: Path) -> None:
    device = pc.Device.profile("pm963-480g").scaled(small)
    results = pc.simulate(small, ["baseline", "pcstream"], device)
    assert [(r.scheme, r.gc_destination) for r in results] == [
        ("baseline", "own"),
        ("baseline", "internal"),
        ("pcstream", "own"),
        ("pcstream", "internal"),
    ]
    pcstream = results["pcstream"]
    assert pcstream is results[2] and results["pcstream", "internal"] is results[3]
    assert pcstream.waf < results["baseline"].waf
    assert sum(stream["host_pages"] for stream in pcstream.streams) == pcstream.host_pages == 65536
    assert pcstream.curve[-1] == (pcstream.host_pages, pcstream.flash_pages)
    frame, polars = results.to_pandas(), results.to_polars()
    assert isinstance(frame, pd.DataFrame) and list(frame.waf) == [r.waf for r in results]
    assert isinstance(polars, pl.DataFrame) and polars["wear.mean"].to_list() == [r.wear["mean"] for r in results]
    arrow = pa.table(cast(Any, results))
    assert arrow.equals(results.to_arrow()) and arrow["waf"].to_pylist() == [r.waf for r in results]
    assert f"<td>pcstream</td><td>internal</td><td>{results[3].waf:.3f}</td></tr></table>" in results._repr_html_()
    assert sum(context["pages"] for context in results.contexts) == 65536
    assert "pcstream" in repr(results) and f"{pcstream.waf:.3f}" in repr(pcstream)
    names = cast(Any, results)
    assert "pcstream" in names and ("pcstream", "internal") in names and pcstream in results
    assert "manual" not in names and ("pcstream", "shared") not in names and None not in names
    with pytest.raises(KeyError, match="baseline own, baseline internal"):
        results["manual"]
    with pytest.raises(AttributeError, match="wafs"):
        _ = pcstream.wafs
    assert pickle.loads(pickle.dumps(results)).json == results.json
    assert pickle.loads(pickle.dumps(results[0])).waf == results[0].waf
    bars: Any = results.plot.waf()
    assert [bar.get_height() for bar in bars.patches] == [
        r.waf - 1 for own in ("own", "internal") for r in results if r.gc_destination == own
    ]
    lines: Any = results.plot.progress().get_lines()
    assert len(lines) == 4 and len(lines[0].get_xdata()) > 10
    bars.figure.savefig(tmp_path / "waf.png")
    pyplot = pytest.importorskip("matplotlib.pyplot")
    figure, given = pyplot.subplots()
    width = figure.get_size_inches()[0]
    given.set_yscale("log")
    assert results.plot.waf(given) is given and figure.get_size_inches()[0] == width < bars.figure.get_size_inches()[0]


def test_a_device_is_a_value() -> None:
    device = pc.Device.profile("femu", streams=4)
    assert pickle.loads(pickle.dumps(device)) == device and hash(device) == hash(device.replace())
    assert device.geometry()["streams"] == 4
    assert device.scaled(1 << 18).geometry()["logical_pages"] == 1 << 18
    assert "pm963-480g" in pc.profiles()
    with pytest.raises(pc.ArgumentError, match=r"decides the size of this device; give one: scaled\(trace\).geometry\(\)"):
        device.scaled().geometry()
    assert repr(pc.Device()) == "Device()"
    assert repr(device.scaled()) == "Device(profile_name='femu', to_trace=True, streams=4)"
    spelled = pc.Device(gc=["own", "internal"], timing={"channels": 4}, seed=0)
    assert eval(repr(spelled), {"Device": pc.Device}) == spelled


def test_a_printed_table_has_columns(small: pc.Trace) -> None:
    for schemes in ("baseline", "baseline, autostream-sfr:best"):
        lines = repr(pc.simulate(small, schemes)).splitlines()
        assert lines[0].split() == ["scheme", "GC", "to", "WAF"]
        start, end = lines[0].index("GC to"), lines[0].index("WAF")
        assert {line[start:end].strip() for line in lines[1:]} == {"own", "internal"}
        assert all(line[start - 1] == line[end - 1] == " " and line[end:].strip() == line[end:] for line in lines)


def test_the_prefill_of_the_trace_is_the_default(small: pc.Trace) -> None:
    by_default, named = pc.simulate(small, "baseline"), pc.simulate(small, "baseline", prefill="trace")
    assert named.json == by_default.json != pc.simulate(small, "baseline", prefill=0.0).json
    with pytest.raises(pc.ArgumentError, match="prefill 'none': expected a share from 0 to 1, or 'trace'"):
        pc.simulate(small, "baseline", prefill="none")
    grid = pc.sweep(small, "baseline", pc.Device(gc="own"), executor="here", prefill=["trace", 0.0]).to_polars()
    assert grid["prefill"].to_list() == [None, 0.0] and grid["device.prefill_pages"].to_list() == [8192, 0]


def test_schemes_say_what_can_be_set() -> None:
    known = pc.schemes()
    assert known["oracle"].knows_future and not known["pcstream"].knows_future
    assert "sepbit" in known["autostream-mq"].readings
    assert any(parameter.name == "mapper.distance" for parameter in known["pcstream"].parameters)


@pytest.mark.parametrize(
    "call,message",
    [
        (lambda t: pc.simulate(t, "pcstrem"), "did you mean pcstream"),
        (lambda t: pc.simulate(t, []), "at least one"),
        (lambda t: pc.simulate(t, cast(Any, [1])), "neither a name"),
        (lambda t: pc.simulate(t, "baseline", pc.Device(gc="owned")), "own, internal, shared"),
        (lambda t: pc.simulate(t, "baseline", pc.Device(victim="gredy")), "greedy"),
        (lambda t: pc.simulate(t, "baseline", pc.Device(spare_factor=0)), "no room for GC"),
        (lambda t: pc.simulate(t, "baseline", pc.Device(logical_pages=100)), "100 logical pages"),
        (lambda t: pc.simulate(t, "baseline", set={"pcstream.x": 1}), "pcstream is not in this run"),
        (lambda t: pc.simulate(t, "pcstream", set={"pcstream.x": 1}), "no parameter 'x'"),
        (lambda t: pc.simulate(t, "pcstream", set={"x": 1}), "SCHEME.PARAMETER"),
        (lambda t: pc.simulate(t, "manual", rules="nosuch"), "nosuch"),
        (lambda t: pc.simulate(t, "baseline", rules="rocksdb"), "rules rocksdb: manual, .* is not in this run: add it to schemes"),
        (lambda t: pc.simulate(t, "baseline", pack=0.0), "above 0"),
        (lambda t: pc.simulate(t, "baseline", timing=True, queue_depth=0), "1 to 65536"),
        (lambda t: pc.simulate(t, "baseline", queue_depth=8), "queue_depth without timing"),
        (lambda t: pc.simulate(t, "baseline", timing=True, open_loop=True, queue_depth=4), "queue_depth with open_loop"),
        (lambda t: pc.Device(spare_factor=0.1, overprovisioning=0.1), "give one of them"),
        (lambda t: pc.Device(overprovisioning=14), "overprovisioning 14.*: expected a fraction from 0 to 2, such as 0.14 for 14 %"),
        (lambda t: pc.Device(streams=300), "1 to 255"),
        (lambda t: pc.Device.profile("pm963"), "pm963-480g"),
        (lambda t: pc.Device(profile_name="pm963"), "pm963-480g"),
        (lambda t: pc.Device(gc="owned"), "own, internal, shared"),
        (lambda t: pc.Device(victim="gredy"), "greedy"),
        (lambda t: pc.Device(seed=-1), "seed -1: expected 0 to"),
        (lambda t: pc.Device(streams=cast(Any, 5.0)), r"streams 5\.0: expected a whole number from 1 to 255"),
        (lambda t: pc.Device(streams=cast(Any, "5")), "streams '5'"),
        (lambda t: pc.Device(streams=True), "streams True: expected a whole number from 1 to 255"),
        (lambda t: pc.Device(spare_factor=True), "spare_factor True: expected a number"),
        (lambda t: pc.simulate(t, "baseline", memory=True), "memory True: expected a whole number"),
        (lambda t: pc.simulate(t, "baseline", pack=cast(Any, np.True_)), "pack .*True.*: expected a share"),
        (lambda t: pc.Device(spare_factor=cast(Any, "5")), "spare_factor '5'"),
        (lambda t: pc.Device(pools=cast(Any, "ab")), "pools 'ab': expected relative sizes"),
        (lambda t: pc.Device(background_gc=cast(Any, [3])), r"background_gc \[3\]: expected two numbers"),
        (lambda t: pc.Device(gc=cast(Any, 3)), "gc 3: expected own, internal, shared"),
        (lambda t: pc.simulate(t, "baseline", cast(Any, 5)), "device 5: expected a pcstream.Device"),
        (lambda t: pc.simulate(t, "baseline", "pm963"), "pm963-480g"),
        (lambda t: pc.simulate(t, cast(Any, 5)), "schemes 5: expected names"),
        (lambda t: pc.simulate(t, "baseline", memory=2**64), "memory 18446744073709551616"),
        (lambda t: pc.simulate(t, "baseline", discard=cast(Any, 0)), "discard 0: expected True or False"),
        (lambda t: pc.simulate(t, "baseline", pack=cast(Any, "x")), "pack 'x': expected a share"),
        (lambda t: pc.simulate(t, "baseline", set=cast(Any, ["a"])), r"set \['a'\]: expected a mapping"),
        (lambda t: pc.simulate(t, "baseline", set=cast(Any, {1: 2})), "set 1: expected SCHEME.PARAMETER"),
        (lambda t: pc.simulate(t, "baseline", rules="nosuch"), "no such file, and the presets are common"),
        (lambda t: pc.simulate(t, "baseline", rules=sys.executable), "expected a text file"),
        (lambda t: pc.simulate(t, "baseline", rules="/"), "rules /: Is a directory"),
        (lambda t: pc.simulate(t, "baseline", pc.Device(spare_factor=0)), "fewer streams, .*a spare_factor of at least"),
        (lambda t: pc.generate("uniform", "t.pctrace", pages=-1, writes=1), "pages -1: expected 0 to"),
        (lambda t: pc.generate("uniform", "t.pctrace", pages=cast(Any, "x"), writes=1), "pages 'x': expected a whole"),
        (lambda t: pc.generate("zipf", "t.pctrace", pages=1, writes=1, theta=cast(Any, "x")), "theta 'x': expected a number"),
        (lambda t: pc.simulate(t, "baseline", fill=0.1), r"\(logical_pages\) of at least"),
    ],
)
def test_what_cannot_be_is_refused(small: pc.Trace, call: Any, message: str) -> None:
    with pytest.raises(pc.ArgumentError, match=message) as caught:
        call(small)
    assert isinstance(caught.value, ValueError)


def test_too_little_memory_is_an_error(small: pc.Trace) -> None:
    with pytest.raises(pc.NotEnoughMemoryError, match="memory="):
        pc.simulate(small, "baseline", memory=1)


def test_numbers_of_numpy_are_numbers(small: pc.Trace) -> None:
    device = pc.Device(streams=np.int64(5), seed=np.uint8(3), spare_factor=np.float32(0.25))
    assert device == pc.Device(streams=5, seed=3, spare_factor=0.25) and "np" not in repr(device)
    assert pc.Device(background_gc=[3, 6]) == pc.Device(background_gc=(3, 6))
    no: Any = np.bool_(False)
    results = pc.simulate(small, "baseline", device, memory=np.int64(10**9), pack=np.float64(0.5), discard=no)
    assert results.device["streams"] == 5
    assert results[np.int64(0)] is results[np.array(0)] is results[0]


def test_a_preset_goes_before_a_file_of_its_name(
    small: pc.Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sqlite").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.warns(pc.PcstreamWarning, match="rules sqlite: .*no rule of the preset matched a write"):
        assert pc.simulate(small, "manual", rules="sqlite")["manual"].waf > 1
    with pytest.raises(pc.ArgumentError, match="rules sqlite: Is a directory"):
        pc.simulate(small, "manual", rules=Path("sqlite"))


def test_the_best_reading_is_among_all(binary: str, small: pc.Trace) -> None:
    device = pc.Device(gc="own", spare_factor=0.1)
    results = pc.simulate(small, "autostream-mq:best, baseline", device)
    readings = pc.schemes()["autostream-mq"].readings
    assert [result.scheme for result in results] == [f"autostream-mq:{reading}" for reading in readings] + ["baseline"]
    flags = ["--scheme", "autostream-mq:best", "--gc", "own", "--spare-factor", "0.1", "--json", "-"]
    said = subprocess.run([binary, "simulate", str(small.path), *flags], capture_output=True, text=True, check=True).stdout
    (best,) = json.loads(said)["results"]
    assert best["waf"] == min(result.waf for result in results if result.scheme != "baseline")
    with pytest.raises(pc.ArgumentError, match="'baseline' has no reading 'best'"):
        pc.simulate(small, "baseline:best")


def test_a_small_trace_on_a_large_device_warns(tmp_path: Path, small: pc.Trace) -> None:
    trace = pc.generate("uniform", tmp_path / "t.pctrace", pages=4096, writes=100)
    with pytest.warns(pc.SizeWarning, match="too little to say anything; pack=0.9"):
        pc.simulate(trace, "baseline")
    profile = pc.Device.profile("pm963-480g")
    with pytest.warns(pc.SizeWarning, match=r"65536 pages written to \d{9} pages of flash.*; Device.scaled\(\) makes"):
        pc.simulate(small, "baseline", profile)
    whole, scaled = (pc.simulate(small, "baseline", device, pack=0.9) for device in (profile, profile.scaled()))
    assert whole.json == scaled.json


def test_what_a_scheme_drops_is_a_loss(binary: str) -> None:
    trace = pc.datasets.load("mixed")
    setting = "pcstream.lifetime.max_bytes"
    command = [binary, "simulate", str(trace.path), "--scheme", "pcstream", "--set", f"{setting}=4096"]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 3
    with pytest.warns(pc.LossWarning, match=rf"pcstream dropped .*live data \d+ times.*set={{'{setting}': BYTES}}"):
        results = pc.simulate(trace, "pcstream", set={setting: 4096})
    (scheme, count, parameter), *_ = results.dropped
    assert (scheme, parameter) == ("pcstream", "lifetime.max_bytes") and count > 0


def remarks(binary: str, trace: pc.Trace, *flags: str) -> list[str]:
    """What the program says of a simulation, with the names that Python has."""
    command = [binary, "simulate", str(trace.path), "--json", "/dev/null", *flags]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stderr.replace("rules ", "")
    lines = (line.removeprefix("pcstream: ") for line in said.splitlines())
    return [re.sub(r"--pack-live |--superblock-pages|--", lambda m: IN_PYTHON[m[0]], line) for line in lines]


IN_PYTHON = {"--pack-live ": "pack_live=", "--superblock-pages": "superblock_pages", "--": "rules "}


def test_remarks_of_the_program_are_warnings(binary: str, tmp_path: Path) -> None:
    trace = pc.datasets.load("mixed")
    rules = tmp_path / "mine.rules"
    rules.write_text("name=*.never -> 1\nname=*.log -> 200\n")
    cases: list[tuple[list[str], Any, dict[str, Any], list[str]]] = [
        (["--pack", "0.9"], "baseline", {"pack": 0.9}, ["discards leave .* than 90.0 %, .*: pack_live=0.9 goes by live data"]),
        (["--timing"], "baseline", {"timing": True}, ["superblocks are so small .* a larger superblock_pages. WAF holds"]),
        (
            ["--rules", str(rules)],
            "manual",
            {"rules": rules},
            [f"rules {rules}: line 1 .* matched nothing", f"rules {rules}: line 2: the device has no stream 200; .*"],
        ),
    ]
    device = pc.Device(superblock_pages=16)
    for flags, scheme, options, expected in cases:
        with pytest.warns(pc.PcstreamWarning) as warned:
            results = pc.simulate(trace, scheme, device, **options)
        texts = [str(one.message).removeprefix(f"{trace.path}: ") for one in warned]
        assert [bool(re.fullmatch(*pair)) for pair in zip(expected, texts, strict=True)] == [True] * len(expected), texts
        said = remarks(binary, trace, "--scheme", scheme, "--superblock-pages", "16", *flags)
        assert set(texts) <= set(said), said
        assert {one.category for one in warned} == {pc.SizeWarning if "pack" in options else pc.PcstreamWarning}
        assert [text for _, text in results.remarks] == texts and warned[0].filename == __file__
        with pytest.warns(pc.PcstreamWarning, match="1 of 1 points have warnings"):
            rows = pc.sweep(trace, scheme, device, executor="here", options=options).to_polars()
        assert rows["warnings"].unique().to_list() == ["; ".join(texts)]
    pc.simulate(trace, "baseline", device, pack=0.9, discard=False)
    with pytest.warns(pc.PcstreamWarning, match="superblocks of .* the default size, .* at superblock_pages"):
        pc.simulate(trace, "baseline", pc.Device(spare_factor=0.03, streams=33))


def test_latencies_are_columns(small: pc.Trace) -> None:
    few_dies = pc.Device(timing={"channels": 2, "dies_per_channel": 2})
    results = pc.simulate(small, ["baseline", "pcstream"], few_dies, timing=True)
    frame = results.to_pandas()
    assert list(frame.write_p99_us) == [result.latency_us["write"]["p99"] for result in results]
    assert list(frame.write_p999_us) == [result.latency_us["write"]["p99_9"] for result in results]
    columns = {f"{direction}_{quantile}_us" for direction in ("read", "write") for quantile in ("p50", "p99", "p999")}
    assert columns <= set(frame.columns) and results[0].row()["read_p50_us"] is None
    assert not any(column.startswith("latency_us") for column in frame.columns)
    (row,) = pc.simulate(small, "baseline", pc.Device(gc="own")).rows
    assert not (columns | {"steady", "latency_us", "throughput"}) & set(row) and {"waf", "iops"} <= set(row)


def test_parallelism_and_speeds_are_those_of_a_device_file(binary: str, small: pc.Trace, tmp_path: Path) -> None:
    timing = {"channels": 2, "dies_per_channel": 2, "pages_per_program": 4, "erase_ns": 90_000}
    file = tmp_path / "device.toml"
    file.write_text("[timing]\n" + "".join(f"{name} = {value}\n" for name, value in timing.items()))
    command = [binary, "simulate", str(small.path), "--json", "-", "--scheme", "baseline", "--timing", "--device", str(file)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    expected = without_build(json.loads(ran.stdout))
    assert expected["device"].pop("origin") == f"file {file}"
    device = pc.Device(timing=timing)
    results = without_build(pc.simulate(small, "baseline", device, timing=True).json)
    assert results["device"].pop("origin") is None
    assert results == expected
    assert results["device"]["timing"]["erase_ns"] == 90_000
    assert device.replace(streams=3).timing == device.timing and hash(device) == hash(pc.Device(timing=timing))
    assert device.geometry()["timing"]["dies"] == 4
    scaled = pc.Device.profile("femu", timing={"channels": 4}).scaled()
    with pytest.warns(pc.PcstreamWarning, match="superblocks are so small that the last stripe of each lies on"):
        of_profile = pc.simulate(small, "baseline", scaled, timing=True)
    assert of_profile.json["device"]["timing"]["read_ns"] == 40_000
    for wrong, message in [
        ({"chanels": 2}, "unknown field `chanels`, expected one of `channels`, "),
        ({"channels": 2**40}, f"timing channels {2**40}: expected 0 to {2**32 - 1}"),
        ({"channels": 1.5}, "timing channels 1.5: expected a whole number"),
        ("channels", "timing 'channels': expected numbers by name"),
        ({3: 4}, "timing {3: 4}: expected numbers by name"),
    ]:
        with pytest.raises(pc.ArgumentError, match=re.escape(message)):
            pc.Device(timing=cast(Any, wrong))
    with pytest.raises(pc.ArgumentError, match="channels is 0: expected at least 1"):
        pc.simulate(small, "baseline", pc.Device(timing={"channels": 0}), timing=True)


def test_other_threads_run_meanwhile(tmp_path: Path) -> None:
    trace = pc.generate("hotcold", tmp_path / "t.pctrace", pages=32768, writes=300_000)
    ended, ticks = threading.Event(), 0

    def tick() -> None:
        nonlocal ticks
        while not ended.is_set():
            ticks += 1
            time.sleep(0.001)

    ticking = threading.Thread(target=tick)
    ticking.start()
    before = ticks
    try:
        # Of pcstream-forget, because no linker ends in what was generated.
        with pytest.warns(pc.PcstreamWarning, match="the table was never emptied: .* in the parameter pcstream-forget.forget_at_exit_of$"):
            pc.simulate(trace, "all")
        during = ticks - before
    finally:
        ended.set()
    ticking.join()
    assert during > 5


def run_script(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs a script that can be interrupted."""
    return subprocess.run(
        [sys.executable, "-c", script, *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | {"PYTHONFAULTHANDLER": "1"},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        check=False,
    )


def test_a_forked_process_simulates_as_its_parent(small: pc.Trace) -> None:
    script = """
import multiprocessing, sys
import pcstream as pc
def wafs(_):
    return [result.waf for result in pc.simulate(sys.argv[1], ["baseline", "pcstream"])]
here = wafs(0)
with multiprocessing.get_context("fork").Pool(2) as pool:
    print(pool.map_async(wafs, range(4)).get(60) == 4 * [here])
"""
    ran = run_script(script, str(small.path))
    assert (ran.returncode, ran.stdout) == (0, "True\n"), ran.stderr


@pytest.mark.parametrize("forked", [False, True])
def test_ctrl_c_ends_a_simulation(tmp_path: Path, forked: bool) -> None:
    script = """
import os, signal, sys, threading
import pcstream as pc
if sys.argv[2] == "True":
    pc.simulate(pc.datasets.load("sqlite"), ["baseline", "pcstream"])
    child = os.fork()
    if child:
        signal.alarm(120)
        signal.signal(signal.SIGALRM, lambda *_: os.kill(child, signal.SIGKILL))
        sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
class Interrupts(pc.Scheme):
    sent = False
    def place(self, batch):
        # Once: batches go on until the simulation has stopped, and a second signal would end the handler below.
        if batch.now > 100_000 and not self.sent:
            self.sent = True
            os.kill(os.getpid(), signal.SIGINT)
        return batch.op
trace = pc.generate("uniform", sys.argv[1], pages=32768, writes=4_000_000)
try:
    # On one device: for each there is a copy of the scheme, which would send a signal of its own.
    pc.simulate(trace, [Interrupts()], pc.Device(gc="own"))
except KeyboardInterrupt:
    print("interrupted")
"""
    ran = run_script(script, str(tmp_path / "t.pctrace"), str(forked))
    assert (ran.returncode, ran.stdout) == (0, "interrupted\n"), ran.stderr
