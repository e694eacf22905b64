//! What reading a table may take: a small file must not make a reader take gigabytes.
//!
//! Parquet lets a few bytes stand for much: a compressed page may hold 2 GiB of zeros, and a dictionary's one long
//! string may be every row's. So the page headers of a row group are looked at before anything is decompressed,
//! and the tables that stay in memory have a budget that grows with their file.
//!
//! Limits, in bytes: a page 32 MiB decompressed; a string 64 KiB in a dictionary; the strings of one column of a row group
//! 512 MiB decoded; a table in memory 512 MiB, or 256 times its file. Weakness: strings are counted as if each were
//! as long as the longest of its dictionary, so a large row group with few very long names is refused, too.
//!
//! The writer keeps what it writes within these limits (`load`, `check_table`): whoever is recorded chooses names and call paths,
//! and must not be able to make a trace that nobody can read.

use std::sync::Arc;

use parquet::basic::Type;
use parquet::column::page::{Page, PageReader as _};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};
use parquet::file::serialized_reader::SerializedPageReader;

use super::error::TraceError;
use super::files::Window;
use super::load::{GROUP_STRING_BYTES, Load, MAX_VALUES, strings_of};
use crate::tables::{Context, File, MAX_STRING_BYTES};

/// Largest page after decompression. Writers aim at 1 MiB.
const MAX_PAGE_BYTES: u64 = 32 << 20;
/// Frames of a call path. Recordings have 16 at most; the Java agent's paths are as long as its option `depth` says.
const MAX_FRAMES: usize = 4096;
/// All strings of a column in a row group.
const MAX_STRINGS_BYTES: u64 = 512 << 20;
/// What a table in memory may take whatever its file's size: half for what a recorder captures of contexts, half for the names of
/// their functions.
const TABLE_BYTES: u64 = 512 << 20;
/// What a table in memory may take for each byte of its file.
const TABLE_BYTES_PER_BYTE: u64 = 256;

/// What a table may take in memory that is read from `file_bytes` bytes.
fn table_bytes(file_bytes: u64) -> u64 {
    TABLE_BYTES.max(file_bytes.saturating_mul(TABLE_BYTES_PER_BYTE))
}

/// Refuses a table of `bytes` in memory that no reader takes from a file of this size.
pub(super) fn check_table(bytes: u64, file_bytes: u64) -> Result<(), String> {
    let allowed = table_bytes(file_bytes);
    if bytes <= allowed {
        return Ok(());
    }
    Err(format!(
        "the table takes {} MiB of memory, and a reader takes at most {} MiB from a file of this size; write fewer rows, or \
         shorter names",
        bytes >> 20,
        allowed >> 20
    ))
}

/// What remains of the memory that a table may take.
pub(super) struct TableBudget {
    allowed: u64,
    left: u64,
}

impl TableBudget {
    /// For a table read from `file_bytes` bytes.
    pub fn new(file_bytes: u64) -> TableBudget {
        let allowed = table_bytes(file_bytes);
        TableBudget { allowed, left: allowed }
    }

    /// Takes what a row needs; an error in words when it is more than what is left.
    pub fn take(&mut self, bytes: usize) -> Result<(), String> {
        let left = self.left.checked_sub(bytes as u64);
        self.left = left.ok_or_else(|| {
            format!(
                "the table takes more than {} MiB of memory up to here, which is more than a recorder writes into a \
                 file of this size; record the trace again",
                self.allowed >> 20
            )
        })?;
        Ok(())
    }
}

/// Refuses a context that no reader takes.
pub(super) fn check_context(context: &Context) -> Result<(), String> {
    check_frames(context.frames.len())?;
    strings_of(context).map(|text| text.len() as u64).try_for_each(check_string)?;
    let load = Load::of_context(context);
    if load.fits() {
        return Ok(());
    }
    Err(format!("names of {} bytes in a call path, expected at most {GROUP_STRING_BYTES}", load.strings))
}

/// Refuses a file that no reader takes.
pub(super) fn check_file(file: &File) -> Result<(), String> {
    check_string(file.path.len() as u64)
}

pub(super) fn check_frames(frames: usize) -> Result<(), String> {
    if frames <= MAX_FRAMES {
        return Ok(());
    }
    Err(format!("{frames} frames, expected at most {MAX_FRAMES}"))
}

fn check_string(bytes: u64) -> Result<(), String> {
    if bytes <= MAX_STRING_BYTES {
        return Ok(());
    }
    Err(format!("a string of {bytes} bytes, expected at most {MAX_STRING_BYTES}"))
}

