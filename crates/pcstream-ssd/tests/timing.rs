//! Timing against cases that can be worked out by hand, to the nanosecond, and against laws that hold
//! for any device.

use pcstream_ssd::timing::{Arrivals, TimedSsd, TimingError, TimingSettings};
use pcstream_ssd::{
    DeviceSettings, GcDestination, LogicalPage, Observer, Spare, Ssd, StreamId, SuperblockId, VictimPolicy,
};

/// Program, read, erase, transfer in ns: numbers whose sums cannot be confused.
const PROGRAM: u64 = 600_000;
const READ: u64 = 50_000;
const ERASE: u64 = 3_000_000;
const TRANSFER: u64 = 7_000;

fn timing(channels: u32, dies_per_channel: u32, pages_per_program: u32, buffer_pages: u32) -> TimingSettings {
    TimingSettings {
        channels,
        dies_per_channel,
        pages_per_program,
        read_ns: READ,
        program_ns: PROGRAM,
        erase_ns: ERASE,
        transfer_ns: TRANSFER,
        command_ns: 0,
        buffer_pages,
    }
}

fn settings(superblock_pages: u32, data: u64, superblocks: u32) -> DeviceSettings {
    DeviceSettings {
        logical_pages: data * u64::from(superblock_pages),
        spare: Spare::Superblocks(superblocks),
        superblock_pages,
        streams: 1,
        gc_destination: GcDestination::Own,
        ..DeviceSettings::default()
    }
}

fn timed(device: &DeviceSettings, timing: &TimingSettings, arrivals: Arrivals) -> TimedSsd {
    TimedSsd::new(Ssd::new(device).expect("legal"), timing, arrivals).expect("legal")
}

const ONE: Arrivals = Arrivals::ClosedLoop { queue_depth: 1 };

#[test]
fn one_die_programs_one_page_after_the_other() {
    let mut ssd = timed(&settings(8, 10, 20), &timing(1, 1, 1, 1), ONE);
    assert_eq!(ssd.write(0, LogicalPage(0), 1, StreamId(0)), Ok(0), "the buffer takes the first page");
    for page in 1..20 {
        assert_eq!(ssd.write(0, LogicalPage(page), 1, StreamId(0)), Ok(TRANSFER + PROGRAM));
    }
    assert_eq!(ssd.results().elapsed_ns, 19 * (TRANSFER + PROGRAM));
}

#[test]
fn a_read_waits_for_the_program_before_it_and_not_for_other_dies() {
    let mut ssd = timed(&settings(8, 10, 20), &timing(2, 1, 1, 1), Arrivals::OpenLoop);
    ssd.write(0, LogicalPage(0), 1, StreamId(0)).unwrap(); // die 0, until TRANSFER + PROGRAM
    let late = 10 * PROGRAM;
    assert_eq!(ssd.read(late, LogicalPage(0), 1), Ok(READ + TRANSFER), "an idle die");
    ssd.write(late + READ + TRANSFER, LogicalPage(1), 1, StreamId(0)).unwrap(); // die 1
    ssd.write(late + READ + TRANSFER, LogicalPage(2), 1, StreamId(0)).unwrap(); // die 0, when the slot is free
    let slot_free = late + READ + TRANSFER + TRANSFER + PROGRAM;
    assert_eq!(ssd.read(slot_free, LogicalPage(1), 1), Ok(READ + TRANSFER), "die 1 is idle again");
    let waits = TRANSFER + PROGRAM - (READ + TRANSFER);
    let arrival = slot_free + READ + TRANSFER;
    assert_eq!(ssd.read(arrival, LogicalPage(0), 1), Ok(waits + READ + TRANSFER), "die 0 programs");
    assert_eq!(ssd.read(arrival, LogicalPage(2), 1), Ok(0), "still in the buffer");
    assert_eq!(ssd.read(arrival, LogicalPage(70), 1), Ok(0), "never written");
}

#[test]
fn a_read_goes_on_in_the_next_superblock() {
    let mut ssd = timed(&settings(8, 10, 20), &timing(1, 1, 2, 4), Arrivals::OpenLoop);
    ssd.write(0, LogicalPage(0), 32, StreamId(0)).unwrap();
    let late = 100 * PROGRAM;
    assert_eq!(ssd.read(late, LogicalPage(6), 2), Ok(READ + 2 * TRANSFER), "the last unit of a superblock");
    let units = 2 * (READ + 2 * TRANSFER);
    assert_eq!(ssd.read(2 * late, LogicalPage(6), 4), Ok(units), "and the first of the next");
}

