"""What workloads and figures share: recordings that are made once, devices, tables, and what a result must state.

A recording is named by a digest of all that it depends on, so a second call finds it, and a changed workload is recorded
again. Sizes are bytes, shares are of the logical pages. WAF says nothing without utilisation, so every table has it.
"""

from __future__ import annotations

import csv
import shutil
import statistics
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pcstream as pc
from pcstream._record import failure_of

from . import manual, provenance
from .summaries import markdown
from .workload import ROOT, Workload

#: Where published results are.
RESULTS = ROOT / "docs" / "results"
#: A legacy multi-stream SSD, as the papers had, and one with internal streams: GC destinations of the model.
LEGACY, INTERNAL = "own", "internal"
#: Devices of all figures: the PM963 of FAST'19, scaled to the recording. Simulated without and with internal streams.
DEVICE = "pm963-480g"
#: Spare factor of the devices: 7 %, as drives are sold today. The profile's own 12.5 % is an assumption.
SPARE_FACTOR = 0.07
#: Share of a device's addresses that a recording writes to, unless a figure says otherwise. Static data is left out.
UTILISATION = 0.98
#: Whether the file system's discards reach the device, and what tables call that.
DISCARDS = ((True, "yes"), (False, "no"))


@dataclass
class Table:
    """A result: rows of numbers, a picture, and what it means."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    #: Sentences below the table: what the paper has, and what differs.
    remarks: list[str] = field(default_factory=list)
    #: Draws the picture into a file.
    picture: Callable[[Path], None] | None = None

    def markdown(self) -> str:
        """The table and its remarks."""
        rows = [[shown(cell) for cell in row] for row in self.rows]
        return f"# {self.title}\n\n{markdown(self.columns, rows)}\n{self.below()}"

    def below(self) -> str:
        """The remarks."""
        return "".join(f"\n{remark}\n" for remark in self.remarks)


def shown(cell: Any) -> str:
    """A cell as text."""
    if cell is None:
        return "-"
    return f"{cell:.3f}" if isinstance(cell, float) else str(cell)


class Lab:
    """Where recordings and results are, and what was not done."""

    def __init__(
        self, out: Path, quick: bool, recordings: int, workloads: Mapping[str, Workload], may_record: bool = True
    ) -> None:
        self.out = out
        self.quick = quick
        self.recordings = recordings
        self.workloads = workloads
        #: Whether recordings that are missing are made.
        self.may_record = may_record
        #: Recordings of each workload that the current table has.
        self.used: dict[str, list[pc.Trace]] = {}
        #: All that there are of these workloads: a table of the first ones alone does not have the others.
        self.found: dict[str, list[pc.Trace]] = {}
        #: What is missing in the results, and why.
        self.left_out: dict[str, str] = {}
        #: What recordings of the current table lack, and what schemes dropped.
        self.losses: list[str] = []
        #: Whether a table had any.
        self.had_losses = False
        #: Recordings of RocksDB that were simulated with ``manual`` for the current table: how many tables no rule
        #: names, or None if the levels of tables were not known.
        self.by_level: dict[str, int | None] = {}
        #: Results that figures share, and their losses, by recording and options.
        self.kept: dict[str, tuple[pc.Results, list[str]]] = {}
        #: Of the code that runs: the checkout may change meanwhile.
        self.commit = provenance.commit(ROOT)
        #: Whether results go to ``docs/results``, too.
        self.publishes = False

    def begin(self) -> None:
        """Forgets what the table before had, also one that failed. Each begins with this."""
        self.used.clear()
        self.found.clear()
        self.losses.clear()
        self.by_level.clear()

    def traces(self, name: str) -> list[pc.Trace]:
        """All recordings of a workload whose command succeeded; none if it cannot run here. What is left out is said."""
        found = [trace for trace in self._traces(name) if self._succeeded(trace)]
        self.used[name] = self.found[name] = found
        return found

    def first(self, name: str) -> pc.Trace | None:
        """The first of these, for a table that has no other of this workload."""
        found = self.traces(name)[:1]
        self.used[name] = found
        return found[0] if found else None

    def _succeeded(self, trace: pc.Trace) -> bool:
        """Whether the recorded command did. What one that failed has written is not the workload."""
        failure = failure_of(trace.meta)
        if failure is not None:
            self.leave_out(trace.path.stem, f"its command failed, {failure}; remove the recording, and it is made again")
        return failure is None

    def _traces(self, name: str) -> list[pc.Trace]:
        workload = self.workloads[name]
        if not self.may_record:
            found = self._found(workload)
            if not found:
                self.leave_out(name, "there is no recording")
            return found
        absent = workload.missing()
        if absent:
            self.leave_out(name, f"not run, because this machine lacks {', '.join(absent)}")
            return []
        if name in self.left_out:
            return []
        try:
            return [self._recording(workload, number) for number in range(1, self.recordings + 1)]
        except pc.RecordError as error:
            print(error, file=sys.stderr)
            self.leave_out(name, f"failed: {str(error).splitlines()[-1]}")
            return []

    def _found(self, workload: Workload) -> list[pc.Trace]:
        found = (self._recorded(workload, number) for number in range(1, self.recordings + 1))
        return [trace for trace in found if trace is not None]

    def recorded(self, name: str) -> list[pc.Trace]:
        """Recordings of a workload that there are already, and whose command succeeded."""
        return [trace for trace in self._found(self.workloads[name]) if self._succeeded(trace)]

    def leave_out(self, name: str, why: str) -> None:
        """Says once that something is missing in the results."""
        if name not in self.left_out:
            self.left_out[name] = why
            print(f"{name}: {why}", file=sys.stderr)

    def _path(self, workload: Workload, number: int) -> Path:
        return self.out.resolve() / "traces" / f"{workload.name}-{number}-{workload.digest(number)}.pctrace"

    def _recorded(self, workload: Workload, number: int) -> pc.Trace | None:
        """A recording that was made before and is whole."""
        path = self._path(workload, number)
        if not (path / "meta.json").exists():
            return None
        trace = pc.open(path)
        return trace if trace.meta.get("complete", True) else None

    def _recording(self, workload: Workload, number: int) -> pc.Trace:
        recorded = self._recorded(workload, number)
        if recorded is not None:
            return recorded
        path = self._path(workload, number)
        kept = manual.kept(path)
        shutil.rmtree(kept, ignore_errors=True)
        provenance.keep_versions(workload, path)
        print(f"{workload.name}: recording {number} of {self.recordings}", file=sys.stderr)
        options = ["--fill", str(workload.fill), "--fs", workload.fs, "--quiet", *workload.options]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            trace = pc.record(workload.words(number, kept), path, on=f"scratch:{workload.size}", overwrite=True, options=options)
        for warning in caught:
            print(f"{workload.name}: {warning.message}", file=sys.stderr)
        return trace

    def simulate(
        self, trace: pc.Trace, schemes: Sequence[str], utilisation: float | None = UTILISATION, *, keep: bool = False, **options: Any
    ) -> pc.Results:
        """All schemes on a legacy SSD and on one with internal streams (``gc``: on others); losses are said below the current table.

        The addresses that the recording writes are packed onto a device of which they fill the share ``utilisation``; with None
        the device is the recording's own, with all that was on it. The scheme ``manual`` goes by the levels of RocksDB's tables
        where their LOG was kept, unless ``rules`` are given. With ``keep`` a later call with the same arguments has the same
        results, without a simulation.
        """
        if "manual" in schemes and "rules" not in options:
            options["rules"] = self.rules_of(trace)
        given = repr((trace.path, schemes, utilisation, options))
        results, losses = self.kept[given] if given in self.kept else self._simulated(trace, schemes, utilisation, options)
        if keep:
            self.kept[given] = results, losses
        for loss in losses:
            self.lose(loss)
        return results

    def _simulated(
        self, trace: pc.Trace, schemes: Sequence[str], utilisation: float | None, options: dict[str, Any]
    ) -> tuple[pc.Results, list[str]]:
        """Results, and what was lost; other warnings are printed."""
        changes: dict[str, Any] = {name: options.pop(name) for name in ("streams", "superblock_pages") if name in options}
        changes["spare_factor"] = options.pop("spare_factor", SPARE_FACTOR)
        device = pc.Device.profile(DEVICE, gc=options.pop("gc", (LEGACY, INTERNAL)), **changes).scaled()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            if "pack_live" in options:
                # Schemes see more addresses than such a drive has: the limits of the results say so.
                warnings.simplefilter("ignore", pc.SizeWarning)
            results = pc.simulate(trace, schemes, device, pack=utilisation, **options)
        losses = []
        for warning in caught:
            said = str(warning.message).replace(str(trace.path), trace.path.stem)
            if issubclass(warning.category, pc.LossWarning):
                losses.append(said)
            else:
                print(said, file=sys.stderr)
        return results, losses

    def lose(self, what: str) -> None:
        """Says a loss once, and below the current table."""
        if what not in self.losses:
            self.losses.append(what)
            self.had_losses = True
            print(what, file=sys.stderr)

    def said_of_losses(self) -> str:
        """Losses of the current table."""
        return "".join(f"\nLost: {loss}.\n" for loss in self.losses)

    def rules_of(self, trace: pc.Trace) -> Path | None:
        """Rules of ``manual``; whether RocksDB's levels were known is said below the current table."""
        rules = manual.rules_of(trace)
        if manual.has_tables(trace):
            self.by_level[trace.path.stem] = rules and rules.without
        if rules is not None and rules.lost:
            self.lose(f"{trace.path.stem}: rules from RocksDB's LOG: {rules.lost}")
        return rules and rules.path

    def said_of_manual(self) -> str:
        """How ``manual`` knew RocksDB's tables of the current table; nothing if there were none."""
        missing = sorted(name for name, without in self.by_level.items() if without is None)
        known = [without for without in self.by_level.values() if without is not None]
        others = f"; {sum(known)} tables have no rule and go to S0" if any(known) else ""
        said = f"\nManual tells RocksDB's tables apart by level, from its LOG, in {len(known)} recordings{others}.\n" if known else ""
        return said + (f"\nNo LOG of RocksDB was kept with {', '.join(missing)}: manual takes the preset there.\n" if missing else "")

    def write(self, table: Table) -> Path:
        """The table as Markdown and CSV, what made it and its remarks as text, and its picture as SVG. Without rows, an earlier run's stay as they are."""
        folder = self.out / "results"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{table.name}.md"
        missing = [f"{name}: {why}." for name, why in self.left_out.items()]
        left_out = "".join(f"\nLeft out: {line}\n" for line in missing)
        absent = [name for name, traces in self.used.items() if not traces]
        programs = provenance.said_of_programs(self.workloads, self.used)
        made = self.provenance()
        said = self.said_of_manual() + self.said_of_losses() + left_out + programs
        text = table.markdown() + said + f"\n{made}\n"
        if not table.rows and has_rows(path.with_suffix(".csv")):
            why = " ".join(missing) or "its workloads gave none."
            print(f"{table.name}: no rows, so {path} stays as it was. {why}", file=sys.stderr)
            return path
        path.write_text(text)
        lacks = f"Lacks: {', '.join(absent)}.\n" if absent else ""
        path.with_suffix(".txt").write_text(f"{made}\n{lacks}{table.below()}{said}")
        with path.with_suffix(".csv").open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([table.columns, *table.rows])
        if table.picture is not None and table.rows:
            table.picture(path.with_suffix(".svg"))
        if self.publishes:
            publish(path.with_suffix(".csv"))
        return path

    def provenance(self) -> str:
        """What made the current table."""
        return provenance.sentence(self.commit, self.quick, self.used)


