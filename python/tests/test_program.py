"""What the program does with traces, called from Python."""

from __future__ import annotations

from pathlib import Path

import pytest

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
    with pytest.raises(pc.ProgramError, match="import ended with 2: .*--no-such"):
        pc.import_trace(source, tmp_path / "t.pctrace", format="msr", no_such=1)


def test_traces_are_merged_and_parts_extracted(tmp_path: Path, small: pc.Trace) -> None:
    merged = pc.merge([small, small.path], tmp_path / "m.pctrace", offset=["2=1s"])
    assert merged.meta["totals"]["host_pages"] == 2 * small.meta["totals"]["host_pages"]
    whole = pc.datasets.load("sqlite")
    part = pc.extract(whole, tmp_path / "p.pctrace", file="*-wal", metadata=False)
    assert 0 < part.meta["totals"]["host_pages"] < whole.meta["totals"]["host_pages"]


def test_runs_are_compared_and_advised_on(small: pc.Trace, tmp_path: Path) -> None:
    other = pc.generate("hotcold", tmp_path / "o.pctrace", pages=8192, writes=65536, seed=4)
    compared = pc.compare([small, other], [other, small], scheme="baseline")
    assert [run["repetitions"] for run in compared["runs"]] == [2, 2]
    assert not any(change["more_than_noise"] for change in compared["changes"])
    assert pc.advise(small)["changes"]


def test_a_report_is_one_file(small: pc.Trace, tmp_path: Path) -> None:
    place = pc.report(small, tmp_path / "r.html")
    assert place.read_text().startswith("<!")
    with pytest.raises(pc.ArgumentError, match="overwrite=True"):
        pc.report(small, place)