#[test]
fn dies_on_channels_of_their_own_work_in_parallel() {
    for dies in [2u64, 4, 8] {
        let mut ssd = timed(&settings(8, 10, 20), &timing(dies as u32, 1, 1, dies as u32), ONE);
        let writes = 8 * dies;
        for page in 0..writes {
            ssd.write(0, LogicalPage(page), 1, StreamId(0)).unwrap();
        }
        // The last page waits for the programs of all before it on its die.
        assert_eq!(ssd.results().elapsed_ns, (writes / dies - 1) * (TRANSFER + PROGRAM), "{dies} dies");
    }
}

#[test]
fn dies_on_one_channel_share_its_transfers() {
    let mut ssd = timed(&settings(8, 10, 20), &timing(1, 4, 1, 4), ONE);
    for page in 0..4 {
        assert_eq!(ssd.write(0, LogicalPage(page), 1, StreamId(0)), Ok(0));
    }
    // Transfers at 0, 1, 2, 3 TRANSFER; the first program ends first, the next ones 1 TRANSFER later each.
    assert_eq!(ssd.write(0, LogicalPage(4), 1, StreamId(0)), Ok(TRANSFER + PROGRAM));
    for page in 5..8 {
        assert_eq!(ssd.write(0, LogicalPage(page), 1, StreamId(0)), Ok(TRANSFER));
    }
}

#[test]
fn planes_program_together() {
    let mut ssd = timed(&settings(8, 10, 20), &timing(1, 1, 4, 4), ONE);
    for page in 0..4 {
        assert_eq!(ssd.write(0, LogicalPage(page), 1, StreamId(0)), Ok(0));
    }
    assert_eq!(ssd.write(0, LogicalPage(4), 1, StreamId(0)), Ok(4 * TRANSFER + PROGRAM));
    assert_eq!(ssd.read(0, LogicalPage(4), 1), Ok(0), "a begun unit is in the buffer");
}

/// Pages 0 to 4 were written before there was a clock: of the second unit, one page.
#[test]
fn a_unit_begun_before_the_clock_is_completed() {
    let mut ssd = Ssd::new(&settings(8, 10, 20)).expect("legal");
    ssd.prefill(LogicalPage(0), 5).expect("in range");
    let mut ssd = TimedSsd::new(ssd, &timing(1, 1, 4, 4), ONE).expect("legal");
    for page in 0..3 {
        assert_eq!(ssd.write(0, LogicalPage(page), 1, StreamId(0)), Ok(0));
    }
    assert_eq!(ssd.results().host_busy_ns, 4 * TRANSFER + PROGRAM, "the unit is programmed");
    assert_eq!(ssd.write(0, LogicalPage(3), 1, StreamId(0)), Ok(0), "three of four slots were taken");
    assert_eq!(ssd.write(0, LogicalPage(3), 1, StreamId(0)), Ok(4 * TRANSFER + PROGRAM));
}

/// With `GcDestination::Own`, a program of pages of both counts for each by its pages: here a superblock is one unit, so most
/// units have pages of both.
#[test]
fn time_of_shared_programs_is_shared_by_pages() {
    let share = |gc_destination| {
        let device = DeviceSettings { gc_destination, ..settings(8, 100, 130) };
        let mut ssd = timed(&device, &timing(1, 1, 8, 64), ONE);
        let mut random = 1u64;
        for page in (0..800)
            .chain(std::iter::repeat_with(|| {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (random >> 33) % 800
            }))
            .take(20_000)
        {
            ssd.write(0, LogicalPage(page), 1, StreamId(0)).expect("in range");
        }
        let counters = ssd.ssd().counters().clone();
        (ssd.results().gc_share(), counters.gc_pages as f64 / counters.flash_pages() as f64)
    };
    let (own, copies) = share(GcDestination::Own);
    // Reads of copies and erases come on top.
    assert!(copies > 0.4 && own > copies, "{own} of the time for {copies} of the pages");
    let (internal, copies_apart) = share(GcDestination::Internal);
    assert!((own - internal - (copies - copies_apart)).abs() < 0.05, "{own} and {internal}");
}

