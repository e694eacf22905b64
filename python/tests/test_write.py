"""Workloads of one's own: written as a trace, they are what a generator's are."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pcstream as pc


def test_a_trace_from_columns_is_the_generators(small: pc.Trace, tmp_path: Path) -> None:
    names = ["time_ns", "op", "lba", "pages", "context", "kind", "hint", "write_stream", "file", "file_page"]
    frame = small.events().to_pandas()[names]
    labels = list(small.contexts().to_pandas().executable)
    written = pc.write(tmp_path / "t.pctrace", frame, device_pages=8192, labels=labels, prefilled_pages=8192)
    assert written.id == small.id and written.meta["totals"] == small.meta["totals"]
    schemes = ["baseline", "manual", "pcstream", "oracle"]
    wafs, expected = ([r.waf for r in pc.simulate(t, schemes)] for t in (written, small))
    assert wafs == expected
    table = small.events().to_polars().select(names)
    assert pc.write(written.path, table, device_pages=8192, labels=labels, overwrite=True).id == small.id


def test_a_few_events_have_the_waf_that_a_hand_computes(tmp_path: Path) -> None:
    """Two pages a superblock, four superblocks for four pages. The first GC (event 6) finds an empty victim, the second
    (event 8) copies page 3, which is then overwritten."""
    lba = np.array([0, 1, 2, 3, 0, 1, 2, 0, 3])
    trace = pc.write(tmp_path / "t.pctrace", {"lba": lba}, device_pages=4)
    device = pc.Device(overprovisioning=1.0, superblock_pages=2, streams=1, gc="own")
    (result,) = pc.simulate(trace, "baseline", device)
    assert (result.host_pages, result.gc_pages, result.erases) == (9, 1, 2)
    # Page 3 is discarded before the second GC, which copies nothing then.
    events = {"lba": np.insert(lba, 8, 3), "op": ["write"] * 8 + ["discard", "write"]}
    (result,) = pc.simulate(pc.write(trace.path, events, device_pages=4, overwrite=True), "baseline", device)
    assert (result.host_pages, result.gc_pages, result.erases) == (9, 0, 2)


def test_times_that_are_given_say_what_a_day_costs(tmp_path: Path) -> None:
    lba = np.arange(6000) % 3000
    half_a_day = np.linspace(0, 43_200 * 10**9, len(lba)).astype("u8")
    for events, flash_pages_a_day in ({"lba": lba, "time_ns": half_a_day}, 2 * len(lba)), ({"lba": lba}, None):
        trace = pc.write(tmp_path / "t.pctrace", events, device_pages=4096, overwrite=True)
        now = pc.simulate(trace, "baseline", pc.Device(gc="own")).json["verdict"]["now"]
        assert now["waf"] == 1
        assert now["flash_bytes_per_day"] == (flash_pages_a_day and flash_pages_a_day * 4096)


@pytest.mark.parametrize(
    "events,prefilled,pages",
    [
        ({"lba": [1, 2, 3]}, 0, 4),
        ({"lba": [5, 1, 9], "pages": [4, 1, 0], "op": ["write", "read", "flush"]}, 0, 9),
        ({"lba": np.array([2, 1], "u1"), "pages": np.array([255, 1], "u1")}, 0, 257),
        ({"lba": [1]}, 8, 8),
        ({"lba": []}, 0, 1),
    ],
)
def test_a_device_ends_with_the_last_page_used(events: Any, prefilled: int, pages: int, tmp_path: Path) -> None:
    if not len(events["lba"]):
        events = {"lba": np.zeros(0, int)}
    assert pc.write(tmp_path / "t.pctrace", events, prefilled_pages=prefilled).device_pages == pages


@pytest.mark.parametrize(
    "events,changes,message",
    [
        (None, {}, "events of the type NoneType: expected columns by name, such as {'lba': [...]}, or a table of pandas"),
        ([1], {}, "events of the type list: expected columns by name"),
        ({"lba": 5}, {}, "column 'lba' has the shape (): expected one value for each event"),
        ({"lba": [[1], [2, 3]]}, {}, "column 'lba': "),
        ({"lba": [1, 2], "pages": [[1], [2, 3]]}, {}, "column 'pages': "),
        ({"lba": [2**62]}, {"device_pages": None}, f"column 'lba' has {2**62} for event 0: expected 0 to {2**62 - 1}"),
        ({"lba": [2**64 - 1]}, {"device_pages": None}, f"column 'lba' has {2**64 - 1} for event 0: expected 0 to"),
        ({"pages": [1]}, {}, "column 'lba' is missing"),
        ({"lba": [1], "size": [1]}, {}, "column 'size': expected op, kind, hint, write_stream, time_ns, lba"),
        ({"lba": [1, 2], "pages": [1]}, {}, "column 'pages' has the shape (1,), expected (2,)"),
        ({"lba": [1.5]}, {}, "column 'lba' is of float64: expected whole numbers"),
        ({"lba": [1.0]}, {}, "column 'lba' is of float64: expected whole numbers; cast it first, as with .astype('int64'), or to"),
        ({"lba": np.array([1], object)}, {}, "column 'lba' is of object: expected whole numbers; cast it first"),
        ({"lba": [Decimal(1)]}, {}, "column 'lba' is of object: expected whole numbers; cast it first"),
        ({"lba": ["a"]}, {}, "column 'lba' is of object: expected whole numbers"),
        ({"lba": [-1]}, {}, "column 'lba' is from -1 to -1: expected 0 to"),
        ({"lba": [1], "op": [9]}, {}, "column 'op' is from 9 to 9: expected 0 to 5"),
        ({"lba": [1], "op": ["trim"]}, {}, "column 'op' has 'trim': expected write, discard, read"),
        ({"lba": [1]}, {"device_pages": 0}, "device_pages 0: expected 1 to"),
        ({"lba": [1]}, {"prefilled_pages": 9}, "prefilled_pages 9: expected 0 to 8"),
        ({"lba": [1]}, {"labels": "hot"}, "labels 'hot': expected a list of names"),
        ({"lba": [1]}, {"labels": ["a", "\udc80"]}, r"labels '\udc80': is no text; expected characters that UTF-8 has"),
        (
            {"lba": [1]},
            {"labels": ["hot", "", "cold", "", "hot"]},
            "labels has 'hot' for context 1 and context 5: expected a name of its own for each",
        ),
        ({"lba": [0, 8]}, {}, "column 'lba' has 8 for event 1: expected 0 to 7"),
        ({"lba": [6], "pages": [3]}, {}, "column 'pages' has 3 for event 0, which ends beyond the device: device_pages is 8"),
        ({"lba": [6], "pages": [0]}, {}, "column 'pages' has 0 for event 0: expected at least 1"),
        ({"lba": [0], "pages": [1], "op": ["flush"]}, {}, "column 'pages' has 1 for event 0: expected 0"),
        ({"lba": [1], "context": [1]}, {}, "column 'context' has 1 for event 0, but labels has 0 names"),
        ({"lba": [1], "file": [2]}, {"files": ["a"]}, "column 'file' has 2 for event 0, but files has 1 names"),
        ({"lba": [1, 2], "time_ns": [2, 1]}, {}, "column 'time_ns' has 1 for event 1, less than before"),
        (
            {"lba": [1, 2], "time_ns": [0, 2**62 + 1]},
            {},
            f"column 'time_ns' has {2**62 + 1} for event 1: expected 0 to {2**62}",
        ),
        (
            {"lba": [1, 2], "time_ns": [1577808000_000000001, 1577808001_000000000]},
            {},
            "column 'time_ns' has 1577808000000000001 for event 0: expected nanoseconds since the trace began, not since 1970",
        ),
        (
            {"lba": [1, 2], "file_page": np.array([0, 2**64 - 1], "u8")},
            {},
            f"column 'file_page' has {2**64 - 1} for event 1, which ends beyond any file: expected file_page + pages of at most",
        ),
    ],
)
def test_what_is_no_trace_is_refused(events: Any, changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(pc.ArgumentError, match=re.escape(message)):
        pc.write(tmp_path / "t.pctrace", events, **{"device_pages": 8, **changes})
    assert not list(tmp_path.iterdir())


def test_no_cast_is_advised_that_would_lose_something(tmp_path: Path) -> None:
    for column in ([1.5], [float("inf")], ["1"], [Decimal("1.5")]):
        with pytest.raises(pc.ArgumentError, match="expected whole numbers$"):
            pc.write(tmp_path / "t.pctrace", {"lba": column})


def test_a_trace_goes_to_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for wrong in (None, 5, b"x"):
        with pytest.raises(pc.ArgumentError, match=f"output {wrong!r}: expected a path, as str or pathlib.Path"):
            pc.write(wrong, {"lba": [1]})  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_hints_streams_and_files_reach_the_schemes_that_go_by_them(tmp_path: Path) -> None:
    events = {
        "lba": [0, 1, 2, 3, 0],
        "op": ["write", "write", "write", "write", "flush"],
        "hint": ["short", "not_set", "not_set", "not_set", "not_set"],
        "write_stream": [0, 2, 0, 0, 0],
        "file": [0, 0, 1, 2, 0],
        "file_page": [0, 0, 7, 0, 0],
    }
    trace = pc.write(tmp_path / "t.pctrace", events, device_pages=4096, files=["/db/wal.log", "table"])
    assert list(trace.files().to_pandas().path) == ["/db/wal.log", "/table"]
    assert list(trace.events().to_pandas().file_page) == events["file_page"]

    class AsAsked(pc.Scheme):
        name = "as-asked"

        def place(self, batch: pc.Batch) -> Any:
            return np.where(batch.hint == pc.HINTS.index("short"), 3, batch.write_stream)

    rules = tmp_path / "rules"
    rules.write_text("name=*.log -> 4\n")
    with pytest.warns(pc.SizeWarning):
        asked, manual = pc.simulate(trace, [AsAsked(), "manual"], pc.Device(gc="own"), rules=rules)
    assert [stream["host_pages"] for stream in asked.streams[:5]] == [2, 0, 1, 1, 0]
    assert manual.streams[4]["host_pages"] == 1


def test_a_flush_has_no_address(tmp_path: Path) -> None:
    lba = np.array([1, 2, 10**9, 10**9], "u8")
    trace = pc.write(tmp_path / "t.pctrace", {"lba": lba, "op": ["write", "write", "flush", "exit"]})
    assert trace.device_pages == 3 and trace.events().to_pandas()["lba"].tolist() == [1, 2, 0, 0]
    assert lba[2] == 10**9


def test_tables_of_arrow_are_taken(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    whole = pc.write(tmp_path / "a.pctrace", {"lba": [3, 1, 2], "op": ["write", "discard", "read"]}, device_pages=8)
    for at, table in enumerate([whole.events(), whole.events().to_arrow()]):
        again = pc.write(tmp_path / f"{at}.pctrace", table, device_pages=8)
        assert again.id == whole.id
    with pytest.raises(pc.ArgumentError, match="'lba' holds 1 nulls"):
        pc.write(tmp_path / "n.pctrace", pa.table({"lba": pa.array([1, None], pa.uint64())}))


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    pa, pd = pytest.importorskip("pyarrow"), pytest.importorskip("pandas")
    column = pa.array([1, 2])
    for table in (pa.table([column, column], ["lba", "lba"]), pd.DataFrame([[1, 2]], columns=["lba", "lba"])):
        with pytest.raises(pc.ArgumentError, match="column 'lba' is there 2 times"):
            pc.write(tmp_path / "t.pctrace", table)


def test_a_table_that_is_not_read_yet_is_refused_unplanned(tmp_path: Path) -> None:
    pl = pytest.importorskip("polars")
    unread = pl.scan_csv(tmp_path / "events.csv")
    with pytest.raises(pc.ArgumentError, match="expected columns by name.*; collect\\(\\) it first"):
        pc.write(tmp_path / "t.pctrace", unread)


@pytest.mark.parametrize("null", [None, float("nan"), "pandas"])
@pytest.mark.parametrize("name,value", [("lba", 1), ("op", "write"), ("op", 0), ("kind", "data"), ("hint", "short")])
def test_nulls_are_named(tmp_path: Path, name: str, value: Any, null: Any) -> None:
    null = pytest.importorskip("pandas").NA if null == "pandas" else null
    for column in ([value, null], np.array([value, null], object)):
        with pytest.raises(pc.ArgumentError, match=f"column '{name}' holds nulls"):
            pc.write(tmp_path / "n.pctrace", {"lba": [1, 2], name: column})


@pytest.mark.parametrize("name,values", [("lba", [1, 7]), ("op", [0, 1]), ("op", ["write", "read"]), ("kind", ["data", "inode"])])
def test_masked_values_are_nulls(tmp_path: Path, name: str, values: Any) -> None:
    for kind in (None, object):
        column = np.ma.array(np.array(values, kind), mask=[False, True])
        with pytest.raises(pc.ArgumentError, match=f"column '{name}' holds nulls"):
            pc.write(tmp_path / "n.pctrace", {"lba": [1, 2], name: column})
    traces = [
        pc.write(tmp_path / f"{at}.pctrace", {"lba": [1, 2], name: column}, device_pages=8)
        for at, column in enumerate([np.ma.array(values, mask=False), np.array(values)])
    ]
    assert traces[0].id == traces[1].id


def test_nothing_is_no_null(tmp_path: Path) -> None:
    assert pc.write(tmp_path / "e.pctrace", {"lba": []}, device_pages=8).meta["totals"]["events"] == 0


def test_the_documented_workload_has_hot_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    document = Path(__file__).resolve().parents[2] / "docs" / "python.md"
    blocks = re.findall(r"```python\n(.*?)```", document.read_text(), re.DOTALL)
    (code,) = (block for block in blocks if 'pc.write("mine.pctrace"' in block)
    monkeypatch.chdir(tmp_path)
    exec(code, {"pc": pc, "numpy": np})
    results = pc.simulate("mine.pctrace", ["baseline", "pcstream"], pc.Device(gc="own"))
    assert results["pcstream"].waf < 0.9 * results["baseline"].waf, "the contexts of the example tell lifetimes apart"
