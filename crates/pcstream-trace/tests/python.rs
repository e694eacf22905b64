//! Traces open in DuckDB and pyarrow with the documented columns, types and sums.
//!
//! Python is found at PCSTREAM_PYTHON, else as python3. Without it, or without the two packages, these tests are counted
//! as ignored, with the reason in their names. With PCSTREAM_REQUIRE_PYTHON=1 they fail then.

mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, ExitCode};

use common::small;
use libtest_mimic::{Arguments, Failed, Trial};
use pcstream_trace::generators::{Common, generate};
use pcstream_trace::*;

fn main() -> ExitCode {
    let required = std::env::var("PCSTREAM_REQUIRE_PYTHON").is_ok_and(|v| v == "1");
    let missing = missing().filter(|_| !required);
    let reason = missing.as_ref().map_or(String::new(), |why| {
        format!("ignored: {why}; install duckdb and pyarrow, or set PCSTREAM_PYTHON: ")
    });
    let trial = |name: &str, test: fn() -> Result<(), Failed>| {
        Trial::test(format!("{reason}{name}"), test).with_ignored_flag(missing.is_some())
    };
    let tests = vec![
        trial("traces_open_in_duckdb_and_pyarrow", traces_open_in_duckdb_and_pyarrow),
        trial("the_script_notices_a_difference", the_script_notices_a_difference),
        trial(
            "traces_edited_with_duckdb_and_pyarrow_are_read",
            traces_edited_with_duckdb_and_pyarrow_are_read,
        ),
    ];
    libtest_mimic::run(&Arguments::from_args(), tests).exit_code()
}

fn interpreter() -> String {
    std::env::var("PCSTREAM_PYTHON").unwrap_or_else(|_| "python3".to_owned())
}

/// Why the scripts cannot run here.
fn missing() -> Option<String> {
    let python = interpreter();
    match Command::new(&python).args(["-c", "import duckdb, pyarrow"]).output() {
        Err(e) => Some(format!("{python}: {e}")),
        Ok(output) if output.status.success() => None,
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stderr);
            Some(format!("{python}: {}", text.lines().last().unwrap_or("import failed")))
        }
    }
}

/// Runs a script of this directory: whether it succeeded, and what it printed.
fn python(script: &str, arguments: &[&str]) -> Result<(bool, String), Failed> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(script);
    let output = Command::new(interpreter()).arg(script).args(arguments).output()?;
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    Ok((output.status.success(), text))
}

/// Opens a trace as users of DuckDB and pyarrow do.
fn open(trace: &Path) -> Result<(bool, String), Failed> {
    python("open_trace.py", &[trace.to_str().expect("the path is text")])
}

fn write(dir: &Path, name: &str, meta: Meta, batches: impl IntoIterator<Item = Batch>) -> Summary {
    let mut writer = TraceWriter::create(dir.join(name), meta, false).unwrap();
    batches.into_iter().for_each(|batch| writer.write_batch(&batch).unwrap());
    writer.finish(None).unwrap()
}

fn traces_open_in_duckdb_and_pyarrow() -> Result<(), Failed> {
    let dir = tempfile::tempdir().unwrap();
    let common = Common { pages: 10_000, writes: 300_000, seed: 1 };
    let zipf = generate("zipf", common, &BTreeMap::new()).unwrap();
    let traces = [
        write(dir.path(), "small.pctrace", Meta::new("d", 1000), [small()]),
        write(dir.path(), "empty.pctrace", Meta::new("d", 1000), []),
        write(dir.path(), "zipf.pctrace", zipf.meta().clone(), zipf),
    ];
    for trace in traces {
        let (good, output) = open(&trace.path)?;
        assert!(good, "{}: {output}", trace.path.display());
    }
    Ok(())
}

/// The script must notice a wrong trace, or its success says nothing.
fn the_script_notices_a_difference() -> Result<(), Failed> {
    let dir = tempfile::tempdir().unwrap();
    let summary = write(dir.path(), "t.pctrace", Meta::new("d", 1000), [small()]);
    let file = summary.path.join("meta.json");
    let text = std::fs::read_to_string(&file).unwrap();
    let host_pages = summary.meta.totals.host_pages;
    let wrong = text.replace(&format!("\"host_pages\": {host_pages}"), "\"host_pages\": 1");
    assert_ne!(text, wrong);
    std::fs::write(&file, wrong).unwrap();
    let (good, output) = open(&summary.path)?;
    assert!(!good && output.contains("duckdb host_pages"), "{output}");
    Ok(())
}

/// The documented way of editing a trace, with the codecs that the two tools offer; the tools' defaults are among
/// them (snappy).
fn traces_edited_with_duckdb_and_pyarrow_are_read() -> Result<(), Failed> {
    let kept: Vec<Event> = small().events.into_iter().filter(|e| e.op != Op::Read).collect();
    for (tool, codecs) in [
        ("duckdb", ["uncompressed", "snappy", "gzip", "zstd", "brotli", "lz4"]),
        ("pyarrow", ["none", "snappy", "gzip", "zstd", "brotli", "lz4"]),
    ] {
        for codec in codecs {
            let dir = tempfile::tempdir().unwrap();
            let path = write(dir.path(), "t.pctrace", Meta::new("d", 1000), [small()]).path;
            let (good, output) = python("edit_trace.py", &[tool, codec, path.to_str().unwrap()])?;
            assert!(good, "{tool} {codec}: {output}");
            let found = TraceReader::open(&path).and_then(|reader| common::read(&reader));
            let found = found.unwrap_or_else(|e| panic!("{tool} {codec}: {e}"));
            assert_eq!(found, Batch { events: kept.clone(), ..small() }, "{tool} {codec}");
        }
    }
    Ok(())
}