#[test]
fn a_buffer_absorbs_a_burst_of_its_size() {
    let mut ssd = timed(&settings(8, 10, 20), &timing(1, 1, 1, 16), Arrivals::OpenLoop);
    for page in 0..16 {
        assert_eq!(ssd.write(1000, LogicalPage(page), 1, StreamId(0)), Ok(0));
    }
    assert_eq!(ssd.write(1000, LogicalPage(16), 1, StreamId(0)), Ok(TRANSFER + PROGRAM));
    assert_eq!(ssd.write(1000, LogicalPage(17), 1, StreamId(0)), Ok(2 * (TRANSFER + PROGRAM)));
    // Long after, the buffer is empty again.
    assert_eq!(ssd.write(1_000_000_000, LogicalPage(18), 1, StreamId(0)), Ok(0));
    assert_eq!(ssd.results().write.max_ns(), 2 * (TRANSFER + PROGRAM));
}

/// One die, 5 superblocks of 2 pages for 2 superblocks of data. Six pages fill three superblocks; the
/// next needs GC, which finds an empty victim and erases it.
#[test]
fn a_read_waits_for_an_erase() {
    let mut ssd = timed(&settings(2, 2, 4), &timing(1, 1, 1, 100), Arrivals::OpenLoop);
    for page in [0, 1, 0, 1, 2, 3] {
        ssd.write(0, LogicalPage(page), 1, StreamId(0)).unwrap();
    }
    assert_eq!(ssd.ssd().counters().erases, 0);
    assert_eq!(ssd.ssd().free_superblocks(), 1);
    let idle = 1_000_000_000;
    ssd.write(idle, LogicalPage(0), 1, StreamId(0)).unwrap();
    assert_eq!(ssd.ssd().counters().erases, 1);
    assert_eq!(ssd.ssd().counters().gc_pages, 0);
    // The erase was decided first and waits in the pipeline, which is one operation long; the page is
    // programmed. The next erase pushes the first one out.
    ssd.write(idle, LogicalPage(1), 1, StreamId(0)).unwrap();
    ssd.write(idle, LogicalPage(0), 1, StreamId(0)).unwrap();
    assert_eq!(ssd.ssd().counters().erases, 2);
    // Since then: 2 programs, 1 erase (the superblock now in use), 1 program.
    let busy = 3 * (TRANSFER + PROGRAM) + ERASE;
    assert_eq!(ssd.read(idle, LogicalPage(2), 1), Ok(busy + READ + TRANSFER));
}

/// A device under random overwrites: returns it, and how many units GC read.
fn busy(
    timing: &TimingSettings,
    device: &DeviceSettings,
    arrivals: Arrivals,
    reads: bool,
) -> (TimedSsd, u64) {
    let mut plain = Ssd::new(device).expect("legal");
    let u = device.logical_pages;
    plain.prefill(LogicalPage(0), u).unwrap();
    plain.start_counting();
    let mut start = Ssd::new(device).expect("legal");
    start.prefill(LogicalPage(0), u).unwrap();
    start.start_counting();
    let mut ssd = TimedSsd::new(start, timing, arrivals).expect("legal");
    let mut unit_reads = UnitReads { pages_per_program: timing.pages_per_program, reads: 0, last: None };
    let mut state = 1u64;
    for i in 0..20 * u {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let page = LogicalPage((state >> 33) % u);
        if reads && i % 3 == 0 {
            ssd.read(i * 1000, page, 1).unwrap();
        } else {
            let stream = StreamId((page.0 % u64::from(device.streams)) as u8);
            ssd.write(i * 1000, page, 1, stream).unwrap();
            plain.write_observed(page, 1, stream, &mut unit_reads).unwrap();
        }
    }
    ssd.ssd().verify().unwrap();
    assert_eq!(ssd.ssd().counters(), plain.counters(), "a clock changes no decision");
    (ssd, unit_reads.reads)
}

/// Counts the units that GC reads: all valid pages of a unit are read together.
struct UnitReads {
    pages_per_program: u32,
    reads: u64,
    /// Victim and unit read last.
    last: Option<(SuperblockId, u32)>,
}

