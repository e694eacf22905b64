//! Documents whose commands are tried as they stand: `scripts/run-document` runs their code blocks.

#[path = "../../pcstream-capture/tests/common/mod.rs"]
mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use serde_json::Value;
use tempfile::TempDir;

fn main() -> ExitCode {
    let needs = [common::ext4 as common::Need, common::zram];
    common::run(vec![
        common::test("documents_the_tutorial_has_its_effect", &[needs[0], needs[1], rocksdb], tutorial),
        common::test("documents_which_ssd", &needs, which_ssd),
        common::test("documents_a_scheme_of_my_own", &[], scheme),
        common::test("documents_read_what_was_recorded", &[], recordings),
    ])
}

fn rocksdb() -> Option<String> {
    (!Path::new("/usr/bin/db_bench").is_file()).then(|| "db_bench (apt install rocksdb-tools)".into())
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs the commands of a document in a directory of their own, with the binary under test as `pcstream`. With what they
/// print.
fn follow(document: &str) -> (TempDir, String) {
    let place = TempDir::new().expect("a directory");
    let printed = follow_in(&place, document);
    (place, printed)
}

fn follow_in(place: &TempDir, document: &str) -> String {
    let binary = Path::new(env!("CARGO_BIN_EXE_pcstream")).parent().expect("it lies in a directory");
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").expect("there is one"));
    let mut command = Command::new(root().join("scripts/run-document"));
    command
        .arg(root().join(document))
        .current_dir(place.path())
        .env("PATH", path)
        .env("XDG_CONFIG_HOME", "/none");
    let output = command.stdin(Stdio::null()).output().expect("it starts");
    let said = [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
    assert!(output.status.success(), "{document}: {}\n{}\n{}", output.status, said[0], said[1]);
    let [printed, _] = said;
    printed
}

fn json(place: &TempDir, name: &str) -> Value {
    let text = std::fs::read_to_string(place.path().join(name)).expect("the document writes it");
    serde_json::from_str(&text).expect("it is JSON")
}

/// The change that the tutorial makes has the effect that it promises.
fn tutorial() {
    let (place, _) = follow("docs/tutorial.md");
    let compared = json(&place, "compared.json");
    let ratio = |measure: &str| {
        let changes = compared["changes"].as_array().expect("a list");
        let change = changes.iter().find(|change| change["measure"] == measure).expect(measure);
        change["ratio"].as_f64().expect("a number")
    };
    let (written, flash) = (ratio("written by the host"), ratio("flash: baseline gc own"));
    assert!(written < 0.9 && flash < 0.9, "host {written}, flash {flash}");
    let rules = std::fs::read_to_string(place.path().join("my.rules")).expect("the document writes them");
    assert!(rules.contains("->"), "{rules}");
}

fn which_ssd() {
    let (place, printed) = follow("docs/howto/which-ssd.md");
    let results = json(&place, "result.json");
    assert_eq!(results["results"].as_array().map(Vec::len), Some(4), "two schemes on two kinds of drives");
    let drives = std::fs::read_to_string(place.path().join("drives.csv")).expect("the document writes it");
    assert_eq!(drives.lines().count(), 1 + 2 * 3 * 3 * 2, "a heading, and a row for each drive");
    assert!(
        printed.contains("scheme,gc_destination,utilisation,streams,waf\n"),
        "what tells drives apart: {printed}"
    );
}

/// The rules of the example separate hot from cold, and every way that needs no compiler works.
fn scheme() {
    let (place, _) = follow("docs/howto/scheme.md");
    let results = json(&place, "rules.json");
    let wafs: Vec<f64> =
        results["results"].as_array().expect("a list").iter().filter_map(|r| r["waf"].as_f64()).collect();
    assert!(wafs.iter().skip(1).any(|waf| *waf < 0.95 * wafs[0]), "{wafs:?}");
    let rows = std::fs::read_to_string(place.path().join("distance.csv")).expect("the document writes it");
    assert!(rows.contains("linear") && rows.contains("log"), "{rows}");
}

/// How to record a service, a container and Java: what is done with a recording. A sample stands for the recordings.
fn recordings() {
    let sample = root().join("crates/pcstream/tests/data/sqlite.pctrace");
    for (document, recorded) in [
        ("service", &["svc", "monday1", "monday2", "tuesday1", "tuesday2"][..]),
        ("container", &["mydb"]),
        ("java", &["app"]),
    ] {
        let place = TempDir::new().expect("a directory");
        for (number, name) in recorded.iter().enumerate() {
            let copy = place.path().join(format!("{name}.pctrace"));
            std::fs::create_dir(&copy).expect("a new directory");
            for file in std::fs::read_dir(&sample).expect("the sample").flatten() {
                std::fs::copy(file.path(), copy.join(file.file_name())).expect("copied");
            }
            // Recordings differ, and what is compared must not be one trace twice.
            let path = copy.join("meta.json");
            let meta = std::fs::read_to_string(&path).expect("a trace has one");
            let mut meta: Value = serde_json::from_str(&meta).expect("it is JSON");
            meta["trace_id"] = format!("{number:016x}").into();
            std::fs::write(&path, meta.to_string()).expect("written");
        }
        let printed = follow_in(&place, &format!("docs/howto/{document}.md"));
        assert!(printed.contains("sqlite3") && printed.contains("\nVerdict: "), "{document}: {printed}");
    }
}
