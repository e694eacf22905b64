//! The contents of a module's or program's file, read with limits: whoever is traced made that file.
//!
//! Idea: `object` parses what it is given, and this decides what it is given. Files are copied, never looked at in a mapping: one
//! that its owner cuts short ends the process that looks. Reads do not wait for whoever writes to the file (`unwaited`).
//!
//! Invariants: one read and all reads of a file together have a limit, whatever sizes the file claims. It holds for what is asked
//! for again, too, because whoever asks works on it again: overlapping parts of a small file would be work for hours. What is read
//! is taken from an [`Allowance`], too.

use std::cell::Cell;
use std::fs::File;
use std::ops::Range;

use object::read::{ReadCache, ReadCacheOps, ReadRef};

use crate::modules::reading_limits::Allowance;
use crate::modules::unwaited;

/// What may be read of one file.
struct Limits {
    /// Which is memory.
    at_once: u64,
    all: u64,
    /// What a string counts as at least. No string is longer than `MAX_STRING_BYTES`.
    string: u64,
}

/// So much the cache reads of a string at most.
const MAX_STRING_BYTES: u64 = 4096;
/// For names of functions. The largest symbol tables (of browsers, unstripped) have a third of what is read at once.
const OF_MODULE: Limits = Limits { at_once: 256 << 20, all: 512 << 20, string: MAX_STRING_BYTES };
/// For a build id: headers of sections, and notes.
const OF_NOTES: Limits = Limits { at_once: 1 << 20, all: 1 << 20, ..OF_MODULE };
/// For a program that rules name. The largest servers, with all their debug information, are smaller; a million symbols can be gone
/// through thirty times. To keep a string takes about so much beside its bytes.
const OF_PROGRAM: Limits = Limits { at_once: 4 << 30, all: 4 << 30, string: 128 };

/// An ELF file that is read so.
pub type Elf<'a> = object::File<'a, &'a ModuleData<'a>>;

/// A file's contents.
pub struct ModuleData<'f> {
    cache: ReadCache<Pieces<'f>>,
    limits: Limits,
    left: Cell<u64>,
    allowance: &'f Allowance,
}

impl<'f> ModuleData<'f> {
    /// The contents of a regular file.
    pub fn of(file: &'f File, allowance: &'f Allowance) -> ModuleData<'f> {
        ModuleData::with_limits(file, allowance, OF_MODULE)
    }

    /// No more of them than it takes to find a build id.
    pub fn notes_of(file: &'f File, allowance: &'f Allowance) -> ModuleData<'f> {
        ModuleData::with_limits(file, allowance, OF_NOTES)
    }

    /// All of a program, or of its debug file.
    pub fn of_program(file: &'f File, allowance: &'f Allowance) -> ModuleData<'f> {
        ModuleData::with_limits(file, allowance, OF_PROGRAM)
    }

    fn with_limits(file: &'f File, allowance: &'f Allowance, limits: Limits) -> ModuleData<'f> {
        let cache = ReadCache::new(Pieces { file, at: 0 });
        ModuleData { cache, left: Cell::new(limits.all), limits, allowance }
    }

    fn take(&self, bytes: u64) -> Result<(), ()> {
        let left = self.left.get().checked_sub(bytes).filter(|_| bytes <= self.limits.at_once);
        if left.is_none() {
            self.allowance.fall_short();
        }
        if !self.allowance.read(bytes) {
            return Err(());
        }
        self.left.set(left.ok_or(())?);
        Ok(())
    }
}

