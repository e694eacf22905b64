//! What to do instead of naming two places at once.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};

const ONE_EACH: &str = "it takes one file system: start one for each of them, at the same time";
const ONE_OF_DOCTOR: &str = "doctor looks at one directory or device at a time";

/// The error with a tip, if it is of `--on` that is given twice, or of a second place for `doctor`.
pub(super) fn with_tip(mut error: clap::Error, words: &[OsString]) -> clap::Error {
    let begins = |kind, with: &str| matches!(error.get(kind), Some(ContextValue::String(flag)) if flag.starts_with(with));
    let tip = match error.kind() {
        ErrorKind::ArgumentConflict
            if begins(ContextKind::InvalidArg, "--on ") && begins(ContextKind::PriorArg, "--on ") =>
        {
            ONE_EACH
        }
        ErrorKind::UnknownArgument
            if words.get(1).is_some_and(|word| word == "doctor") && !begins(ContextKind::InvalidArg, "-") =>
        {
            ONE_OF_DOCTOR
        }
        _ => return error,
    };
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    error
}
