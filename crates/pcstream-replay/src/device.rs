//! The device of a lane: with a clock or without. Both take the same decisions, so counters are equal.

use pcstream_ssd::timing::{Arrivals, TimedSsd, TimingError, TimingResults, TimingSettings};
use pcstream_ssd::{IoError, LogicalPage, Ssd, StreamId};

/// Requests outstanding in a closed loop, unless something else says otherwise.
const DEFAULT_QUEUE_DEPTH: u32 = 32;

/// How a device is timed.
#[derive(Clone, Debug, PartialEq)]
pub struct Clock {
    /// Parallelism and speeds.
    pub settings: TimingSettings,
    /// When requests arrive.
    pub arrivals: Arrivals,
}

impl Clock {
    /// Of a device with these speeds. `queue_depth` requests are outstanding at any time, a default number if it is not
    /// given; or requests arrive at the times of the trace, if it is an open loop.
    pub fn new(speeds: &TimingSettings, queue_depth: Option<u32>, open_loop: bool) -> Clock {
        let queue_depth = queue_depth.unwrap_or(DEFAULT_QUEUE_DEPTH);
        let arrivals = if open_loop { Arrivals::OpenLoop } else { Arrivals::ClosedLoop { queue_depth } };
        Clock { settings: speeds.clone(), arrivals }
    }
}

/// A device that writes in parts: one request of the trace is one request of the device, even where it
/// goes to several streams.
#[expect(clippy::large_enum_variant, reason = "one per lane, and the untimed path wants no indirection")]
pub(crate) enum Device {
    Untimed(Ssd),
    Timed(Box<TimedSsd>),
    /// Takes everything and does nothing: only the scheme is of interest. The device inside is the smallest.
    Unmodelled(Box<Ssd>),
}

impl Device {
    /// Puts a clock on `ssd`, if there is one.
    pub fn new(ssd: Ssd, clock: Option<&Clock>) -> Result<Device, TimingError> {
        Ok(match clock {
            None => Device::Untimed(ssd),
            Some(Clock { settings, arrivals }) => {
                Device::Timed(Box::new(TimedSsd::new(ssd, settings, *arrivals)?))
            }
        })
    }

    #[inline(always)]
    pub fn ssd(&self) -> &Ssd {
        match self {
            Device::Untimed(ssd) => ssd,
            Device::Timed(timed) => timed.ssd(),
            Device::Unmodelled(ssd) => ssd,
        }
    }

    /// Whether pages lie anywhere.
    pub fn is_modelled(&self) -> bool {
        !matches!(self, Device::Unmodelled(_))
    }

    #[inline(always)]
    pub fn begin_write(&mut self, time_ns: u64) {
        if let Device::Timed(timed) = self {
            timed.begin_write(time_ns);
        }
    }

    /// A part of the write begun.
    #[inline(always)]
    pub fn write(&mut self, first: LogicalPage, pages: u32, stream: StreamId) -> Result<(), IoError> {
        match self {
            Device::Untimed(ssd) => ssd.write(first, pages, stream),
            Device::Timed(timed) => timed.write_part(first, pages, stream),
            Device::Unmodelled(_) => Ok(()),
        }
    }

    #[inline(always)]
    pub fn end_write(&mut self) {
        if let Device::Timed(timed) = self {
            timed.end_write();
        }
    }

    /// Reads only take time.
    pub fn read(&mut self, time_ns: u64, first: LogicalPage, pages: u32) {
        if let Device::Timed(timed) = self {
            timed.read(time_ns, first, pages).expect("the replay has checked the address");
        }
    }

    pub fn discard(&mut self, first: LogicalPage, pages: u64) -> Result<(), IoError> {
        match self {
            Device::Untimed(ssd) => ssd.discard(first, pages),
            Device::Timed(timed) => timed.discard(first, pages),
            Device::Unmodelled(_) => Ok(()),
        }
    }

    /// What the clock showed.
    pub fn timing(&self) -> Option<TimingResults> {
        match self {
            Device::Untimed(_) | Device::Unmodelled(_) => None,
            Device::Timed(timed) => Some(timed.results()),
        }
    }
}
