//! `none`: a dry run. The summary says what would be done; nothing is.

use crate::sink::Sink;

/// Does nothing.
#[derive(Debug, Default)]
pub struct Nothing;

impl Sink for Nothing {
    fn name(&self) -> &'static str {
        "none"
    }
}
