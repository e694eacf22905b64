//! Names that users give: of policies, GC destinations, profiles.

/// A name that none of the known things has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown {what} \"{found}\": expected one of {expected}")]
pub struct UnknownName {
    /// What was to be named.
    pub what: &'static str,
    /// The name as given.
    pub found: String,
    /// The names there are.
    pub expected: String,
}
