//! Where the bytes of a module's file are loaded: its file offsets and its virtual addresses.

use object::{Object, ObjectSegment};

use crate::modules::module_data::Elf;

/// Programs have ten; more are searched for nothing.
const MAX_SEGMENTS: usize = 1024;

/// The parts of a file that are loaded.
#[derive(Debug)]
pub struct Segments(Vec<Segment>);

#[derive(Debug)]
struct Segment {
    offset: u64,
    /// In the file; more may be loaded, as zeros.
    bytes: u64,
    address: u64,
}

impl Segments {
    /// Of a module.
    pub fn of(module: &Elf<'_>) -> Segments {
        let segments = module.segments().take(MAX_SEGMENTS).map(|segment| {
            let (offset, bytes) = segment.file_range();
            Segment { offset, bytes, address: segment.address() }
        });
        Segments(segments.collect())
    }

    /// The address that a file offset is loaded to.
    pub fn address_of(&self, offset: u64) -> Option<u64> {
        self.0.iter().find_map(|segment| moved(offset, segment.offset, segment.address, segment.bytes))
    }

    /// The file offset of what is loaded to an address.
    pub fn offset_of(&self, address: u64) -> Option<u64> {
        self.0.iter().find_map(|segment| moved(address, segment.address, segment.offset, segment.bytes))
    }
}

/// What is as far from `to` as `at` is from `from`, if that is less than `bytes`.
fn moved(at: u64, from: u64, to: u64, bytes: u64) -> Option<u64> {
    let into = at.checked_sub(from).filter(|into| *into < bytes)?;
    to.checked_add(into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_and_addresses_lead_to_each_other() {
        let segment = |offset, bytes, address| Segment { offset, bytes, address };
        let segments = Segments(vec![segment(0, 0x100, 0x400_000), segment(0x1000, u64::MAX, 0x500_000)]);
        for (offset, address) in [(0, 0x400_000), (0xff, 0x400_0ff), (0x1000, 0x500_000), (0x1234, 0x500_234)]
        {
            assert_eq!(segments.address_of(offset), Some(address), "{offset:#x}");
            assert_eq!(segments.offset_of(address), Some(offset), "{address:#x}");
        }
        assert_eq!([segments.address_of(0x100), segments.address_of(u64::MAX - 1)], [None, None]);
        assert_eq!([segments.offset_of(0x400_100), segments.offset_of(0)], [None, None]);
    }
}
