//! How many files this process may have open. A capture keeps many, and so asks for more than it was given.

use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The limit that this process was given.
static GIVEN: OnceLock<Rlimit> = OnceLock::new();

/// The limit before this process raised it: programs that it starts get this one, for some close every file that they may have, or
/// use select(2).
pub(crate) fn given() -> Rlimit {
    *GIVEN.get_or_init(|| getrlimit(Resource::Nofile))
}

/// Files that this process may have open, after asking for as many as there may be.
pub(crate) fn allowed() -> usize {
    let most = given().maximum;
    // Whoever may not raise it keeps the limit there is.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: most, maximum: most });
    getrlimit(Resource::Nofile).current.map_or(usize::MAX, |files| files as usize)
}
