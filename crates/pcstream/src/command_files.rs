//! Files that a traced command names by a path from the caller's directory. It runs in the directory that is recorded, so it
//! does not find them: the usual reason why a command that works by hand fails at once under a capture.

use std::ffi::OsString;
use std::path::Path;

use pcstream_capture::capture::{CaptureOptions, Subject, Target};

/// What a user should know if the command of a capture failed.
pub fn misplaced(options: &CaptureOptions) -> Option<String> {
    let Subject::Command(words) = &options.subject else { return None };
    let there = match &options.target {
        Target::Existing(dir) => Some(dir.as_path()),
        Target::Scratch(_) => None,
    };
    remark(words, &std::env::current_dir().ok()?, there)
}

/// What a user should know after a command failed, if its words name files that exist `here`, but not `there`, where it ran.
/// `there` is `None` for a directory that is gone, such as a scratch file system's.
fn remark(words: &[OsString], here: &Path, there: Option<&Path>) -> Option<String> {
    // The program itself is found from the caller's directory.
    let mut named = words.iter().skip(1).filter(|word| {
        let path = Path::new(word);
        let plain = path.is_relative() && !word.is_empty() && !word.as_encoded_bytes().starts_with(b"-");
        plain && here.join(path).is_file() && there.is_none_or(|there| !there.join(path).exists())
    });
    let word = named.next()?.to_string_lossy();
    Some(format!(
        "the command ran in the directory that is captured, where {word} does not exist: give its whole path, {}",
        here.join(word.as_ref()).display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_files_that_are_only_in_the_callers_directory() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for directory in [here.path(), there.path()] {
            std::fs::write(directory.join("both"), "").unwrap();
        }
        std::fs::write(here.path().join("app.jar"), "").unwrap();
        let words = |word: &str| [OsString::from("app.jar"), OsString::from(word)];
        let said = |word: &str| remark(&words(word), here.path(), Some(there.path()));
        assert!(said("app.jar").unwrap().contains(here.path().join("app.jar").to_str().unwrap()));
        for other in ["both", "neither", "", "-app.jar", "{}", "/etc/passwd", "."] {
            assert_eq!(said(other), None, "{other}");
        }
        assert!(remark(&words("both"), here.path(), None).is_some());
    }
}