impl Observer for UnitReads {
    fn gc_copies(&mut self, victim: SuperblockId, sources: &[u32], _to: SuperblockId, _to_offset: u32) {
        for source in sources {
            let unit = Some((victim, source / self.pages_per_program));
            self.reads += u64::from(self.last != unit);
            self.last = unit;
        }
    }

    fn erase(&mut self, _superblock: SuperblockId, _valid_pages: u32) {
        self.last = None;
    }
}

#[test]
fn a_clock_changes_no_decision_whatever_the_destination_and_policy() {
    for gc_destination in GcDestination::ALL {
        for victim in VictimPolicy::known() {
            let device = DeviceSettings { streams: 3, gc_destination, victim, ..settings(16, 40, 52) };
            for planes in [1, 4] {
                busy(&timing(2, 2, planes, 64), &device, Arrivals::ClosedLoop { queue_depth: 8 }, true);
            }
        }
    }
    let device = DeviceSettings { streams: 3, ..settings(16, 40, 52) };
    busy(&timing(2, 2, 2, 4), &device, Arrivals::OpenLoop, true);
}

#[test]
fn a_saturated_device_takes_the_sum_of_its_work_divided_by_its_dies() {
    for (channels, dies, planes) in [(1, 1, 1), (4, 1, 1), (4, 2, 2), (8, 4, 2)] {
        let device = settings(128, 200, 240);
        let buffer = 4 * channels * dies * planes;
        let queue_depth = 64;
        let timing = timing(channels, dies, planes, buffer);
        let (ssd, unit_reads) = busy(&timing, &device, Arrivals::ClosedLoop { queue_depth }, false);
        let (counters, results) = (ssd.ssd().counters(), ssd.results());
        assert!(counters.waf() > 1.5);
        let all_dies = u64::from(channels * dies);
        let programs = counters.flash_pages() / u64::from(planes) * (PROGRAM + u64::from(planes) * TRANSFER);
        let reads = unit_reads * READ + counters.gc_pages * TRANSFER;
        let work = programs + reads + counters.erases * ERASE * all_dies;
        let least = work as f64 / all_dies as f64;
        let ratio = results.elapsed_ns as f64 / least;
        println!(
            "{channels} x {dies} x {planes}: {ratio:.4} of the least time, GC share {:.3}",
            results.gc_share()
        );
        // Above 1: gaps on dies. Below: work that is still queued when the last write is in the buffer.
        assert!((0.99..1.02).contains(&ratio), "{channels} x {dies} x {planes}: {ratio}");
        if all_dies == 1 {
            assert!((0.999..1.001).contains(&ratio), "one die is never idle: {ratio}");
        }
        assert!(results.gc_share() > 0.3 && results.gc_share() < 0.95);
    }
}

/// Eight dies: superblocks of three dies, of one stripe, of a stripe and one die, of two stripes less a die.
#[test]
fn writes_use_all_dies_of_superblocks_that_are_no_whole_stripes() {
    for superblock_pages in [6, 16, 18, 30] {
        let device = settings(superblock_pages, 200, 404);
        let mut ssd = timed(&device, &timing(4, 2, 2, 64), Arrivals::ClosedLoop { queue_depth: 64 });
        for page in 0..device.logical_pages {
            ssd.write(0, LogicalPage(page), 1, StreamId(0)).unwrap();
        }
        assert_eq!(ssd.ssd().counters().gc_pages, 0);
        let dies = u64::from(superblock_pages / 2).min(8);
        let least = (device.logical_pages / 2 / dies * (PROGRAM + 2 * TRANSFER)) as f64;
        let ratio = ssd.results().elapsed_ns as f64 / least;
        assert!((0.9..1.01).contains(&ratio), "superblocks of {superblock_pages} pages: {ratio}");
    }
}

