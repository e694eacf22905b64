//! A victim policy of one's own, without a change to any crate:
//!
//!     cargo run -p pcstream-ssd --example custom_victim
//!
//! The policy is greedy, but lets a superblock rest after it was closed: pages of it that are hot have time to
//! die. Candidates are searched one by one, which is slow on large devices; the policies of the crate keep order.

use pcstream_ssd::{
    Density, DeviceSettings, GeometryError, LogicalPage, OwnVictims, Select, Spare, Ssd, StreamId,
    Superblocks,
};

/// The fewest valid pages among the candidates that were closed `rest` host pages ago or earlier; among all
/// candidates if there is none.
struct Rested {
    rest: u64,
    /// When each superblock was closed, by number.
    closed_at: Vec<u64>,
}

impl Select for Rested {
    fn closed(&mut self, _table: &mut Superblocks, superblock: u32, _frontier: u16, now: u64) {
        self.closed_at[superblock as usize] = now;
    }

    fn choose(&mut self, table: &Superblocks, now: u64) -> u32 {
        let tired = |superblock: u32| now - self.closed_at[superblock as usize] < self.rest;
        let candidates = (1..=table.len()).filter(|&superblock| table.is_closed(superblock));
        candidates.min_by_key(|&superblock| (tired(superblock), table.valid(superblock))).unwrap_or(0)
    }

    fn removed(&mut self, _table: &mut Superblocks, _superblock: u32) {}
}

fn main() -> Result<(), GeometryError> {
    for rest in [0, 100, 1_000, 10_000] {
        println!("rest {rest:6} pages: WAF {:.3}", run(rest)?.counters().waf());
    }
    Ok(())
}

/// A device after 20 times its size in writes, nine in ten of them to a tenth of the pages.
fn run(rest: u64) -> Result<Ssd, GeometryError> {
    let settings = settings();
    let rested = OwnVictims::new("rested", move |table| {
        Box::new(Rested { rest, closed_at: vec![0; table.len() as usize + 1] })
    });
    let mut ssd = Ssd::with_own_victims(&settings, Density::Dense, &rested)?;
    write(&mut ssd, settings.logical_pages);
    Ok(ssd)
}

fn settings() -> DeviceSettings {
    DeviceSettings {
        logical_pages: 1 << 13,
        spare: Spare::SpareFactor(0.15),
        superblock_pages: 64,
        ..DeviceSettings::default()
    }
}

fn write(ssd: &mut Ssd, pages: u64) {
    let mut state = 1u64;
    for _ in 0..20 * pages {
        // Knuth's MMIX generator; its high bits are good enough for addresses.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let random = state >> 33;
        let range = if random.is_multiple_of(10) { pages } else { pages / 10 };
        ssd.write(LogicalPage(random / 10 % range), 1, StreamId::DEFAULT).expect("the page exists");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_rest_it_is_as_good_as_greedy() {
        let mut greedy = Ssd::new(&settings()).unwrap();
        write(&mut greedy, settings().logical_pages);
        let greedy = greedy.counters().waf();
        let rested = |rest| {
            let ssd = run(rest).unwrap();
            ssd.verify().unwrap();
            ssd.counters().waf()
        };
        assert!((rested(0) / greedy - 1.0).abs() < 0.05, "{} and {greedy}", rested(0));
        assert_eq!(rested(1 << 20), rested(0), "where no superblock ever has rested, all are alike");
    }
}
