//! Write buffers: which functions of a program make its buffer's pages dirty (FAST'19, section 5.4; `bpf/buffers.h`).
//!
//! Idea: a rules file names functions of a binary and how to tell from their arguments which page they are about; here it
//! becomes a list of places to probe with a rule for each. Rules exist for some programs (presets), and programs that use
//! `pcstream.h` bring their own in the notes of their probes.
//!
//! Rules come from whoever runs the capture, and so do binaries, unless they are those of what is attached to (`running`). What
//! they say is checked, because an error in them would show as wrong contexts.
//!
//! Invariants: a binary is opened once. It is read and probed by that file, whatever comes to its path meanwhile. What is read
//! of it has a limit (`modules::module_data`).

mod binary;
mod code;
mod counted;
mod register;
pub mod rules;
mod static_probes;

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;

use crate::wire::{self, BufferRule, Limit};
use binary::Binary;

/// Programs that need no rules file: name, and the file.
pub const PRESETS: [(&str, &str); 2] = [
    ("mariadb", include_str!("../../presets/mariadb.toml")),
    ("postgresql", include_str!("../../presets/postgresql.toml")),
];

/// Rules that the BPF program has room for.
pub const MAX_RULES: usize = Limit::MAX_BUFFER_RULES.0 as usize;
/// Probes that are attached, which takes time and memory of the kernel.
pub const MAX_PROBES: usize = 4096;
/// A rules file is a page of text.
const MAX_RULES_FILE_BYTES: u64 = 1 << 20;

/// A place in a binary that says which page becomes dirty, and how.
#[derive(Clone, Debug)]
pub struct Probe {
    /// The program or library, for messages.
    pub binary: PathBuf,
    /// What is probed.
    pub file: Arc<File>,
    /// Of the instruction in the file.
    pub offset: u64,
    /// Where the file keeps the number of those who listen, which the kernel counts; 0: nowhere.
    pub listeners: u64,
    /// The function or probe it belongs to, for messages.
    pub name: String,
    /// For the BPF program.
    pub rule: BufferRule,
    /// What is not as the rules want it, and what that means.
    pub remark: Option<String>,
}

/// A program that runs.
#[derive(Clone, Debug)]
pub struct Program {
    /// Its path, as its process sees it.
    pub name: PathBuf,
    /// The file that runs, open.
    pub file: Arc<File>,
}

/// Why rules are of no use.
#[derive(Debug, Error)]
pub enum BufferError {
    /// Neither a preset nor a file.
    #[error("{what}: neither a preset ({}) nor a file that can be read: {source}", presets())]
    Unreadable {
        /// As given.
        what: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// Not rules.
    #[error("{what}: {problem}")]
    Rules {
        /// The file or preset.
        what: String,
        /// With line and column.
        problem: String,
    },
    /// No such program.
    #[error("{what}: no program matches {}: install it, or name its file in a rules file (`program = \"/path\"`)",
            patterns.join(", "))]
    NoProgram {
        /// The file or preset.
        what: String,
        /// What was looked for.
        patterns: Vec<String>,
    },
    /// The program does not have what a rule names.
    #[error("{}{} {problem}", what.iter().map(|what| format!("{what}: ")).collect::<String>(), binary.display())]
    Binary {
        /// The file or preset; none where the program itself was given.
        what: Option<String>,
        /// The program or library.
        binary: PathBuf,
        /// What it lacks, and what to do.
        problem: String,
    },
    /// More than the BPF program has room for.
    #[error(
        "{rules} rules for {probes} places in programs; at most {MAX_RULES} for {MAX_PROBES} are possible: name fewer \
             functions or programs, or make the calls of pcstream.h in one function"
    )]
    TooMany {
        /// Different ones.
        rules: usize,
        /// Places to probe.
        probes: usize,
    },
}

fn presets() -> String {
    PRESETS.map(|(name, _)| name).join(", ")
}

