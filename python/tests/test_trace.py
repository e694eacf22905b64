"""Traces as Arrow tables, equal to what other readers find in the same files."""

from __future__ import annotations

import pickle
import re
import shutil
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pcstream as pc

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def sqlite() -> pc.Trace:
    return pc.datasets.load("sqlite")


@pytest.mark.parametrize("name", ["events", "contexts", "files"])
def test_tables_are_those_on_disk(sqlite: pc.Trace, name: str) -> None:
    found = getattr(sqlite, name)().to_arrow()
    stored = pq.read_table(sqlite.path / f"{name}.parquet")
    assert found.num_rows == sqlite.meta["totals"][name] > 0
    assert found.select(stored.column_names).to_pylist() == stored.to_pylist()
    # The sample traces are of a format without write hints.
    later = {"hint": "not_set", "write_stream": 0} if name == "events" else {}
    added = found.drop_columns(stored.column_names)
    assert added.column_names == list(later)
    assert all(set(added[column].to_pylist()) == {value} for column, value in later.items())


def test_a_table_goes_to_every_library(sqlite: pc.Trace) -> None:
    pages = sqlite.meta["totals"]["host_pages"]
    arrow = pa.table(sqlite.events())
    frame = sqlite.events().to_pandas()
    polars = sqlite.events().to_polars()
    assert isinstance(frame, pd.DataFrame) and isinstance(polars, pl.DataFrame)
    assert frame.loc[frame.op == "write", "pages"].sum() == pages
    assert polars.filter(pl.col("op") == "write")["pages"].sum() == pages
    assert pa.types.is_dictionary(arrow.schema.field("op").type)
    # Every use reads from the beginning.
    table = sqlite.events()
    assert table.to_arrow().equals(table.to_arrow())


@pytest.mark.parametrize("version,is_refused", [("1.9.0", True), ("0.20.31", True), ("1.10.0", False), ("2.0.0-beta.1", False)])
def test_a_polars_that_loses_rows_is_refused(sqlite: pc.Trace, monkeypatch: pytest.MonkeyPatch, version: str, is_refused: bool) -> None:
    monkeypatch.setattr(pl, "__version__", version)
    if is_refused:
        said = rf"^to_polars\(\) needs polars 1.10 or newer: polars {version} is installed, but takes some of a table's rows"
        with pytest.raises(pc.MissingPackageError, match=said):
            sqlite.events().to_polars()
    else:
        assert sqlite.events().to_polars().height == sqlite.meta["totals"]["events"]
    # An upgrade installs what is accepted.
    assert '"polars>=1.10"' in (ROOT / "python" / "pyproject.toml").read_text()


def test_buffers_are_handed_on_without_a_copy(sqlite: pc.Trace) -> None:
    before = pa.total_allocated_bytes()
    batches = list(pa.RecordBatchReader.from_stream(sqlite.events()))
    assert sum(batch.num_rows for batch in batches) == sqlite.meta["totals"]["events"]
    assert pa.total_allocated_bytes() == before, "pyarrow allocates nothing for the columns"
    batch = batches[0]
    buffer = batch.column("lba").buffers()[1]
    column: Any = pl.DataFrame(batch)["lba"].to_arrow()
    assert buffer is not None and column.buffers()[1].address == buffer.address


def test_a_missing_trace_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(pc.TraceNotFoundError, match="no such trace; expected a directory written by") as caught:
        pc.open(tmp_path / "x.pctrace")
    assert isinstance(caught.value, FileNotFoundError)
    (tmp_path / "file").write_text("")
    with pytest.raises(pc.TraceError, match="not a trace: a file"):
        pc.open(tmp_path / "file")
    for wrong in (None, 5, b"x", ["x"]):
        with pytest.raises(pc.ArgumentError, match=re.escape(f"path {wrong!r}: expected a path, as str or pathlib.Path")):
            pc.open(wrong)  # type: ignore[arg-type]


