"""Opens a trace with DuckDB and with pyarrow, as its users do, and compares columns, types and sums.

usage: open_trace.py TRACE.pctrace
Exit status: 0 all as documented, 1 not.
"""

import json
import pathlib
import sys

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

FRAMES = "STRUCT(module VARCHAR, build_id VARCHAR, \"offset\" UBIGINT, symbol VARCHAR)[]"
# Column -> (DuckDB type, Arrow type); docs/trace-format.md in the words of the two.
COLUMNS = {
    "events": {
        "time_ns": ("UBIGINT", pa.uint64()),
        "op": ("VARCHAR", pa.string()),
        "lba": ("UBIGINT", pa.uint64()),
        "pages": ("UINTEGER", pa.uint32()),
        "context": ("UINTEGER", pa.uint32()),
        "file": ("UINTEGER", pa.uint32()),
        "file_page": ("UBIGINT", pa.uint64()),
        "kind": ("VARCHAR", pa.string()),
        "hint": ("VARCHAR", pa.string()),
        "write_stream": ("UINTEGER", pa.uint32()),
    },
    "contexts": {
        "context": ("UINTEGER", pa.uint32()),
        "signature": ("UBIGINT", pa.uint64()),
        "executable": ("VARCHAR", pa.string()),
        "comm": ("VARCHAR", pa.string()),
        "entry": ("VARCHAR", pa.string()),
        "unwind": ("VARCHAR", pa.string()),
        "frames": (FRAMES, None),
    },
    "files": {
        "file": ("UINTEGER", pa.uint32()),
        "inode": ("UBIGINT", pa.uint64()),
        "generation": ("UINTEGER", pa.uint32()),
        "path": ("VARCHAR", pa.string()),
    },
}
FRAME_FIELDS = {"module": pa.string(), "build_id": pa.string(), "offset": pa.uint64(), "symbol": pa.string()}

# meta.json total -> (column summed, or None to count rows; condition in SQL)
SUMS = {
    "host_pages": ("pages", "op = 'write'"),
    "covered_pages": ("pages", "op = 'write' AND context <> 0"),
    "data_pages": ("pages", "op = 'write' AND kind = 'data'"),
    "discarded_pages": ("pages", "op = 'discard'"),
    "zeroed_pages": ("pages", "op = 'write_zeroes'"),
    "read_pages": ("pages", "op = 'read'"),
    "flushes": (None, "op = 'flush'"),
}

failures = 0


def expect(what, found, expected):
    global failures
    if found != expected:
        failures += 1
        print(f"{what}: found {found!r}, expected {expected!r}")


def check_duckdb(trace, totals):
    db = duckdb.connect()
    for table, columns in COLUMNS.items():
        path = str(trace / f"{table}.parquet")
        described = db.execute("DESCRIBE SELECT * FROM read_parquet(?)", [path]).fetchall()
        expect(f"duckdb {table}", {row[0]: row[1] for row in described}, {c: t[0] for c, t in columns.items()})
        rows = db.execute("SELECT count(*) FROM read_parquet(?)", [path]).fetchone()[0]
        expect(f"duckdb {table} rows", rows, totals[table])
    events = str(trace / "events.parquet")
    for total, (column, condition) in SUMS.items():
        measure = f"coalesce(sum({column}), 0)" if column else "count(*)"
        query = f"SELECT {measure} FROM read_parquet(?) WHERE {condition}"
        expect(f"duckdb {total}", db.execute(query, [events]).fetchone()[0], totals[total])
    unknown = db.execute(
        "SELECT count(*) FROM read_parquet(?) e ANTI JOIN read_parquet(?) c USING (context) WHERE e.context <> 0",
        [events, str(trace / "contexts.parquet")],
    ).fetchone()[0]
    expect("duckdb events without their context", unknown, 0)


def check_pyarrow(trace, totals):
    for table, columns in COLUMNS.items():
        data = pq.read_table(trace / f"{table}.parquet")
        expect(f"pyarrow {table} columns", data.schema.names, list(columns))
        for name, (_, kind) in columns.items():
            if kind is not None:
                expect(f"pyarrow {table}.{name}", data.schema.field(name).type, kind)
            expect(f"pyarrow {table}.{name} nulls", data.column(name).null_count, 0)
        expect(f"pyarrow {table} rows", data.num_rows, totals[table])
    frames = pq.read_table(trace / "contexts.parquet").schema.field("frames").type.value_type
    expect("pyarrow frames", {frames.field(i).name: frames.field(i).type for i in range(frames.num_fields)}, FRAME_FIELDS)
    events = pq.read_table(trace / "events.parquet")
    written = events.filter(pc.equal(events["op"], "write"))
    expect("pyarrow host_pages", pc.sum(written["pages"]).as_py() or 0, totals["host_pages"])
    times = events["time_ns"]
    if events.num_rows:
        expect("pyarrow duration_ns", times[-1].as_py(), totals["duration_ns"])


def main():
    trace = pathlib.Path(sys.argv[1])
    totals = json.loads((trace / "meta.json").read_text())["totals"]
    check_duckdb(trace, totals)
    check_pyarrow(trace, totals)
    print(f"duckdb {duckdb.__version__}, pyarrow {pa.__version__}: {failures} failures")
    sys.exit(1 if failures else 0)


main()