/// The probes of each of `what`: the name of a preset, a rules file, or a program or library built with `pcstream.h`.
pub fn probes(what: &[String]) -> Result<Vec<Probe>, BufferError> {
    probes_of_running(what, &[])
}

/// The same, in those of the `running` programs that rules name. Where they name none of these, it looks on disk.
pub fn probes_of_running(what: &[String], running: &[Program]) -> Result<Vec<Probe>, BufferError> {
    let each: Result<Vec<_>, _> = what.iter().map(|what| probes_of(what, running)).collect();
    let probes: Vec<_> = each?.into_iter().flatten().collect();
    let rules: HashSet<&[u8]> = probes.iter().map(|probe| wire::rule_bytes(&probe.rule)).collect();
    if rules.len() > MAX_RULES || probes.len() > MAX_PROBES {
        return Err(BufferError::TooMany { rules: rules.len(), probes: probes.len() });
    }
    Ok(probes)
}

fn probes_of(what: &str, running: &[Program]) -> Result<Vec<Probe>, BufferError> {
    if let Some((name, text)) = PRESETS.iter().find(|(name, _)| *name == what) {
        return probes_by_rules(&format!("the preset {name}"), text, running);
    }
    let unreadable = |source| BufferError::Unreadable { what: what.to_owned(), source };
    let bytes = read_start(Path::new(what)).map_err(unreadable)?;
    if bytes.starts_with(b"\x7fELF") {
        return Binary::open(Path::new(what))
            .and_then(|binary| binary.own_probes())
            .map_err(|problem| BufferError::Binary { what: None, binary: what.into(), problem });
    }
    let text = String::from_utf8(bytes).map_err(|_| BufferError::Rules {
        what: what.to_owned(),
        problem: "neither text (a rules file) nor a program (ELF)".into(),
    })?;
    probes_by_rules(what, &text, running)
}

