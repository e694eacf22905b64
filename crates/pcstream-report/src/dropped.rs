//! What schemes dropped of what they knew of live data, because their memory is bounded.

use std::fmt;

use pcstream_replay::LaneResult;

/// Facts that count what was dropped, and the parameters that bound the memory.
const BOUNDS: [(&str, &str); 2] =
    [("live_chunks_dropped", "lifetime.max_bytes"), ("live_pages_dropped", "max_bytes")];

/// What a scheme dropped. As text: a sentence without its full stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// Name of the scheme.
    pub scheme: String,
    /// How often; above 0.
    pub count: u64,
    /// The parameter that bounds its memory.
    pub parameter: &'static str,
}

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Dropped { scheme, count, parameter } = self;
        let name = scheme.split(':').next().unwrap_or(scheme);
        write!(
            f,
            "{scheme} dropped what it knew of live data {count} times at its memory bound, which may change its result: more \
             with --set {name}.{parameter}=BYTES"
        )
    }
}

/// What the schemes of these lanes dropped: of each scheme the most of any lane.
pub fn dropped(lanes: &[LaneResult]) -> Vec<Dropped> {
    let mut dropped: Vec<Dropped> = Vec::new();
    for lane in lanes {
        for (fact, parameter) in BOUNDS {
            let count = lane.fact(fact).unwrap_or(0);
            match dropped.iter_mut().find(|known| known.scheme == lane.scheme) {
                _ if count == 0 => {}
                Some(known) => known.count = known.count.max(count),
                None => dropped.push(Dropped { scheme: lane.scheme.clone(), count, parameter }),
            }
        }
    }
    dropped
}
