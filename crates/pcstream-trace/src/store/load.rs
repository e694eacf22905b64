//! How much of the limits of a row group rows take, so that a writer ends it before it is too much for a reader (`limits`).

use crate::tables::Context;

/// Values of a column in a row group, where rows have several.
pub(super) const MAX_VALUES: u64 = 16 << 20;
/// What a writer puts into a row group at most: all its strings may be in one page.
pub(super) const GROUP_STRING_BYTES: u64 = 24 << 20;
/// Values times the longest string. The rest of the 512 MiB that a reader takes is for what the pages hold.
const GROUP_LONGEST_BYTES: u64 = 384 << 20;

/// What rows take of the limits of a row group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Load {
    /// Values in the column that has most.
    values: u64,
    /// Bytes of all strings, with their lengths.
    pub strings: u64,
    /// Bytes of the longest string.
    longest: u64,
}

impl Load {
    /// Of a row that has so many values in a column, and these strings in all.
    pub fn of<'a>(values: usize, strings: impl Iterator<Item = &'a String>) -> Load {
        // A list without elements is a value, too.
        let load = Load { values: values.max(1) as u64, ..Load::default() };
        strings.map(|text| text.len() as u64).fold(load, |load, bytes| Load {
            strings: load.strings + bytes + size_of::<u32>() as u64,
            longest: load.longest.max(bytes),
            ..load
        })
    }

    /// Of a context.
    pub fn of_context(context: &Context) -> Load {
        Load::of(context.frames.len(), strings_of(context))
    }

    /// Of these rows and more.
    pub fn and(self, more: Load) -> Load {
        Load {
            values: self.values + more.values,
            strings: self.strings + more.strings,
            longest: self.longest.max(more.longest),
        }
    }

    /// Whether a reader takes a row group of these rows.
    pub fn fits(self) -> bool {
        self.values <= MAX_VALUES
            && self.strings <= GROUP_STRING_BYTES
            && self.values.saturating_mul(self.longest) <= GROUP_LONGEST_BYTES
    }
}

/// All strings of a context.
pub(super) fn strings_of(context: &Context) -> impl Iterator<Item = &String> {
    let frames = context.frames.iter().flat_map(|f| [&f.module, &f.build_id, &f.symbol]);
    [&context.executable, &context.comm, &context.entry].into_iter().chain(frames)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_group_ends_before_it_is_too_much_for_a_reader() {
        let row = |values, bytes| Load::of(values, std::iter::repeat_n(&"x".repeat(bytes), 1));
        assert!(row(1, 64 << 10).fits() && row(0, 0).values == 1);
        assert!(row(16 << 20, 24).fits() && !row(16 << 20, 25).fits());
        assert!(row(16 << 20, 0).fits() && !row(16 << 20, 0).and(row(1, 0)).fits());
        let long = row(1, 1 << 20);
        assert!((1..23).fold(long, |all, _| all.and(long)).fits());
        assert!(!(1..24).fold(long, |all, _| all.and(long)).fits());
    }
}
