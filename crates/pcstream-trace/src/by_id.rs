//! Something for each id that events refer to.
//!
//! Idea: ids are dense and begin at 0, so a list is their map. It grows as far as ids are written to; beyond that, and
//! in gaps, everything is empty. Reading is that of a slice.

use std::ops::{Deref, DerefMut};

/// A value of each id; see the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ById<T> {
    values: Vec<T>,
    empty: T,
}

impl<T: Clone> ById<T> {
    /// Where nothing was written, there is `empty`.
    pub fn filled(empty: T) -> ById<T> {
        ById { values: Vec::new(), empty }
    }

    /// The value of an id, to be written.
    #[inline]
    pub fn at(&mut self, id: usize) -> &mut T {
        if self.values.len() <= id {
            self.values.resize(id + 1, self.empty.clone());
        }
        &mut self.values[id]
    }
}

impl<T> Deref for ById<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        &self.values
    }
}

impl<T> DerefMut for ById<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_written_is_empty_or_not_there() {
        let mut by_id = ById::filled(9);
        *by_id.at(2) = 1;
        *by_id.at(0) += 1;
        assert_eq!(by_id[..], [10, 9, 1]);
        assert_eq!(by_id.get(3), None);
    }
}
