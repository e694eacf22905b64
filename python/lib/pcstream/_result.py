"""What came of one scheme on one device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

#: Fields with fields of their own. None of them is no single value.
NESTED = ("steady", "throughput")
#: The field whose columns have other names.
LATENCIES = "latency_us"


class Result:
    """One scheme on one device. Every field of its JSON is an attribute, as in ``result.waf``.

    docs/json.md describes the fields; ``None`` stands for a number that does not exist.
    """

    def __init__(self, fields: Mapping[str, Any], curve: Sequence[tuple[int, int]]) -> None:
        self.fields: Mapping[str, Any] = fields
        #: Pages that the host wrote and pages programmed, at up to 202 points of the run, its end included.
        self.curve: Sequence[tuple[int, int]] = curve

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["fields"][name]
        except KeyError:
            raise AttributeError(f"a result has no field {name!r}") from None

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.fields]

    def __repr__(self) -> str:
        waf = "none" if self.waf is None else f"{self.waf:.3f}"
        return f"<pcstream.Result {self.scheme}, {self.gc_destination}: WAF {waf}>"

    @property
    def streams(self) -> list[Mapping[str, Any]]:
        """What each external stream got, from S0 on: pages, copies, lifetimes."""
        return list(self.fields["streams"])

    def row(self) -> dict[str, Any]:
        """The fields that are single values, nested ones with dots as in ``wear.mean``; lists are left out.

        With ``timing``, latencies are columns as in the program's sweeps: ``write_p50_us``, ``read_p999_us``.
        """
        flat: dict[str, Any] = {}
        for key, value in self.fields.items():
            if key == LATENCIES:
                continue
            if isinstance(value, dict):
                flat |= {f"{key}.{inner}": v for inner, v in value.items() if not isinstance(v, (dict, list))}
            elif not isinstance(value, list) and not (value is None and key in NESTED):
                flat[key] = value
        return flat | self._latencies()

    def _latencies(self) -> dict[str, float | None]:
        by_direction = self.fields.get(LATENCIES) or {}
        quantiles = {"p50": "p50_us", "p99": "p99_us", "p99_9": "p999_us"}
        return {
            f"{direction}_{column}": latencies and latencies[quantile]
            for direction, latencies in by_direction.items()
            for quantile, column in quantiles.items()
        }
