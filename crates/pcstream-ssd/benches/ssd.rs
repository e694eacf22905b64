//! Speed of the FTL. One criterion element is one page programmed in flash (host write or GC copy), so
//! that a rate is comparable whatever the WAF; in `sequential_overwrite` it is also one host page.
//!
//! The random benches reach the steady state before they measure, and draw the next pages
//! `uniform::AHEAD` writes before they are written, as a replay does that knows its next events.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use pcstream_ssd::timing::{Arrivals, TimedSsd, TimingSettings};
use pcstream_ssd::{LogicalPage, Profile, Ssd, StreamId};

mod uniform;

use uniform::{Uniform, device, request};

/// Flash pages per criterion iteration.
const UNIT_PAGES: u64 = 100_000;

fn run_flash_pages(ssd: &mut Ssd, uniform: &mut Uniform, flash_pages: u64) -> Duration {
    let end = ssd.counters().flash_pages() + flash_pages;
    let start = Instant::now();
    while ssd.counters().flash_pages() < end {
        for _ in 0..64 {
            let page = uniform.next(ssd);
            ssd.write(page, 1, StreamId::DEFAULT).expect("in range");
        }
    }
    // Scaled to what was asked for: the loop overshoots by up to a victim.
    let done = flash_pages + (ssd.counters().flash_pages() - end);
    start.elapsed().mul_f64(flash_pages as f64 / done as f64)
}

fn uniform_random(c: &mut Criterion) {
    let shapes =
        [("2m_pages", 7812, 256, 0.07), ("8000x256", 8000, 256, 0.07), ("8000x256_sf28", 8000, 256, 0.28)];
    let mut group = c.benchmark_group("uniform_random");
    group.throughput(Throughput::Elements(UNIT_PAGES));
    for (name, superblocks, pages, spare_factor) in shapes {
        let mut ssd = device(superblocks, pages, spare_factor);
        let logical = ssd.geometry().logical_pages();
        let mut uniform = Uniform::new(logical);
        ssd.prefill(LogicalPage(0), logical).expect("in range");
        run_flash_pages(&mut ssd, &mut uniform, 20 * logical);
        group.bench_function(name, |bencher| {
            bencher
                .iter_custom(|iterations| run_flash_pages(&mut ssd, &mut uniform, iterations * UNIT_PAGES));
        });
    }
    group.finish();
}

/// One element is one host request of one page.
fn timed(c: &mut Criterion) {
    const REQUESTS: u64 = 10_000;
    let mut group = c.benchmark_group("timed");
    group.throughput(Throughput::Elements(REQUESTS));
    let default = TimingSettings::default();
    let mqsim = Profile::named("mqsim").expect("it is known").timing;
    for (name, spare_factor, reads_in_4, timing) in [
        ("random_write_sf28", 0.28, 0, &default),
        ("random_write_sf7", 0.07, 0, &default),
        ("random_write_sf7_mqsim", 0.07, 0, &mqsim),
        ("random_3_reads_1_write_sf28", 0.28, 3, &default),
    ] {
        let mut ssd = device(8000, 256, spare_factor);
        let logical = ssd.geometry().logical_pages();
        let mut uniform = Uniform::new(logical);
        ssd.prefill(LogicalPage(0), logical).expect("in range");
        run_flash_pages(&mut ssd, &mut uniform, 10 * logical);
        let closed = Arrivals::ClosedLoop { queue_depth: 32 };
        let mut ssd = TimedSsd::new(ssd, timing, closed).expect("legal");
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                for number in 0..REQUESTS {
                    request(&mut ssd, &mut uniform, number, reads_in_4);
                }
            });
        });
    }
    group.finish();
}

fn sequential_overwrite(c: &mut Criterion) {
    let mut group = c.benchmark_group("sequential_overwrite");
    for pages in [1u32, 8, 256] {
        let mut ssd = device(8000, 256, 0.07);
        let logical = ssd.geometry().logical_pages() / u64::from(pages) * u64::from(pages);
        ssd.prefill(LogicalPage(0), logical).expect("in range");
        let mut at = 0;
        group.throughput(Throughput::Elements(1024 * u64::from(pages)));
        group.bench_function(format!("{pages}_page_writes"), |bencher| {
            bencher.iter(|| {
                for _ in 0..1024 {
                    ssd.write(LogicalPage(at), pages, StreamId::DEFAULT).expect("in range");
                    at = (at + u64::from(pages)) % logical;
                }
                black_box(ssd.counters().gc_pages)
            });
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20).measurement_time(Duration::from_secs(4));
    targets = uniform_random, sequential_overwrite, timed
}
criterion_main!(benches);
