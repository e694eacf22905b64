//! Words for a shell: a command that a message names can be copied, whatever its paths are.

use std::path::Path;

/// A path as a shell takes it for one word, quoted where that is needed.
pub fn word(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+=,:@%".contains(c);
    if text.chars().all(is_plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_one_word() {
        for (path, expected) in [
            ("/srv/a-1.log", "/srv/a-1.log"),
            ("/srv/m f", "'/srv/m f'"),
            ("it's", r"'it'\''s'"),
            ("/srv/$(x)", "'/srv/$(x)'"),
        ] {
            assert_eq!(word(Path::new(path)), expected);
        }
    }
}