impl<'a> ReadRef<'a> for &'a ModuleData<'_> {
    fn len(self) -> Result<u64, ()> {
        (&self.cache).len()
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'a [u8], ()> {
        // A size beyond the end is a fault of the file, and no large one.
        if offset.checked_add(size).is_none_or(|end| (&self.cache).len().is_ok_and(|length| end > length)) {
            return Err(());
        }
        self.take(size)?;
        self.cache.read_bytes_at(offset, size)
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'a [u8], ()> {
        let longest = range.end.saturating_sub(range.start).min(MAX_STRING_BYTES);
        let at_least = longest.min(self.limits.string);
        self.take(at_least)?;
        let text = self.cache.read_bytes_at_until(range, delimiter);
        // Where there is no end, all of it was read.
        self.take(text.map_or(longest, |text| text.len() as u64).saturating_sub(at_least))?;
        text
    }
}

/// Reads without moving the file's own position.
#[derive(Debug)]
struct Pieces<'f> {
    file: &'f File,
    at: u64,
}

impl ReadCacheOps for Pieces<'_> {
    fn len(&mut self) -> Result<u64, ()> {
        self.file.metadata().map(|metadata| metadata.len()).map_err(drop)
    }

    fn seek(&mut self, pos: u64) -> Result<u64, ()> {
        self.at = pos;
        Ok(pos)
    }

    fn read(&mut self, buf: &mut [u8]) -> Result<usize, ()> {
        let read = unwaited::read_at(self.file, buf, self.at).map_err(drop)?;
        self.at += read as u64;
        Ok(read)
    }

    fn read_exact(&mut self, buf: &mut [u8]) -> Result<(), ()> {
        let mut filled = 0;
        while filled < buf.len() {
            match self.read(&mut buf[filled..])? {
                0 => return Err(()),
                read => filled += read,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;
    use crate::modules::reading_limits::GivenUp;

    fn sparse(bytes: u64) -> File {
        let file = tempfile::tempfile().expect("a temporary file");
        file.set_len(bytes).expect("it can be made longer");
        file
    }

    #[test]
    fn no_read_and_not_all_of_them_go_beyond_the_limits() {
        let file = sparse(1 << 42);
        let allowance = Allowance::default();
        let data = ModuleData::of(&file, &allowance);
        assert!((&data).read_bytes_at(1 << 42, 1).is_err() && !allowance.fell_short());
        assert!((&data).read_bytes_at(0, OF_MODULE.at_once + 1).is_err() && allowance.fell_short());
        assert_eq!((&data).read_bytes_at(1 << 41, 10), Ok(&[0; 10][..]));
        data.left.set(100);
        assert!((&data).read_bytes_at(5, 101).is_err());
        assert!((&data).read_bytes_at(5, 100).is_ok());
        assert!((&data).read_bytes_at(5, 1).is_err());
    }

    #[test]
    fn strings_of_a_program_count_by_their_length() {
        let file = sparse(1 << 20);
        file.write_all_at(&[b'n'; 6000], 10_000).expect("it can be written");
        for (limits, at, counted) in [
            (OF_MODULE, 0, 4096),
            (OF_PROGRAM, 0, 128),
            (OF_PROGRAM, 15_000, 1000),
            (OF_PROGRAM, 10_000, 4096),
            (OF_PROGRAM, (1 << 20) - 5, 5),
        ] {
            let allowance = Allowance::default();
            let data = ModuleData::with_limits(&file, &allowance, limits);
            let before = data.left.get();
            let text = (&data).read_bytes_at_until(at..1 << 20, 0);
            assert_eq!(before - data.left.get(), counted, "{at}");
            assert_eq!(text.is_err(), at == 10_000, "{at}");
        }
    }

    #[test]
    fn nothing_is_read_after_giving_up_or_beyond_the_end() {
        let file = sparse(4096);
        let given_up = GivenUp::default();
        let allowance = Allowance::new(given_up.clone());
        let data = ModuleData::of(&file, &allowance);
        assert!((&data).read_bytes_at(4000, 100).is_err());
        assert!((&data).read_bytes_at(4000, 96).is_ok());
        file.set_len(10).expect("it can be cut short");
        assert!((&data).read_bytes_at(2000, 96).is_err(), "cut short by its owner");
        given_up.give_up();
        assert!((&data).read_bytes_at(0, 1).is_err());
    }
}
