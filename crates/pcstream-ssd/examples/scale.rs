//! Cost per flash page and memory per logical page as the device grows, uniform random writes, greedy,
//! superblocks of 256 pages, Sf 7 %: `cargo run --release -p pcstream-ssd --example scale -- GIB...`
//!
//! Times are of the processor (from /proc, where there is one), not of the wall, so that a busy machine does not
//! show. Memory is the resident set after the run. GC is under way when the measurement begins, but large
//! devices are not in the steady state yet: the WAF is that of the time.

use std::time::Instant;

use pcstream_ssd::{DeviceSettings, GcDestination, LogicalPage, Ssd, StreamId};

const AHEAD: usize = 16;

/// Nanoseconds that this thread has run.
fn cpu_ns(start: Instant) -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let ran = stat.and_then(|text| text.split_whitespace().next()?.parse().ok());
    ran.unwrap_or_else(|| start.elapsed().as_nanos() as u64)
}

fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? * 1024)
}

fn measure(gib: u64) {
    let start = Instant::now();
    let settings = DeviceSettings {
        logical_pages: gib << 18,
        streams: 1,
        gc_destination: GcDestination::Own,
        ..DeviceSettings::default()
    };
    let before = resident_bytes();
    let mut ssd = match Ssd::new(&settings) {
        Ok(ssd) => ssd,
        Err(error) => return eprintln!("{gib} GiB: {error}"),
    };
    let u = settings.logical_pages;
    let filling = cpu_ns(start);
    ssd.prefill(LogicalPage(0), u).expect("in range");
    let filled = cpu_ns(start);
    let mut state = 1u64;
    let mut next = [0u64; AHEAD];
    let mut run = |ssd: &mut Ssd, writes: u64| {
        for i in 0..writes as usize {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let page = ((u128::from(state) * u128::from(u)) >> 64) as u64;
            ssd.prefetch(LogicalPage(page));
            let now = std::mem::replace(&mut next[i % AHEAD], page);
            ssd.prefetch_superblock(LogicalPage(next[(i + AHEAD / 2) % AHEAD]));
            ssd.write(LogicalPage(now), 1, StreamId::DEFAULT).expect("in range");
        }
    };
    run(&mut ssd, u / 8);
    ssd.start_counting();
    let warm = cpu_ns(start);
    run(&mut ssd, (u / 32).max(10_000_000));
    let done = cpu_ns(start);
    let counters = ssd.counters();
    let bytes = resident_bytes().zip(before).map_or(f64::NAN, |(after, before)| (after - before) as f64);
    println!(
        "{gib:>6} GiB  {:>11} superblocks  prefill {:>5.2} ns/page  random {:>6.2} ns/flash page  WAF {:.3}  {:.2} bytes/logical page",
        ssd.geometry().superblocks(),
        (filled - filling) as f64 / u as f64,
        (done - warm) as f64 / counters.flash_pages() as f64,
        counters.waf(),
        bytes / u as f64,
    );
}

fn main() {
    let sizes: Option<Vec<u64>> = std::env::args().skip(1).map(|a| a.parse().ok()).collect();
    match sizes {
        Some(sizes) if !sizes.is_empty() => sizes.into_iter().for_each(measure),
        _ => {
            eprintln!("usage: scale GIB... (sizes of devices, in GiB)");
            std::process::exit(2);
        }
    }
}
