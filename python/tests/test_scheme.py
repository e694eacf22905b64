"""Schemes in Python: equal to the same scheme in Rust, and ended by their exceptions."""

from __future__ import annotations

import json
import subprocess
import threading
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import pcstream as pc


class AllToDefault(pc.Scheme):
    name = "all-to-default"

    def place(self, batch: pc.Batch) -> Any:
        return np.zeros(len(batch), np.uint8)


class ByKind(pc.Scheme):
    """What the rules of the test below say."""

    name = "by-kind"

    def place(self, batch: pc.Batch) -> Any:
        return np.where(batch.kind == pc.KINDS.index("journal"), 1, np.where(batch.kind > 0, 2, 3))


class Counts(pc.Scheme):
    """Keeps what it saw, to compare with the trace."""

    name = "counts"
    seen: list[tuple[int, int, int]]

    def __init__(self, seen: list[tuple[int, int, int]]) -> None:
        self.seen = seen

    def __deepcopy__(self, memo: object) -> Counts:
        return Counts(self.seen)

    def place(self, batch: pc.Batch) -> Any:
        writes = batch.op == pc.OPS.index("write")
        self.seen.append((len(batch), int(batch.pages[writes].sum()), batch.now))
        return np.full(len(batch), self.streams - 1)


def same(a: pc.Result, b: pc.Result) -> None:
    mine, other = dict(a.fields), dict(b.fields)
    for name in ("scheme", "parameters", "facts"):
        mine.pop(name), other.pop(name)
    assert mine == other


def test_a_scheme_in_python_equals_the_one_in_rust(tmp_path: Any) -> None:
    trace = pc.datasets.load("mixed")
    rules = tmp_path / "rules"
    rules.write_text("kind=journal -> 1\nkind=data -> 3\n* -> 2\n")
    results = pc.simulate(trace, [AllToDefault(), "baseline", ByKind, "manual"], rules=rules)
    for destination in ("own", "internal"):
        same(results["all-to-default", destination], results["baseline", destination])
        same(results["by-kind", destination], results["manual", destination])
    assert [stream["host_pages"] > 0 for stream in results["by-kind"].streams] == [False, True, True, True] + 5 * [False]


def test_a_scheme_sees_every_event_once_and_knows_its_device() -> None:
    trace = pc.datasets.load("mixed")
    seen: list[tuple[int, int, int]] = []
    results = pc.simulate(trace, Counts(seen), pc.Device(streams=5, gc="own"))
    totals = trace.meta["totals"]
    assert sum(events for events, _, _ in seen) == totals["events"]
    assert sum(pages for _, pages, _ in seen) == totals["host_pages"]
    assert [now for *_, now in seen] == list(np.cumsum([0, *(pages for _, pages, _ in seen)])[:-1])
    assert results[0].streams[4]["host_pages"] == totals["host_pages"]


