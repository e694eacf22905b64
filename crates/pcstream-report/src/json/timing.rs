//! The part of the JSON that `--timing` adds: the clock, latencies and throughput. Units are in the names of the fields,
//! microseconds for latencies.

use pcstream_ssd::latency::LatencyHistogram;
use pcstream_ssd::timing::{Arrivals, TimingResults, TimingSettings};
use serde::Serialize;

/// A clock: parallelism, speeds (in nanoseconds), arrivals.
#[derive(Clone, Debug, Serialize)]
pub struct ClockJson {
    /// As a device file has them.
    #[serde(flatten)]
    pub settings: TimingSettings,
    /// Requests outstanding in a closed loop; null in an open one.
    pub queue_depth: Option<u32>,
}

/// Latencies in microseconds, at most 1.6 % above the exact value; the largest is exact.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct LatenciesJson {
    /// Requests.
    pub requests: u64,
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 99 %.
    pub p99: f64,
    /// 99.9 %.
    pub p99_9: f64,
    /// 99.99 %.
    pub p99_99: f64,
    /// Largest.
    pub max: f64,
}

/// Latencies by direction; null where there was no such request.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct LatencyJson {
    /// Of reads.
    pub read: Option<LatenciesJson>,
    /// Of writes.
    pub write: Option<LatenciesJson>,
}

/// Pages written over simulated time.
#[derive(Clone, Debug, Serialize)]
pub struct ThroughputJson {
    /// Length of an interval in milliseconds.
    pub interval_ms: f64,
    /// Host pages by interval; the last one may not be over.
    pub pages: Vec<u64>,
    /// Copies that garbage collection made for them.
    pub gc_pages: Vec<u64>,
}

pub(crate) fn clock(timing: &TimingResults) -> ClockJson {
    ClockJson {
        settings: timing.settings.clone(),
        queue_depth: match timing.arrivals {
            Arrivals::ClosedLoop { queue_depth } => Some(queue_depth),
            Arrivals::OpenLoop => None,
        },
    }
}

pub(crate) fn latencies(histogram: &LatencyHistogram) -> Option<LatenciesJson> {
    let us = |quantile| histogram.quantile_ns(quantile) as f64 / 1e3;
    (histogram.count() > 0).then(|| LatenciesJson {
        requests: histogram.count(),
        mean: histogram.mean_ns() / 1e3,
        p50: us(0.5),
        p99: us(0.99),
        p99_9: us(0.999),
        p99_99: us(0.9999),
        max: histogram.max_ns() as f64 / 1e3,
    })
}

pub(crate) fn throughput(timing: &TimingResults) -> ThroughputJson {
    ThroughputJson {
        interval_ms: timing.throughput.interval_ns as f64 / 1e6,
        pages: timing.throughput.pages.clone(),
        gc_pages: timing.throughput.gc_pages.clone(),
    }
}
