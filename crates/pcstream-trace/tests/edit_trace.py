"""Edits a trace as docs/trace-format.md tells its users to, with DuckDB or pyarrow: keeps every event but the reads.

usage: edit_trace.py duckdb|pyarrow CODEC TRACE.pctrace
Exit status: 0 edited, 1 not.
"""

import json
import pathlib
import sys

import duckdb
import pyarrow.compute as pc
import pyarrow.parquet as pq

TABLES = ["events", "contexts", "files"]
CONDITION = {"events": "op <> 'read'", "contexts": "true", "files": "true"}


def by_duckdb(old, new, table, codec):
    duckdb.connect().execute(f"COPY (SELECT * FROM '{old}' WHERE {CONDITION[table]}) TO '{new}' (FORMAT parquet, COMPRESSION {codec})")


def by_pyarrow(old, new, table, codec):
    data = pq.read_table(old)
    if table == "events":
        data = data.filter(pc.not_equal(data["op"], "read"))
    pq.write_table(data, new, compression=codec)


def main():
    tool, codec, trace = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    for table in TABLES:
        old, new = trace / f"{table}.parquet", trace / f"{table}.new"
        {"duckdb": by_duckdb, "pyarrow": by_pyarrow}[tool](old, new, table, codec)
        new.rename(old)
    meta = json.loads((trace / "meta.json").read_text())
    events = trace / "events.parquet"
    query = f"SELECT count(*), max(time_ns) FROM '{events}'"
    count, duration = duckdb.connect().execute(query).fetchone()
    meta["totals"] |= {"events": count, "read_pages": 0, "duration_ns": duration}
    meta["checksums"] = None
    (trace / "meta.json").write_text(json.dumps(meta))


main()
