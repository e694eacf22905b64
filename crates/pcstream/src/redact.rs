//! `--redact`: a trace that can be handed on without telling whose data it is about.
//!
//! Names of files become hashes, directory by directory, and keep their extension, which schemes go by. Programs and
//! modules keep their file's name and lose its directory. The command keeps its program. The key of the hashes
//! is drawn for each recording and not kept, so names cannot be tried out, nor two recordings be joined by them.

use std::hash::{BuildHasher, RandomState};

use pcstream_trace::{Batch, Context};

/// What stands for a directory that is not shown.
const ELSEWHERE: &str = "...";
/// Longer extensions may be names.
const MAX_EXTENSION: usize = 8;
/// What SQLite appends to the name of a database.
const APPENDED: [&str; 3] = ["-journal", "-shm", "-wal"];

/// Hides names.
#[derive(Debug, Default)]
pub struct Redaction {
    key: RandomState,
}

impl Redaction {
    /// The command without its arguments.
    pub fn command(words: &[String]) -> Vec<String> {
        let Some((program, arguments)) = words.split_first() else { return Vec::new() };
        let mut shown = vec![module(program)];
        if !arguments.is_empty() {
            shown.push(format!("({} arguments redacted)", arguments.len()));
        }
        shown
    }

    /// The same of a process, which may have written whom it works for behind its name: `postgres: anna payroll idle`.
    pub fn process(words: &[String]) -> Vec<String> {
        let mut words = words.to_vec();
        if let Some(title) = words.first_mut() {
            let rest = title.split_off(title.find([' ', ':']).unwrap_or(title.len()));
            // The name may follow in what was cut off.
            if title.contains('/') && rest.contains('/') {
                "(redacted)".clone_into(title);
            }
        }
        Redaction::command(&words)
    }

    /// Hides the names of a batch.
    pub fn batch(&self, batch: &mut Batch) {
        batch.contexts.iter_mut().for_each(Redaction::context);
        batch.files.iter_mut().for_each(|file| file.path = self.path(&file.path));
    }

    /// Hides the directories of a context's modules.
    pub fn context(context: &mut Context) {
        context.executable = module(&context.executable);
        for frame in &mut context.frames {
            // A method of a language runtime is no path.
            if !frame.module.starts_with("java:") {
                frame.module = module(&frame.module);
            }
        }
    }

    fn path(&self, path: &str) -> String {
        let names: Vec<_> = path.split('/').collect();
        let last = names.len() - 1;
        let hidden = names.iter().enumerate().map(|(n, name)| match *name {
            "" => String::new(),
            name => self.name(name, n == last),
        });
        hidden.collect::<Vec<_>>().join("/")
    }

    fn name(&self, name: &str, is_file: bool) -> String {
        let hash = self.key.hash_one(name);
        let extension =
            name.rsplit_once('.').filter(|(stem, _)| is_file && !stem.is_empty()).map(|(_, it)| it);
        let is_plain = |it: &&str| {
            let stem = APPENDED.iter().find_map(|end| it.strip_suffix(end)).unwrap_or(it);
            let begins = stem.starts_with(|c: char| c.is_ascii_alphabetic());
            begins && stem.len() <= MAX_EXTENSION && stem.bytes().all(|b| b.is_ascii_alphanumeric())
        };
        match extension.filter(is_plain) {
            Some(extension) => format!("{hash:016x}.{extension}"),
            None => format!("{hash:016x}"),
        }
    }
}

/// The name of a program or library without its directory.
pub fn module(path: &str) -> String {
    match path.rsplit_once('/') {
        Some((_, name)) => format!("{ELSEWHERE}/{name}"),
        None => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use pcstream_trace::{File, Frame};

    use super::*;

    #[test]
    fn names_are_hidden_and_what_schemes_need_is_kept() {
        let file = |path: &str| File { path: path.into(), ..File::default() };
        let frame = |module: &str| Frame { module: module.into(), ..Frame::default() };
        let context = Context {
            executable: "/home/anna/bin/db".into(),
            frames: vec![frame("/home/anna/lib/db.so"), frame("java:org.A.f"), frame("[anon]")],
            ..Context::default()
        };
        let paths = [
            "/anna/000041.sst",
            "/anna/.secret",
            "/anna/letter.to-bob",
            "",
            "/anna/bob.sqlite3-wal",
            "/anna/diary.2019",
        ];
        let mut batch =
            Batch { contexts: vec![context], files: paths.map(file).to_vec(), ..Batch::default() };
        let redaction = Redaction::default();
        redaction.batch(&mut batch);
        let shown: Vec<_> = batch.files.iter().map(|file| file.path.as_str()).collect();
        assert!(
            shown
                .iter()
                .all(|path| !path.contains("anna") && !path.contains("secret") && !path.contains("bob"))
        );
        assert!(shown[0].ends_with(".sst") && shown[3].is_empty(), "{shown:?}");
        assert!(shown[4].ends_with(".sqlite3-wal") && !shown[5].contains('.'), "{shown:?}");
        assert_eq!(shown[0].split('/').nth(1), shown[1].split('/').nth(1), "one directory stays one");
        assert_ne!(shown[0], Redaction::default().path(paths[0]), "a new key is drawn");
        assert_eq!(batch.contexts[0].executable, ".../db");
        let modules: Vec<_> = batch.contexts[0].frames.iter().map(|frame| frame.module.as_str()).collect();
        assert_eq!(modules, [".../db.so", "java:org.A.f", "[anon]"]);
        let words = ["/usr/bin/mysql", "-psecret", "db"].map(str::to_owned);
        assert_eq!(Redaction::command(&words), [".../mysql", "(2 arguments redacted)"]);
    }

    #[test]
    fn titles_of_processes_keep_the_program() {
        let shown = |title: &str| Redaction::process(&[title.to_owned()]);
        assert_eq!(shown("postgres: anna payroll [local] idle"), ["postgres"]);
        assert_eq!(shown("sshd: anna@pts/3"), ["sshd"]);
        assert_eq!(shown("/usr/bin/redis-server 10.0.0.7:6379"), [".../redis-server"]);
        assert_eq!(shown("/opt/db/bin/mysqld"), [".../mysqld"]);
        assert_eq!(shown("/home/Anna Smith/bin/db"), ["(redacted)"]);
        let words = ["/usr/bin/mysql", "-psecret"].map(str::to_owned);
        assert_eq!(Redaction::process(&words), [".../mysql", "(1 arguments redacted)"]);
        assert!(Redaction::process(&[]).is_empty());
    }
}
