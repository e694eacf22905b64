"""What is published of the experiments: data, and the tables of documents that are made of them."""

from __future__ import annotations

import csv
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import pcstream as pc

ROOT = Path(__file__).resolve().parents[2]
#: A figure with a table in a document; where these tests need one.
FIGURE = "fast19-fig12"
MADE = "pcstream 0.1.0, commit abc, Linux 6.1, 2 processors, full sizes, recordings: sqlite 3, 2026-01-01."


@pytest.fixture(name="published")
def _published(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("experiments.published")


@pytest.fixture(name="results")
def _results(published: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory in place of ``docs/results``, whose README.md has a table of every figure that has one."""
    results = tmp_path / "docs" / "results"
    results.mkdir(parents=True)
    monkeypatch.setattr(published.lab, "RESULTS", results)
    tables = "\n".join(f"<!-- {name} -->\n\n| old |\n\n<!-- /{name} -->\n\nBelow.\n" for name in published.SUMMARIES)
    (results / "README.md").write_text(f"# Results\n\n{tables}")
    for document in published.DOCUMENTS[1:]:
        (results / document).write_text("# No tables\n")
    return results


@pytest.fixture(name="saved")
def _saved(published: Any, tmp_path: Path) -> Path:
    """A result that a run has saved in ``out/results``."""
    folder = tmp_path / "out" / "results"
    folder.mkdir(parents=True)
    path = folder / f"{FIGURE}.csv"
    columns = ("scheme", "discards", "without", "with internal streams", "change", "paper")
    wafs = ("3.128 (1.000-5.000)", "2.500 (1.000-4.000)", "-20.1% (-21.0% to -19.0%)", "")
    rows = [(scheme, discards, *wafs) for discards in ("no", "yes") for scheme, _ in published.FIGURES[FIGURE].SCHEMES]
    write(path, columns, rows)
    path.with_suffix(".txt").write_text(f"{MADE}\n")
    return path


def write(path: Path, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A file as ``Lab.write`` makes it."""
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([columns, *rows])


def test_documents_have_what_the_data_give(published: Any) -> None:
    wrong = list(published.faults())
    assert not wrong, "\n".join([*wrong, published.RENEWS])


def test_a_table_is_renewed_between_its_comments(published: Any, results: Path, saved: Path) -> None:
    assert published.lab.publish(saved)
    wrong = published.renew()
    assert len(wrong) == len(published.SUMMARIES) - 1 and not any(FIGURE in fault for fault in wrong), wrong
    text = (results / "README.md").read_text()
    begin, end = f"<!-- {FIGURE} -->\n\n| scheme | ", f" |\n\n<!-- /{FIGURE} -->\n\nBelow.\n"
    assert begin in text and end in text
    cells = "3.13 | 2.50 | -20.1 % (-21.0 % to -19.0 %) | 3.13 | 2.50 | -20.1 % (-21.0 % to -19.0 %)"
    assert f"\n| AutoStream | {cells} | -22 % |\n" in text and f"\n| `pcstream-paper` | {cells} | - |\n" in text
    assert text.count("| old |") == len(published.SUMMARIES) - 1, "without data a table stays as it was"
    published.renew()
    assert (results / "README.md").read_text() == text


def test_what_differs_from_the_data_is_found(published: Any, results: Path, saved: Path) -> None:
    document = results / "README.md"
    lacks = f"README.md: {FIGURE} is not published: docs/results/data lacks {FIGURE}.csv with rows, or {FIGURE}.txt"
    assert lacks in published.faults()
    published.lab.publish(saved)
    published.renew()
    text = document.read_text()
    document.write_text(text.replace("| AutoStream | 3.13", "| AutoStream | 3.14"))
    (fault,) = (fault for fault in published.faults() if FIGURE in fault)
    assert "has '| AutoStream | 3.14" in fault and "give '| AutoStream | 3.13" in fault
    document.write_text(text.replace(f"<!-- /{FIGURE} -->", ""))
    assert any(fault.startswith(f"{FIGURE}: expected its table between <!-- {FIGURE} -->") for fault in published.faults())
    document.write_text(f"{text}\n<!-- fast19-fig99 -->\n<!-- /fast19-fig99 -->\n")
    assert any("fast19-fig99 is no figure with a table" in fault for fault in published.faults())
    data = results / "data" / f"{FIGURE}.csv"
    data.write_text(data.read_text().replace("change", "saving"))
    assert any("'change'" in fault for fault in published.faults())


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (f"{MADE}\nLacks: gcc, mixed1.\n", "its workloads are not whole. Lacks: gcc, mixed1."),
        (MADE.replace("full", "quick"), "it is not of full sizes"),
        (None, f"or no {FIGURE}.txt beside it"),
    ],
)
def test_only_whole_results_are_published(
    published: Any, results: Path, saved: Path, lines: str | None, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if lines is None:
        saved.with_suffix(".txt").unlink()
    else:
        saved.with_suffix(".txt").write_text(lines)
    assert not published.lab.publish(saved)
    assert f"{FIGURE}: not published, because" in (said := capsys.readouterr().err) and why in said
    assert not (results / "data").exists()


def test_a_picture_is_published_where_there_is_one(published: Any, results: Path, saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = saved.with_suffix(".svg")
    picture.write_text("new")
    assert published.lab.publish(saved) and not (results / picture.name).exists()
    (results / picture.name).write_text("old")
    assert published.lab.publish(saved) and (results / picture.name).read_text() == "new"
    picture.unlink()
    assert not published.lab.publish(saved)
    assert f"there is no picture {picture}" in capsys.readouterr().err


def test_a_run_publishes_what_it_made_if_it_is_whole(published: Any, results: Path, tmp_path: Path) -> None:
    own = published.lab.Table("own", "Own", ("workload", "waf"), [("sqlite", 1.5)], ["The paper has 1.4."])
    run = published.lab.Lab(tmp_path, False, 3, importlib.import_module("experiments.workloads").all_of(False))
    trace = pc.datasets.load("sqlite")
    run.publishes, run.used = True, {"sqlite": [trace] * 3, "gcc": []}
    saved = run.write(own).with_suffix(".txt")
    assert "\nLacks: gcc.\n\nThe paper has 1.4.\n" in saved.read_text() and not (results / "data").exists()
    run.used = {"sqlite": [trace] * 3}
    run.write(own)
    assert (results / "data" / "own.csv").read_text() == "workload,waf\nsqlite,1.5\n"
    made = (results / "data" / "own.txt").read_text()
    assert f"commit {run.commit}, " in made and ", full sizes, recordings: sqlite 3, " in made and "Lacks" not in made
    assert "\n\nThe paper has 1.4.\n\nPrograms: sqlite: SQLite version unknown. Recorded by " in made


def test_saved_results_are_published(published: Any, results: Path, saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(published, "SUMMARIES", {FIGURE: published.SUMMARIES[FIGURE]})
    (results / "README.md").write_text(f"<!-- {FIGURE} -->\n<!-- /{FIGURE} -->\n")

    def ends(*words: str) -> int:
        monkeypatch.setattr(sys, "argv", ["published", *words])
        return int(published.main())

    out = ("--out", str(saved.parents[1]))
    assert ends(*out) == 3, "there are no data"
    assert ends(*out, FIGURE) == 0
    assert (results / "data" / f"{FIGURE}.csv").read_text() == saved.read_text()
    assert (results / "data" / f"{FIGURE}.txt").read_text() == f"{MADE}\n"
    assert "| AutoStream | 3.13" in (results / "README.md").read_text()
    assert ends(*out, "all") == 3, "the others were not saved"
    assert ends(*out) == 0
    with pytest.raises(SystemExit):
        ends("fast19-fig99")


def rows_of(columns: Sequence[str], *rows: Sequence[str]) -> list[dict[str, str]]:
    """Rows of a CSV file."""
    return [dict(zip(columns, row, strict=True)) for row in rows]


def test_the_table_of_wafs_has_the_mean_of_the_papers_workloads(published: Any) -> None:
    figure = published.FIGURES["fast19-fig10"]
    columns = ("workload", "discards", "written / capacity", *figure.COLUMNS)
    counts = len(figure.COLUMNS)
    rows = rows_of(
        columns,
        ("rocksdb", "no", "7", *["2.000 (1.900-2.100)"] * counts),
        ("lmdb", "no", "7", *["5.111"] * counts),
        ("gcc", "no", "7", *["3.000"] * counts),
        ("gcc", "yes", "7", *["9.000"] * counts),
    )
    head, _, *lines = figure.summary(rows).splitlines()
    assert head.startswith("| workload | baseline | AutoStream | Manual | internal: baseline | AutoStream | ")
    shown = len(figure.SUMMARY)
    wafs = (("RocksDB", "2.00"), ("LMDB", "5.11"), ("GCC", "3.00"), ("mean of the paper's 2", "2.50"))
    assert lines == [f"| {label} |{f' {waf} |' * shown}" for label, waf in wafs]


def test_the_table_of_drive_life_has_a_line_for_each_workload(published: Any) -> None:
    figure = published.FIGURES["when-streams-pay"]
    columns = ("workload", "discards", "utilisation", "without streams", "drive life, internal streams", "drive life, pcstream")
    drives = [(discards, f"{share}%") for discards in ("yes", "no") for share in (60, 80, 90, 98)]
    rows = rows_of(columns, *(("sqlite-wal", *drive, f"{at + 1}.000 (1.0-9.0)", f"x 1.0{at}", "x 1.20") for at, drive in enumerate(drives)))
    head, _, line = figure.summary(rows).splitlines()
    assert head.startswith("| workload | no discards, 80 %: WAF | life | 90 %: WAF | life |")
    cells = "6.00 | 1.05 / 1.20 | 7.00 | 1.06 / 1.20 | 8.00 | 1.07 / 1.20 | 3.00 | 1.02 / 1.20 | 4.00 | 1.03 / 1.20"
    assert line == f"| SQLite, WAL | {cells} |"


def test_the_table_of_chunks_has_no_discards(published: Any) -> None:
    figure = published.FIGURES["autostream-chunks"]
    columns = ("workload", "discards", "superblock, KiB", *(column for _, column in figure.SUMMARY))
    wafs = ("2.000 (1.0-3.0)", "3.000", "4.000", "5.000", "6.000", "7.000")
    rows = rows_of(columns, ("gcc", "no", "172-176", *wafs), ("gcc", "yes", "172", *wafs))
    _, _, *lines = figure.summary(rows).splitlines()
    assert lines == ["| GCC | 172-176 | 2.00 | 3.00 | 4.00 | 5.00 | 6.00 | 7.00 |"]


def test_the_table_of_savings_is_over_all_workloads(published: Any) -> None:
    figure = published.FIGURES["sensitivity"]
    columns = ("workload", "utilisation", "superblock", "streams", "baseline", "autostream", "pcstream")
    rows = rows_of(
        columns,
        ("gcc", "98%", "0.25", "4", "2.0", "1.25", "1.0"),
        ("sqlite", "98%", "0.25", "4", "2.0", "2.01", "2.01"),
        ("gcc", "98%", "0.25", "8", "2.0", "2.0", "0.5"),
        ("gcc", "98%", "1", "4", "2.0", "1.25", "1.0"),
    )
    head, _, *lines = figure.summary(rows).splitlines()
    assert head == "| utilisation | baseline: x 0.25 | x 1 | x 2 | AutoStream: x 0.25 | x 1 | x 2 |"
    assert lines == [f"| {share} % | - | - | - | - | - | - |" for share in (60, 70, 80, 90)] + [
        "| 98 % | 25 % (0 to 50) | - | - | 10 % (0 to 20) | - | - |"
    ]
