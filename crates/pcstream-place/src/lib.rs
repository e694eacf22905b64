#![doc = include_str!("../README.md")]
//! # Modules
//!
//! `settings` are those of a scheme that places. `learner` feeds events to a scheme and keeps what it decides: `contexts` (context to stream and hint) and `files` (the
//! majority of each file). `sink` is where decisions go: one file per sink in `sinks`, one line each in its registry.
//! `placer` joins both with the saved table (`table_file`), and `worker` runs it in a thread of its own, so that whoever
//! captures never waits. A `spectator` looks on there. `device` says what a device can do, `answers` hands the table of streams to
//! programs that own one, `instance` keeps a second placer off it (by a `lock`), `notify` speaks to systemd, `summary` is what came
//! of it.

pub mod answers;
pub mod contexts;
pub mod device;
pub mod files;
pub mod hint;
pub mod instance;
pub mod learner;
mod lock;
pub mod notify;
pub mod placer;
mod replacement;
pub mod settings;
pub mod sink;
pub mod sinks;
pub mod spectator;
pub mod summary;
pub mod table_file;
#[cfg(test)]
mod testing;
pub mod worker;

pub use learner::Learner;
pub use placer::Placer;
pub use sink::{Outcome, Sink};
pub use spectator::Spectator;
pub use summary::Summary;
pub use worker::Worker;
