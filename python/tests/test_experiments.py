"""The experiments of the repository: their tables from recorded sample traces."""

from __future__ import annotations

import csv
import importlib
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import pcstream as pc

ROOT = Path(__file__).resolve().parents[2]
#: Workloads of the experiments, and the sample traces that stand for them here.
SAMPLES = {"rocksdb": "mixed", "cassandra": "mixed", "sqlite": "sqlite", "postgresql": "postgresql", "varmail-ext4": "mixed"}
#: Figures of FAST'18 have workloads of their own.
SERVERS = ("fast18-table3", "fast18-fig5", "fast18-sensitivity")


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


def test_without_recording_figures_take_the_recordings_that_there_are(experiments: Any, tmp_path: Path) -> None:
    lab = importlib.import_module("experiments.lab")
    workloads = importlib.import_module("experiments.workloads").all_of(True)
    there = lab.Lab(tmp_path, True, 3, workloads, may_record=False)
    second = there._path(workloads["sqlite"], 2)
    second.parent.mkdir()
    shutil.copytree(pc.datasets.load("sqlite").path, second)
    text = there.write(experiments.FIGURES["fast19-fig9"].make(there)).read_text()
    assert "sqlite 1," in text and "Left out: rocksdb: there is no recording." in text, text
    assert sorted(path.name for path in second.parent.iterdir()) == [second.name], "nothing was recorded"


def test_what_is_left_out_is_said_once(lab: Any, capsys: pytest.CaptureFixture[str]) -> None:
    for why in ("there is no recording", "there is no recording", "failed"):
        lab.leave_out("sqlite", why)
    assert capsys.readouterr().err == "sqlite: there is no recording\n"
    assert lab.left_out == {"sqlite": "there is no recording"}


