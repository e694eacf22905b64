//! Memory for tables with an entry per page, and prefetching.
//!
//! Such tables are read at random, so what costs is cache and TLB misses: tables that will be used all over ask for huge
//! pages. Tables of large devices of which little is ever touched ask for none, because a huge page would be taken whole
//! for each entry touched. Either way memory that was never touched costs nothing, and is not reserved: a table may be
//! larger than the machine's memory. What a table takes in the end is for its maker to estimate.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// How much of a table will be touched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Density {
    /// Most of it: huge pages (2 MiB) are asked for.
    #[default]
    Dense,
    /// Little of it, here and there: small pages (4 KiB).
    Sparse,
}

/// Bytes that a process can address on x86-64, without the kernel's half.
const ADDRESS_SPACE: u64 = 1 << 47;

/// The system has no room for a table, not even an untouched one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the system does not give {bytes} bytes of address space for a table of the simulation ({reason}); {}",
    if *bytes < ADDRESS_SPACE { "raise the limit (ulimit -v), or use a smaller device" } else { "no process has as much: use a smaller device" }
)]
pub struct OutOfMemory {
    /// Bytes asked for.
    pub bytes: u64,
    /// In the system's words.
    pub reason: String,
}

/// Numbers for which all bits zero mean 0.
pub trait Zeroable: Copy + private::Sealed {}

mod private {
    pub trait Sealed {}
    impl Sealed for u8 {}
    impl Sealed for u16 {}
    impl Sealed for u32 {}
    impl Sealed for u64 {}
}

impl Zeroable for u8 {}
impl Zeroable for u16 {}
impl Zeroable for u32 {}
impl Zeroable for u64 {}

/// Huge pages of x86-64.
const HUGE_PAGE: usize = 2 << 20;

/// A table of a fixed number of entries, all 0 at first: pages of the system, from its zero page.
pub struct Table<T: Zeroable> {
    first: NonNull<T>,
    entries: usize,
    bytes: usize,
}

// SAFETY: the memory belongs to this value alone, and `T` is a plain number.
unsafe impl<T: Zeroable + Send> Send for Table<T> {}
// SAFETY: as above.
unsafe impl<T: Zeroable + Sync> Sync for Table<T> {}

impl<T: Zeroable> Table<T> {
    /// `entries` zeros.
    pub fn zeroed(entries: u64, density: Density) -> Result<Table<T>, OutOfMemory> {
        let too_large = || OutOfMemory {
            bytes: entries.saturating_mul(size_of::<T>() as u64),
            reason: "too large".into(),
        };
        let entries = usize::try_from(entries).map_err(|_| too_large())?;
        let bytes = entries
            .checked_mul(size_of::<T>())
            .filter(|&b| b <= isize::MAX as usize)
            .ok_or_else(too_large)?;
        // The system gives no empty mappings.
        let bytes = bytes.max(size_of::<T>());
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        let failed = |e: rustix::io::Errno| OutOfMemory { bytes: bytes as u64, reason: e.to_string() };
        // SAFETY: a new mapping at an address that the system chooses touches no memory of ours.
        let memory =
            unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, flags) };
        let memory = memory.map_err(failed)?;
        if bytes >= HUGE_PAGE {
            let advice = match density {
                Density::Dense => Advice::LinuxHugepage,
                Density::Sparse => Advice::LinuxNoHugepage,
            };
            // SAFETY: the range is the mapping, and this advice changes neither contents nor validity. A kernel
            // without huge pages refuses it, and things stay as they are.
            let _ = unsafe { madvise(memory, bytes, advice) };
        }
        let first = NonNull::new(memory.cast()).expect("a mapping is never at address 0");
        Ok(Table { first, entries, bytes })
    }
}

impl<T: Zeroable> Deref for Table<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: the mapping has `entries` entries, aligned to a page, whose zeros are legal numbers, and lives as
        // long as `self`.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.entries) }
    }
}

impl<T: Zeroable> DerefMut for Table<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.first.as_ptr(), self.entries) }
    }
}

impl<T: Zeroable> Drop for Table<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `zeroed`, and nobody can have a reference into it any more.
        let unmapped = unsafe { munmap(self.first.as_ptr().cast(), self.bytes) };
        debug_assert!(unmapped.is_ok());
    }
}

impl<T: Zeroable> fmt::Debug for Table<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Table of {} entries", self.len())
    }
}

/// What `entries` gives, in a list that is refused where there is no memory for it.
pub(crate) fn collected<T>(entries: impl ExactSizeIterator<Item = T>) -> Result<Vec<T>, OutOfMemory> {
    let mut list = reserved(entries.len())?;
    list.extend(entries);
    Ok(list)
}

/// An empty list with room for `entries`.
pub(crate) fn reserved<T>(entries: usize) -> Result<Vec<T>, OutOfMemory> {
    let mut list = Vec::new();
    list.try_reserve_exact(entries).map_err(|error| OutOfMemory {
        bytes: (entries as u64).saturating_mul(size_of::<T>() as u64),
        reason: error.to_string(),
    })?;
    Ok(list)
}

/// Asks for the cache line of `table[index]`; an index outside the table is ignored by the processor.
#[inline(always)]
pub fn prefetch<T>(table: &[T], index: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch never faults and changes no architectural state, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(table.as_ptr().wrapping_add(index).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (table, index);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_zero_and_may_be_empty_or_larger_than_memory() {
        for density in [Density::Dense, Density::Sparse] {
            assert!(Table::<u32>::zeroed(0, density).unwrap().is_empty());
            // 8 TiB of address space, of which three pages are touched.
            let mut table = Table::<u64>::zeroed(1 << 40, Density::Sparse).unwrap();
            for at in [0, 1 << 39, (1 << 40) - 1] {
                assert_eq!(table[at], 0);
                table[at] = at as u64 + 1;
                assert_eq!(table[at], at as u64 + 1);
            }
        }
        assert!(Table::<u64>::zeroed(u64::MAX, Density::Dense).is_err());
        let refused = Table::<u64>::zeroed(1 << 50, Density::Sparse).unwrap_err().to_string();
        assert!(refused.contains("9007199254740992 bytes"), "{refused}");
    }

    #[test]
    fn a_list_without_memory_for_it_is_refused() {
        assert_eq!(collected([1, 2].into_iter()).unwrap(), [1, 2]);
        let refused = collected(std::iter::repeat_n(7u64, 1 << 50)).unwrap_err();
        assert_eq!(refused.bytes, 1 << 53);
    }
}
