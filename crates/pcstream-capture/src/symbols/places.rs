//! Places in a module whose functions are wanted, and what was found for them.

use std::rc::Rc;

use crate::modules::module_data::Elf;
use crate::modules::segments::Segments;

/// A place whose function is wanted.
#[derive(Debug)]
pub struct Place {
    /// Virtual address in the file.
    pub address: u64,
    /// Index among the offsets asked for.
    pub of: usize,
    /// From the table that named it first.
    pub best: Option<Named>,
}

/// A function around a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Of its first instruction.
    pub start: u64,
    /// 0: not known.
    pub bytes: u64,
    /// As in the table.
    pub name: Rc<str>,
}

impl Named {
    /// Whether this name is the better one of a place: of the function that begins later (the inner one), else a
    /// name that users know. Libraries have several for one function: `write`, `__write`.
    pub fn is_better_than(&self, other: &Named) -> bool {
        let plain = |named: &Named| {
            let underscores = named.name.bytes().take_while(|&byte| byte == b'_').count();
            (underscores, named.name.len(), Rc::clone(&named.name))
        };
        match self.start.cmp(&other.start) {
            std::cmp::Ordering::Equal => plain(self) < plain(other),
            order => order.is_gt(),
        }
    }
}

/// The places in the order of their addresses.
pub fn places(module: &Elf<'_>, offsets: &[u64]) -> Vec<Place> {
    let segments = Segments::of(module);
    let place =
        |(of, &offset): (usize, &u64)| Some(Place { address: segments.address_of(offset)?, of, best: None });
    let mut places: Vec<_> = offsets.iter().enumerate().filter_map(place).collect();
    places.sort_unstable_by_key(|place| place.address);
    places
}
