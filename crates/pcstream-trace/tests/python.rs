//! Traces open in DuckDB and pyarrow with the documented columns, types and sums.
//!
//! Python is found at PCSTREAM_PYTHON, else as python3. Without it, or without the two packages, the
//! test says that it was skipped, unless PCSTREAM_REQUIRE_PYTHON=1: then it fails.
#![cfg(feature = "store")]

mod common;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use common::small;
use pcstream_trace::generators::{Common, generate};
use pcstream_trace::*;

/// Status with which the script says that a package is missing.
const MISSING_PACKAGE: i32 = 77;

/// Runs a script of this directory; `None` if that is not possible here.
fn python(script: &str, arguments: &[&str]) -> Option<(bool, String)> {
    let python = std::env::var("PCSTREAM_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(script);
    let reason = match Command::new(&python).arg(script).args(arguments).output() {
        Err(e) => format!("{python}: {e}"),
        Ok(output) => {
            let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
            if output.status.code() != Some(MISSING_PACKAGE) {
                return Some((output.status.success(), text));
            }
            format!("{python}: {}", text.trim())
        }
    };
    let required = std::env::var("PCSTREAM_REQUIRE_PYTHON").is_ok_and(|v| v == "1");
    assert!(!required, "PCSTREAM_REQUIRE_PYTHON=1, but {reason}");
    // Not eprintln!: the harness hides what a passing test prints with it.
    let mut stderr = std::io::stderr();
    let hint = "install duckdb and pyarrow, or set PCSTREAM_PYTHON";
    writeln!(stderr, "skipped: {reason}; {hint}").expect("stderr can be written");
    None
}

/// Opens a trace as users of DuckDB and pyarrow do.
fn open(trace: &Path) -> Option<(bool, String)> {
    python("open_trace.py", &[trace.to_str().expect("the path is text")])
}

fn write(dir: &Path, name: &str, meta: Meta, batches: impl IntoIterator<Item = Batch>) -> Summary {
    let mut writer = TraceWriter::create(dir.join(name), meta, false).unwrap();
    batches.into_iter().for_each(|batch| writer.write_batch(&batch).unwrap());
    writer.finish(None).unwrap()
}

#[test]
fn traces_open_in_duckdb_and_pyarrow() {
    let dir = tempfile::tempdir().unwrap();
    let common = Common { pages: 10_000, writes: 300_000, seed: 1 };
    let zipf = generate("zipf", common, &BTreeMap::new()).unwrap();
    let traces = [
        write(dir.path(), "small.pctrace", Meta::new("d", 1000), [small()]),
        write(dir.path(), "empty.pctrace", Meta::new("d", 1000), []),
        write(dir.path(), "zipf.pctrace", zipf.meta().clone(), zipf),
    ];
    for trace in traces {
        let Some((good, output)) = open(&trace.path) else { return };
        assert!(good, "{}: {output}", trace.path.display());
    }
}

/// The script must notice a wrong trace, or its success says nothing.
#[test]
fn the_script_notices_a_difference() {
    let dir = tempfile::tempdir().unwrap();
    let summary = write(dir.path(), "t.pctrace", Meta::new("d", 1000), [small()]);
    let file = summary.path.join("meta.json");
    let text = std::fs::read_to_string(&file).unwrap();
    let host_pages = summary.meta.totals.host_pages;
    let wrong = text.replace(&format!("\"host_pages\": {host_pages}"), "\"host_pages\": 1");
    assert_ne!(text, wrong);
    std::fs::write(&file, wrong).unwrap();
    let Some((good, output)) = open(&summary.path) else { return };
    assert!(!good && output.contains("duckdb host_pages"), "{output}");
}

/// The documented way of editing a trace, with the codecs that the two tools offer; the tools' defaults are among
/// them (snappy).
#[test]
fn traces_edited_with_duckdb_and_pyarrow_are_read() {
    let kept: Vec<Event> = small().events.into_iter().filter(|e| e.op != Op::Read).collect();
    for (tool, codecs) in [
        ("duckdb", ["uncompressed", "snappy", "gzip", "zstd", "brotli", "lz4"]),
        ("pyarrow", ["none", "snappy", "gzip", "zstd", "brotli", "lz4"]),
    ] {
        for codec in codecs {
            let dir = tempfile::tempdir().unwrap();
            let path = write(dir.path(), "t.pctrace", Meta::new("d", 1000), [small()]).path;
            let Some((good, output)) = python("edit_trace.py", &[tool, codec, path.to_str().unwrap()]) else {
                return;
            };
            assert!(good, "{tool} {codec}: {output}");
            let found = TraceReader::open(&path).and_then(|reader| common::read(&reader));
            let found = found.unwrap_or_else(|e| panic!("{tool} {codec}: {e}"));
            assert_eq!(found, Batch { events: kept.clone(), ..small() }, "{tool} {codec}");
        }
    }
}
