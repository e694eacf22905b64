"""The registry of figures: one file each, one line here.

A figure has NAME, ABOUT and ``make(lab) -> Table``. If ``docs/results`` has a table of it, ``summary(rows) -> str`` makes that of the
rows of its CSV file.
"""

from __future__ import annotations

from . import (
    activities,
    chunks,
    commit_log,
    cpu,
    fstream,
    fstream_sensitivity,
    internal_streams,
    iops,
    kinds_of_writes,
    levels,
    lifetimes_by_stream,
    mapping_sensitivity,
    mappings,
    mqsim,
    no_discard,
    plus,
    plus_parts,
    sensitivity,
    streams,
    table_of_contexts,
    utilisation,
    waf,
)

MODULES = (
    activities, levels, waf, iops, internal_streams, table_of_contexts, streams, lifetimes_by_stream, no_discard, mappings, cpu,
    utilisation, kinds_of_writes, fstream, commit_log, chunks, sensitivity, mapping_sensitivity, fstream_sensitivity,
    plus, plus_parts, mqsim,
)  # fmt: skip

FIGURES = {module.NAME: module for module in MODULES}