def has_rows(table: Path) -> bool:
    """Whether there is a CSV file with more than the names of its columns."""
    return table.is_file() and len(table.read_text().splitlines()) > 1


def publish(result: Path) -> bool:
    """Copies the rows of a whole result, and what made it, to ``docs/results/data``, and its picture where one is published."""
    why = unfit(result)
    if why:
        print(f"{result.stem}: not published, because {why}", file=sys.stderr)
        return False
    data = RESULTS / "data"
    data.mkdir(exist_ok=True)
    for file in (result, result.with_suffix(".txt")):
        shutil.copy(file, data)
    if (RESULTS / f"{result.stem}.svg").exists():
        shutil.copy(result.with_suffix(".svg"), RESULTS)
    return True


def unfit(result: Path) -> str:
    """Why a result cannot be published; nothing if it can. ``result``: its rows, beside which are the other files."""
    made, picture = result.with_suffix(".txt"), result.with_suffix(".svg")
    if not has_rows(result) or not made.is_file():
        return f"there are no rows in {result}, or no {made.name} beside it"
    provenance, *others = made.read_text().splitlines()
    lacks = next((line for line in others if line.startswith("Lacks: ")), "")
    if lacks:
        return f"its workloads are not whole. {lacks}"
    if ", full sizes, " not in provenance:
        return "it is not of full sizes"
    if (RESULTS / picture.name).exists() and not picture.is_file():
        return f"there is no picture {picture}"
    return ""


def spread(values: Sequence[float], form: str = ".3f", to: str = "-") -> str:
    """A mean, and the least and greatest value behind it, unless there is one value; each in the form of ``format``."""
    mean, least, greatest = (format(value, form) for value in (statistics.fmean(values), min(values), max(values)))
    return mean if len(values) == 1 else f"{mean} ({least}{to}{greatest})"


def conditions(utilisation: float = UTILISATION, spare_factor: float | None = SPARE_FACTOR) -> str:
    """What WAF depends on, as a sentence for remarks."""
    spare = "the profile's spare factor, 12.5 %" if spare_factor is None else f"a spare factor of {spare_factor:.0%}"
    return f"Device: {DEVICE} scaled so that what a recording writes to fills {utilisation:.0%} of its addresses, with {spare}."


def capacities(results: pc.Results, trace: pc.Trace) -> float:
    """How many times the device's capacity the run wrote."""
    return float(trace.meta["totals"]["host_pages"]) / float(results.device["logical_pages"])
