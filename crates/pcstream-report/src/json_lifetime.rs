//! Lifetimes in JSON: pages written by the host.

use pcstream_replay::Lifetimes;
use serde::Serialize;

/// Quartiles of lifetimes.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct LifetimeJson {
    /// First quartile.
    pub p25: u64,
    /// Median.
    pub p50: u64,
    /// Third quartile.
    pub p75: u64,
}

/// Null if nothing has ended.
pub(crate) fn lifetime(lifetimes: &Lifetimes) -> Option<LifetimeJson> {
    lifetimes.quartiles().map(|q| LifetimeJson { p25: q.p25, p50: q.p50, p75: q.p75 })
}
