//! `pcstream_stream` of `libpcstream/pcstream.c` while nobody listens, and while somebody does who is no placer.

use std::path::Path;
use std::process::Command;

/// Without a listener a call makes no system call: in strict mode the first one would kill. Then it is given that somebody listens.
const PROGRAM: &str = r#"
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

#[test]
fn without_a_placer_there_is_no_stream_and_nothing_is_opened() {
    if !Path::new("/usr/bin/gcc").exists() {
        eprintln!("skipped: needs gcc (apt install gcc)");
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let (source, program) = (dir.path().join("asks.c"), dir.path().join("asks"));
    std::fs::write(&source, PROGRAM).expect("it can be written");
    let library = concat!(env!("CARGO_MANIFEST_DIR"), "/libpcstream");
    let mut gcc = Command::new("gcc");
    gcc.args(["-O2", "-Wall", "-Werror", "-I", library, "-o"]).arg(&program).arg(&source);
    assert!(gcc.arg(format!("{library}/pcstream.c")).status().expect("gcc starts").success());
    for arguments in [&[][..], &["listened to"]] {
        let status = Command::new(&program).args(arguments).status().expect("it starts");
        assert!(status.success(), "{arguments:?}: {status}");
    }
}
