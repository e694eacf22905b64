//! Files of different lifetimes, as log-structured stores and builds write them: classes of equally
//! many files, written from front to back and deleted by a discard. Each class lives
//! `lifetime-ratio` times as long as the one before it. The classes are the contexts.
//!
//! The device is cut into places of one file each. A class has one file open at a time, and requests
//! of all classes mix in the order of their arrival, in proportion to one over their lifetime. When a
//! file is full, the class deletes its oldest file and begins the next one in a free place, drawn at
//! random, so addresses say nothing about classes. A scheme that keeps the classes apart has superblocks that die
//! whole, so its WAF goes to 1 where a superblock is small beside what a class keeps. One that mixes them copies
//! the long-lived files again and again.
//!
//! `random-deaths` is the share of deletions that take any file of the class instead of the oldest.
//! Without it, every lifetime of a class is the same.
//!
//! The first files of each class count as written before the trace begins, like every page.
//! Pages that make no whole file are never written.

use std::collections::VecDeque;

use super::{Common, Generator, GeneratorError, GeneratorOption, Random, Request, Sampler};
use crate::event::Op;
use crate::ids::Lba;

pub(super) const GENERATOR: Generator = Generator {
    name: "files",
    about: "Files of classes with different lifetimes are written, and deleted with a discard",
    options: &[
        GeneratorOption { name: "classes", help: "Classes of files, 1 to 64", default: 4.0 },
        GeneratorOption {
            name: "lifetime-ratio",
            help: "Lifetime of a class over that of the class before it, 1 to 1000",
            default: 4.0,
        },
        GeneratorOption { name: "file-pages", help: "Pages of a file, 1 to 16777216", default: 256.0 },
        GeneratorOption { name: "request-pages", help: "Pages of a write, 1 to 65536", default: 32.0 },
        GeneratorOption {
            name: "random-deaths",
            help: "Share of deletions that take any file of the class, not its oldest; 0 to 1",
            default: 0.0,
        },
    ],
    make,
};

/// Most files: each takes 4 bytes of memory.
const MAX_FILES: u64 = 1 << 26;

/// Fewest files of a class: an open one, a complete one to delete, and a free place.
const FEWEST_FILES: u64 = 3;

/// Number of a place for a file.
type Place = u32;

struct Files {
    file_pages: u32,
    request_pages: u32,
    random_deaths: f64,
    classes: Vec<Class>,
    /// Places without a file: at least one for each class, or addresses would repeat in turn.
    free: Vec<Place>,
}

struct Class {
    /// Chance that a request is of this class or one before it.
    cumulative: f64,
    /// Complete files, the oldest first.
    files: VecDeque<Place>,
    /// Where the file that is being written lies, and how much of it is written.
    open: Place,
    written: u32,
}

fn make(common: &Common, values: &[f64]) -> Result<Box<dyn Sampler>, GeneratorError> {
    let &[classes, ratio, file_pages, request_pages, random_deaths] = values else {
        unreachable!("as many values as options")
    };
    let classes = whole("classes", classes, 64)?;
    let file_pages = whole("file-pages", file_pages, 1 << 24)?;
    let request_pages = whole("request-pages", request_pages, 1 << 16)?;
    // Written so that NaN is refused too.
    if !(1.0..=1000.0).contains(&ratio) {
        return Err(GeneratorError::range("lifetime-ratio", ratio, "1 to 1000"));
    }
    if !(0.0..=1.0).contains(&random_deaths) {
        return Err(GeneratorError::range("random-deaths", random_deaths, "a fraction from 0 to 1"));
    }
    let places = common.pages / u64::from(file_pages);
    if !(FEWEST_FILES * u64::from(classes)..=MAX_FILES).contains(&places) {
        let expected = format!(
            "a size of which {} pages hold {FEWEST_FILES} files for each of {classes} classes, and at most {MAX_FILES} files",
            common.pages
        );
        return Err(GeneratorError::range("file-pages", file_pages, expected));
    }
    let mut order = shuffled(places as Place, &mut Random::new(common.seed ^ 0x6669_6c65_735f_6f66));
    let total: f64 = (0..classes).map(|class| ratio.powi(-(class as i32))).sum();
    let each = places / u64::from(classes) - 1;
    let mut cumulative = 0.0;
    let made = (0..classes).map(|class| {
        cumulative += ratio.powi(-(class as i32)) / total;
        let mut files: VecDeque<Place> = order.split_off(order.len() - each as usize).into();
        let open = files.pop_front().expect("a class has an open file");
        Class { cumulative, files, open, written: 0 }
    });
    let classes = made.collect();
    Ok(Box::new(Files { file_pages, request_pages, random_deaths, classes, free: order }))
}

impl Sampler for Files {
    fn labels(&self) -> Vec<String> {
        (1..=self.classes.len()).map(|class| format!("files of lifetime class {class}")).collect()
    }

    fn sample(&mut self, rng: &mut Random) -> Request {
        let u = rng.unit();
        let class = self.classes.iter().position(|class| u < class.cumulative);
        // Sums of fractions may end just below 1.
        let class = class.unwrap_or(self.classes.len() - 1);
        if self.classes[class].written == self.file_pages {
            return self.delete(class, rng);
        }
        let Class { open, written, .. } = &mut self.classes[class];
        let pages = self.request_pages.min(self.file_pages - *written);
        let lba = Lba(u64::from(*open) * u64::from(self.file_pages) + u64::from(*written));
        *written += pages;
        Request { op: Op::Write, lba, pages, class }
    }
}

impl Files {
    /// Completes the open file of a class, deletes one of its files, and begins the next.
    fn delete(&mut self, class: usize, rng: &mut Random) -> Request {
        let Class { files, open, written, .. } = &mut self.classes[class];
        files.push_back(*open);
        if rng.unit() < self.random_deaths {
            let any = rng.below(files.len() as u64) as usize;
            files.swap(0, any);
        }
        let deleted = files.pop_front().expect("the file that is complete now");
        self.free.push(deleted);
        *open = self.free.swap_remove(rng.below(self.free.len() as u64) as usize);
        *written = 0;
        let lba = Lba(u64::from(deleted) * u64::from(self.file_pages));
        Request { op: Op::Discard, lba, pages: self.file_pages, class }
    }
}

/// A whole number from 1 to `most`.
fn whole(option: &'static str, value: f64, most: u32) -> Result<u32, GeneratorError> {
    if value.fract() == 0.0 && (1.0..=f64::from(most)).contains(&value) {
        Ok(value as u32)
    } else {
        Err(GeneratorError::range(option, value, format!("a whole number from 1 to {most}")))
    }
}

/// The places in random order (Fisher and Yates).
fn shuffled(places: Place, rng: &mut Random) -> Vec<Place> {
    let mut order: Vec<Place> = (0..places).collect();
    for last in (1..order.len()).rev() {
        order.swap(last, rng.below(last as u64 + 1) as usize);
    }
    order
}