def test_without_recordings_earlier_results_stay(
    experiments: Any, lab: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    figure = experiments.FIGURES["fast19-fig10"]
    path = lab.write(figure.make(lab))
    earlier = {file: file.read_bytes() for file in path.parent.iterdir()}
    assert len(earlier) == 4
    without = type(lab)(lab.out, True, 1, lab.workloads, may_record=False)
    capsys.readouterr()
    assert without.write(figure.make(without)) == path
    assert {file: file.read_bytes() for file in path.parent.iterdir()} == earlier
    said = capsys.readouterr().err
    assert f"fast19-fig10: no rows, so {path} stays as it was. " in said and "sqlite: there is no recording." in said, said
    # Where there is nothing to keep, the file says what was left out.
    path.with_suffix(".csv").unlink()
    assert "Left out: sqlite: there is no recording." in without.write(figure.make(without)).read_text()


@pytest.mark.parametrize("name", ["fast19-fig9", "fast19-fig10", "fast19-fig12", "fast19-fig13", "fast19-fig4", "hotstorage14-trim", "autostream-chunks", "sensitivity", *SERVERS])
def test_a_figure_is_made_of_recordings(experiments: Any, lab: Any, name: str) -> None:
    table = experiments.FIGURES[name].make(lab)
    path = lab.write(table)
    text = path.read_text()
    assert table.rows and all(len(row) == len(table.columns) for row in table.rows)
    missing = "fileserver-xfs" if name in SERVERS else "gcc"
    assert f"Left out: {missing}: not recorded here." in text, "what is missing is said"
    assert (path.with_suffix(".svg")).exists() == (table.picture is not None)
    if hasattr(experiments.FIGURES[name], "summary"):
        assert len(summary(experiments.FIGURES[name], path)) > 2


def summary(figure: Any, path: Path) -> list[str]:
    """Lines of the table that documents have of a result; all have as many columns."""
    lines: list[str] = figure.summary(list(csv.DictReader(path.with_suffix(".csv").read_text().splitlines()))).splitlines()
    assert len({line.count("|") for line in lines}) == 1, lines
    return lines


def test_a_recording_whose_command_failed_is_left_out(experiments: Any, tmp_path: Path) -> None:
    lab = importlib.import_module("experiments.lab")
    workloads = importlib.import_module("experiments.workloads").all_of(True)
    there = lab.Lab(tmp_path, True, 2, workloads, may_record=False)
    paths = [there._path(workloads["sqlite"], number) for number in (1, 2)]
    for path, code in zip(paths, (1, 0), strict=True):
        shutil.copytree(pc.datasets.load("sqlite").path, path)
        meta = json.loads((path / "meta.json").read_text())
        (path / "meta.json").write_text(json.dumps(meta | {"exit": {"code": code, "signal": None}}))
    assert [trace.path for trace in there.traces("sqlite")] == paths[1:]
    assert there.left_out[paths[0].stem].startswith("its command failed, exit status 1;")
    assert "recordings: sqlite 1," in there.provenance()


def test_a_figure_of_the_first_recordings_says_so(experiments: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = importlib.import_module("experiments.lab")
    workloads = importlib.import_module("experiments.workloads").all_of(True)
    there = lab.Lab(tmp_path, True, 2, workloads, may_record=False)
    for number in (1, 2):
        shutil.copytree(pc.datasets.load("sqlite").path, there._path(workloads["sqlite"], number))
    monkeypatch.setattr(experiments.FIGURES["fast19-fig2"], "COUNTS", (2,))
    for name, programs in (("fast19-fig4", "sqlite 1,"), ("fast19-fig2", "sqlite 1,"), ("fast19-fig13", "sqlite 2,")):
        there.begin()
        table = experiments.FIGURES[name].make(there)
        saved = importlib.import_module("experiments.saved")
        assert f"recordings: {programs}" in saved.write(there, table).read_text()
        assert saved.keep(there, name) is not None, "it would be made of the same again"


def with_losses(path: Path) -> tuple[pc.Trace, str]:
    """A recording that says that it lacks something, and the cause of it."""
    shutil.copytree(pc.datasets.load("sqlite").path, path)
    meta = json.loads((path / "meta.json").read_text())
    cause = next(iter(meta["losses"]))
    meta["losses"][cause] = 5
    (path / "meta.json").write_text(json.dumps(meta))
    return pc.open(path), cause


def test_losses_are_said_below_the_table_that_has_them(experiments: Any, lab: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lossy, cause = with_losses(tmp_path / "lossy-1-x.pctrace")
    figure = experiments.FIGURES["hotstorage14-trim"]
    monkeypatch.setattr(lab, "traces", lambda name: [lossy] if name == "rocksdb" else [])
    text = lab.write(figure.make(lab)).read_text()
    assert text.count(f"\nLost: lossy-1-x: something was lost when it was recorded or imported: {cause} 5.\n") == 1, text
    lab.begin()
    monkeypatch.setattr(lab, "traces", lambda name: [pc.datasets.load("sqlite")] if name == "rocksdb" else [])
    assert "Lost" not in lab.write(figure.make(lab)).read_text()
    assert lab.had_losses


@pytest.mark.parametrize(
    "error,said",
    [(pc.SimulationError("no figure"), "no figure"), (subprocess.CalledProcessError(1, ["mkfs.ext4"]), "Command .*mkfs.ext4.* returned")],
)
def test_a_figure_that_fails_leaves_nothing_to_the_next(
    experiments: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception, said: str
) -> None:
    main = importlib.import_module("experiments.__main__")
    lab = importlib.import_module("experiments.lab")
    workload = importlib.import_module("experiments.workloads").all_of(True)["sqlite"]
    path = lab.Lab(tmp_path, True, 1, {})._path(workload, 1)
    path.parent.mkdir()
    shutil.copytree(pc.datasets.load("sqlite").path, path)

    def fails(there: Any) -> Any:
        there.traces("sqlite")
        there.lose("something")
        there.by_level["x"] = 0
        raise error

    figures = {"fails": fails, "next": lambda _: lab.Table("next", "Next", ("a",), [(1,)])}
    monkeypatch.setattr(main, "FIGURES", {name: SimpleNamespace(make=make) for name, make in figures.items()})
    monkeypatch.setattr(sys, "argv", ["experiments", "--quick", "--recorded", "--out", str(tmp_path), "all"])
    handler = signal.getsignal(signal.SIGTERM)
    try:
        assert main.main() == 1
    finally:
        signal.signal(signal.SIGTERM, handler)
    assert re.search(f"fails: {said}", capsys.readouterr().err)
    text = (tmp_path / "results" / "next.md").read_text()
    assert "recordings: none," in text and "something" not in text and "Manual" not in text, text


def test_figures_share_a_simulation_and_its_losses(experiments: Any, lab: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lossy, _ = with_losses(tmp_path / "lossy-1-x.pctrace")
    monkeypatch.setattr(lab, "traces", lambda name: [lossy] if name == "sqlite" else [])
    simulate = pc.simulate
    calls: list[dict[str, Any]] = []

    def counted(*given: Any, **options: Any) -> pc.Results:
        calls.append(options)
        return simulate(*given, **options)

    monkeypatch.setattr(pc, "simulate", counted)
    for name in ("fast19-fig9", "fast19-fig10", "fast19-fig12"):
        lab.begin()
        text = lab.write(experiments.FIGURES[name].make(lab)).read_text()
        assert text.count("\nLost: lossy-1-x: ") == 1, text
    assert [call.get("discard", True) for call in calls] == [False, True], "one without discards, and one with them"


def test_lifetimes_end_with_what_overwrites_or_discards(experiments: Any) -> None:
    pandas = pytest.importorskip("pandas")
    module = importlib.import_module("experiments.figures.activities")
    events = [
        ("write", 0, 3, 1, 8, "data"),
        ("write", 10, 1, 0, 0, "journal"),
        ("write", 1, 2, 2, 9, "data"),
        ("discard", 0, 2, 0, 0, "data"),
        ("write", 10, 1, 1, 8, "data"),
        ("write_zeroes", 10, 1, 0, 0, "data"),
    ]
    frame = pandas.DataFrame(events, columns=["op", "lba", "pages", "context", "file", "kind"])
    lives = module.lifetimes(frame)
    assert lives.context.tolist() == [1, 1, 1, 2, 1]
    assert lives.file.tolist() == [8, 8, 8, 9, 8]
    assert lives.lba.tolist() == [1, 2, 0, 1, 10]
    assert lives.lifetime.tolist() == [3, 3, 6, 2, 1]
    assert module.between(lives.lifetime, lives.lba) < module.between(lives.lifetime, lives.lifetime) == pytest.approx(1)


def test_mappings_are_compared_with_one_stream(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("experiments.figures.mappings")
    # The sample has no room for the superblocks of a recording.
    monkeypatch.setattr(module, "SUPERBLOCKS", (64, 256))
    table = module.make(lab)
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    assert [row["mapping"] for row in rows] == 2 * [mapping for mapping, _, _ in module.MAPPINGS]
    normal = [row for row in rows if row["mapping"] == "Normal"]
    assert [row["IOPS over Normal's"] for row in normal] == ["1.000", "1.000"]
    assert float(rows[0]["WAF"]) > float(normal[0]["WAF"])
    trace = pc.datasets.load("mixed")
    device = pc.Device.profile("pm963-480g", gc="own", spare_factor=0.127, streams=5, superblock_pages=256).scaled()
    found = pc.simulate(trace, ["baseline"], device, pack_live=0.98, timing=True)
    assert normal[1]["WAF"] == f"{found['baseline'].waf:.3f}"
    assert lab.write(table).with_suffix(".svg").stat().st_size > 1000


def test_mappings_over_utilisation_agree_with_those_of_one(experiments: Any, lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    module = experiments.FIGURES["hotstorage14-sensitivity"]
    monkeypatch.setattr(module, "SUPERBLOCKS", (1, 4096))
    monkeypatch.setattr(module, "SHARES", (0.9, 0.98))
    table = module.make(lab)
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    # There is no room for superblocks of 4 GiB, which is said.
    assert "no room: 4096 MiB, discards: yes, 90%; " in " ".join(table.remarks)
    points = [(row["superblock"], row["discards"], row["utilisation"]) for row in rows]
    assert points == [("1 MiB", said, share) for said in ("yes", "no") for share in ("90%", "98%")]
    for row, discard in ((rows[1], True), (rows[3], False)):
        one = importlib.import_module("experiments.figures.mappings").run(lab, pc.datasets.load("mixed"), 256, "cassandra-multi-data", discard)
        assert row["Multi-Data"] == f"{one.waf:.3f}"
    assert len(summary(module, lab.write(table))) == 2 + len(module.SUMMARY)


def test_a_point_of_fast18_meets_the_paper(experiments: Any) -> None:
    meets = experiments.FIGURES["fast18-sensitivity"].meets
    assert meets("varmail-ext4", [2.0, 1.6, 1.5, 1.5], (-24.0, 31.0))
    assert not meets("varmail-ext4", [2.0, 1.6, 1.5, 1.5], (-24.0, 29.0)), "throughput"
    assert not meets("varmail-ext4", [2.0, 1.6, 1.5, 1.5], (-19.0, 31.0)), "WAF"
    assert meets("fileserver-ext4-datajournal", [1.6, 1.2, 1.1, 1.05], (-34.0, 60.0))
    assert not meets("fileserver-ext4-datajournal", [1.4, 1.2, 1.1, 1.05], (-25.0, 40.0)), "there is less to save"
    assert not meets("fileserver-ext4", [1.2, 1.0, 1.0, 1.0], (-16.0, 20.0))
    assert not meets("fileserver-xfs", [1.0, 1.0, 1.0, None], (0.0, 0.0)), "the paper has no number"


@pytest.mark.parametrize(("discards", "discard"), [("yes", True), ("no", False)])
def test_figures_agree_with_a_simulation(experiments: Any, lab: Any, discards: str, discard: bool) -> None:
    table = experiments.FIGURES["fast19-fig10"].make(lab)
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    row = next(row for row in rows if (row["workload"], row["discards"]) == ("sqlite", discards))
    trace = pc.datasets.load("sqlite")
    device = pc.Device.profile("pm963-480g", gc=("own", "internal"), spare_factor=0.07).scaled()
    fullness: dict[str, Any] = {"pack_live": 0.98} if discard else {"pack": 0.98, "discard": False}
    alone = pc.simulate(trace, ["baseline"], device, **fullness)
    assert row["baseline"] == f"{alone['baseline', 'own'].waf:.3f}"
    assert row["baseline, internal"] == f"{alone['baseline', 'internal'].waf:.3f}"
    assert float(row["oracles"]) < float(row["pcstream"]) < float(row["baseline"])


def test_averages_say_how_much_they_depend_on_the_recordings(experiments: Any) -> None:
    module = importlib.import_module("experiments.figures.waf")

    def run(baseline: float, pcstream: float) -> dict[str, float]:
        return {column: baseline for column in module.COLUMNS} | {"pcstream": pcstream, "oracles": 1.0}

    # From 5 to 2 and not at all; with one recording of each from 5 to 1, or to 3.
    said = module.averages([[run(5, 1), run(5, 3)], [run(3, 3)]], "without")
    assert "baseline 4.00, PCStream -30% (-40% to -20%) against baseline" in said
    assert "WAF less 1, of all workloads together: -50% (-67% to -33%) against baseline" in said
    assert "PCStream -50% against baseline (paper" in module.averages([[run(4, 2)]], "with"), "one recording has no interval"
    assert "together: nothing to save against baseline" in module.averages([[run(1, 1)]], "with")
    internal = importlib.import_module("experiments.figures.internal_streams")

    def pair(legacy: float, with_internal: float) -> Any:
        results = {("baseline", "own"): legacy, ("baseline", "internal"): with_internal}
        return {at: SimpleNamespace(waf=waf) for at, waf in results.items()}

    # By a quarter each, though their WAFs differ; with one recording of each workload by half, or not at all.
    assert internal.change([[pair(4, 1), pair(4, 5)], [pair(2, 1.5)]], ("baseline",)) == "-25.0% (-50.0% to +0.0%)"
    assert internal.change([[pair(4, 2)]], ("baseline",)) == "-50.0%"
    iops = importlib.import_module("experiments.figures.iops")
    three = {"pcstream": [2.0, 3.0], "baseline": [1.0, 1.0], "autostream": [2.0, 2.0]}
    one = {"pcstream": [2.0], "baseline": [1.0], "autostream": [1.0]}
    assert "+125% (+100% to +150% by recording) against baseline" in iops.gains({"a": three, "b": one}, "With")


@pytest.mark.filterwarnings("ignore::pcstream.PcstreamWarning")
def test_iops_are_those_of_a_simulation(experiments: Any, lab: Any) -> None:
    table = experiments.FIGURES["fast19-fig9"].make(lab)
    row = next(dict(zip(table.columns, row, strict=True)) for row in table.rows if row[:2] == ("sqlite", "no"))
    device = pc.Device.profile("pm963-480g", gc=("own", "internal"), spare_factor=0.07).scaled()
    found = pc.simulate(pc.datasets.load("sqlite"), ["baseline", "pcstream"], device, pack=0.98, discard=False, timing=True)
    assert row["baseline, IOPS"] == f"{found['baseline', 'own'].iops:.0f}"
    assert row["pcstream"] == f"{found['pcstream', 'internal'].iops / found['baseline', 'own'].iops:.3f}"


def test_streams_that_change_nothing_are_not_the_best_number(experiments: Any, lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("experiments.figures.streams")
    monkeypatch.setattr(module, "COUNTS", (1, 2, 12, 16))
    table = module.make(lab)
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows if row[0] == "sqlite"]
    assert rows[-2]["manual, IOPS"] == rows[-1]["manual, IOPS"] > rows[0]["manual, IOPS"]
    (said,) = [remark for remark in table.remarks if remark.startswith("The best number of streams is ")]
    assert " to 16," not in said and " to 12," in said, said


def test_kinds_of_writes_are_all_counted(experiments: Any) -> None:
    module = importlib.import_module("experiments.figures.kinds_of_writes")
    for name in ("mixed", "postgresql"):
        trace = pc.datasets.load(name)
        pages, shares = module.shares(trace)
        assert pages == trace.meta["totals"]["host_pages"]
        assert sum(shares) == pytest.approx(100)
        assert shares[-1] == pytest.approx(100 * trace.meta["totals"]["data_pages"] / pages)


def test_fstream_is_simulated_on_the_device_of_the_recording(experiments: Any, lab: Any) -> None:
    table = experiments.FIGURES["fast18-fig5"].make(lab)
    row = next(dict(zip(table.columns, row, strict=True)) for row in table.rows if row[1] == "80 % static")
    trace = pc.datasets.load("mixed")
    device = pc.Device.profile("pm963-480g", gc="own", spare_factor=0.07).scaled()
    found = pc.simulate(trace, ["baseline", "fstream"], device, discard=False)
    assert row["baseline"] == f"{found['baseline'].waf:.3f}"
    assert row["all"] == f"{found['fstream'].waf:.3f}"


def test_a_commit_log_has_a_stream_by_the_names_of_its_files(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    figure = importlib.import_module("experiments.figures.commit_log")
    # The sample that stands for Cassandra has tables of RocksDB.
    monkeypatch.setattr(figure, "COLUMNS", tuple((name, given and {**given, "fstream.names": "*.sst"}) for name, given in figure.COLUMNS))
    table = figure.make(lab)
    row = dict(zip(table.columns, table.rows[0], strict=True))
    device = pc.Device.profile("pm963-480g", gc="own", spare_factor=0.07).scaled()
    settings: dict[str, Any] = {"discard": False, "pack": 0.98, "set": {**dict.fromkeys(map("fstream.{}".format, figure.OPTIONS), False), "fstream.names": "*.sst"}}
    (result,) = pc.simulate(pc.datasets.load("mixed"), "fstream", device, **settings)
    assert row["commit log"] == f"{result.waf:.3f}" != row["file system's kinds"]
    lab.write(table)
    assert (lab.out / "results" / "fast18-cassandra.svg").exists()


def test_file_systems_are_compared_by_their_time(experiments: Any, lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("experiments.figures.fstream")
    assert module.speed({"xfs": [4.0, 5.0], "ext4": [2.0, 10.0]}, "xfs", "ext4") == [-50.0, 100.0]
    recorded = [pc.datasets.load("mixed")]
    monkeypatch.setattr(lab, "traces", lambda name: recorded if name in ("fileserver-xfs", "fileserver-ext4") else [])
    remarks = module.make(lab).remarks
    assert sum("fileserver-xfs +0 % faster than fileserver-ext4 (paper: below -50 %)" in remark for remark in remarks) == 1
    assert not any("varmail-ext4-nojournal" in remark for remark in remarks)


def test_a_drive_that_discards_leave_empty_is_said(lab: Any, capsys: pytest.CaptureFixture[str]) -> None:
    trace = pc.datasets.load("sqlite")
    lab.simulate(trace, ["autostream-mq"], utilisation=None, pack_live=0.98)
    assert capsys.readouterr().err == ""
    lab.simulate(trace, ["baseline"])
    assert "discards leave the device emptier than 98.0 %" in capsys.readouterr().err


def test_lifetimes_by_stream_are_those_of_a_full_drive(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = pc.datasets.load("mixed")
    monkeypatch.setattr(lab, "traces", lambda name: [trace])
    table = importlib.import_module("experiments.figures.lifetimes_by_stream").make(lab)
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows if row[:2] == ("pcstream", "yes")]
    device = pc.Device.profile("pm963-480g", gc="internal", spare_factor=0.07).scaled()
    streams = [stream for stream in pc.simulate(trace, "pcstream", device, pack_live=0.98)[0].streams if stream["host_pages"]]
    assert [(row["stream"], row["p75"]) for row in rows] == [(f"S{one['stream']}", one["lifetime_pages"]["p75"]) for one in streams]


def test_lifetimes_of_a_stream_whose_data_all_live(experiments: Any) -> None:
    row = importlib.import_module("experiments.figures.lifetimes_by_stream").row
    assert row({"stream": 3, "host_pages": 5, "lifetime_pages": None}) == ("S3", 5, None, None, None, None)


def test_when_streams_pay_has_both_curves(experiments: Any, lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    all_traces = lab.traces
    monkeypatch.setattr(lab, "traces", lambda name: all_traces(name) if name == "sqlite" else [])
    figure = experiments.FIGURES["when-streams-pay"]
    table = figure.make(lab)
    wafs = {tuple(row[:3]): float(row[3]) for row in table.rows}
    assert wafs["sqlite", "no", "60%"] < wafs["sqlite", "no", "98%"]
    assert wafs["sqlite", "yes", "98%"] <= wafs["sqlite", "no", "98%"]
    path = lab.write(table)
    assert path.with_suffix(".svg").stat().st_size > 1000
    assert f" | {wafs['sqlite', 'no', '98%']:.2f} | " in summary(figure, path)[2]


def test_neither_run_of_a_pair_is_always_first(experiments: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = importlib.import_module("experiments.figures.cpu")
    calls: list[bool] = []

    def seconds(_: object, *, capture: bool) -> float:
        calls.append(capture)
        return float(len(calls))

    monkeypatch.setattr(cpu, "seconds", seconds)
    assert cpu.measured(None, 3) == [(2, 3), (5, 4), (6, 7)]
    assert calls == [False, False, True, True, False, False, True]
    assert cpu.Times(5, 3).since(cpu.Times(2, 1)) == (3, 2) and cpu.Times(3, 2).total == 5


def test_root_processor_time_of_a_capture(experiments: Any, lab: Any, recorder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PCSTREAM_BINARY", recorder)
    cpu = importlib.import_module("experiments.figures.cpu")
    make = importlib.import_module("experiments.workload").Workload
    monkeypatch.setattr(cpu, "WORKLOADS", ("writes", "fails"))
    lab.workloads = {"writes": make("writes", "", ("dd", "if=/dev/zero", "of={}/f", "bs=4k", "count=64"), "64M", 0, ())}
    lab.workloads["fails"] = make("fails", "", ("true",), "64M", 0, ("no-such-program",))
    table = cpu.make(lab)
    ((name, _, user, _, system, _),) = table.rows
    assert name == "writes" and float(user) + float(system) > 0
    assert "no-such-program" in lab.left_out["fails"]
    lab.workloads["fails"] = make("fails", "", ("false",), "64M", 0, ())
    with pytest.raises(pc.RecordError, match="fails ended with 1"):
        cpu.make(lab)
    with cpu.file_system("64M") as directory:
        assert os.path.ismount(directory)
    assert not Path(directory).parent.exists()


@pytest.fixture(name="with_log")
def _with_log(tmp_path: Path, binary: str, monkeypatch: pytest.MonkeyPatch) -> tuple[pc.Trace, dict[str, int]]:
    """A recording with RocksDB's LOG beside it, and levels: tables of odd numbers are of level 2."""
    monkeypatch.setenv("PCSTREAM_BINARY", binary)
    path = tmp_path / "rocksdb-1-x.pctrace"
    shutil.copytree(pc.datasets.load("mixed").path, path)
    trace = pc.open(path)
    names = sorted({Path(name).name for name in trace.files().to_pandas()["path"] if name.endswith(".sst")})
    levels = {name: 2 * (int(name.split(".")[0]) % 2) for name in names}
    lines = []
    for job, (name, level) in enumerate(levels.items()):
        for event in (
            {"job": job, "event": "table_file_creation", "file_number": int(name.split(".")[0])},
            {"job": job, "event": "compaction_finished", "output_level": level},
        ):
            lines.append(f"EVENT_LOG_v1 {json.dumps(event)}\n")
    (tmp_path / "rocksdb-1-x.kept").mkdir()
    (tmp_path / "rocksdb-1-x.kept" / "LOG").write_text("".join(lines))
    return trace, levels


@pytest.mark.filterwarnings("ignore::pcstream.PcstreamWarning")
def test_manual_goes_by_the_levels_of_a_kept_log(
    experiments: Any, lab: Any, with_log: tuple[pc.Trace, dict[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    trace, levels = with_log
    manual = importlib.import_module("experiments.manual")
    rules = manual.rules_of(trace)
    assert manual.levels_of(rules.path) == levels and rules[1:] == ("", 0)
    monkeypatch.setattr(lab, "traces", lambda name: [trace] if name == "rocksdb" else [])
    figure = experiments.FIGURES["hotstorage14-trim"]
    found = figure.make(lab)
    assert "by level, from its LOG, in 1 recordings" in lab.write(found).read_text()
    device = pc.Device.profile("pm963-480g", gc="own", spare_factor=0.07).scaled()
    alone = pc.simulate(trace, ["manual"], device, pack=0.98, discard=False, rules=trace.path.with_suffix(".kept") / "manual.rules")
    row = dict(zip(found.columns, found.rows[1], strict=True))
    assert (row["discards"], row["manual"]) == ("no", f"{alone['manual'].waf:.3f}")
    lab.begin()
    monkeypatch.setattr(lab, "traces", lambda name: [pc.datasets.load("mixed")] if name == "rocksdb" else [])
    other = figure.make(lab)
    assert "No LOG of RocksDB was kept with mixed" in lab.write(other).read_text()
    assert other.rows[1][2:4] == found.rows[1][2:4] and other.rows[1][4] != found.rows[1][4]


@pytest.mark.filterwarnings("ignore::pcstream.PcstreamWarning")
def test_what_a_log_lacks_is_said(lab: Any, with_log: tuple[pc.Trace, dict[str, int]]) -> None:
    trace, levels = with_log
    log = trace.path.with_suffix(".kept") / "LOG"
    first, _, *others = log.read_text().splitlines(keepends=True)
    log.write_text("".join([first, "EVENT_LOG_v1 {\n", *others]))
    lab.simulate(trace, ["manual"], discard=False)
    (lost,) = lab.losses
    assert lost.startswith("rocksdb-1-x: rules from RocksDB's LOG: ") and "1 events could not be read" in lost
    assert "from its LOG, in 1 recordings; 1 tables have no rule and go to S0.\n" in lab.said_of_manual()
    # Also where the rules are made already.
    lab.begin()
    lab.simulate(trace, ["manual"], discard=False)
    assert lab.losses == [lost] and len(levels) > 1


def test_lifetimes_of_tables_are_grouped_by_level(
    experiments: Any, lab: Any, with_log: tuple[pc.Trace, dict[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    trace, levels = with_log
    monkeypatch.setattr(lab, "traces", lambda name: [trace])
    figure = experiments.FIGURES["fast19-fig6"]
    table = figure.make(lab)
    assert [row[0] for row in table.rows] == [0, 2]
    lives = importlib.import_module("experiments.figures.activities").lifetimes(trace.events().to_pandas())
    names = [""] + [Path(path).name for path in trace.files().to_pandas()["path"]]
    of_level_2 = [life for file, life in zip(lives.file, lives.lifetime, strict=True) if levels.get(names[file]) == 2]
    assert table.rows[1][1] == str(len(of_level_2))
    assert table.rows[1][3] == f"{statistics.median(of_level_2):.0f}"
    assert lab.write(table).with_suffix(".svg").stat().st_size > 1000
    shutil.rmtree(trace.path.with_suffix(".kept"))
    assert figure.make(lab).rows == []


def test_a_preset_comes_on_the_streams_after_others(experiments: Any) -> None:
    after = importlib.import_module("experiments.manual").after
    assert after("# a\nkind=journal -> 1\nname=*.s -> 2\nkind=data     -> 6\n", 6) == "# a\nname=*.s -> 7\nkind=data     -> 11\n"


def test_reads_at_low_load_take_what_one_die_takes(experiments: Any, lab: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside a program that answers as MQSim does, to its configuration."""
    home = tmp_path / "MQSim-there"
    home.mkdir()
    chips = ("Chip_No_Per_Channel", "Die_No_Per_Chip", "Plane_No_Per_Die", "Block_No_Per_Plane", "Ideal_Mapping_Table")
    flow = (
        "Chip_IDs", "Die_IDs", "Plane_IDs", "Device_Level_Data_Caching_Mode", "Initial_Occupancy_Percentage", "Working_Set_Percentage",
        "Read_Percentage", "Address_Alignment_Unit", "Average_Request_Size", "Average_No_of_Reqs_in_Queue", "Stop_Time",
    )  # fmt: skip
    (home / "ssdconfig.xml").write_text("".join(f"<{name}></{name}>" for name in chips))
    settings = "".join(f"<{name}></{name}>" for name in flow)
    (home / "workload.xml").write_text(f"<IO_Flow_Parameter_Set_Synthetic>{settings}</IO_Flow_Parameter_Set_Synthetic>")
    answer = "<r><Host.IO_Flow><Request_Count>5001</Request_Count><Device_Response_Time>200</Device_Response_Time></Host.IO_Flow></r>"
    (home / "MQSim").write_text(f'#!/bin/sh\necho "{answer}" > "${{4%.xml}}_scenario_1.xml"\n')
    (home / "MQSim").chmod(0o755)
    module = importlib.import_module("experiments.figures.mqsim")
    monkeypatch.setattr(module, "DEPTHS", (1,))
    monkeypatch.setenv("MQSIM", str(home))
    table = experiments.FIGURES["mqsim"].make(lab)
    sense_and_send = 75_000 + 2 * 12_300 + 2_400
    for row in table.rows:
        found = dict(zip(table.columns, row, strict=True))
        assert found["MQSim, IOPS"] == 5000, "the request that is outstanding at the end is not complete"
        if found["requests"] == "read":
            assert found["here, mean us"] == round(sense_and_send / 1000)
            assert found["ratio"] == pytest.approx(1e9 / sense_and_send / 5000, rel=1e-3)
    assert "1 dies a channel: 80321, or 80321" in module.bounds(), "one die cannot wait for others"
    monkeypatch.delenv("MQSIM")
    assert not experiments.FIGURES["mqsim"].make(lab).rows
    assert "mqsim" in lab.left_out
