//! What can be wrong with a request for a scheme. Placing itself cannot fail.

use crate::pcstream::saved::TableError;
use crate::rules::RulesError;

/// A scheme that cannot be built: what was asked, and what to do.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemeError {
    /// No scheme has this name.
    #[error("no scheme is called '{name}'; {}", did_you_mean(nearest))]
    Unknown {
        /// The name as given.
        name: String,
        /// Registered names that resemble it, best first; empty when none does.
        nearest: Vec<&'static str>,
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
    #[error("scheme '{scheme}': {parameter} is {found}, but must be {expected}")]
    Parameter {
        /// The scheme's name.
        scheme: &'static str,
        /// Path of the parameter in `SchemeParams`.
        parameter: &'static str,
        /// Its value.
        found: String,
        /// What is allowed.
        expected: &'static str,
    },
    /// The rules of `manual`.
    #[error(transparent)]
    Rules(#[from] RulesError),
    /// A saved PC attribute table that cannot be used.
    #[error("the saved PC attribute table: {0}")]
    Table(#[from] TableError),
}

fn did_you_mean(nearest: &[&'static str]) -> String {
    if nearest.is_empty() {
        format!("the schemes are {}", crate::registry::names().collect::<Vec<_>>().join(", "))
    } else {
        format!("did you mean {}?", nearest.join(" or "))
    }
}

/// `Ok` if a parameter is in its range.
pub(crate) fn check(
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
