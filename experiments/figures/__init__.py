"""The registry of figures: one file each, one line here. A figure has NAME, ABOUT and ``make(lab) -> Table``."""

from __future__ import annotations

from . import cpu, internal_streams, lifetimes_by_stream, no_discard, streams, table_of_contexts, utilisation, waf

MODULES = (waf, internal_streams, table_of_contexts, streams, lifetimes_by_stream, no_discard, cpu, utilisation)

FIGURES = {module.NAME: module for module in MODULES}
