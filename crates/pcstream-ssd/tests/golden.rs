//! Golden numbers: what every policy and every profile makes of one small workload. A change of any
//! decision shows here as a diff. A failing test prints the command that renews them.

#[path = "common/golden_table.rs"]
mod golden_table;

use std::fmt::Write;

use golden_table::assert_golden;
use pcstream_ssd::profile::KNOWN;
use pcstream_ssd::timing::{Arrivals, TimedSsd};
use pcstream_ssd::{DeviceSettings, GcDestination, LogicalPage, Spare, Ssd, StreamId, VictimPolicy};

/// Requests of 1 to 4 pages: 60 % to the hottest tenth (stream 1), 30 % to the next three tenths
/// (stream 2), the rest anywhere (stream 0), every 50th a discard.
struct Workload {
    state: u64,
    pages: u64,
    streams: u8,
}

enum Request {
    Write(LogicalPage, u32, StreamId),
    Discard(LogicalPage, u64),
}

impl Workload {
    fn below(&mut self, n: u64) -> u64 {
        self.state = self.state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((u128::from(self.state) * u128::from(n)) >> 64) as u64
    }

    fn next(&mut self) -> Request {
        let (u, class) = (self.pages, self.below(10));
        let (from, to, stream) = match class {
            0..6 => (0, u / 10, 1),
            6..9 => (u / 10, 4 * u / 10, 2),
            _ => (0, u, 0),
        };
        let first = from + self.below(to - from);
        let pages = (1 + self.below(4)).min(u - first);
        if self.below(50) == 0 {
            Request::Discard(LogicalPage(first), pages)
        } else {
            Request::Write(LogicalPage(first), pages as u32, StreamId(stream % self.streams))
        }
    }
}

fn filled(settings: &DeviceSettings) -> Ssd {
    let mut ssd = Ssd::new(settings).expect("legal");
    ssd.prefill(LogicalPage(0), settings.logical_pages * 9 / 10).expect("in range");
    ssd.start_counting();
    ssd
}

#[test]
fn policies() {
    let mut table = format!(
        "{:<20} {:<9} {:>7} {:>8} {:>7} {:>5}\n",
        "victim", "gc", "waf", "gc_pages", "erases", "worn"
    );
    for victim in VictimPolicy::known() {
        for gc_destination in GcDestination::ALL {
            let settings = DeviceSettings {
                logical_pages: 200 * 32,
                spare: Spare::Superblocks(240),
                superblock_pages: 32,
                streams: 3,
                gc_destination,
                victim,
                ..DeviceSettings::default()
            };
            let mut ssd = filled(&settings);
            let mut workload = Workload { state: 1, pages: settings.logical_pages, streams: 3 };
            for _ in 0..40_000 {
                match workload.next() {
                    Request::Write(first, pages, stream) => {
                        ssd.write(first, pages, stream).expect("in range")
                    }
                    Request::Discard(first, pages) => ssd.discard(first, pages).expect("in range"),
                }
            }
            ssd.verify().expect("all invariants");
            let (c, wear) = (ssd.counters(), ssd.wear());
            let (name, gc) = (victim.to_string(), gc_destination.name());
            writeln!(
                table,
                "{name:<20} {gc:<9} {:>7.4} {:>8} {:>7} {:>5}",
                c.waf(),
                c.gc_pages,
                c.erases,
                wear.most
            )
            .expect("a string takes it");
        }
    }
    assert_golden("policies", &table);
}

#[test]
fn profiles() {
    let mut table = format!(
        "{:<12} {:>7} {:>8} {:>9} {:>10} {:>10} {:>10}\n",
        "profile", "waf", "erases", "iops", "w p50 us", "w p99 us", "w max us"
    );
    for named in KNOWN {
        let profile = (named.make)().scaled_to(1 << 17);
        let closed = Arrivals::ClosedLoop { queue_depth: 32 };
        let mut ssd = TimedSsd::new(filled(&profile.device), &profile.timing, closed).expect("legal");
        let mut workload = Workload { state: 1, pages: 1 << 17, streams: profile.device.streams };
        for _ in 0..250_000 {
            match workload.next() {
                Request::Write(first, pages, stream) => {
                    ssd.write(0, first, pages, stream).expect("in range");
                }
                Request::Discard(first, pages) => ssd.discard(first, pages).expect("in range"),
            }
        }
        ssd.ssd().verify().expect("all invariants");
        let (c, t) = (ssd.ssd().counters(), ssd.results());
        let us = |ns: u64| ns / 1000;
        writeln!(
            table,
            "{:<12} {:>7.4} {:>8} {:>9.0} {:>10} {:>10} {:>10}",
            named.name,
            c.waf(),
            c.erases,
            t.iops().expect("time went by"),
            us(t.write.quantile_ns(0.5)),
            us(t.write.quantile_ns(0.99)),
            us(t.write.max_ns())
        )
        .expect("a string takes it");
    }
    assert_golden("profiles", &table);
}