def test_an_empty_path_is_not_the_working_directory(small: pc.Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(small.path)
    assert pc.open(".").id == small.id
    with pytest.raises(pc.ArgumentError, match="^path '': expected a path; '.' is the working directory$"):
        pc.open("")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(pc.ArgumentError, match="^output '': expected a path"):
        pc.generate("uniform", "", pages=100, writes=100)
    with pytest.raises(pc.ArgumentError, match="^out '': expected a path"):
        pc.sweep(small, "baseline", executor="here", out="")
    assert not list(tmp_path.iterdir())


def test_damage_is_an_error_with_its_place(tmp_path: Path) -> None:
    copy = pc.generate("uniform", tmp_path / "t.pctrace", pages=100_000, writes=1_000_000).path
    events = copy / "events.parquet"
    data = bytearray(events.read_bytes())
    data[len(data) // 2] ^= 0xFF
    events.write_bytes(data)
    trace = pc.open(copy)
    with pytest.raises(Exception, match="events.parquet.*restore the file"):
        trace.events().to_arrow()
    with pytest.warns(pc.LossWarning, match="for what can be read: after .*events.parquet.*restore the file"):
        pc.simulate(trace, "baseline")
    events.write_bytes(data[: len(data) // 2])
    with pytest.raises(pc.TraceError, match="events.parquet.*restore the file"):
        pc.open(copy)


def test_generated_traces_and_their_errors(small: pc.Trace, tmp_path: Path) -> None:
    assert small.device_pages == 8192 and small.damage is None
    with pytest.raises(pc.TraceError, match="exists already"):
        pc.generate("hotcold", small.path, pages=10, writes=10)
    with pytest.raises(pc.ArgumentError, match="zipf"):
        pc.generate("zip", tmp_path / "t.pctrace", pages=10, writes=10)
    with pytest.raises(pc.ArgumentError, match="^hot_page is not a parameter of hotcold; see `pcstream generate hotcold --help`"):
        pc.generate("hotcold", tmp_path / "t.pctrace", pages=10, writes=10, hot_page=0.1)
    with pytest.raises(pc.ArgumentError, match="^pages 0: expected 1 to"):
        pc.generate("hotcold", tmp_path / "t.pctrace", pages=0, writes=10)
    with pytest.raises(pc.ArgumentError, match="^hot_pages 2: expected"):
        pc.generate("hotcold", tmp_path / "t.pctrace", pages=10, writes=10, hot_pages=2)
    hot = pc.generate("hotcold", tmp_path / "hot.pctrace", pages=1000, writes=1000, hot_pages=0.1)
    assert hot.meta["settings"]["hot_pages"] == 0.1


def test_a_trace_on_an_object_store_is_fetched_once(small: pc.Trace) -> None:
    fsspec = pytest.importorskip("fsspec")
    store = fsspec.filesystem("memory")
    store.put(str(small.path), "/bucket/small.pctrace", recursive=True)
    trace = pc.open("memory://bucket/small.pctrace")
    assert trace.id == small.id
    store.rm("/bucket/small.pctrace/events.parquet")
    assert pc.open("memory://bucket/small.pctrace").events().to_arrow().equals(small.events().to_arrow())
    with pytest.raises(pc.TraceNotFoundError, match="memory://bucket/other.pctrace"):
        pc.open("memory://bucket/other.pctrace")


def test_a_copy_that_is_not_whole_is_fetched_again(
    small: pc.Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = pytest.importorskip("fsspec").filesystem("memory")
    monkeypatch.setenv("PCSTREAM_CACHE", str(tmp_path))
    url, events = "memory://bucket/growing.pctrace", (small.path / "events.parquet").read_bytes()
    store.put(str(small.path), "/bucket/growing.pctrace", recursive=True)
    # As while it is uploaded.
    store.pipe_file("/bucket/growing.pctrace/events.parquet", events[:1000])
    with pytest.raises(pc.TraceError, match=f"{url}/events.parquet: 1000 bytes, but {len(events)} by its meta.json; if it is"):
        pc.open(url)
    assert not list((tmp_path / "traces").iterdir()), "nothing is kept of it"
    store.pipe_file("/bucket/growing.pctrace/events.parquet", events)
    trace = pc.open(url)
    assert trace.id == small.id
    for damage in (lambda file: file.write_bytes(events[:1000]), Path.unlink):
        damage(trace.path / "events.parquet")
        assert pc.open(url).events().to_arrow().equals(small.events().to_arrow())


def test_a_damaged_copy_of_a_url_says_what_to_delete(small: pc.Trace, tmp_path: Path) -> None:
    pytest.importorskip("fsspec")
    place = tmp_path / "t.pctrace"
    shutil.copytree(small.path, place)
    url = f"file://{place}"

    def flip(name: str) -> Path:
        """The copy, with another byte in a table."""
        copy = pc.open(url).path
        data = bytearray((copy / name).read_bytes())
        data[len(data) // 2] ^= 1
        (copy / name).write_bytes(data)
        return copy

    calls: dict[str, Callable[[], object]] = {
        "contexts.parquet": lambda: pc.open(url),
        "events.parquet": lambda: pc.simulate(pc.open(url), "baseline"),
    }
    for name, call in calls.items():
        copy = flip(name)
        with pytest.raises(pc.TraceError, match=f"{name}: .*; this is a copy of {url}: delete {copy}, and it is fetched again$"):
            call()
        shutil.rmtree(copy)
        call()


def test_a_url_that_cannot_be_read_is_an_error_with_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    fsspec = pytest.importorskip("fsspec")
    # As with s3:// where s3fs is not installed.
    lacking = {"class": "no_such_package.Store", "err": "Install no_such_package to access it"}
    monkeypatch.setitem(sys.modules["fsspec.registry"].known_implementations, "lacking", lacking)
    with pytest.raises(pc.MissingPackageError, match="lacking://bucket/t.pctrace: Install no_such_package"):
        pc.open("lacking://bucket/t.pctrace")
    with pytest.raises(pc.ArgumentError, match="no-such-store://t.pctrace: Protocol not known"):
        pc.open("no-such-store://t.pctrace")

    class Refused(Exception):
        """As botocore has them: of no class that Python knows."""

    def refuse(*_: object) -> bytes:
        raise Refused("no credentials")

    monkeypatch.setattr(fsspec.get_filesystem_class("memory"), "cat_file", refuse)
    with pytest.raises(pc.RemoteError, match="memory://bucket/t.pctrace: no credentials; check"):
        pc.open("memory://bucket/t.pctrace")


def test_new_traces_do_not_go_to_an_object_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    makers: list[Callable[[str], pc.Trace]] = [
        lambda url: pc.generate("uniform", url, pages=100, writes=100),
        lambda url: pc.write(url, {"lba": [1]}, device_pages=2),
        lambda url: pc.record(["true"], url),
    ]
    for make in makers:
        with pytest.raises(pc.ArgumentError, match="'memory://t.pctrace': expected a directory of this machine"):
            make("memory://t.pctrace")
    assert not list(tmp_path.iterdir())


def test_data_sets_are_what_they_say() -> None:
    for name in pc.datasets.names():
        about = pc.datasets.describe(name).about
        trace = pc.datasets.load(name)
        assert f"{trace.meta['totals']['host_pages']:,}" in about, name
        assert pc.datasets.load(name).id == trace.id
        card = str(pc.datasets.describe(name))
        assert "MIT OR Apache-2.0" in card and str(trace.meta["pcstream_version"]) in card or "pcstream.generate(" in card
        for table in ("events", "contexts", "files"):
            assert f"{table}()" in card and ", ".join(getattr(trace, table)().to_arrow().column_names) in card
    with pytest.raises(pc.ArgumentError, match="sqlite, mixed"):
        pc.datasets.load("sqlit")


def test_the_card_of_a_recording_says_how_it_was_made() -> None:
    card = pc.datasets.describe("gcc").card
    assert "experiments/workloads/kernel.py '{}' --builds 30" in card["command"] and "GCC 12.2" in card["programs"]
    assert card["losses"] == "none" and card["kernel"].startswith("Linux 6.")


@pytest.mark.parametrize(
    "name,fullness,baseline,pcstream",
    [
        ("gcc", {"pack": 0.98, "discard": False}, 3.41, 2.18),
        ("mixed1", {"pack": 0.98, "discard": False}, 2.63, 1.80),
    ],
)
def test_recordings_of_the_papers_workloads_have_the_waf_of_the_tables(
    name: str, fullness: dict[str, Any], baseline: float, pcstream: float
) -> None:
    device = pc.Device.profile("pm963-480g", spare_factor=0.07, gc=("own", "internal")).scaled()
    found = pc.simulate(pc.datasets.load(name), ["baseline", "pcstream"], device, **fullness)
    assert [found["baseline", "own"].waf, found["pcstream", "internal"].waf] == pytest.approx([baseline, pcstream], rel=0.02)


@pytest.mark.parametrize("name", ["gcc", "mixed1", "mixed", "rocksdb-ycsb-a"])
def test_streams_give_recordings_what_the_documents_say(name: str) -> None:
    (row,) = re.findall(rf"^\| `{name}` \| ([0-9., |]+) \|$", (ROOT / "docs" / "python.md").read_text(), re.MULTILINE)
    said = [float(number) for number in re.findall("[0-9.]+", row)]
    device = pc.Device.profile("pm963-480g", spare_factor=0.07, gc=("own", "internal")).scaled()
    found = pc.simulate(pc.datasets.load(name), ["baseline", "pcstream"], device, pack_live=0.98)
    wafs = [found[scheme, gc].waf for gc in ("own", "internal") for scheme in ("baseline", "pcstream")]
    assert said == [round(waf, 2) for waf in wafs]


def test_a_data_set_is_made_once_though_many_ask_for_it_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PCSTREAM_CACHE", str(tmp_path))
    begin = threading.Barrier(4)

    def load(_: int) -> pc.Trace:
        begin.wait()
        return pc.datasets.load("zipf")

    with ThreadPoolExecutor(4) as pool:
        traces = list(pool.map(load, range(4)))
    assert len({(trace.id, trace.path) for trace in traces}) == 1
    assert [file.suffix for file in (tmp_path / "datasets").iterdir()] == [".pctrace"]


def test_a_trace_is_found_after_a_change_of_the_directory(
    small: pc.Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(small.path.parent)
    trace = pc.open(small.path.name)
    monkeypatch.chdir(tmp_path)
    assert trace.path == small.path
    again = pickle.loads(pickle.dumps(trace))
    assert again.events().to_arrow().equals(small.events().to_arrow())
    swept = pc.sweep(trace, "baseline", executor="here", streams=2).to_polars()
    assert swept["trace"].unique().to_list() == [small.path.name], "as it was given"


def test_the_sample_of_rocksdb_has_its_log_flushes_and_compactions() -> None:
    trace = pc.datasets.load("rocksdb-ycsb-a")
    assert trace.meta["exit"] == {"code": 0, "signal": None}
    assert not any(trace.meta["losses"].values())
    assert trace.meta["totals"]["covered_data_pages"] == trace.meta["totals"]["data_pages"]
    symbols = {frame["symbol"] for context in trace.contexts().to_arrow().to_pylist() for frame in context["frames"]}
    for part in ("DBImpl::WriteToWAL(", "FlushJob::Run(", "CompactionJob::Run("):
        assert any(part in (symbol or "") for symbol in symbols), part
    size = sum(file.stat().st_size for file in trace.path.iterdir())
    assert size < 1_000_000


def test_a_cache_that_cannot_be_made_names_its_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("PCSTREAM_CACHE", str(tmp_path / "file"))
    with pytest.raises(pc.ArgumentError, match=f"{tmp_path}/file/datasets, in the cache: Not a directory; set PCSTREAM_CACHE to"):
        pc.datasets.load("zipf")
