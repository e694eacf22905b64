//! Generators: synthetic traffic with a known answer, as the same batches that a recorded trace has.
//!
//! Idea: a generator is one file that draws requests, each with its class; everything else (the
//! parameters common to all, batches, classes as contexts, meta) is here. A new generator is a new
//! file and a line in `GENERATORS`.
//!
//! Units: pages of 4 KiB; a page takes a microsecond to write, so a request comes as many
//! microseconds after the beginning as pages were written before it.
//!
//! Invariants: the address space [0, pages) counts as filled before the first write, which is what
//! the closed forms assume; equal parameters and seed give equal traces, on every machine with the
//! same floating-point library, and this crate alone decides which (no sampler of a dependency).

use std::collections::BTreeMap;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::event::{Event, MAX_TIME_NS, Op};
use crate::ids::{ContextId, Lba};
use crate::meta::{Extent, Meta};
use crate::tables::{Batch, Context};

pub mod files;
pub mod hotcold;
pub mod uniform;
pub mod zipf;

/// Every generator, by name.
pub const GENERATORS: &[Generator] =
    &[uniform::GENERATOR, hotcold::GENERATOR, zipf::GENERATOR, files::GENERATOR];

/// Events in a batch.
const BATCH_EVENTS: usize = 8 * 1024;

/// Time that writing a page takes, in nanoseconds.
const PAGE_NS: u64 = 1000;

/// Largest address space: 4 EiB, so that sums of addresses stay far from overflow.
const MAX_PAGES: u64 = 1 << 50;

/// Most pages written: no later than any event may be.
const MAX_WRITES: u64 = MAX_TIME_NS / PAGE_NS;

/// An entry of the registry.
#[derive(Clone, Copy, Debug)]
pub struct Generator {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it generates, in one sentence.
    pub about: &'static str,
    /// Its own parameters, besides those in `Common`.
    pub options: &'static [GeneratorOption],
    make: Make,
}

/// Checks a generator's own parameters, one value per option, and makes its sampler.
type Make = fn(&Common, &[f64]) -> Result<Box<dyn Sampler>, GeneratorError>;

/// A parameter of one generator.
#[derive(Clone, Copy, Debug)]
pub struct GeneratorOption {
    /// Its name on the command line, without `--`.
    pub name: &'static str,
    /// What it means, with its range.
    pub help: &'static str,
    /// Its value when not given.
    pub default: f64,
}

/// Parameters that every generator has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Common {
    /// Size of the address space in pages, at least 1.
    pub pages: u64,
    /// Pages written.
    pub writes: u64,
    /// Seed of everything random.
    pub seed: u64,
}

/// A parameter is out of range or unknown.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum GeneratorError {
    /// No such generator.
    #[error("generator {0:?} is unknown, expected one of {names}", names = GENERATORS.iter().map(|g| g.name).collect::<Vec<_>>().join(", "))]
    Unknown(String),
    /// The generator has no such parameter.
    #[error("--{option} is not a parameter of {generator}; see `pcstream generate {generator} --help`")]
    UnknownOption {
        /// The generator.
        generator: &'static str,
        /// The parameter.
        option: String,
    },
    /// A value is out of range.
    #[error("--{option} {value}: expected {expected}")]
    Range {
        /// The parameter.
        option: &'static str,
        /// Its value.
        value: String,
        /// The values allowed.
        expected: String,
    },
}

impl GeneratorError {
    fn range(option: &'static str, value: impl ToString, expected: impl ToString) -> GeneratorError {
        GeneratorError::Range { option, value: value.to_string(), expected: expected.to_string() }
    }
}

/// Draws requests. One per generator.
trait Sampler: Send {
    /// Labels of the classes, by class number.
    fn labels(&self) -> Vec<String>;

    /// The next request.
    fn sample(&mut self, rng: &mut Random) -> Request;
}

/// A request of a class.
struct Request {
    op: Op,
    lba: Lba,
    /// At least 1.
    pages: u32,
    /// Number of its class, from 0.
    class: usize,
}

impl Request {
    /// A write of one page.
    fn page(lba: Lba, class: usize) -> Request {
        Request { op: Op::Write, lba, pages: 1, class }
    }
}

