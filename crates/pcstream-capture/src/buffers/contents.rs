//! The contents of a binary, of which so much is kept at most: whoever is traced may have made it.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::fs::File;
use std::ops::Range;

use object::read::{ReadCache, ReadRef};

/// The largest servers, with all their debug information, are smaller.
const MAX_BYTES: u64 = 4 << 30;
/// What keeping a piece takes beside its bytes, about.
const PIECE_BYTES: u64 = 128;

/// An ELF file that is read so.
pub type Elf<'a> = object::File<'a, &'a Contents<'a>>;

/// A file, read piece by piece. Beyond the limit nothing more can be read.
pub struct Contents<'f> {
    cache: ReadCache<&'f File>,
    /// What is kept: where it begins, and how long it is or may be.
    kept: RefCell<HashSet<(u64, u64)>>,
    left: Cell<u64>,
}

impl<'f> Contents<'f> {
    pub fn of(file: &'f File) -> Contents<'f> {
        Contents::within(file, MAX_BYTES)
    }

    fn within(file: &'f File, bytes: u64) -> Contents<'f> {
        Contents { cache: ReadCache::new(file), kept: RefCell::default(), left: Cell::new(bytes) }
    }

    fn take(&self, offset: u64, longest: u64, bytes: u64) -> Result<(), ()> {
        if self.kept.borrow_mut().insert((offset, longest)) {
            self.left.set(self.left.get().checked_sub(bytes + PIECE_BYTES).ok_or(())?);
        }
        Ok(())
    }
}

impl<'a> ReadRef<'a> for &'a Contents<'_> {
    fn len(self) -> Result<u64, ()> {
        (&self.cache).len()
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'a [u8], ()> {
        let end = offset.checked_add(size).ok_or(())?;
        if end > self.len()? {
            return Err(());
        }
        self.take(offset, size, size)?;
        self.cache.read_bytes_at(offset, size)
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'a [u8], ()> {
        let (start, longest) = (range.start, range.end.saturating_sub(range.start));
        let text = self.cache.read_bytes_at_until(range, delimiter)?;
        self.take(start, longest, text.len() as u64)?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_has_a_limit_and_counts_once() {
        let file = File::open("/proc/self/exe").expect("it runs");
        let length = file.metadata().expect("it is there").len();
        let contents = Contents::within(&file, 3 * PIECE_BYTES + 100);
        let read = |offset, size| (&contents).read_bytes_at(offset, size).map(<[u8]>::len);
        assert_eq!(read(length - 1, 2), Err(()), "beyond the end, which costs nothing");
        assert_eq!([read(0, 64), read(0, 64), read(0, 64)], [Ok(64); 3]);
        assert_eq!(read(1, 200), Err(()));
        assert_eq!(read(1, 4), Ok(4));
        // The first bytes are 7f 'E' 'L' 'F'.
        assert_eq!((&contents).read_bytes_at_until(0..9, b'F'), Ok(&b"\x7fEL"[..]));
    }
}
