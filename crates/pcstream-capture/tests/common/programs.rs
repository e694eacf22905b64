//! Programs for tests, compiled when they are needed.
// Each test binary compiles this module and uses its own part of it.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::Command;

/// How many functions of `writers` write.
pub const WRITERS: usize = 20;

/// A C program whose functions `writer_0`, `writer_1`, ... each write a page to the file in its argument. A second argument is a shell
/// command that it runs before it ends.
pub fn writers_source() -> String {
    let mut text = String::from(
        "#include <fcntl.h>\n#include <stdlib.h>\n#include <unistd.h>\nstatic char page[4096];\nint main(int argc, char **argv);\n",
    );
    for n in 0..WRITERS {
        text += &format!(
            "__attribute__((noinline)) int writer_{n}(int fd) {{ page[0] = {n}; \
             return pwrite(fd, page, 4096, {n} * 4096) != 4096; }}\n"
        );
    }
    text += "int main(int argc, char **argv) {\n  int fd = open(argv[1], O_CREAT | O_WRONLY, 0600), bad = fd < 0;\n";
    (0..WRITERS).for_each(|n| text += &format!("  bad |= writer_{n}(fd);\n"));
    text + "  return bad | fsync(fd) | (argc > 2 && system(argv[2]));\n}\n"
}

/// A C program that writes a hundred pages, in turn by a short call path and by one of so many more frames.
pub fn descending_source(levels: u32) -> String {
    DESCENDING.replace("LEVELS", &levels.to_string())
}

const DESCENDING: &str = r#"
#include <fcntl.h>
#include <unistd.h>
static char page[4096];
__attribute__((noinline)) int descend(int fd, int at, int levels) {
    int r = levels ? descend(fd, at, levels - 1) : (int)pwrite(fd, page, sizeof page, at * 4096L);
    __asm__ volatile("" ::: "memory");
    return r + 1;
}
int main(int argc, char **argv) {
    int fd = open(argv[1], O_CREAT | O_WRONLY, 0600);
    for (int i = 0; i < 100; i++) descend(fd, i, i % 2 ? LEVELS : 0);
    return fsync(fd);
}
"#;

/// Where `pcstream.h` is.
pub const WITH_LIBPCSTREAM: &str = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/../../libpcstream");

/// Compiles a C program of this name into a directory. Of several `-O` the last holds.
pub fn compile(dir: &Path, name: &str, source: &str, flags: &[&str]) -> PathBuf {
    let (text, built) = (dir.join(format!("{name}.c")), dir.join(name));
    std::fs::write(&text, source).expect("it can be written");
    let gcc = Command::new("gcc").args(["-O1", "-g", "-o"]).arg(&built).arg(&text).args(flags).status();
    assert!(gcc.expect("gcc starts").success());
    built
}

/// Reasons to skip a test for want of programs.
pub fn gcc() -> Option<String> {
    program("gcc", "gcc")
}

/// Shares debug information among programs.
pub fn dwz() -> Option<String> {
    program("dwz", "dwz")
}
pub fn liburing() -> Option<String> {
    let header = Path::new("/usr/include/liburing.h");
    (!header.exists()).then(|| "liburing (apt install liburing-dev)".into())
}
pub fn runc() -> Option<String> {
    program("runc", "runc")
}
pub fn script() -> Option<String> {
    program("script", "bsdutils")
}
pub fn unshare() -> Option<String> {
    program("unshare", "util-linux")
}

pub fn systemd() -> Option<String> {
    (!Path::new("/run/systemd/system").is_dir()).then(|| "systemd, running".into())
}

fn program(name: &str, package: &str) -> Option<String> {
    let dirs = ["/usr/sbin", "/sbin", "/usr/bin", "/bin", "/usr/local/bin", "/usr/local/go/bin"];
    (!dirs.iter().any(|dir| Path::new(dir).join(name).is_file()))
        .then(|| format!("{name} (apt install {package})"))
}

/// The Go compiler.
pub fn go() -> Option<String> {
    program("go", "golang-go")
}

/// Compiles the files of a Go program of this name into a directory.
pub fn go_build(dir: &Path, name: &str, sources: &[(&str, &str)], flags: &[&str]) -> PathBuf {
    let (own, built) = (Path::new("/usr/local/go/bin/go"), dir.join(name));
    let mut go = Command::new(if own.exists() { own } else { Path::new("go") });
    go.arg("build").args(flags).arg("-o").arg(&built).env("HOME", dir).current_dir(dir);
    for (file, text) in sources {
        std::fs::write(dir.join(file), text).expect("it can be written");
        go.arg(file);
    }
    assert!(go.status().expect("go starts").success());
    built
}