fn read_start(path: &Path) -> io::Result<Vec<u8>> {
    use std::io::Read;
    let mut bytes = Vec::new();
    open_file(path)?.take(MAX_RULES_FILE_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Opens a regular file; a pipe is not waited for.
fn open_file(path: &Path) -> io::Result<File> {
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    Ok(file)
}

fn probes_by_rules(what: &str, text: &str, running: &[Program]) -> Result<Vec<Probe>, BufferError> {
    let rules =
        rules::parse(text).map_err(|problem| BufferError::Rules { what: what.to_owned(), problem })?;
    let wrong = |binary: &Path, problem| {
        let (what, binary) = (Some(what.to_owned()), binary.to_owned());
        BufferError::Binary { what, binary, problem }
    };
    let is_named = |program: &&Program| rules.program.iter().any(|pattern| names(pattern, &program.name));
    let mut binaries: Vec<_> = running.iter().filter(is_named).map(Binary::of).collect();
    if binaries.is_empty() {
        let open = |path: &PathBuf| Binary::open(path).map_err(|problem| wrong(path, problem));
        binaries = on_disk(&rules.program).iter().map(open).collect::<Result<_, _>>()?;
    }
    if binaries.is_empty() {
        return Err(BufferError::NoProgram { what: what.to_owned(), patterns: rules.program });
    }
    let probes =
        binaries.iter().map(|binary| binary.probes(&rules).map_err(|problem| wrong(binary.path(), problem)));
    Ok(probes.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

/// Files that match paths, in which `*` stands for anything within a name, and names looked up in PATH. Each once.
fn on_disk(patterns: &[String]) -> Vec<PathBuf> {
    let matching = |pattern: &String| -> Vec<PathBuf> {
        if pattern.contains('/') {
            glob::glob(pattern).map(|found| found.flatten().collect()).unwrap_or_default()
        } else {
            crate::command::find(pattern.as_ref()).into_iter().collect()
        }
    };
    let mut known = HashSet::new();
    let files = patterns.iter().flat_map(matching);
    let found = files.filter_map(|file| Some((file.metadata().ok()?, file)));
    let mut found: Vec<_> =
        found.filter(|(meta, _)| known.insert((meta.dev(), meta.ino()))).map(|(_, file)| file).collect();
    found.sort();
    found
}

/// Whether a pattern names the program at this path.
fn names(pattern: &str, path: &Path) -> bool {
    if !pattern.contains('/') {
        return path.file_name().is_some_and(|name| name == pattern);
    }
    let within_names = glob::MatchOptions { require_literal_separator: true, ..glob::MatchOptions::new() };
    glob::Pattern::new(pattern).is_ok_and(|pattern| pattern.matches_path_with(path, within_names))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_are_rules() {
        for (name, text) in PRESETS {
            rules::parse(text).unwrap_or_else(|problem| panic!("{name}: {problem}"));
        }
    }

    #[test]
    fn running_programs_come_before_those_on_disk() {
        let dir = tempfile::tempdir().expect("a directory can be made");
        let file = |name: &str, lines: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, lines).expect("it can be written");
            path
        };
        let (program, link) = (file("db", ""), dir.path().join("link"));
        std::os::unix::fs::symlink(&program, &link).expect("a link can be made");
        let patterns = [dir.path().join("*").to_str().expect("plain").to_owned(), "postgres".to_owned()];
        let all = on_disk(&patterns[..1]);
        assert_eq!(all.len(), 1, "one file, by two names: {all:?}");
        assert!(all[0] == program || all[0] == link);
        let this = Arc::new(File::open("/proc/self/exe").expect("it runs"));
        let running = |name: &str| Program { name: name.into(), file: this.clone() };
        let text = format!(
            "program = {patterns:?}\npage_bytes = 4096\n[[dirty]]\nfunction = 'nothing'\npage = {{ address = 1 }}\n"
        );
        let problem = |running: &[Program]| {
            probes_by_rules("rules", &text, running).expect_err("neither has the function").to_string()
        };
        let of_container = dir.path().join("other").to_str().expect("plain").to_owned();
        for name in [&of_container, "/opt/pg/bin/postgres"] {
            let problem = problem(&[running("/bin/sh"), running(name)]);
            assert!(problem.contains(&format!("{name} has no function nothing")), "{problem}");
        }
        let problem = problem(&[running("/bin/sh")]);
        assert!(problem.contains(" is not a program"), "the empty file: {problem}");
        assert!(!names(&patterns[0], &dir.path().join("below/other")));
    }

    /// A path of `/proc` leads into another mount namespace; the text of its links does not.
    #[test]
    fn a_program_keeps_the_path_that_leads_to_it() {
        let inside = Path::new("/proc/self/root").join("proc/self/exe");
        let pattern = inside.to_str().expect("plain").to_owned();
        assert_eq!(on_disk(&[pattern]), [inside]);
    }

    #[test]
    fn what_is_nothing_is_refused_with_a_remedy() {
        let message = |what: &str| probes(&[what.to_owned()]).expect_err("nothing").to_string();
        assert!(message("postgres").contains("a preset (mariadb, postgresql)"), "{}", message("postgres"));
        assert!(message("/dev/zero").contains("not a regular file"));
        assert!(message("/").contains("not a regular file"));
        let dir = tempfile::tempdir().expect("a directory can be made");
        let (pipe, rules) = (dir.path().join("pipe"), dir.path().join("rules.toml"));
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0)
            .expect("a pipe can be made");
        let text = format!(
            "program = [{pipe:?}]\npage_bytes = 4096\n[[dirty]]\nfunction = 'f'\npage = {{ address = 1 }}\n"
        );
        std::fs::write(&rules, text).expect("it can be written");
        for path in [pipe, rules] {
            let message = message(path.to_str().expect("plain"));
            assert!(message.contains("not a regular file"), "nobody writes to the pipe: {message}");
        }
    }
}
