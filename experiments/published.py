"""Renews the tables of docs/results from the data there, and publishes results that an earlier run has saved.

    python -m experiments.published          tables alone
    python -m experiments.published all      first copies results from experiments/out/results to docs/results

A table of a document lies between ``<!-- NAME -->`` and ``<!-- /NAME -->``. NAME is a figure whose module has ``summary(rows)``, which
makes the table of the rows of ``docs/results/data/NAME.csv``. Nothing is simulated.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from . import lab
from .figures import FIGURES
from .summaries import Row

#: In ``docs/results``.
DOCUMENTS = ("README.md", "claims.md", "../pcstream-plus.md")
#: Figures with a table in a document.
SUMMARIES: dict[str, Callable[[Sequence[Row]], str]] = {
    name: module.summary for name, module in FIGURES.items() if hasattr(module, "summary")
}
MARKED = re.compile(r"^(?P<begin><!-- (?P<name>[^\s/]+) -->\n)(?P<table>.*?)(?P<end>^<!-- /(?P=name) -->)$", re.MULTILINE | re.DOTALL)
RENEWS = "`python -m experiments.published` renews tables from docs/results/data, and with a figure's name publishes it first"


class NoTable(Exception):
    """Why there is no table of a figure."""


def table_of(name: str) -> str:
    """The table that a figure's data give."""
    data = lab.RESULTS / "data" / f"{name}.csv"
    if name not in SUMMARIES:
        raise NoTable(f"{name} is no figure with a table: expected one of {', '.join(SUMMARIES)}")
    if not lab.has_rows(data) or not data.with_suffix(".txt").is_file():
        raise NoTable(f"{name} is not published: docs/results/data lacks {name}.csv with rows, or {name}.txt")
    with data.open(newline="") as file:
        rows = list(csv.DictReader(file))
    try:
        return SUMMARIES[name](rows)
    except (KeyError, IndexError, ValueError) as error:
        raise NoTable(f"docs/results/data/{name}.csv has something that its figure does not know, or lacks it: {error}") from error


def renewed(text: str) -> str:
    """A document with the tables that the data give; without data a table stays as it is."""

    def marked(found: re.Match[str]) -> str:
        try:
            return f"{found['begin']}\n{table_of(found['name'])}\n\n{found['end']}"
        except NoTable:
            return found[0]

    return MARKED.sub(marked, text)


def renew() -> list[str]:
    """Writes the tables that the data give into the documents; what is wrong with them afterwards."""
    for document in DOCUMENTS:
        path = lab.RESULTS / document
        path.write_text(renewed(path.read_text()))
    return list(faults())


def is_unpublished(fault: str) -> bool:
    """Whether a fault is that there are no data, and not that they differ."""
    return " is not published: " in fault


def faults() -> Iterator[str]:
    """Where documents differ from what the data give, and what tables they lack."""
    marked = set()
    for document in DOCUMENTS:
        for found in MARKED.finditer((lab.RESULTS / document).read_text()):
            marked.add(found["name"])
            try:
                differs = difference(found["table"].strip(), table_of(found["name"]))
            except NoTable as error:
                yield f"{document}: {error}"
            else:
                if differs:
                    yield f"{document}: {found['name']}: {differs}"
    for name in SUMMARIES:
        if name not in marked:
            yield f"{name}: expected its table between <!-- {name} --> and <!-- /{name} --> in {' or '.join(DOCUMENTS)}"


def difference(table: str, data: str) -> str:
    """The first line that differs; nothing if none does."""
    for there, given in itertools.zip_longest(table.splitlines(), data.splitlines()):
        if there != given:
            return f"the document has {there!r}, and the data give {given!r}"
    return ""


def main() -> int:
    """Exit code 1: a document is not what the data give; 3: a result or a table is not published."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.published", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="figures to publish, or all")
    parser.add_argument("--out", type=Path, default=Path("experiments/out"), help="where they are saved (default: %(default)s)")
    args = parser.parse_args()
    names = list(FIGURES) if args.names == ["all"] else args.names
    unknown = [name for name in names if name not in FIGURES]
    if unknown:
        parser.error(f"{unknown[0]!r} is no figure: expected all, or some of {', '.join(FIGURES)}")
    published = [lab.publish(args.out / "results" / f"{name}.csv") for name in names]
    wrong = renew()
    for fault in wrong:
        print(fault, file=sys.stderr)
    if not all(map(is_unpublished, wrong)):
        return 1
    return 0 if all(published) and not wrong else 3


if __name__ == "__main__":
    sys.exit(main())
