//! What the keys of a table are.

/// What a write is identified by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeySource {
    /// The signature of its program context (PCStream).
    #[default]
    Context,
    /// Its program context or, while too little is known of that, a prefix of its call path, or its executable.
    ContextTree,
    /// The executable of its context.
    Executable,
    /// The extension of its file; files without one share a key.
    Extension,
    /// Its file, by path; by inode number and generation if it has no path.
    File,
}

crate::choices!(KeySource:
    Context = "context",
    ContextTree = "context-tree",
    Executable = "executable",
    Extension = "extension",
    File = "file",
);

impl KeySource {
    /// Whether what was learned of keys of the kind `other` means something: signatures of contexts are also in the tree.
    pub fn begins_with(self, other: KeySource) -> bool {
        let has_contexts = |key| matches!(key, KeySource::Context | KeySource::ContextTree);
        self == other || has_contexts(self) && has_contexts(other)
    }

    /// What a scheme's keys were before tables said so: a parameter could change them, but by default they are these.
    pub(super) fn of_scheme(name: Option<&str>) -> KeySource {
        match name {
            Some("pcstream-tree") => KeySource::ContextTree,
            Some("vstream-executable") => KeySource::Executable,
            Some("vstream-extension") => KeySource::Extension,
            Some("vstream-file") => KeySource::File,
            _ => KeySource::Context,
        }
    }
}
