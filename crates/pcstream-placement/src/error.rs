//! What can be wrong with a request for a scheme. Placing itself cannot fail.

use crate::rules::RulesError;
use crate::saved_table::TableError;

/// A scheme that cannot be built: what was asked, and what to do.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemeError {
    /// No scheme has this name.
    #[error("no scheme is called '{name}'; {}", did_you_mean(nearest, known))]
    Unknown {
        /// The name as given.
        name: String,
        /// Registered names that resemble it, best first; empty when none does.
        nearest: Vec<&'static str>,
        /// All registered names.
        known: Vec<&'static str>,
    },
    /// The scheme has no parameter of this name.
    #[error("scheme '{scheme}' has no parameter '{name}'; {}", parameters(nearest, known))]
    UnknownParameter {
        /// The scheme's name.
        scheme: String,
        /// The parameter's name as given.
        name: String,
        /// Parameters that resemble it, best first; empty when none does.
        nearest: Vec<&'static str>,
        /// All parameters of the scheme.
        known: Vec<&'static str>,
    },
    /// A text is no value of a parameter.
    #[error("{scheme}.{parameter} is '{found}', but must be {expected}")]
    Value {
        /// The scheme's name.
        scheme: String,
        /// The parameter's name.
        parameter: &'static str,
        /// The text.
        found: String,
        /// What was expected.
        expected: String,
    },
    /// The scheme has no reading of this name.
    #[error("scheme '{scheme}' has no reading '{name}'; {}", readings(known))]
    UnknownReading {
        /// The scheme's name.
        scheme: &'static str,
        /// The reading's name as given.
        name: String,
        /// All readings of the scheme.
        known: Vec<&'static str>,
    },
    /// Not even a default stream.
    #[error("0 streams; a device has at least one, the default stream S0")]
    NoStreams,
    /// The scheme looks ahead, and was not given the future.
    #[error(
        "scheme '{scheme}' needs the future of the trace; build it in a first pass with Future::from_events"
    )]
    NeedsFuture {
        /// The scheme's name.
        scheme: &'static str,
    },
    /// A parameter outside its range.
    #[error("{scheme}.{parameter} is {found}, but must be {expected}")]
    Parameter {
        /// The scheme's name.
        scheme: &'static str,
        /// The parameter's name.
        parameter: &'static str,
        /// Its value.
        found: String,
        /// What is allowed.
        expected: &'static str,
    },
    /// What a scheme from outside this crate says.
    #[error("scheme '{scheme}': {problem}")]
    Own {
        /// The scheme's name.
        scheme: String,
        /// What is wrong: place, value and remedy.
        problem: String,
    },
    /// The rules of `manual`.
    #[error("the rules of 'manual': {0}")]
    Rules(#[from] RulesError),
    /// A saved PC attribute table that cannot be used.
    #[error("the saved PC attribute table: {0}")]
    Table(#[from] TableError),
}

fn did_you_mean(nearest: &[&'static str], known: &[&'static str]) -> String {
    if nearest.is_empty() {
        format!("the schemes are {}", known.join(", "))
    } else {
        format!("did you mean {}?", nearest.join(" or "))
    }
}

fn parameters(nearest: &[&'static str], known: &[&'static str]) -> String {
    match (nearest, known) {
        (_, []) => "it has none".to_owned(),
        ([], _) => format!("it has {}", known.join(", ")),
        _ => format!("did you mean {}? It has {}", nearest.join(" or "), known.join(", ")),
    }
}

fn readings(known: &[&'static str]) -> String {
    if known.is_empty() { "it has none".to_owned() } else { format!("its readings are {}", known.join(", ")) }
}

/// `Ok` if a parameter is in its range, and else [`SchemeError::Parameter`].
pub fn check(
    holds: bool,
    scheme: &'static str,
    parameter: &'static str,
    found: impl ToString,
    expected: &'static str,
) -> Result<(), SchemeError> {
    if holds {
        return Ok(());
    }
    Err(SchemeError::Parameter { scheme, parameter, found: found.to_string(), expected })
}
