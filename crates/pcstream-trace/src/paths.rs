//! Parts of the paths that tables hold: texts of the traced machine, which need not be paths here.

/// The last component of a path.
pub fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// What follows the last dot of the name; `None` without a dot, or if only the dot precedes it.
pub fn extension(path: &str) -> Option<&str> {
    let (stem, extension) = file_name(path).rsplit_once('.')?;
    (!stem.is_empty() && !extension.is_empty()).then_some(extension)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_extensions() {
        assert_eq!(file_name("/a/b.c"), "b.c");
        assert_eq!(file_name(""), "");
        assert_eq!(extension("/a.b/c"), None);
        assert_eq!(extension("/a/c.tar.gz"), Some("gz"));
        assert_eq!(extension("/a/.profile"), None);
        assert_eq!(extension("/a/b."), None);
    }
}