/// Starts a generator. `options` holds its own parameters by name; those not given take their
/// defaults.
pub fn generate(
    name: &str,
    common: Common,
    options: &BTreeMap<String, f64>,
) -> Result<Generated, GeneratorError> {
    let generator = GENERATORS.iter().find(|g| g.name == name);
    let generator = generator.ok_or_else(|| GeneratorError::Unknown(name.to_owned()))?;
    if let Some(option) = options.keys().find(|&o| generator.options.iter().all(|known| known.name != o)) {
        return Err(GeneratorError::UnknownOption { generator: generator.name, option: option.clone() });
    }
    let Common { pages, writes, seed } = common;
    if pages == 0 || pages > MAX_PAGES {
        return Err(GeneratorError::range("pages", pages, format!("1 to {MAX_PAGES}")));
    }
    if writes > MAX_WRITES {
        return Err(GeneratorError::range("writes", writes, format!("at most {MAX_WRITES}")));
    }
    let values: Vec<f64> =
        generator.options.iter().map(|o| options.get(o.name).copied().unwrap_or(o.default)).collect();
    let sampler = (generator.make)(&common, &values)?;
    let mut meta = Meta::new(&format!("generated {name}"), pages);
    meta.prefilled = vec![Extent { lba: Lba(0), pages }];
    meta.losses.insert("events".to_owned(), 0);
    meta.complete = true;
    meta.settings.insert("generator".to_owned(), name.into());
    for (key, value) in [("pages", pages), ("writes", writes), ("seed", seed)] {
        meta.settings.insert(key.to_owned(), value.into());
    }
    for (option, &value) in generator.options.iter().zip(&values) {
        meta.settings.insert(option.name.replace('-', "_"), value.into());
    }
    Ok(Generated { meta, sampler, rng: Random::new(seed), written: 0, writes, started: false })
}

/// The batches of a generated trace. The first carries the classes as contexts.
pub struct Generated {
    meta: Meta,
    sampler: Box<dyn Sampler>,
    rng: Random,
    written: u64,
    writes: u64,
    started: bool,
}

impl Generated {
    /// What a trace of these batches says about itself.
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// Pages still to be written.
    pub fn remaining(&self) -> u64 {
        self.writes - self.written
    }

    /// The next event; a last write is cut at the number of pages asked for.
    fn draw(&mut self) -> Event {
        let Request { op, lba, pages, class } = self.sampler.sample(&mut self.rng);
        let time_ns = self.written * PAGE_NS;
        let pages =
            if op == Op::Write { pages.min(self.remaining().min(u64::from(u32::MAX)) as u32) } else { pages };
        self.written += if op == Op::Write { u64::from(pages) } else { 0 };
        Event { time_ns, context: ContextId(class as u32 + 1), op, ..Event::write(lba.0, pages) }
    }
}

impl Iterator for Generated {
    type Item = Batch;

    fn next(&mut self) -> Option<Batch> {
        let mut batch = Batch::default();
        if !self.started {
            self.started = true;
            let labels = self.sampler.labels();
            batch.contexts =
                (1..).zip(&labels).map(|(id, label)| Context::label(ContextId(id), label)).collect();
        } else if self.written == self.writes {
            return None;
        }
        while self.written < self.writes && batch.events.len() < BATCH_EVENTS {
            let event = self.draw();
            batch.events.push(event);
        }
        Some(batch)
    }
}

/// Random numbers under a seed: xoshiro256++ (Blackman and Vigna 2019), seeded through SplitMix64.
pub struct Random(Xoshiro256PlusPlus);

impl Random {
    /// The numbers of this seed.
    pub fn new(seed: u64) -> Random {
        Random(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform in [0, 1), a multiple of 2^-53.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Uniform in [0, n), without bias (Lemire 2019, "Fast random integer generation in an
    /// interval", algorithm 5). `n` is at least 1.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "there is no number below 0");
        let mut product = u128::from(self.bits()) * u128::from(n);
        if (product as u64) < n {
            let threshold = n.wrapping_neg() % n;
            while (product as u64) < threshold {
                product = u128::from(self.bits()) * u128::from(n);
            }
        }
        (product >> 64) as u64
    }
}
