"""Processes that compute points share the memory of the machine."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

import pcstream as pc
from pcstream import _executors
from pcstream._executors import Rows


@dataclass(frozen=True)
class Sized:
    """A point that needs memory."""

    needs: int
    memory: int | None = None

    def check(self) -> None:
        pass

    def within(self, memory: int) -> Sized:
        return self if self.memory is not None else replace(self, memory=memory)

    def rows(self) -> Rows:
        if self.memory is not None and self.needs > self.memory:
            raise pc.NotEnoughMemoryError(f"{self.needs} of {self.memory}")
        return [{"memory": self.memory}]


def test_points_share_memory_and_one_that_needs_more_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_executors, "memory_allowed", lambda: 300)
    points = {"large": Sized(250), "a": Sized(90), "b": Sized(100), "refused": Sized(90, memory=80)}
    done = dict(_executors.processes(3, points))
    assert done["a"] == done["b"] == [{"memory": 100}]
    assert done["large"] == [{"memory": None}], "then all that is free is its own"
    assert isinstance(done["refused"], pc.NotEnoughMemoryError), "the limit is the user's"
    assert dict(_executors.processes(3, {"only": Sized(250)})) == {"only": [{"memory": 300}]}


def test_a_sweep_gives_each_point_its_share(small: pc.Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = pc.sweep(small, "baseline", streams=[2, 3], gc="own", executor="here").to_pandas()
    # A share in which nothing can be simulated: all are computed alone.
    monkeypatch.setattr(_executors, "memory_allowed", lambda: 2)
    shared = pc.sweep(small, "baseline", streams=[2, 3], gc="own", workers=2).to_pandas()
    assert shared["waf"].tolist() == whole["waf"].tolist()