/// Refuses a row group one of whose columns would take too much memory. `bytes` are the row group's; `is_read` says
/// which columns will be decoded; `batch_rows` rows are decoded at once.
pub(super) fn check_row_group(
    window: &Window,
    group: &RowGroupMetaData,
    is_read: impl Fn(usize) -> bool,
    batch_rows: u64,
    error: impl Fn(String, String) -> TraceError,
) -> Result<(), ParquetError> {
    let columns = group.columns().iter().enumerate().filter(|(index, _)| is_read(*index));
    for (_, column) in columns {
        if let Err(problem) = check_column(window, column, group.num_rows(), batch_rows)? {
            let place = format!("column {}", column.column_path().string());
            return Err(ParquetError::External(Box::new(error(place, problem))));
        }
    }
    Ok(())
}

/// The inner error is a limit that does not hold, in words.
fn check_column(
    window: &Window,
    column: &ColumnChunkMetaData,
    rows: i64,
    batch_rows: u64,
) -> Result<Result<(), String>, ParquetError> {
    let (start, length) = column.byte_range();
    let from = start.checked_sub(window.start).map(|from| from as usize);
    let chunk = from.and_then(|from| window.bytes.get(from..from.checked_add(length as usize)?));
    let chunk =
        chunk.ok_or_else(|| ParquetError::General("a column lies outside its row group".to_owned()))?;
    let pages = pages(chunk)?;
    if let Some(page) = pages.iter().find(|page| page.bytes > MAX_PAGE_BYTES) {
        let remedy = "write the table with smaller pages";
        return Ok(Err(format!(
            "a page of {} MiB, expected at most {} MiB; {remedy}",
            page.bytes >> 20,
            MAX_PAGE_BYTES >> 20
        )));
    }
    let is_flat = column.column_descr().max_rep_level() == 0;
    // The numbers are of a file that anybody may have made.
    let values = pages.iter().map(|page| page.values).fold(0, u64::saturating_add);
    if !is_flat && values > MAX_VALUES {
        let remedy = "write the table with smaller row groups";
        return Ok(Err(format!("{values} values in a row group, expected at most {MAX_VALUES}; {remedy}")));
    }
    if column.column_type() != Type::BYTE_ARRAY {
        return Ok(Ok(()));
    }
    let plain: u64 =
        pages.iter().filter(|page| page.kind != PageKind::Dictionary).map(|page| page.bytes).sum();
    let longest = if pages.iter().any(|page| page.kind == PageKind::Dictionary) {
        longest_in_dictionary(window, column, rows)?
    } else {
        0
    };
    let at_once = if is_flat { values.min(batch_rows) } else { values };
    if let Err(problem) = check_string(longest) {
        return Ok(Err(problem));
    }
    let decoded = plain + at_once * longest;
    if decoded > MAX_STRINGS_BYTES {
        return Ok(Err(format!(
            "its strings may take {} MiB of memory, expected at most {} MiB; write the table with smaller row groups",
            decoded >> 20,
            MAX_STRINGS_BYTES >> 20
        )));
    }
    Ok(Ok(()))
}

/// Bytes of the longest string in a column's dictionary, whose page is known to be small enough.
fn longest_in_dictionary(
    window: &Window,
    column: &ColumnChunkMetaData,
    rows: i64,
) -> Result<u64, ParquetError> {
    let rows = usize::try_from(rows).unwrap_or(0);
    let mut reader = SerializedPageReader::new(Arc::new(window.clone()), column, rows, None)?;
    let Some(Page::DictionaryPage { buf, .. }) = reader.get_next_page()? else { return Ok(0) };
    let (mut rest, mut longest) = (&buf[..], 0);
    while let Some((length, behind)) = rest.split_first_chunk::<4>() {
        let length = u32::from_le_bytes(*length);
        longest = longest.max(u64::from(length));
        rest = behind.get(length as usize..).unwrap_or_default();
    }
    Ok(longest)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PageKind {
    Data,
    Dictionary,
    Other,
}

/// What a page's header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PageSize {
    kind: PageKind,
    /// After decompression.
    bytes: u64,
    /// Values of a data page, nulls included.
    values: u64,
}

/// The headers of the pages of a column, in order.
fn pages(mut chunk: &[u8]) -> Result<Vec<PageSize>, ParquetError> {
    let damaged = || ParquetError::General("a page header is damaged".to_owned());
    let mut pages = Vec::new();
    while !chunk.is_empty() {
        let mut header = Compact(chunk);
        let (page, compressed) = header.page().ok_or_else(damaged)?;
        chunk = header.0.get(compressed..).ok_or_else(damaged)?;
        pages.push(page);
    }
    Ok(pages)
}

/// Thrift's compact protocol, as far as page headers need it: a structure is a list of fields, each with a type and
/// the distance of its number from the one before.
struct Compact<'a>(&'a [u8]);

/// Structures in structures that are skipped at most.
const MAX_DEPTH: u32 = 8;

