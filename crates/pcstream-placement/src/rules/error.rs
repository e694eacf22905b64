//! Why rules cannot be used: line, what stands there, and what to write.

use pcstream_trace::Kind;

use super::{FIELDS, MAX_PATTERN_BYTES, PRESETS};

/// Rules that cannot be used. Lines count from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RulesError {
    /// A line without `->`.
    #[error("line {line}: '{found}' has no '->'; write CONDITIONS -> STREAM, as in 'name=*.log -> 2'")]
    NoArrow {
        /// The line.
        line: usize,
        /// Its text.
        found: String,
    },
    /// Nothing before `->`.
    #[error(
        "line {line}: no condition before '->'; write one such as 'kind=journal', or '*' for every write"
    )]
    NoCondition {
        /// The line.
        line: usize,
    },
    /// Not a stream number.
    #[error("line {line}: '{found}' is not a stream; write a number from 0 to 255 after '->'")]
    Stream {
        /// The line.
        line: usize,
        /// What stands there.
        found: String,
    },
    /// A word that is no condition.
    #[error("line {line}: '{found}' is not a condition; write FIELD=VALUE with a field of {}{}", FIELDS.join(", "), suggestion(nearest))]
    Condition {
        /// The line.
        line: usize,
        /// The word.
        found: String,
        /// Fields that resemble it.
        nearest: Vec<&'static str>,
    },
    /// A field named twice.
    #[error(
        "line {line}: '{field}' is given twice; all conditions of a line must hold, so write two lines, or one glob such as {{a,b}}"
    )]
    Twice {
        /// The line.
        line: usize,
        /// The field.
        field: &'static str,
    },
    /// A pattern that is too long to be compiled.
    #[error(
        "line {line}: the pattern of '{field}' has {bytes} bytes, expected at most {MAX_PATTERN_BYTES}; write several lines"
    )]
    Long {
        /// The line.
        line: usize,
        /// The field.
        field: &'static str,
        /// Its length.
        bytes: usize,
    },
    /// An unknown kind.
    #[error("line {line}: '{found}' is not a kind; the kinds are {}", kind_names())]
    Kind {
        /// The line.
        line: usize,
        /// What stands there.
        found: String,
    },
    /// Sizes that are none.
    #[error(
        "line {line}: '{found}' are no sizes; write FROM..TO with one or both, as in 16M..64M (from 16 MiB to less than 64 MiB)"
    )]
    Size {
        /// The line.
        line: usize,
        /// What stands there.
        found: String,
    },
    /// A glob that is none.
    #[error("line {line}: '{found}' is not a glob ({problem}); escape special characters as in [*]")]
    Glob {
        /// The line.
        line: usize,
        /// The glob.
        found: String,
        /// What is wrong.
        problem: String,
    },
    /// A quote that is not closed.
    #[error("line {line}: a double quote is not closed; close it on the same line")]
    Quote {
        /// The line.
        line: usize,
    },
    /// No preset has this name.
    #[error("no preset is called '{name}'{}; the presets are {}", suggestion(nearest), preset_names())]
    Preset {
        /// The name.
        name: String,
        /// Presets that resemble it.
        nearest: Vec<&'static str>,
    },
}

fn suggestion(nearest: &[&'static str]) -> String {
    if nearest.is_empty() { String::new() } else { format!(" (did you mean {}?)", nearest.join(" or ")) }
}

fn kind_names() -> String {
    Kind::ALL.map(Kind::name).join(", ")
}

fn preset_names() -> String {
    PRESETS.iter().map(|&(name, ..)| name).collect::<Vec<_>>().join(", ")
}
