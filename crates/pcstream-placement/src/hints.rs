//! hints: what the program itself asked for, a bound for what its authors know (`F_SET_RW_HINT`; write streams).
//!
//! Idea: since Linux 6.9 a request carries the lifetime hint of the file that it writes, and since 6.16 a write stream.
//! An SSD that took them as they are would have one stream for each: `short`, `medium`, `long` and `extreme` are S1 to S4,
//! and write stream n is Sn. A request that has both goes by its write stream, which says more. Nothing asked for, and
//! `none` ("not known"), are S0.
//!
//! What the device lacks goes to its last stream, as in `manual`.
//!
//! Known weakness: a trace of a kernel that does not pass hints on, or of before they were recorded, has none, and all
//! goes to S0; the fact `pages_hinted` says so.

use pcstream_trace::{Event, Tables, WriteHint};

use crate::error::SchemeError;
use crate::parameter::{Environment, Parameter, Parameters};
use crate::scheme::{Placement, Scheme, SchemeFact, Stream};

/// Parameters of `hints`: none.
#[derive(Clone, Copy, Debug, Default)]
pub struct HintsParams;

impl Parameters for HintsParams {
    const LIST: &'static [Parameter<HintsParams>] = &[];

    fn build(&self, _: &'static str, environment: &Environment) -> Result<Box<dyn Scheme>, SchemeError> {
        Ok(Box::new(Hints::new(environment)))
    }
}

/// The scheme that does what programs ask for.
pub struct Hints {
    last_stream: u8,
    hinted: u64,
    streamed: u64,
}

impl Hints {
    /// Makes the scheme.
    pub fn new(environment: &Environment) -> Hints {
        Hints { last_stream: environment.streams() - 1, hinted: 0, streamed: 0 }
    }
}

/// The stream that a request asks for.
fn asked(hint: WriteHint) -> u8 {
    match hint.stream {
        0 => hint.life.class().map_or(0, |class| class as u8 + 1),
        stream => stream,
    }
}

impl Scheme for Hints {
    fn place(&mut self, event: &Event, _: u64, _: &Tables, out: &mut Vec<Placement>) {
        let pages = u64::from(event.pages);
        self.hinted += if event.hint.life.class().is_some() { pages } else { 0 };
        self.streamed += if event.hint.stream > 0 { pages } else { 0 };
        let stream = Stream(asked(event.hint).min(self.last_stream));
        out.push(Placement { pages: event.pages, stream });
    }

    fn facts(&self) -> Vec<SchemeFact> {
        vec![("pages_hinted", self.hinted), ("pages_with_write_stream", self.streamed)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{device, placements, write};
    use pcstream_trace::Life;

    fn streams(streams: u8) -> (Vec<u8>, Vec<SchemeFact>) {
        let mut scheme = Hints::new(&device(streams));
        let mut of = |life, stream| {
            let event = Event { hint: WriteHint { life, stream }, ..write(0, 3) };
            placements(&mut scheme, &event)[0].stream.0
        };
        let mut seen: Vec<u8> = Life::ALL.into_iter().map(|life| of(life, 0)).collect();
        seen.extend([of(Life::NotSet, 7), of(Life::Short, 3)]);
        (seen, scheme.facts())
    }

    #[test]
    fn a_hint_or_a_write_stream_is_a_stream() {
        let (seen, facts) = streams(9);
        assert_eq!(seen, [0, 0, 1, 2, 3, 4, 7, 3]);
        assert_eq!(facts, [("pages_hinted", 15), ("pages_with_write_stream", 6)]);
    }

    #[test]
    fn what_the_device_lacks_goes_to_its_last_stream() {
        assert_eq!(streams(3).0, [0, 0, 1, 2, 2, 2, 2, 2]);
        assert_eq!(streams(1).0, [0; 8]);
    }
}
