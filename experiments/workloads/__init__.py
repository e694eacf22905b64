"""The registry of workloads: one file each, one line here."""

from __future__ import annotations

from ..workload import Workload
from . import berkeleydb, btree, cassandra, gcc, mariadb, mixed, postgresql, rocksdb, servers, sqlite

MODULES = (rocksdb, cassandra, sqlite, gcc, mixed, postgresql, mariadb, btree, berkeleydb, servers)


def all_of(quick: bool) -> dict[str, Workload]:
    """Every workload, in quick or full size."""
    made = [workload for module in MODULES for workload in module.workloads(quick)]
    return {workload.name: workload for workload in made}
