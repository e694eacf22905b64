//! Golden tables: what a test prints about decisions, compared with a file that is checked in. Shared by the tests
//! `golden` of several crates.
//!
//! A table is in `tests/golden` of the crate that compares it. Its lines begin with what they are about, so that lines
//! can be compared one by one.

use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

/// With this variable, tables are written instead of compared.
const RENEW: &str = "PCSTREAM_RENEW_GOLDEN";

/// Compares `table` with the file `name`, or writes it there. A difference is shown with the command that renews it.
pub fn assert_golden(name: &str, table: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(format!("{name}.txt"));
    if env::var_os(RENEW).is_some() {
        fs::write(&file, table).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        return;
    }
    let golden = fs::read_to_string(&file).unwrap_or_default();
    if table != golden {
        panic!(
            "not the golden table {} (-: there, +: now):\n{}If every change is meant, renew the tables, and look at git \
             diff:\n\n    {RENEW}=1 cargo test -p pcstream-ssd -p pcstream --test golden\n",
            file.display(),
            difference(&golden, table),
        );
    }
}

/// Lines that went (`-`) and came (`+`).
fn difference(golden: &str, table: &str) -> String {
    let (before, after): (Vec<&str>, Vec<&str>) = (golden.lines().collect(), table.lines().collect());
    let mut lines = String::new();
    for line in before.iter().filter(|line| !after.contains(line)) {
        writeln!(lines, "- {line}").expect("a string takes it");
    }
    for line in after.iter().filter(|line| !before.contains(line)) {
        writeln!(lines, "+ {line}").expect("a string takes it");
    }
    if lines.is_empty() { "the same lines, in another order or number\n".to_owned() } else { lines }
}
