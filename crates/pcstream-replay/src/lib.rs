#![doc = include_str!("../README.md")]
//! # Modules
//!
//! [`Replay`] runs many lanes (scheme x GC destination x device) over one stream of events; what is
//! the same for all of them (which lifetimes end, what each context writes) is computed once. A [`Plan`] says what
//! to run: [`recorded::replay`] runs it on a recorded trace, [`Fit`] in as many passes as memory asks for, and
//! [`LiveReplay`] while a trace is recorded.

pub mod addresses;
pub mod budget;
pub mod checkpoints;
pub mod classes;
mod device;
pub mod error;
pub mod fit;
mod follower;
pub mod groups;
pub mod lane;
pub mod lifetimes;
pub mod live;
pub mod liveness;
pub mod occupied;
pub mod part;
pub mod plan;
pub mod recorded;
pub mod replay;
mod rounds;
pub mod space;
pub mod survey;
pub mod writers;

pub use checkpoints::Progress;
pub use classes::Class;
pub use device::Clock;
pub use error::ReplayError;
pub use fit::{Fit, FitError, FrontEnd, Smaller};
pub use follower::{Follower, Placed};
pub use groups::{Fitted, Groups};
pub use lane::{InternalStreamResult, LaneResult, LaneSpec, StreamResult};
pub use lifetimes::{Lifetimes, Quartiles};
pub use live::{LiveReplay, LiveResults};
pub use part::{LeftOut, Part};
pub use plan::Plan;
pub use recorded::{Pass, Recorded, RecordedError};
pub use replay::{Replay, future_of};
pub use writers::{Writer, Writers};
