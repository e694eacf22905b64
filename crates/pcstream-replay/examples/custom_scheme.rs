//! A placement scheme of one's own beside the registered ones, without a change to any crate:
//!
//!     cargo run -p pcstream-replay --example custom_scheme
//!
//! The scheme sends single-page writes to S1 and longer ones to S2. The trace has two classes of pages, hot and
//! cold, whose writes are all single, so the scheme separates nothing; `pcstream` learns the classes.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;

use pcstream_placement::{Placement, Scheme, Stream, configure, factory};
use pcstream_replay::{LaneSpec, Replay};
use pcstream_ssd::{DeviceSettings, GcDestination, Spare};
use pcstream_trace::generators::{Common, generate};
use pcstream_trace::{Event, Tables};

/// Streams by the size of a write; the device's number of streams is its limit.
struct BySize {
    streams: u8,
}

impl Scheme for BySize {
    fn place(&mut self, event: &Event, _now: u64, _tables: &Tables, out: &mut Vec<Placement>) {
        let stream = if event.pages == 1 { 1 } else { 2 };
        out.push(Placement { pages: event.pages, stream: Stream(stream.min(self.streams - 1)) });
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    for (scheme, waf) in compare()? {
        println!("{scheme:10} WAF {waf:.3}");
    }
    Ok(())
}

/// WAF by scheme.
fn compare() -> Result<Vec<(String, f64)>, Box<dyn Error>> {
    let pages = 1 << 14;
    let device = DeviceSettings {
        logical_pages: pages,
        spare: Spare::SpareFactor(0.15),
        superblock_pages: 64,
        streams: 4,
        gc_destination: GcDestination::Own,
        ..DeviceSettings::default()
    };
    let by_size = factory("by-size", |environment| Ok(Box::new(BySize { streams: environment.streams() })));
    let mut pcstream = configure("pcstream")?;
    pcstream.set("mapper.distance", "log")?;
    let schemes = [by_size, Arc::new(configure("baseline")?), Arc::new(pcstream)];
    let lanes = schemes.map(|scheme| LaneSpec::new(scheme, device.clone()));

    let trace = generate("hotcold", Common { pages, writes: 16 * pages, seed: 1 }, &BTreeMap::new())?;
    let mut replay = Replay::new(&lanes, &trace.meta().prefilled.clone())?;
    for batch in trace {
        replay.feed(&batch)?;
    }
    let waf = |lane: pcstream_replay::LaneResult| Some((lane.scheme.clone(), lane.waf()?));
    Ok(replay.results().into_iter().filter_map(waf).collect())
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_scheme_from_outside_runs_beside_registered_ones() {
        let waf = super::compare().unwrap();
        let of = |name: &str| waf.iter().find(|(scheme, _)| scheme == name).unwrap().1;
        assert!((of("by-size") / of("baseline") - 1.0).abs() < 0.02, "{waf:?}");
        assert!(of("pcstream") < 0.9 * of("baseline"), "{waf:?}");
    }
}
