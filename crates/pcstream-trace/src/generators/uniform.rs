//! Uniform random writes: every page is equally likely. No placement can help; WAF has closed forms
//! for FIFO and greedy victims (Desnoyers, SYSTOR'12), so this judges a device model.

use super::{Common, Generator, GeneratorError, Random, Request, Sampler};
use crate::ids::Lba;

pub(super) const GENERATOR: Generator =
    Generator { name: "uniform", about: "Every page is equally likely to be written", options: &[], make };

struct Uniform {
    pages: u64,
}

fn make(common: &Common, _: &[f64]) -> Result<Box<dyn Sampler>, GeneratorError> {
    Ok(Box::new(Uniform { pages: common.pages }))
}

impl Sampler for Uniform {
    fn labels(&self) -> Vec<String> {
        vec!["uniform".to_owned()]
    }

    fn sample(&mut self, rng: &mut Random) -> Request {
        Request::page(Lba(rng.below(self.pages)), 0)
    }
}
