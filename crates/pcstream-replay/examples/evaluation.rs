//! An evaluation of one's own, without a change to any crate: workload, scheme, victim policy and device.
//!
//!     cargo run -p pcstream-replay --example evaluation
//!
//! The workload is a log, deleted as a whole and written again, beside a table whose rows are updated evenly. The scheme
//! parts new pages from overwritten ones. The victim policy is FIFO. Both run beside registered ones, in all combinations,
//! on a device of 4 channels with 15 % overprovisioning, with latencies and wear.

use std::convert::Infallible;
use std::error::Error;
use std::sync::Arc;

use pcstream_placement::{Placement, Scheme, SchemeFactory, Stream, configure, factory};
use pcstream_replay::{Clock, LaneResult, LaneSpec, Plan, recorded};
use pcstream_ssd::timing::{Arrivals, TimingSettings};
use pcstream_ssd::{DeviceSettings, GcDestination, OwnVictims, Select, Spare, Superblocks};
use pcstream_trace::generators::Random;
use pcstream_trace::{Batch, Context, ContextId, Event, Extent, Lba, Op, Tables};

const PAGES: u64 = 1 << 14;
const LOG_PAGES: u64 = PAGES / 8;
const LOG: ContextId = ContextId(1);
const TABLE: ContextId = ContextId(2);

/// The workload: an iterator of batches, as a trace read from disk is one. Its writes are 10 us apart.
struct LogAndTable {
    random: Random,
    /// Writes done, and writes of the log among them.
    done: u64,
    logged: u64,
    writes: u64,
}

impl LogAndTable {
    fn new(writes: u64) -> LogAndTable {
        LogAndTable { random: Random::new(1), done: 0, logged: 0, writes }
    }

    fn event(&self, op: Op, page: u64, pages: u64, context: ContextId) -> Event {
        Event { time_ns: self.done * 10_000, op, context, ..Event::write(page, pages as u32) }
    }
}

impl Iterator for LogAndTable {
    type Item = Result<Batch, Infallible>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done == self.writes {
            return None;
        }
        let mut batch = Batch::default();
        if self.done == 0 {
            // A context is in its batch before the first event that names it; ids count from 1.
            batch.contexts = vec![Context::label(LOG, "log"), Context::label(TABLE, "table")];
        }
        for _ in 0..4096.min(self.writes - self.done) {
            if self.random.unit() < 0.5 {
                let page = self.logged % LOG_PAGES;
                if page == 0 {
                    batch.events.push(self.event(Op::Discard, 0, LOG_PAGES, LOG));
                }
                batch.events.push(self.event(Op::Write, page, 1, LOG));
                self.logged += 1;
            } else {
                let page = LOG_PAGES + self.random.below(PAGES - LOG_PAGES);
                batch.events.push(self.event(Op::Write, page, 1, TABLE));
            }
            self.done += 1;
        }
        Some(Ok(batch))
    }
}

/// Pages that held no data to S0, overwritten ones to S1.
struct NewOrOld {
    alive: Vec<bool>,
}

impl NewOrOld {
    /// Sets whether the pages of an event hold data.
    fn set(&mut self, event: &Event, alive: bool) {
        self.alive[event.lba.0 as usize..][..event.pages as usize].fill(alive);
    }
}

impl Scheme for NewOrOld {
    fn place(&mut self, event: &Event, _now: u64, _tables: &Tables, out: &mut Vec<Placement>) {
        let stream = Stream(self.alive[event.lba.0 as usize].into());
        out.push(Placement { pages: event.pages, stream });
        self.set(event, true);
    }

    fn discard(&mut self, event: &Event, _now: u64, _tables: &Tables) {
        self.set(event, false);
    }
}

/// The oldest superblock. Lists of candidates are kept in the table of superblocks, behind a head.
struct Oldest {
    head: u32,
}

impl Select for Oldest {
    fn closed(&mut self, table: &mut Superblocks, superblock: u32, _frontier: u16, _now: u64) {
        table.link_last(self.head, superblock);
    }

    fn choose(&mut self, table: &Superblocks, _now: u64) -> u32 {
        // A list that is empty ends at its own head.
        Some(table.next(self.head)).filter(|&first| first != self.head).unwrap_or(0)
    }

    fn removed(&mut self, table: &mut Superblocks, superblock: u32) {
        table.unlink(superblock);
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    for lane in evaluate()? {
        let LaneResult { scheme, victims, counters, wear, .. } = &lane;
        let time = lane.timing.as_ref().expect("every lane has a clock");
        println!(
            "{scheme:18} {victims:7} WAF {:.3}, {} erases, {:.0} (at most {}) each; {:.0} IOPS, 99 % of writes in {} us",
            counters.waf(),
            counters.erases,
            wear.mean,
            wear.most,
            time.iops().unwrap_or(f64::NAN),
            time.write.quantile_ns(0.99) / 1000,
        );
    }
    Ok(())
}

/// Every scheme with every policy.
fn evaluate() -> Result<Vec<LaneResult>, Box<dyn Error>> {
    let device = DeviceSettings {
        logical_pages: PAGES,
        spare: Spare::Overprovisioning(0.15),
        superblock_pages: 64,
        streams: 4,
        gc_destination: GcDestination::Internal,
        ..DeviceSettings::default()
    };
    let clock = Clock {
        // An erase of a superblock this small takes a small share of a whole one's time.
        settings: TimingSettings { channels: 4, erase_ns: 1_000, ..TimingSettings::default() },
        arrivals: Arrivals::ClosedLoop { queue_depth: 8 },
    };
    let new_or_old = factory("new-or-old", |_| Ok(Box::new(NewOrOld { alive: vec![true; PAGES as usize] })));
    let oldest = OwnVictims::new("oldest", |table| Box::new(Oldest { head: table.add_heads(1) }));
    let schemes: [Arc<dyn SchemeFactory>; 4] = [
        Arc::new(configure("baseline")?),
        new_or_old,
        Arc::new(configure("pcstream")?),
        Arc::new(configure("oracle")?),
    ];
    let lane = |scheme: &Arc<dyn SchemeFactory>, victims| LaneSpec {
        victims,
        clock: Some(clock.clone()),
        ..LaneSpec::new(scheme.clone(), device.clone())
    };
    let lanes = [None, Some(oldest)].into_iter();
    let lanes = lanes.flat_map(|victims| schemes.each_ref().map(|scheme| lane(scheme, victims.clone())));
    // All pages hold data before the first event. The oracle sees the workload once before it is replayed.
    let prefill = vec![Extent { lba: Lba(0), pages: PAGES }];
    let plan = Plan { lanes: lanes.collect(), prefill, ..Plan::default() };
    let recorded = recorded::replay(&plan, || LogAndTable::new(16 * PAGES), |_, _| {})?;
    Ok(recorded.replay.results())
}

#[cfg(test)]
mod tests {
    #[test]
    fn own_schemes_and_victims_run_beside_registered_ones() {
        let results = super::evaluate().unwrap();
        let lane = |scheme: &str, victims: &str| {
            results.iter().find(|lane| lane.scheme == scheme && lane.victims == victims).unwrap()
        };
        let waf = |scheme, victims| lane(scheme, victims).waf().unwrap();
        assert_eq!(results.len(), 8);
        assert!(waf("baseline", "oldest") > waf("baseline", "greedy"), "FIFO copies more");
        for scheme in ["new-or-old", "pcstream", "oracle"] {
            assert!(waf(scheme, "greedy") < 0.97 * waf("baseline", "greedy"), "{scheme}");
        }
        assert!(lane("new-or-old", "greedy").streams[1].host_pages > 0);
    }
}
