"""What the program does with traces, called from Python."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import PATIENCE, wait_for

import pcstream as pc

MSR = """\
128166372003061629,src1,0,Write,0,8192,100
128166372003072629,src1,0,Read,4096,4096,100
128166372003132629,src1,0,Write,3145728,4096,100
"""


@pytest.fixture(autouse=True)
def program(monkeypatch: pytest.MonkeyPatch, binary: str) -> None:
    monkeypatch.setenv("PCSTREAM_BINARY", binary)


def test_a_public_trace_is_imported_with_its_times(tmp_path: Path) -> None:
    source = tmp_path / "src1_0.csv"
    source.write_text(MSR)
    trace = pc.import_trace(source, tmp_path / "t.pctrace", format="msr", size="4M")
    events = trace.events().to_pandas()
    assert events["time_ns"].tolist() == [0, 1_100_000, 7_100_000] and events["lba"].tolist() == [0, 1, 768]
    assert trace.meta["device"]["pages"] == 1024
    with pytest.raises(pc.ProgramError, match="import ended with 1: .*overwrite=True"):
        pc.import_trace(source, tmp_path / "t.pctrace", format="msr")
    source.write_text(MSR + "nonsense\n")
    with pytest.warns(pc.LossWarning, match="bad lines, left out: 1"):
        pc.import_trace(source, tmp_path / "t.pctrace", format="msr", overwrite=True, skip_bad_lines=True)
    with pytest.raises(pc.ProgramError, match="import ended with 2: .*'x' for 'size"):
        pc.import_trace(source, tmp_path / "t.pctrace", format="msr", size="x")


@pytest.mark.parametrize("of", ["process", "group"])
def test_ctrl_c_leaves_nothing_behind(tmp_path: Path, of: str) -> None:
    """``group``: a terminal sends it to all of its processes."""
    (tmp_path / "out").mkdir()
    source, output = tmp_path / "source", tmp_path / "out" / "t.pctrace"
    os.mkfifo(source)
    code = f"import pcstream as pc; pc.import_trace({str(source)!r}, {str(output)!r}, format='msr')"
    called = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True, start_new_session=True)

    def supply() -> None:
        try:
            with source.open("w") as pipe:
                while True:
                    pipe.write(MSR)
        except BrokenPipeError:
            pass

    supplier = threading.Thread(target=supply, daemon=True)
    supplier.start()
    try:
        wait_for("the trace", (output.with_suffix(".pctrace.partial") / "meta.json").exists)
        (os.kill if of == "process" else os.killpg)(called.pid, signal.SIGINT)
        said = called.communicate(timeout=PATIENCE)[1]
    finally:
        # Whatever goes on would read for ever.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(called.pid, signal.SIGKILL)
    supplier.join()
    assert called.returncode == -signal.SIGINT and said.endswith("KeyboardInterrupt\n"), said
    assert not list(output.parent.iterdir())


def test_traces_are_merged_and_parts_extracted(tmp_path: Path, small: pc.Trace) -> None:
    merged = pc.merge([small, small.path], tmp_path / "m.pctrace", offset=["2=1s"])
    assert merged.meta["totals"]["host_pages"] == 2 * small.meta["totals"]["host_pages"]
    whole = pc.datasets.load("sqlite")
    part = pc.extract(whole, tmp_path / "p.pctrace", file="*-wal", metadata=False)
    assert 0 < part.meta["totals"]["host_pages"] < whole.meta["totals"]["host_pages"]
    both = pc.extract(whole, tmp_path / "b.pctrace", file=["*-wal", "*.db"])
    assert part.meta["totals"]["host_pages"] < both.meta["totals"]["host_pages"]
    assert both.meta["settings"]["extracted"]["file"] == ["*-wal", "*.db"]
    with pytest.raises(pc.ProgramError, match="no file of the trace matches file; .* `pcstream contexts .* --by file`"):
        pc.extract(whole, tmp_path / "n.pctrace", file="*.none")


def test_runs_are_compared_and_advised_on(small: pc.Trace, tmp_path: Path) -> None:
    def again(name: str, seed: int) -> pc.Trace:
        return pc.generate(name, tmp_path / f"{name}{seed}.pctrace", pages=8192, writes=65536, seed=seed)

    uniform = [again("uniform", seed) for seed in (3, 4)]
    compared = pc.compare([small, again("hotcold", 4)], (run.path for run in uniform), scheme="baseline")
    assert [run["repetitions"] for run in compared["runs"]] == [2, 2]
    assert any(change["more_than_noise"] for change in compared["changes"])
    compared = pc.compare(uniform, uniform, scheme=["baseline", "pcstream"], gc=["own"])
    assert not any(change["more_than_noise"] for change in compared["changes"])
    assert pc.advise(small)["changes"]


def test_a_report_is_one_file(small: pc.Trace, tmp_path: Path) -> None:
    place = pc.report(small, tmp_path / "r.html")
    assert place.read_text().startswith("<!")
    with pytest.raises(pc.ArgumentError, match="overwrite=True"):
        pc.report(small, place)
    with pytest.raises(pc.ProgramError, match="report ended with 1: .*File name too long"):
        pc.report(small, tmp_path / ("r" * 300))


@pytest.fixture
def said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, binary: str) -> Callable[[str, int], Path]:
    """A program that has the flags of ours, says something and ends; the file has the words that it was called with."""

    def program(stderr: str, code: int) -> Path:
        words, text, script = tmp_path / "words", tmp_path / "said", tmp_path / "program"
        text.write_text(stderr)
        helps = f"[ \"$3\" != --help ] || exec '{binary}' \"$@\""
        script.write_text(f"#!/bin/sh\n{helps}\nprintf '%s\\n' \"$@\" > '{words}'\ncat '{text}' >&2\nexit {code}\n")
        script.chmod(0o755)
        monkeypatch.setenv("PCSTREAM_BINARY", str(script))
        return words

    return program


@pytest.mark.parametrize(
    "stderr,message",
    [
        ("1 of 2\nerror: a.pctrace: Parquet error: EOF\n", "error: a.pctrace: Parquet error: EOF"),
        ("error: wrong\n  tip: use '--skip-bad-lines'\n\nUsage: x --force\n", "error: wrong\n  tip: use 'skip_bad_lines'"),
        ("error: a--b: exists; replace it with --force\n", "error: a--b: exists; replace it with overwrite=True"),
        ("error: /--a: --pages 0: expected 1 to 2\n", "error: /--a: pages 0: expected 1 to 2"),
        ("error: `pcstream contexts t --by file` lists them\n", "error: `pcstream contexts t --by file` lists them"),
        ("error: '--a' found\n\n  tip: to pass '--a' as a value, use '-- --a'\n\nFor more, try '--help'.\n", "error: 'a' found"),
        ("error: these were not provided:\n  --format <NAME>\n\nUsage: x\n", "error: these were not provided:\n  format <NAME>"),
        ("killed\n", "killed"),
    ],
)
def test_an_error_is_what_the_program_said(stderr: str, message: str, said: Any, small: pc.Trace, tmp_path: Path) -> None:
    said(stderr, 1)
    with pytest.raises(pc.ProgramError) as error:
        pc.report(small, tmp_path / "r.html")
    assert str(error.value).partition(" report ended with 1: ")[2] == message


def test_a_recordings_error_is_the_programs(said: Any, tmp_path: Path) -> None:
    said("error: of the command\nerror: t.pctrace: Parquet error: EOF\n", 1)
    with pytest.raises(pc.RecordError, match=" record ended with 1: error: t.pctrace: Parquet error: EOF$"):
        pc.record(["true"], tmp_path / "t.pctrace")


def test_a_trace_at_a_url_is_handed_on_as_its_local_copy(small: pc.Trace) -> None:
    pytest.importorskip("fsspec")
    assert pc.advise(pc.open(f"file://{small.path}"))["changes"] == pc.advise(small)["changes"]


def test_without_the_program_the_remedy_is_one_that_exists(small: pc.Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PCSTREAM_BINARY", "/no/program")
    with pytest.raises(pc.ProgramError, match="/no/program: no such program; install it .* with PCSTREAM_BINARY$"):
        pc.advise(small)


def test_a_warning_names_the_line_of_the_call(said: Any, small: pc.Trace, tmp_path: Path) -> None:
    said("lines left out, as --skip-bad-lines does\n", 3)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        pc.report(small, tmp_path / "r.html")
        with pytest.raises(pc.TraceNotFoundError):
            pc.merge([small, small], tmp_path / "m.pctrace")
        with pytest.raises(FileNotFoundError):
            pc.advise(small)
    assert [(os.path.basename(one.filename), str(one.message)) for one in caught] == [
        ("test_program.py", f"{command}: lines left out, as skip_bad_lines does") for command in ("report", "merge", "advise")
    ]


def test_remarks_are_logged(said: Any, small: pc.Trace, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    said("a remark\n", 0)
    with caplog.at_level(logging.INFO, "pcstream"):
        pc.report(small, tmp_path / "r.html")
    assert caplog.record_tuples == [("pcstream", logging.INFO, "report: a remark")]


def test_a_configuration_is_read_only_where_it_is_named(
    small: pc.Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pcstream").mkdir()
    (tmp_path / "pcstream" / "pcstream.toml").write_text("[compare]\nstreams = 2\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))

    def streams(**flags: Any) -> int:
        answer = pc.compare(small, small, scheme="baseline", gc="own", **flags)
        return int(answer["runs"][0]["devices"][0]["streams"])

    assert (streams(), streams(no_config=True)) == (9, 9)
    assert streams(config=tmp_path / "pcstream" / "pcstream.toml") == 2


def test_flags_are_words_of_the_program(said: Any, small: pc.Trace, tmp_path: Path) -> None:
    words = said("", 0)
    place = tmp_path / "r.html"
    some = {"streams": np.int64(4), "no_discard": np.bool_(True), "timing": np.bool_(False), "seed": None, "rules": Path("-r")}
    pc.report(small, place, scheme=(name for name in ("a", "b")), set=["-1", "-2"], **some)
    flags = ["--scheme=a,b", "--set=-1", "--set=-2", "--streams=4", "--no-discard", "--rules=-r"]
    expected = ["report", "--no-config", f"--output={place}", *flags, "--", str(small.path)]
    assert words.read_text().splitlines() == expected
    with pytest.raises(pc.ArgumentError, match="scheme b'a': expected True, a text, a number, or several"):
        pc.report(small, place, scheme=b"a")


@pytest.mark.parametrize(
    "flags,expected",
    [
        ({"discard": True, "curves": None, "timing": False, "set": []}, []),
        ({"discard": np.False_, "curves": False}, ["--no-discard", "--no-curves"]),
        ({"set": {"pcstream.averaging": 0.3, "pcstream.x": True}}, ["--set=pcstream.averaging=0.3", "--set=pcstream.x=true"]),
        ({"background_gc": (np.int64(4), 8)}, ["--background-gc=4:8"]),
        ({"background_gc": "4:8", "pools": np.array([2, 1])}, ["--background-gc=4:8", "--pools=2,1"]),
        ({"gc": ("own", "shared"), "streams": np.array(4)}, ["--gc=own,shared", "--streams=4"]),
    ],
)
def test_flags_have_the_forms_of_simulate_and_devices(
    said: Any, small: pc.Trace, tmp_path: Path, flags: dict[str, Any], expected: list[str]
) -> None:
    words = said("", 0)
    pc.report(small, tmp_path / "r.html", **flags)
    assert words.read_text().splitlines()[3:-2] == expected


def test_flags_are_known_where_the_environment_forces_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLICOLOR_FORCE", "1")
    assert pc.advise(pc.datasets.load("mixed"), pack=0.9)["baseline_waf"] is not None


def test_the_same_values_give_the_waf_of_simulate() -> None:
    trace = pc.datasets.load("mixed")
    given: dict[str, Any] = {"pack": 0.98, "discard": False, "set": {"pcstream.averaging": 0.3}}
    (simulated,) = pc.simulate(trace, "pcstream", pc.Device(gc="own", background_gc=(4, 8)), **given)
    (run, _) = pc.compare(trace, trace, scheme="pcstream", gc="own", background_gc=(4, 8), **given)["runs"]
    assert simulated.waf is not None and simulated.waf > 1.01
    assert run["measures"]["WAF: pcstream gc own"]["mean"] == pytest.approx(simulated.waf)


@pytest.mark.parametrize(
    "flags,message",
    [
        ({"discards": False}, "flag 'discards': pcstream advise has no such flag; did you mean discard or no_discard?"),
        ({"overprovisioning": 0.1}, "flag 'overprovisioning': pcstream advise has no such flag; did you mean overprovision?"),
        ({"pakc": None}, "did you mean pack"),
        ({"no_such": []}, "flag 'no_such': pcstream advise has no such flag"),
        ({"curves": False}, "flag 'curves': pcstream advise has no such flag"),
        ({"xyz": 1}, "flag 'xyz': pcstream advise has no such flag; expected one of memory, rules_out, profile, "),
        ({"discard": 0}, "discard 0: expected True or False"),
        ({"discard": True, "no_discard": True}, "discard and no_discard: expected one of them"),
        ({"background_gc": (4, 8, 9)}, "background_gc (4, 8, 9): expected two numbers of free superblocks"),
        ({"set": {"averaging": 1}}, "set 'averaging': expected SCHEME.PARAMETER"),
        ({"streams": {"a": 1}}, "streams {'a': 1}: expected True, a text, a number, or several"),
    ],
)
def test_flags_that_cannot_be_are_refused(small: pc.Trace, flags: dict[str, Any], message: str) -> None:
    with pytest.raises(pc.ArgumentError, match=re.escape(message)):
        pc.advise(small, **flags)


def test_flags_that_the_help_hides_are_for_the_program_to_judge(small: pc.Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(pc.ProgramError, match="ended with 2: error: timing: advise does not take it, because it compares"):
        pc.advise(small, timing=True)
    with pytest.raises(pc.ProgramError, match="error: rules: advise does not take it, because it makes rules from the trace"):
        pc.advise(small, rules="rocksdb")
    assert pc.advise(small, op=0.2, no_trim=True) == pc.advise(small, overprovision=0.2, discard=False)
    monkeypatch.setenv("CLICOLOR_FORCE", "1")
    with pytest.raises(pc.ArgumentError, match="flag 'pakc': pcstream advise has no such flag; did you mean pack"):
        pc.advise(small, pakc=0.9)


def test_a_program_without_help_is_an_error(small: pc.Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PCSTREAM_BINARY", "true")
    with pytest.raises(pc.ProgramError, match="true advise --help ended with 0: its help lists no flags"):
        pc.advise(small, pack=0.9)


@pytest.mark.parametrize("name", ["force", "output", "json", "help", "version", "color", "quiet"])
def test_flags_with_another_way_are_refused(name: str, small: pc.Trace) -> None:
    with pytest.raises(pc.ArgumentError, match=f"flag '{name}': no flag of this function; (use|see|leave) "):
        pc.advise(small, **{name: True})


def test_a_source_may_begin_with_a_dash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("-src.csv").write_text(MSR)
    trace = pc.import_trace("-src.csv", "-t.pctrace", format="msr", size="4M")
    assert trace.path == tmp_path / "-t.pctrace" and trace.meta["totals"]["events"] == 3


def test_no_output_is_stdout(small: pc.Trace) -> None:
    calls: list[Callable[[], object]] = [
        lambda: pc.import_trace("a.csv", "-", format="msr"),
        lambda: pc.merge([small, small], "-"),
        lambda: pc.extract(small, "-", file="*"),
        lambda: pc.report(small, "-"),
        lambda: pc.write("-", {"lba": [1]}),
        lambda: pc.generate("uniform", "-", pages=8, writes=8),
        lambda: pc.record(["true"], "-"),
    ]
    for call in calls:
        with pytest.raises(pc.ArgumentError, match="output '-': expected a path"):
            call()


def test_a_comma_in_a_path_is_refused_where_it_separates(small: pc.Trace, tmp_path: Path) -> None:
    (tmp_path / "a,b.pctrace").symlink_to(small.path)
    (tmp_path / "ab.pctrace").symlink_to(tmp_path / "a,b.pctrace")
    with pytest.raises(pc.ArgumentError, match="a,b.pctrace': a comma separates repetitions; rename the trace, or give a link"):
        pc.compare(small, [tmp_path / "a,b.pctrace"])
    assert len(pc.compare(small, tmp_path / "ab.pctrace", scheme="baseline")["runs"]) == 2
