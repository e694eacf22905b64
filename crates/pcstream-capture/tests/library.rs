//! `pcstream_stream` of `libpcstream/pcstream.c` while nobody listens, while somebody does who is no placer, and in a copy of a
//! process.

#[path = "common/programs.rs"]
mod programs;

use std::process::Command;

const LIBRARY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/libpcstream");

/// Without a listener a call makes no system call: in strict mode the first one would kill. Then it is given that somebody listens.
const ASKS: &str = r#"
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "pcstream.h"
extern volatile unsigned short pcstream_stream_listeners;
static char data[4096];
static int calls(int fd) {
    int bad = 0;
    errno = 77;
    for (int i = 0; i < 1000000; i++) bad |= pcstream_stream(fd, data, sizeof data) != 0;
    return bad | (errno != 77);
}
static int descriptors(void) {
    int count = 0; DIR *all = opendir("/proc/self/fd");
    while (readdir(all)) count++;
    closedir(all);
    return count;
}
int main(int argc, char **argv) {
    int fd = open(argv[0], O_RDONLY), before = descriptors(), bad;
    pcstream_stream_listeners = argc > 1;
    if (argc > 1) return calls(fd) | calls(-1) | (descriptors() != before) << 1;
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT)) return 4;
    bad = calls(fd) | calls(-1);
    syscall(SYS_exit, bad);
}
"#;

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

/// Compiles a program of this name, beside these files, and runs it with each of these lists of arguments. All have to succeed.
fn succeeds(name: &str, source: &str, files: &[&str], runs: &[&[&str]]) {
    let dir = tempfile::tempdir().expect("a directory");
    let flags = [&["-O2", "-Wall", "-Werror", "-I", LIBRARY], files].concat();
    let program = programs::compile(dir.path(), name, source, &flags);
    for arguments in runs {
        let status = Command::new(&program).args(*arguments).status().expect("it starts");
        assert!(status.success(), "{arguments:?}: {status}");
    }
}

#[test]
fn without_a_placer_there_is_no_stream_and_nothing_is_opened() {
    succeeds(
        "asks",
        ASKS,
        &[concat!(env!("CARGO_MANIFEST_DIR"), "/libpcstream/pcstream.c")],
        &[&[], &["listened to"]],
    );
}

#[test]
fn a_process_that_was_copied_while_it_looked_for_a_table_looks_again() {
    succeeds("forks", FORKS, &[], &[&[]]);
}