def test_large_writes_come_in_smaller_batches(binary: str, tmp_path: Path) -> None:
    """A simulation ends only behind the batches that were read ahead of it."""
    random = np.random.default_rng(1)
    events = {"lba": random.integers(0, 7936, 3000), "pages": random.integers(1, 256, 3000), "context": [1] + 2999 * [2]}
    more: dict[str, Any] = {"device_pages": 8192, "labels": ["first", "others"], "prefilled_pages": 8192}
    trace = pc.write(tmp_path / "t.pctrace", events, **more)
    seen: list[tuple[int, int, int]] = []
    results = pc.simulate(trace, [Counts(seen), "pcstream"], pc.Device(gc="own"))
    assert sum(count for count, _, _ in seen) == 3000 and all(0 < pages <= 65_536 for _, pages, _ in seen)
    assert [now for *_, now in seen] == list(np.cumsum([0, *(pages for _, pages, _ in seen)])[:-1])
    command = [binary, "simulate", str(trace.path), "--scheme", "pcstream", "--gc", "own", "--json", "-"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(ran.stdout)["results"] == [dict(results["pcstream"].fields)]


class ByHint(pc.Scheme):
    name = "by-hint"

    def place(self, batch: pc.Batch) -> Any:
        assert set(batch.hint[batch.op > 0]) <= {0}
        return np.where(batch.op > 0, 255, np.where(batch.hint > 0, 1, np.where(batch.write_stream > 0, 2, 0)))


def test_a_scheme_sees_hints_and_answers_for_writes_alone() -> None:
    trace = pc.datasets.load("mixed")
    streams = pc.simulate(trace, ByHint, pc.Device(gc="own"))[0].streams
    events = trace.events().to_polars().filter(pl.col("op").cast(str) == "write")
    hinted = events["hint"].cast(str) != "not_set"
    expected = [events.filter(~hinted)["pages"].sum(), events.filter(hinted)["pages"].sum()]
    assert [stream["host_pages"] for stream in streams[:2]] == expected
    assert set(events["hint"].cast(str)) <= set(pc.HINTS)


def test_a_scheme_that_numba_compiles_equals_itself_in_python(tmp_path: Any) -> None:
    numba = pytest.importorskip("numba", reason="numba is not installed: compiled schemes were not tried")

    def rewritten(lba: Any, pages: Any, op: Any, seen: Any, out: Any) -> None:
        for i in range(len(lba)):
            if op[i] == 0:
                out[i] = 1 if seen[lba[i]] else 2
                seen[lba[i] : lba[i] + pages[i]] = True

    class Rewritten(pc.Scheme):
        """Writes whose first page was written before go to S1, the others to S2."""

        name = "rewritten"
        kernel = staticmethod(rewritten)

        def start(self, streams: int, superblock_pages: int) -> None:
            super().start(streams, superblock_pages)
            self.seen = np.zeros(1 << 20, bool)

        def place(self, batch: pc.Batch) -> Any:
            out = np.zeros(len(batch), np.uint8)
            self.kernel(batch.lba, batch.pages, batch.op, self.seen, out)
            return out

    class Compiled(Rewritten):
        name = "compiled"
        kernel = staticmethod(numba.njit(rewritten))

    assert pc.OPS[0] == "write"
    trace = pc.datasets.load("mixed")
    results = pc.simulate(trace, [Rewritten, Compiled], pc.Device(gc="own"))
    same(results["compiled"], results["rewritten"])
    assert all(stream["host_pages"] > 0 for stream in results["compiled"].streams[1:3])
    # A compiled scheme can be compared with an earlier one, so its rows are found again.
    first = pc.sweep(trace, Compiled, executor="here", out=tmp_path, gc="own", streams=3).to_polars()
    files = {file: file.stat().st_mtime_ns for file in tmp_path.iterdir()}
    again = pc.sweep(trace, Compiled, executor="here", out=tmp_path, gc="own", streams=3).to_polars()
    assert again.equals(first) and {file: file.stat().st_mtime_ns for file in tmp_path.iterdir()} == files


def test_names_of_schemes_are_those_of_results(small: pc.Trace) -> None:
    class Other(AllToDefault):
        pass

    class Baseline(AllToDefault):
        name = "baseline"

    with pytest.raises(pc.ArgumentError, match="AllToDefault and Other have the same name 'all-to-default'.*another .name"):
        pc.simulate(small, [AllToDefault, Other()])
    with pytest.raises(pc.ArgumentError, match="Baseline.name 'baseline': a registered scheme"):
        pc.simulate(small, [Baseline()])
    for nothing in ("", " "):
        Other.name = nothing
        with pytest.raises(pc.ArgumentError, match=f"Other.name '{nothing}': expected a name, which results show"):
            pc.simulate(small, Other)
    assert len(pc.simulate(small, ["baseline", "baseline, baseline"], pc.Device(gc="own"))) == 1


def test_a_scheme_in_python_has_attributes_and_no_parameters(small: pc.Trace) -> None:
    message = "set all-to-default.x.y: all-to-default is a scheme in Python, which has no parameters: set its attributes"
    for run in (pc.simulate, lambda *args, **options: pc.sweep(*args, executor="here", options=options)):
        with pytest.raises(pc.ArgumentError, match=message):
            run(small, ["baseline", AllToDefault()], set={"all-to-default.x.y": 1})
    with pytest.raises(pc.ArgumentError, match="no scheme is called 'other'"):
        pc.simulate(small, AllToDefault, set={"other.x": 1})


@pytest.mark.parametrize(
    "answer,error,message",
    [
        (lambda n: 1 / 0, ZeroDivisionError, "division"),
        (lambda n: np.zeros(n + 1, int), pc.ArgumentError, "expected whole numbers of shape"),
        (lambda n: np.zeros(n), pc.ArgumentError, "float64"),
        (lambda n: np.full(n, 9), pc.ArgumentError, "stream 9 for event 0 of a batch, expected 0 to 8"),
        (lambda n: np.full(n, -1), pc.ArgumentError, "stream -1"),
        (
            lambda n: np.ma.array(np.zeros(n, int), mask=np.arange(n) == 3),
            pc.ArgumentError,
            "masked stream for event 3 of a batch, expected 0 to 8",
        ),
    ],
)
def test_an_exception_in_a_scheme_ends_the_simulation(small: pc.Trace, answer: Any, error: Any, message: str) -> None:
    class Faulty(pc.Scheme):
        def place(self, batch: pc.Batch) -> Any:
            return answer(len(batch))

    with pytest.raises(error, match=message):
        pc.simulate(small, ["baseline", Faulty()])


def test_a_scheme_that_cannot_start_or_place_says_so(small: pc.Trace) -> None:
    class NoStart(pc.Scheme):
        def start(self, streams: int, superblock_pages: int) -> None:
            raise RuntimeError("no start")

    with pytest.raises(RuntimeError, match="no start"):
        pc.simulate(small, NoStart())
    with pytest.raises(NotImplementedError, match=r"Scheme.place\(batch\) is not defined"):
        pc.simulate(small, pc.Scheme())


class Locked(AllToDefault):
    """Holds what cannot be copied, from the beginning or from its start on."""

    def __init__(self, when: str) -> None:
        self.when = when
        if when == "init":
            self.lock = threading.Lock()

    def start(self, streams: int, superblock_pages: int) -> None:
        super().start(streams, superblock_pages)
        self.lock = threading.Lock()


class SharesItsLock(Locked):
    def __deepcopy__(self, memo: object) -> SharesItsLock:
        return self


def test_a_scheme_that_cannot_be_copied_says_so(small: pc.Trace) -> None:
    message = r"^scheme Locked is copied for each device, and cannot be: .*lock.* in start\(\), or define Locked.__deepcopy__\(\)$"
    with pytest.raises(pc.ArgumentError, match=message) as caught:
        pc.simulate(small, ["baseline", Locked("init")])
    assert isinstance(caught.value.__cause__, TypeError)
    baseline, *others = pc.simulate(small, ["baseline", Locked("start")], pc.Device(gc="own"))
    others += pc.simulate(small, SharesItsLock("init"), pc.Device(gc="own"))
    assert [one.waf for one in others] == [baseline.waf] * 2


def test_answers_may_be_masked_where_they_do_not_count(tmp_path: Path) -> None:
    class Masked(AllToDefault):
        def place(self, batch: pc.Batch) -> Any:
            return np.ma.masked_where(batch.op != pc.OPS.index("write"), np.zeros(len(batch), np.uint8))

    trace = pc.write(tmp_path / "t.pctrace", {"lba": [0, 1, 0, 1], "op": ["write", "read", "discard", "write"]}, device_pages=4096)
    with pytest.warns(pc.SizeWarning):
        (result,) = pc.simulate(trace, Masked(), pc.Device(gc="own"))
    assert result.host_pages == 2
