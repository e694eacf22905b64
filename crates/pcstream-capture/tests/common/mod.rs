//! A harness for tests that need more than a plain machine gives (root, tools, kernel features).
//!
//! Idea: each test states its needs; a need that is not there makes the test *ignored*, which the summary counts
//! apart, and the reason is printed first. A skipped test never counts as passed. Running ignored tests
//! by force (`--ignored`, `--include-ignored`) fails them with the reason. Names begin with `root_`, so that
//! `cargo test root_` selects them.
//!
//! Use: `harness = false` for the test in Cargo.toml, and `fn main() { common::run(vec![...]) }`.
// Each test binary compiles this module and uses its own part of it.
#![allow(dead_code)]

mod patience;

use std::path::Path;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

#[allow(unused_imports, reason = "each test binary uses its part")]
pub use patience::{PATIENCE, wait_for, wait_for_child};

/// Something a test needs. `None`: it is there; `Some`: why not.
pub type Need = fn() -> Option<String>;

/// A test with its needs.
pub struct RootTest {
    name: String,
    needs: Vec<Need>,
    run: Box<dyn FnOnce() + Send>,
}

/// A test that needs root, and what else it names. It fails by panicking.
pub fn test(name: impl Into<String>, needs: &[Need], run: impl FnOnce() + Send + 'static) -> RootTest {
    let mut all: Vec<Need> = vec![root];
    all.extend(needs);
    RootTest { name: format!("root_{}", name.into()), needs: all, run: Box::new(run) }
}

/// Runs the tests one after the other (they share the machine's devices), as the command line says. Their mounts are this
/// program's own; others, such as a unit of systemd, see them below /proc/PID/root.
pub fn run(tests: Vec<RootTest>) -> ExitCode {
    own_environment();
    own_mounts();
    let mut arguments = Arguments::from_args();
    arguments.test_threads = arguments.test_threads.or(Some(1));
    let trials = tests.into_iter().map(trial).collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Neither the user's defaults nor the user's colours hold for what tests start, and nothing can be made where defaults would be.
fn own_environment() {
    // SAFETY: the program has one thread until it runs its tests.
    unsafe {
        std::env::set_var("XDG_CONFIG_HOME", "/proc/none");
        ["CLICOLOR", "CLICOLOR_FORCE", "NO_COLOR"].iter().for_each(|name| std::env::remove_var(name));
    }
}

/// Gives this program a mount namespace of its own. One that somebody else makes meanwhile has a copy of all mounts but these, and so
/// keeps no file system of the tests in use. This one keeps none of another pcstream: it lets go of what is mounted now, and what others
/// unmount later is unmounted here, too, where they share it.
fn own_mounts() {
    if root().is_some() {
        return;
    }
    // SAFETY: two system calls, whose strings are constants that end in zero.
    let done = unsafe {
        libc::unshare(libc::CLONE_NEWNS) == 0
            && libc::mount(
                c"none".as_ptr(),
                c"/".as_ptr(),
                std::ptr::null(),
                libc::MS_REC | libc::MS_SLAVE,
                std::ptr::null(),
            ) == 0
    };
    assert!(done, "a mount namespace: {}", std::io::Error::last_os_error());
    let mounts = std::fs::read_to_string("/proc/self/mounts").expect("it can be read");
    for at in mounts.lines().filter_map(|line| line.split(' ').nth(1)) {
        if at.starts_with("/run/pcstream") {
            // It may be gone, with one that held it.
            let _ = rustix::mount::unmount(at, rustix::mount::UnmountFlags::DETACH);
        }
    }
    hide_defaults();
}

/// Nor do the machine's defaults: an empty file of this program's own is in their place.
fn hide_defaults() {
    let defaults = Path::new("/etc/pcstream.toml");
    if !defaults.exists() {
        return;
    }
    let empty = tempfile::NamedTempFile::new().expect("a file can be made");
    let readable = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    std::fs::set_permissions(empty.path(), readable).expect("its mode");
    // It is there as long as it is mounted.
    rustix::mount::mount_bind(empty.path(), defaults).expect("it can be mounted");
}

fn trial(test: RootTest) -> Trial {
    let missing = test.needs.iter().find_map(|need| need());
    match missing {
        None => Trial::test(test.name, || {
            (test.run)();
            Ok(())
        }),
        Some(reason) => {
            eprintln!("skipped: {} needs {reason}", test.name);
            Trial::test(test.name, move || Err(format!("needs {reason}").into())).with_ignored_flag(true)
        }
    }
}

/// Linux passes write hints down to requests since 6.9.
pub fn requests_with_hints() -> Option<String> {
    linux(6, 9)
}

/// A kernel of this version or newer.
pub fn linux(major: u32, minor: u32) -> Option<String> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("it can be read");
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    let found = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    (found < (major, minor))
        .then(|| format!("Linux {major}.{minor} or newer, and this is {}", release.trim()))
}

/// A shell script that leaves the scratch file system it runs in, while a process in a mount namespace of its own keeps a
/// copy of its mount. The process writes its id to `pid`, and ends only when it is killed.
pub fn holding_its_mount(pid: &Path) -> String {
    format!(
        "echo data > file; sync file; cd /; exec 3>{pid}.part; \
         unshare --mount --propagation private sh -c '\
             echo $$ >&3; mv {pid}.part {pid}; exec 3>&-; exec sleep 1000' \
         >/dev/null 2>&1 </dev/null & until [ -e {pid} ]; do sleep 0.1; done",
        pid = pid.display(),
    )
}

/// Root.
pub fn root() -> Option<String> {
    (!rustix::process::geteuid().is_root()).then(|| "root".into())
}

/// mkfs.xfs, and a kernel that knows XFS.
pub fn xfs() -> Option<String> {
    tool("mkfs.xfs").or_else(|| file_system("xfs"))
}

/// mkfs.ext4, and a kernel that knows ext4.
pub fn ext4() -> Option<String> {
    tool("mkfs.ext4").or_else(|| file_system("ext4"))
}

/// A kernel that knows overlayfs.
pub fn overlayfs() -> Option<String> {
    file_system("overlay")
}

/// zram with hot add.
pub fn zram() -> Option<String> {
    (!Path::new("/sys/class/zram-control/hot_add").exists())
        .then(|| "zram (modprobe zram num_devices=0)".into())
}

/// FUSE.
pub fn fuse() -> Option<String> {
    (!Path::new("/dev/fuse").exists()).then(|| "FUSE (modprobe fuse)".into())
}

/// Loop devices.
pub fn loop_devices() -> Option<String> {
    (!Path::new("/dev/loop-control").exists()).then(|| "loop devices (modprobe loop)".into())
}

fn tool(name: &str) -> Option<String> {
    let dirs = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"];
    (!dirs.iter().any(|dir| Path::new(dir).join(name).is_file())).then(|| name.into())
}

/// A kernel that knows this file system.
pub fn file_system(name: &str) -> Option<String> {
    let known = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    (!known.split_whitespace().any(|word| word == name)).then(|| format!("{name} in the kernel"))
}
