//! baseline: a device without streams. Every page goes to S0.

use pcstream_trace::{Event, Tables};

use crate::error::SchemeError;
use crate::parameter::{Environment, Parameter, Parameters};
use crate::scheme::{Placement, Scheme, Stream};

/// Everything to S0.
pub struct Baseline;

/// Parameters of `baseline`: none.
#[derive(Clone, Copy, Debug, Default)]
pub struct BaselineParams;

impl Parameters for BaselineParams {
    const LIST: &'static [Parameter<BaselineParams>] = &[];

    fn build(&self, _: &'static str, _: &Environment) -> Result<Box<dyn Scheme>, SchemeError> {
        Ok(Box::new(Baseline))
    }
}

impl Scheme for Baseline {
    fn place(&mut self, event: &Event, _: u64, _: &Tables, out: &mut Vec<Placement>) {
        out.push(Placement { pages: event.pages, stream: Stream::DEFAULT });
    }
}