#[test]
fn littles_law_holds_in_a_closed_loop() {
    for queue_depth in [1, 4, 32] {
        let device = settings(64, 100, 120);
        let timing = TimingSettings { command_ns: 3_000, ..timing(4, 2, 1, 32) };
        let (ssd, _) = busy(&timing, &device, Arrivals::ClosedLoop { queue_depth }, true);
        let results = ssd.results();
        let requests = (results.read.count() + results.write.count()) as f64;
        let waited = results.read.mean_ns() * results.read.count() as f64
            + results.write.mean_ns() * results.write.count() as f64;
        let outstanding = waited / requests * results.iops().expect("time went by") / 1e9;
        assert!((outstanding / f64::from(queue_depth) - 1.0).abs() < 0.01, "{outstanding} of {queue_depth}");
    }
}

#[test]
fn nonsense_is_refused() {
    let try_out = |timing: &TimingSettings| {
        TimedSsd::new(Ssd::new(&settings(8, 10, 20)).unwrap(), timing, Arrivals::OpenLoop)
            .map(|_| ())
            .unwrap_err()
    };
    assert_eq!(try_out(&timing(0, 1, 1, 1)), TimingError::Zero { what: "channels" });
    assert_eq!(
        try_out(&timing(1, 1, 3, 9)),
        TimingError::PartialUnit { superblock_pages: 8, pages_per_program: 3 }
    );
    assert!(try_out(&timing(1, 1, 3, 9)).to_string().ends_with(
        "is not a multiple of pages_per_program = 3: choose a multiple, or another pages_per_program in the device's \
         table [timing]"
    ));
    assert!(matches!(try_out(&timing(1, 1, 4, 3)), TimingError::BufferTooSmall { found: 3, needed: 4, .. }));
    assert!(matches!(try_out(&timing(1 << 16, 1 << 16, 1 << 16, 1)), TimingError::TooManyDies { .. }));
    let slow = TimingSettings { transfer_ns: u64::MAX, ..timing(1, 1, 1, 1) };
    assert_eq!(try_out(&slow), TimingError::TooLong { what: "transfer_ns", found: u64::MAX });
    let none = Arrivals::ClosedLoop { queue_depth: 0 };
    let device = Ssd::new(&settings(8, 10, 20)).unwrap();
    assert!(matches!(TimedSsd::new(device, &timing(1, 1, 1, 1), none), Err(TimingError::Zero { .. })));
}

/// A burst after a pause finds the work of GC done; the same burst without the pause shares the die with it.
#[test]
fn idle_time_is_used_for_gc() {
    let device = settings(8, 10, 14);
    let latencies = |pause: u64| {
        let mut ssd = timed(&device, &timing(1, 1, 1, 1), Arrivals::OpenLoop);
        let mut random = 1u64;
        let mut at = 0;
        let mut write = |ssd: &mut TimedSsd, at: u64| {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let page = (u128::from(random) * 80) >> 64;
            ssd.write(at, LogicalPage(page as u64), 1, StreamId(0)).unwrap()
        };
        // As fast as the buffer takes them, until a victim has just been chosen.
        while ssd.ssd().counters().erases < 20 {
            at += write(&mut ssd, at);
        }
        (0..3)
            .map(|_| {
                at += pause;
                let latency = write(&mut ssd, at);
                at += latency;
                latency
            })
            .collect::<Vec<u64>>()
    };
    let second = 1_000_000_000;
    assert_eq!(latencies(second), [0, 0, 0], "the buffer is empty and the die idle");
    assert!(latencies(0).iter().any(|&latency| latency > PROGRAM + TRANSFER), "copies take the die");
}

/// A write in parts is one request with the latency of a whole one.
#[test]
fn a_write_in_parts_is_one_request() {
    let device = settings(8, 10, 20);
    let mut whole = timed(&device, &timing(2, 1, 1, 2), ONE);
    let mut parts = timed(&device, &timing(2, 1, 1, 2), ONE);
    for first in (0..64).step_by(8) {
        let latency = whole.write(0, LogicalPage(first), 8, StreamId(0)).unwrap();
        parts.begin_write(0);
        parts.write_part(LogicalPage(first), 3, StreamId(0)).unwrap();
        parts.write_part(LogicalPage(first + 3), 5, StreamId(0)).unwrap();
        assert_eq!(parts.end_write(), latency);
    }
    assert_eq!(parts.results().requests, 8);
    assert_eq!(parts.results().throughput, whole.results().throughput);
    assert_eq!(parts.results().throughput.pages.iter().sum::<u64>(), 64);
}

