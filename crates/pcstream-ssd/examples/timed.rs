//! Time of a timed request, for comparisons of two builds: uniform random requests of one page, 8,000 superblocks of 256
//! pages, greedy, closed loop of 32, rounds of a million requests. What is printed after the times must not differ
//! between builds that are to do the same.
//! `cargo run --release -p pcstream-ssd --example timed -- SPARE_FACTOR PROFILE READS_IN_4 ROUNDS` (0.07 default 0 5)
//!
//! Counted without a clock: `valgrind --tool=callgrind` (or `cachegrind --branch-sim=yes`), one round against two.

#[path = "../benches/uniform/mod.rs"]
mod uniform;

use std::time::Instant;

use pcstream_ssd::latency::LatencyHistogram;
use pcstream_ssd::timing::{Arrivals, TimedSsd, TimingSettings};
use pcstream_ssd::{LogicalPage, Profile, StreamId};
use uniform::{Uniform, device, request};

const REQUESTS: u64 = 1_000_000;

fn argument<T: std::str::FromStr>(at: usize, otherwise: T) -> T {
    let given = std::env::args().nth(at);
    given.map_or(otherwise, |text| {
        text.parse().unwrap_or_else(|_| panic!("argument {at}: {text:?} is no number"))
    })
}

fn main() {
    let (spare_factor, reads_in_4, rounds) = (argument(1, 0.07), argument(3, 0), argument(4, 5));
    let timing = match argument(2, "default".to_string()).as_str() {
        "default" => TimingSettings::default(),
        name => Profile::named(name).unwrap_or_else(|_| panic!("no profile {name:?}")).timing,
    };
    let mut ssd = device(8000, 256, spare_factor);
    let logical = ssd.geometry().logical_pages();
    let mut uniform = Uniform::new(logical);
    ssd.prefill(LogicalPage(0), logical).expect("in range");
    for _ in 0..3 * logical {
        let page = uniform.next(&ssd);
        ssd.write(page, 1, StreamId::DEFAULT).expect("in range");
    }
    let closed = Arrivals::ClosedLoop { queue_depth: 32 };
    let mut ssd = TimedSsd::new(ssd, &timing, closed).expect("legal");
    for _ in 0..rounds {
        let start = Instant::now();
        for number in 0..REQUESTS {
            request(&mut ssd, &mut uniform, number, reads_in_4);
        }
        println!("{:.0} ns per request", start.elapsed().as_secs_f64() * 1e9 / REQUESTS as f64);
    }
    let results = ssd.results();
    let quantiles = |of: &LatencyHistogram| [0.5, 0.99, 0.9999].map(|q| of.quantile_ns(q));
    println!(
        "{} flash pages; {} ns simulated; dies busy {} ns for the host, {} ns for GC; writes {:?} ns, reads {:?} ns",
        ssd.ssd().counters().flash_pages(),
        results.elapsed_ns,
        results.host_busy_ns,
        results.gc_busy_ns,
        quantiles(&results.write),
        quantiles(&results.read),
    );
}
