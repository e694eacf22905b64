#![doc = include_str!("../README.md")]
//! # Modules
//!
//! `server` makes a device in front of a `disk`, by `control` of the kernel's driver (`abi`), and keeps a `queue` of requests per
//! thread. Its `number` may have to be waited for, `making` says whose turn it is, and whether it is `in_use` says when it may end. `plan` says what a request becomes
//! on the disk. Streams come from a `table` in memory that the BPF program shares; `link` hands it over. `shared` is what queues have
//! in common.

mod abi;
mod control;
mod disk;
mod error;
mod in_use;
pub mod link;
mod making;
mod number;
mod plan;
mod queue;
mod server;
mod shared;
pub mod table;

pub use control::Control;
pub use disk::{IT_TAKES, Limits};
pub use error::UblkError;
pub use link::{Link, Served};
pub use making::remove_stale;
pub use server::{Event, Options, Server};
pub use shared::Totals;
