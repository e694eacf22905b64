//! `libpcstream/pcstream.c` from inside.

use std::path::Path;
use std::process::Command;

/// The process is copied while a thread of it looks for a table: that thread is not in the copy, so another one may look there.
/// Whoever looked had a try, so that it pauses.
const FORKS: &str = r#"
#include "pcstream.c"
#include <sys/wait.h>
int main(void) {
    struct table table = { .device = 1 };
    int status = -1;
    looking = getpid();
    look_for(&table);
    if (table.pause)
        return 1;
    pid_t copy = fork();
    if (!copy) {
        look_for(&table);
        _exit(table.pause == 1 && !looking ? 0 : 2);
    }
    return waitpid(copy, &status, 0) != copy || status;
}
"#;

#[test]
fn a_process_that_was_copied_while_it_looked_for_a_table_looks_again() {
    if !Path::new("/usr/bin/gcc").exists() {
        eprintln!("skipped: needs gcc (apt install gcc)");
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let (source, program) = (dir.path().join("forks.c"), dir.path().join("forks"));
    std::fs::write(&source, FORKS).expect("it can be written");
    let mut gcc = Command::new("gcc");
    gcc.args([
        "-O2",
        "-Wall",
        "-Werror",
        "-I",
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../libpcstream"),
        "-o",
    ]);
    assert!(gcc.arg(&program).arg(&source).status().expect("gcc starts").success());
    let status = Command::new(&program).status().expect("it starts");
    assert!(status.success(), "{status}");
}
