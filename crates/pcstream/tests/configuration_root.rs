//! Which configuration files a process of root takes, and which one of a user; which links its outputs follow, and what is
//! said of a trace of root.

#[path = "../../pcstream-capture/tests/common/mod.rs"]
mod common;

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown, lchown, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use tempfile::TempDir;

/// Another user; nothing needs to be known of it.
const OTHER: u32 = 65534;
/// Whoever takes this ends with 2.
const NO_SUCH_KEY: &str = "nonsense = 1\n";

fn main() -> ExitCode {
    common::run(vec![
        common::test("configuration_of_root_is_taken", &[], own),
        common::test("configuration_that_others_control_is_not", &[], others),
        common::test("configuration_of_a_caller_is_not", &[], callers),
        common::test("configuration_of_a_user_is_the_users", &[], a_user),
        common::test("configuration_a_trace_of_root_names_the_remedy", &[], trace_of_root),
        common::test("links_of_others_in_shared_directories_are_refused", &[], links),
        common::test("traces_are_not_made_behind_links_of_others", &[], links_to_traces),
    ])
}

fn links() {
    let dir = TempDir::new().expect("a directory");
    let (target, link) = (dir.path().join("target"), dir.path().join("link"));
    fs::write(&target, "root's").expect("a file");
    symlink(&target, &link).expect("a link");
    let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/hotcold.pctrace");
    let written = || {
        let mut simulate = Command::new(env!("CARGO_BIN_EXE_pcstream"));
        simulate.args(["-q", "simulate", trace, "--scheme", "baseline", "--json"]).arg(&link);
        let output = simulate.output().expect("it runs");
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    fs::set_permissions(dir.path(), Permissions::from_mode(0o1777)).expect("its mode");
    lchown(&link, Some(OTHER), None).expect("its owner");
    let (done, said) = written();
    assert!(!done && said.contains("symbolic link of user 65534"), "{said}");
    assert_eq!(fs::read(&target).expect("the file"), b"root's");
    // Nor where nobody else may write: the directory may be the other user's.
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).expect("its mode");
    let (done, said) = written();
    assert!(!done && said.contains("symbolic link of user 65534"), "{said}");
    assert_eq!(fs::read(&target).expect("the file"), b"root's");
    lchown(&link, Some(0), None).expect("its owner");
    assert_eq!(written(), (true, String::new()), "one's own");
    assert!(fs::read(&target).expect("the file").starts_with(b"{"));
}