impl Compact<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn number(&mut self) -> Option<i64> {
        let value = self.varint()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// Type and number of the next field; type 0 ends the structure.
    fn field(&mut self, last: &mut i64) -> Option<(u8, i64)> {
        let header = self.byte()?;
        if header & 0x0f == 0 {
            return Some((0, 0));
        }
        *last = if header >> 4 == 0 { self.number()? } else { last.checked_add(i64::from(header >> 4))? };
        Some((header & 0x0f, *last))
    }

    fn skip_bytes(&mut self, bytes: u64) -> Option<()> {
        self.0 = self.0.get(usize::try_from(bytes).ok()?..)?;
        Some(())
    }

    fn skip(&mut self, kind: u8, depth: u32) -> Option<()> {
        match kind {
            1 | 2 => Some(()),
            3 => self.skip_bytes(1),
            4..=6 => self.varint().map(drop),
            7 => self.skip_bytes(8),
            8 => {
                let length = self.varint()?;
                self.skip_bytes(length)
            }
            9 | 10 if depth < MAX_DEPTH => {
                let header = self.byte()?;
                let elements = if header >> 4 == 15 { self.varint()? } else { u64::from(header >> 4) };
                // Truth values are bytes in lists, though not in fields.
                let element = if matches!(header & 0x0f, 1 | 2) { 3 } else { header & 0x0f };
                (0..elements).try_for_each(|_| self.skip(element, depth + 1))
            }
            12 if depth < MAX_DEPTH => {
                let mut last = 0;
                loop {
                    match self.field(&mut last)? {
                        (0, _) => return Some(()),
                        (kind, _) => self.skip(kind, depth + 1)?,
                    }
                }
            }
            _ => None,
        }
    }

    /// A page header, and how many bytes of page follow it.
    fn page(&mut self) -> Option<(PageSize, usize)> {
        let mut page = PageSize { kind: PageKind::Other, bytes: 0, values: 0 };
        let (mut last, mut compressed) = (0, 0);
        loop {
            match self.field(&mut last)? {
                (0, _) => return Some((page, compressed)),
                (5, 1) => {
                    page.kind = match self.number()? {
                        0 | 3 => PageKind::Data,
                        2 => PageKind::Dictionary,
                        _ => PageKind::Other,
                    }
                }
                (5, 2) => page.bytes = u64::try_from(self.number()?).ok()?,
                (5, 3) => compressed = usize::try_from(self.number()?).ok()?,
                // The first field of the headers of data pages, both versions, is the number of values.
                (12, 5 | 8) => page.values = self.first_number()?,
                (kind, _) => self.skip(kind, 0)?,
            }
        }
    }

    /// Field 1 of a structure, 0 if it is missing; the structure is passed.
    fn first_number(&mut self) -> Option<u64> {
        let (mut last, mut found) = (0, 0);
        loop {
            match self.field(&mut last)? {
                (0, _) => return Some(found),
                (5, 1) => found = u64::try_from(self.number()?).ok()?,
                (kind, _) => self.skip(kind, 1)?,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_header_is_read_by_hand() {
        // type 0, 300 bytes, 2 compressed, data_page_header { 7 values, encoding 0, 3, 3 }, then the page.
        let header = [0x15, 0, 0x15, 0xd8, 4, 0x15, 4, 0x2c, 0x15, 14, 0x15, 0, 0x15, 6, 0x15, 6, 0, 0];
        let chunk = [&header[..], &[9, 9]].concat();
        let page = PageSize { kind: PageKind::Data, bytes: 300, values: 7 };
        assert_eq!(pages(&chunk).unwrap(), [page]);
        assert!(pages(&chunk[..chunk.len() - 1]).is_err());
        for length in 1..header.len() {
            assert!(pages(&chunk[..length]).is_err());
        }
    }

    #[test]
    fn lists_and_nested_structures_are_skipped_and_depth_is_limited() {
        // Field 7 is unknown: a list of two truth values, then a structure with a string.
        let chunk = [0x15, 0, 0x69, 0x21, 1, 2, 0x1c, 0x18, 2, b'a', b'b', 0, 0];
        assert_eq!(pages(&chunk).unwrap()[0].kind, PageKind::Data);
        assert!(pages(&[0x1c; 64]).is_err());
        assert!(pages(&[0xff; 64]).is_err());
    }

    #[test]
    fn a_budget_grows_with_the_file() {
        let mut small = TableBudget::new(10);
        assert!(small.take(512 << 20).is_ok() && small.take(1).unwrap_err().contains("512 MiB"));
        assert!(TableBudget::new(8 << 20).take(2 << 30).is_ok());
        assert!(check_table(512 << 20, 10).is_ok() && check_table(1 << 30, 10).is_err());
    }
}
