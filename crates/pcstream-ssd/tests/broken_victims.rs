//! Policies that are wrong on purpose: the checks must catch them.

use pcstream_ssd::{
    Density, DeviceSettings, GcDestination, LogicalPage, OwnVictims, Select, Spare, Ssd, StreamId,
    Superblocks,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// Picks the fullest candidate.
    Fullest,
    /// Picks superblocks that are free or open.
    NotClosed,
    /// Picks nothing.
    Nothing,
    /// Picks a head of its lists, which lie behind the superblocks.
    Head,
}

struct Broken(Fault);

impl Select for Broken {
    fn closed(&mut self, _table: &mut Superblocks, _superblock: u32, _frontier: u16, _now: u64) {}

    fn choose(&mut self, table: &Superblocks, _now: u64) -> u32 {
        let of = |closed| (1..=table.len()).filter(move |&s| table.is_closed(s) == closed);
        match self.0 {
            Fault::Fullest => of(true).max_by_key(|&s| table.valid(s)).unwrap_or(0),
            Fault::NotClosed => of(false).next().unwrap_or(0),
            Fault::Nothing => 0,
            Fault::Head => table.len() + 1,
        }
    }

    fn removed(&mut self, _table: &mut Superblocks, _superblock: u32) {}
}

fn run_with(fault: Fault) -> Ssd {
    let settings = DeviceSettings {
        logical_pages: 8 * 40,
        spare: Spare::Superblocks(50),
        superblock_pages: 8,
        streams: 1,
        gc_destination: GcDestination::Own,
        // Neither is used, nor refused.
        victim: "pool-greedy".parse().expect("known"),
        pools: vec![1.0; 7],
        ..DeviceSettings::default()
    };
    let broken = OwnVictims::new("broken", move |table| {
        table.add_heads(1);
        Box::new(Broken(fault))
    });
    let mut ssd = Ssd::with_own_victims(&settings, Density::Dense, &broken).expect("legal");
    for page in (0..4000).map(|i| i * 7919 % 320) {
        ssd.write(LogicalPage(page), 1, StreamId::DEFAULT).expect("in range");
    }
    ssd
}

#[test]
fn a_policy_that_picks_full_victims_is_rescued_and_shows_in_the_counters() {
    let ssd = run_with(Fault::Fullest);
    ssd.verify().expect("the state stays right");
    assert!(ssd.counters().rescues > 0);
    assert!(ssd.counters().waf() > 10.0, "and it shows in the WAF: {}", ssd.counters().waf());
}

#[test]
#[should_panic(expected = " of 50, counted from 1: expected a closed one")]
fn a_policy_that_picks_free_superblocks_is_stopped() {
    run_with(Fault::NotClosed);
}

#[test]
#[should_panic(expected = "chose superblock 0 of 50, counted from 1: expected a closed one")]
fn a_policy_that_picks_nothing_is_stopped() {
    run_with(Fault::Nothing);
}

#[test]
#[should_panic(expected = "chose superblock 51 of 50, counted from 1: expected a closed one")]
fn a_policy_that_picks_a_head_of_its_lists_is_stopped() {
    run_with(Fault::Head);
}