/// A trace, too, is not made where another user's link leads.
fn links_to_traces() {
    let dir = TempDir::new().expect("a directory");
    let (target, link) = (dir.path().join("target"), dir.path().join("link"));
    fs::create_dir(&target).expect("a directory");
    symlink(&target, &link).expect("a link");
    fs::set_permissions(dir.path(), Permissions::from_mode(0o1777)).expect("its mode");
    lchown(&link, Some(OTHER), None).expect("its owner");
    let generate = || {
        let mut generate = Command::new(env!("CARGO_BIN_EXE_pcstream"));
        generate.args(["-q", "generate", "uniform", "--pages", "100", "--writes", "100", "-o"]);
        let output = generate.arg(link.join("t.pctrace")).output().expect("it runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, said) = generate();
    assert!(code == Some(1) && said.contains("symbolic link of user 65534"), "{code:?} {said}");
    assert_eq!(fs::read_dir(&target).expect("the directory").count(), 0);
    lchown(&link, Some(0), None).expect("its owner");
    assert_eq!(generate(), (Some(0), String::new()), "one's own");
    assert!(target.join("t.pctrace/meta.json").exists());
}

/// A directory for `XDG_CONFIG_HOME`, with a file in it.
struct Home {
    directory: TempDir,
}

impl Home {
    fn new() -> Home {
        let home = Home { directory: TempDir::new().expect("a directory") };
        fs::create_dir(home.path("pcstream")).expect("a directory");
        // Whatever the umask left of them.
        for directory in ["", "pcstream"] {
            fs::set_permissions(home.path(directory), Permissions::from_mode(0o755)).expect("its mode");
        }
        fs::write(home.file(), NO_SUCH_KEY).expect("a file");
        fs::set_permissions(home.file(), Permissions::from_mode(0o644)).expect("its mode");
        home
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn file(&self) -> PathBuf {
        self.path("pcstream/pcstream.toml")
    }

    /// Exit code of a command that looks for a configuration, and what it said.
    fn outcome(&self, prepare: impl FnOnce(&mut Command)) -> (Option<i32>, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pcstream"));
        command.env("XDG_CONFIG_HOME", self.directory.path()).arg("schemes");
        for caller in ["SUDO_UID", "PKEXEC_UID", "DOAS_USER"] {
            command.env_remove(caller);
        }
        prepare(command.stdin(Stdio::null()));
        let output = command.output().expect("it runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// A mistake in it ends the command.
    #[track_caller]
    fn is_refused(&self, why: &str) {
        let (code, said) = self.outcome(|_| {});
        assert!(code == Some(2) && said.contains(why), "{code:?} {said}");
    }

    #[track_caller]
    fn is_taken(&self) {
        let (code, said) = self.outcome(|_| {});
        assert!(code == Some(2) && said.contains("nonsense"), "{code:?} {said}");
    }

    /// The command does its work without the file, says why, and refuses it where it is asked for.
    #[track_caller]
    fn is_not_taken(&self, why: &str) {
        let (code, said) = self.outcome(|_| {});
        assert!(code == Some(0) && said.contains("is not taken") && said.contains(why), "{code:?} {said}");
        let (code, said) = self.outcome(|command| {
            command.arg("--config").arg(self.file());
        });
        assert!(code == Some(2) && said.contains(why) && !said.contains("nonsense"), "{code:?} {said}");
        let (code, said) = self.outcome(|command| {
            command.arg("--no-config");
        });
        assert!(code == Some(0) && said.is_empty(), "{code:?} {said}");
    }
}

fn give(path: &Path) {
    chown(path, Some(OTHER), Some(OTHER)).expect("root gives files away");
}

fn own() {
    let home = Home::new();
    home.is_taken();
    fs::write(home.file(), b"# Gr\xfc\xdfe\n").expect("a file");
    home.is_refused("is not text in UTF-8");
    fs::write(home.file(), NO_SUCH_KEY).expect("a file");
    // A link that root made leads to a file of root.
    fs::rename(home.file(), home.path("elsewhere")).expect("renamed");
    symlink("../elsewhere", home.file()).expect("a link");
    home.is_taken();
    fs::remove_file(home.file()).expect("removed");
    assert_eq!(home.outcome(|_| {}), (Some(0), String::new()), "there is none");
}

fn others() {
    let home = Home::new();
    give(&home.file());
    home.is_not_taken("belongs to user 65534");

    let home = Home::new();
    give(&home.path("pcstream"));
    home.is_not_taken("belongs to user 65534");

    let home = Home::new();
    fs::set_permissions(home.file(), Permissions::from_mode(0o666)).expect("its mode");
    home.is_not_taken("others may write to");

    let home = Home::new();
    fs::set_permissions(home.path("pcstream"), Permissions::from_mode(0o777)).expect("its mode");
    home.is_not_taken("others may write to");

    // The link is another user's, although the file is root's.
    let home = Home::new();
    fs::rename(home.file(), home.path("elsewhere")).expect("renamed");
    symlink("../elsewhere", home.file()).expect("a link");
    lchown(home.file(), Some(OTHER), Some(OTHER)).expect("root gives links away");
    home.is_not_taken("belongs to user 65534");

    // Nobody ever writes into this pipe.
    let home = Home::new();
    fs::remove_file(home.file()).expect("removed");
    let kind = rustix::fs::FileType::Fifo;
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, home.file(), kind, mode, 0).expect("a pipe");
    home.is_not_taken("not a regular file");
}

/// Under sudo the environment may be the caller's.
fn callers() {
    let home = Home::new();
    for (variable, caller) in [("SUDO_UID", "1000"), ("PKEXEC_UID", "1000"), ("DOAS_USER", "somebody")] {
        let outcome = home.outcome(|command| {
            command.env(variable, caller);
        });
        assert_eq!(outcome, (Some(0), String::new()), "{variable}");
    }
    let (code, _) = home.outcome(|command| {
        command.env("SUDO_UID", "0");
    });
    assert_eq!(code, Some(2), "root is its own caller");
}

/// What `sudo pcstream record` made, its user cannot read yet.
fn trace_of_root() {
    let home = Home::new();
    let (binary, trace) = (home.path("pcstream-binary"), home.path("t.pctrace"));
    fs::copy(env!("CARGO_BIN_EXE_pcstream"), &binary).expect("a copy");
    fs::set_permissions(&binary, Permissions::from_mode(0o755)).expect("its mode");
    fs::create_dir(&trace).expect("a directory");
    fs::set_permissions(&trace, Permissions::from_mode(0o700)).expect("its mode");
    let said = |user: u32| {
        chown(&trace, Some(user), None).expect("its owner");
        let mut command = Command::new(&binary);
        command.uid(OTHER).gid(OTHER).current_dir("/").args(["--no-config", "contexts"]).arg(&trace);
        let output = command.output().expect("it runs");
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let (of_root, own) = (said(0), said(OTHER));
    let remedy = format!("sudo chown -R \"$(id -u)\" {}", trace.display());
    assert!(of_root.contains(&remedy) && of_root.contains("Permission denied"), "{of_root}");
    assert!(!own.contains("chown"), "{own}");
}

/// A user's own file counts for that user, and another's, where it is asked for.
fn a_user() {
    let home = Home::new();
    give(&home.file());
    // Where every user may run it.
    let binary = home.path("pcstream-binary");
    fs::copy(env!("CARGO_BIN_EXE_pcstream"), &binary).expect("a copy");
    fs::set_permissions(&binary, Permissions::from_mode(0o755)).expect("its mode");
    let outcome = |config: Option<&Path>| {
        let mut command = Command::new(&binary);
        command.uid(OTHER).gid(OTHER).current_dir("/").arg("schemes").stdin(Stdio::null());
        match config {
            Some(file) => command.env_remove("XDG_CONFIG_HOME").arg("--config").arg(file),
            None => command.env("XDG_CONFIG_HOME", home.directory.path()),
        };
        let output = command.output().expect("it runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for config in [None, Some(home.file())] {
        let (code, said) = outcome(config.as_deref());
        assert!(code == Some(2) && said.contains("nonsense"), "{code:?} {said}");
    }
}
