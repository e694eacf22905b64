//! Hot and cold pages: a fraction of the pages gets another fraction of the writes, uniformly within
//! each class. The two classes are the two contexts, so a scheme that separates contexts reaches the
//! closed form of separated pools, and one that does not stays at the mixed one (Desnoyers,
//! SYSTOR'12).
//!
//! The hot pages are the first ones of the address space: schemes that look at address chunks can
//! find them.

use super::{Common, Generator, GeneratorError, GeneratorOption, Random, Request, Sampler};
use crate::ids::Lba;

pub(super) const GENERATOR: Generator = Generator {
    name: "hotcold",
    about: "A fraction of the pages gets a fraction of the writes, uniformly within each class",
    options: &[
        GeneratorOption {
            name: "hot-pages",
            help: "Fraction of the pages that are hot, above 0 and below 1",
            default: 0.2,
        },
        GeneratorOption {
            name: "hot-writes",
            help: "Fraction of the writes that go to hot pages, 0 to 1",
            default: 0.8,
        },
    ],
    make,
};

struct HotCold {
    pages: u64,
    hot_pages: u64,
    hot_writes: f64,
}

fn make(common: &Common, values: &[f64]) -> Result<Box<dyn Sampler>, GeneratorError> {
    let &[fraction, hot_writes] = values else { unreachable!("as many values as options") };
    // Written so that NaN is refused too.
    if !(fraction > 0.0 && fraction < 1.0) {
        return Err(GeneratorError::range("hot-pages", fraction, "a fraction above 0 and below 1"));
    }
    if !(0.0..=1.0).contains(&hot_writes) {
        return Err(GeneratorError::range("hot-writes", hot_writes, "a fraction from 0 to 1"));
    }
    let hot_pages = (common.pages as f64 * fraction).round() as u64;
    if hot_pages == 0 || hot_pages >= common.pages {
        let expected =
            format!("a fraction that makes at least one of the {} pages hot and one cold", common.pages);
        return Err(GeneratorError::range("hot-pages", fraction, expected));
    }
    Ok(Box::new(HotCold { pages: common.pages, hot_pages, hot_writes }))
}

impl Sampler for HotCold {
    fn labels(&self) -> Vec<String> {
        vec!["hot".to_owned(), "cold".to_owned()]
    }

    fn sample(&mut self, rng: &mut Random) -> Request {
        if rng.unit() < self.hot_writes {
            Request::page(Lba(rng.below(self.hot_pages)), 0)
        } else {
            Request::page(Lba(self.hot_pages + rng.below(self.pages - self.hot_pages)), 1)
        }
    }
}