#[test]
fn results_may_be_asked_for_within_the_first_write() {
    let mut ssd = timed(&settings(8, 10, 20), &timing(2, 1, 1, 2), Arrivals::OpenLoop);
    ssd.begin_write(100);
    ssd.write_part(LogicalPage(0), 3, StreamId(0)).unwrap();
    assert_eq!((ssd.results().elapsed_ns, ssd.results().requests), (0, 0));
    let latency = ssd.end_write();
    assert_eq!((ssd.results().elapsed_ns, ssd.results().requests), (latency, 1));
}

#[test]
fn the_end_of_time_is_an_arrival_like_others() {
    let clock = TimingSettings { command_ns: 5, ..timing(1, 1, 1, 1) };
    let mut ssd = timed(&settings(8, 10, 20), &clock, Arrivals::OpenLoop);
    assert_eq!(ssd.write(u64::MAX, LogicalPage(0), 2, StreamId(0)), Ok(5 + TRANSFER + PROGRAM));
    assert_eq!(ssd.read(u64::MAX, LogicalPage(0), 1), Ok(5), "it is in the buffer");
    assert_eq!(ssd.results().requests, 2);
}

/// Pages of a unit are sensed together and sent one after the other.
#[test]
fn pages_of_a_unit_are_read_together() {
    let mut ssd = timed(&settings(8, 10, 20), &timing(2, 1, 2, 4), Arrivals::OpenLoop);
    ssd.write(0, LogicalPage(0), 8, StreamId(0)).unwrap();
    let late = 10 * PROGRAM;
    assert_eq!(ssd.read(late, LogicalPage(0), 1), Ok(READ + TRANSFER));
    assert_eq!(ssd.read(2 * late, LogicalPage(0), 2), Ok(READ + 2 * TRANSFER));
    assert_eq!(ssd.read(3 * late, LogicalPage(1), 2), Ok(READ + TRANSFER), "two units on two dies");
    assert_eq!(ssd.read(4 * late, LogicalPage(0), 4), Ok(READ + 2 * TRANSFER));
    assert_eq!(ssd.read(5 * late, LogicalPage(0), 8), Ok(2 * (READ + 2 * TRANSFER)), "two units a die");
}

/// 20 ms of arrivals on a device that is busy with them for seconds.
#[test]
fn throughput_is_counted_where_requests_complete_and_copies_are_read() {
    let device = settings(64, 40, 48);
    let (ssd, _) = busy(&timing(1, 2, 1, 8), &device, Arrivals::OpenLoop, false);
    let (results, counters) = (ssd.results(), ssd.ssd().counters());
    let throughput = &results.throughput;
    let intervals = throughput.pages.len() as u64;
    assert!(results.elapsed_ns > 10 * counters.host_pages * 1000, "the device is behind");
    assert_eq!(intervals - 1, results.elapsed_ns / throughput.interval_ns, "intervals span the run");
    assert_eq!(throughput.pages.iter().sum::<u64>(), counters.host_pages);
    assert_eq!(throughput.gc_pages.iter().sum::<u64>(), counters.gc_pages);
    let two_dies = 2 * throughput.interval_ns / (TRANSFER + PROGRAM);
    for (interval, (pages, copies)) in throughput.pages.iter().zip(&throughput.gc_pages).enumerate() {
        assert!(*pages <= two_dies + 8, "{pages} pages in interval {interval}: two dies program {two_dies}");
        // Of the last interval, copies may be left of one victim.
        let all = pages + copies;
        let left = if interval as u64 + 1 == intervals { 64 } else { 0 };
        assert!(all <= two_dies + 16 + left, "{all} pages in interval {interval}");
    }
}

/// A request counts as a whole when it is complete; an idle device reads copies before the next request.
#[test]
fn a_request_counts_when_it_is_complete() {
    let mut ssd = timed(&settings(8, 10, 20), &timing(1, 1, 1, 1), Arrivals::OpenLoop);
    let latency = ssd.write(500, LogicalPage(0), 8, StreamId(0)).unwrap();
    assert_eq!(latency, 7 * (TRANSFER + PROGRAM));
    let throughput = ssd.results().throughput;
    assert_eq!((throughput.interval_ns, throughput.pages), (1 << 20, vec![0, 0, 0, 0, 8]));
}
