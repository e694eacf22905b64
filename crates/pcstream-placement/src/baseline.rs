//! baseline: a device without streams. Every page goes to S0.

use pcstream_trace::{Event, Tables};

use crate::error::SchemeError;
use crate::registry::SchemeParams;
use crate::scheme::{Placement, Scheme, Stream};

/// Everything to S0.
pub struct Baseline;

impl Baseline {
    pub(crate) fn boxed(_: &SchemeParams) -> Result<Box<dyn Scheme>, SchemeError> {
        Ok(Box::new(Baseline))
    }
}

impl Scheme for Baseline {
    fn place(&mut self, event: &Event, _: u64, _: &Tables, out: &mut Vec<Placement>) {
        out.push(Placement { pages: event.pages, stream: Stream::DEFAULT });
    }
}
