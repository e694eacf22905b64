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

impl KeySource {
    /// All of them.
    pub const ALL: [KeySource; 5] = [
        KeySource::Context,
        KeySource::ContextTree,
        KeySource::Executable,
        KeySource::Extension,
        KeySource::File,
    ];
    /// Their names.
    pub const CHOICES: &'static str = "context, context-tree, executable, extension, file";

    /// Its name, in files and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            KeySource::Context => "context",
            KeySource::ContextTree => "context-tree",
            KeySource::Executable => "executable",
            KeySource::Extension => "extension",
            KeySource::File => "file",
        }
    }

    /// The one with this name.
    pub fn named(name: &str) -> Option<KeySource> {
        KeySource::ALL.into_iter().find(|key| key.name() == name)
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_have_their_names() {
        assert_eq!(KeySource::ALL.map(KeySource::name).join(", "), KeySource::CHOICES);
        assert!(KeySource::ALL.iter().all(|key| KeySource::named(key.name()) == Some(*key)));
        assert_eq!(KeySource::named("colour"), None);
    }
}
