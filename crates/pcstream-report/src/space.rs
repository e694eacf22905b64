//! A changed address space in words.

use pcstream_replay::space::{Space, SpaceSettings};

use crate::human::page_bytes;

/// What was done to a trace, for reports; empty when nothing was.
pub fn describe(space: &Space, settings: SpaceSettings) -> String {
    let mut parts = Vec::new();
    let addresses = page_bytes(space.used_pages);
    match space.peak_live {
        Some(live) => parts
            .push(format!("at most {} of live data, on {addresses} of addresses packed", page_bytes(live))),
        None if settings.pack.is_some() => parts.push(format!("{addresses} of addresses packed")),
        None => {}
    }
    if space.static_pages > 0 {
        parts.push(format!("{} of static data", page_bytes(space.static_pages)));
    }
    if settings.no_discard {
        parts.push("without discards".to_owned());
    }
    parts.join(", ")
}
