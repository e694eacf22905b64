//! Files of a trace: names and checksums.
//!
//! Parquet's own page checksums are optional and not written by the library in use, and a flipped
//! bit in a compressed page can decode to other numbers. So `meta.json` lists an XXH3-64 for every
//! 256 KiB of each table, and no byte reaches the decoder before its block was checked.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use bytes::{Buf, Bytes};
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};
use rustix::fs::{Mode, OFlags};
use twox_hash::XxHash3_64;

use super::error::TraceError;
use super::{META_FILE, PARTIAL_SUFFIX};
use crate::meta::FileSums;

/// Bytes covered by one checksum.
const BLOCK_BYTES: u64 = 256 * 1024;

/// The three tables, in the order in which they are written.
pub(super) const TABLES: [&str; 3] = ["contexts", "files", "events"];

/// Where a trace is written before it gets its name, `target`. A slash after that is no part of it.
pub fn partial_path(target: &Path) -> PathBuf {
    let mut name = target.file_name().unwrap_or_default().to_owned();
    name.push(PARTIAL_SUFFIX);
    target.with_file_name(name)
}

/// Name of segment `index` of a table. The checksum in the name lets a reader of a partial trace
/// tell a torn segment from a whole one.
pub(super) fn segment_name(table: &str, index: usize, bytes: &[u8]) -> String {
    format!("{table}-{index:06}-{:016x}.parquet", XxHash3_64::oneshot(bytes))
}

/// Compares the bytes of a segment with the checksum in its name.
pub(super) fn check_segment(path: &Path, bytes: &[u8]) -> Result<(), TraceError> {
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let expected = parse_segment_name(name).map_or("", |(_, _, sum)| sum);
    let found = format!("{:016x}", XxHash3_64::oneshot(bytes));
    if found == expected {
        return Ok(());
    }
    Err(changed(path, 0..bytes.len() as u64, &found, expected))
}

fn changed(path: &Path, bytes: Range<u64>, found: &str, expected: &str) -> TraceError {
    let place = format!("bytes {} to {}", bytes.start, bytes.end);
    let problem =
        format!("checksum {found}, expected {expected}: the bytes have changed since they were written");
    TraceError::corrupt(path, place, problem)
}

/// Splits a segment's file name into table, index and checksum.
pub(super) fn parse_segment_name(name: &str) -> Option<(&'static str, usize, &str)> {
    let mut parts = name.strip_suffix(".parquet")?.split('-');
    let (table, index, sum) = (parts.next()?, parts.next()?, parts.next()?);
    let table = *TABLES.iter().find(|&&t| t == table)?;
    let digits = index.len() >= 6 && index.bytes().all(|b| b.is_ascii_digit());
    let good = digits && sum.len() == 16 && parts.next().is_none();
    if good { Some((table, index.parse().ok()?, sum)) } else { None }
}

/// Whether pcstream gives this name to a file of a trace.
pub(super) fn is_trace_file(name: &str) -> bool {
    let name = name.strip_suffix(".tmp").unwrap_or(name);
    name == META_FILE
        || TABLES.iter().any(|table| name.strip_suffix(".parquet") == Some(*table))
        || parse_segment_name(name).is_some()
}

/// Whether a path names a file of a trace that is there, whole or partial.
pub fn is_in_trace(path: &Path) -> bool {
    let Some(directory) = path.parent() else { return false };
    let is_partial = directory.as_os_str().as_encoded_bytes().ends_with(PARTIAL_SUFFIX.as_bytes());
    path.file_name().and_then(OsStr::to_str).is_some_and(is_trace_file)
        && directory.join(META_FILE).is_file()
        && (is_partial || directory.join("events.parquet").is_file())
}

/// Opens a file for reading that must be a regular one. Opening a FIFO or a device could wait for ever or have
/// effects, so nothing is waited for, and whatever is no file is refused.
pub(super) fn open_regular(path: &Path) -> Result<(fs::File, u64), TraceError> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty());
    let file = fs::File::from(file.map_err(|e| TraceError::io("open", path, e.into()))?);
    let metadata = file.metadata().map_err(|e| TraceError::io("look at", path, e))?;
    if !metadata.is_file() {
        return Err(TraceError::NotAFile(path.to_owned()));
    }
    Ok((file, metadata.len()))
}

/// Longest `meta.json`: the checksums of 2 TB of events take half of it.
const MAX_META_BYTES: u64 = 256 << 20;

/// The text of `meta.json`.
pub(super) fn read_meta_text(path: &Path) -> Result<Vec<u8>, TraceError> {
    let (file, bytes) = open_regular(path)?;
    if bytes > MAX_META_BYTES {
        let problem = format!("{bytes} bytes long, expected at most {MAX_META_BYTES}");
        return Err(TraceError::Meta { path: path.to_owned(), problem });
    }
    let mut text = Vec::new();
    file.take(MAX_META_BYTES).read_to_end(&mut text).map_err(|e| TraceError::io("read", path, e))?;
    Ok(text)
}

/// A file that is checksummed while it is written.
pub(super) struct SummedFile {
    file: io::BufWriter<fs::File>,
    block: XxHash3_64,
    in_block: u64,
    sums: FileSums,
}

impl SummedFile {
    /// Begins an empty file.
    pub fn new(file: fs::File) -> SummedFile {
        SummedFile {
            file: io::BufWriter::with_capacity(BLOCK_BYTES as usize, file),
            block: XxHash3_64::with_seed(0),
            in_block: 0,
            sums: FileSums { bytes: 0, block_bytes: BLOCK_BYTES, xxh3: Vec::new() },
        }
    }

    /// Syncs the file and returns its checksums.
    pub fn close(mut self, path: &Path) -> Result<FileSums, TraceError> {
        if self.in_block > 0 {
            self.end_block();
        }
        let written = self.file.into_inner().map_err(io::IntoInnerError::into_error);
        written.and_then(|f| f.sync_all()).map_err(|e| TraceError::io("write", path, e))?;
        Ok(self.sums)
    }

    fn end_block(&mut self) {
        let sum = std::hash::Hasher::finish(&self.block);
        self.sums.xxh3.push(format!("{sum:016x}"));
        self.block = XxHash3_64::with_seed(0);
        self.in_block = 0;
    }
}

impl Write for SummedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = (BLOCK_BYTES - self.in_block) as usize;
        let written = self.file.write(&bytes[..bytes.len().min(room)])?;
        std::hash::Hasher::write(&mut self.block, &bytes[..written]);
        self.in_block += written as u64;
        self.sums.bytes += written as u64;
        if self.in_block == BLOCK_BYTES {
            self.end_block();
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// A file whose bytes are compared with its checksums before anyone sees them.
#[derive(Debug)]
pub(super) struct CheckedFile {
    path: PathBuf,
    file: Mutex<fs::File>,
    bytes: u64,
    /// `None` when the trace lists no checksums for this file (somebody edited it).
    sums: Option<FileSums>,
}

impl CheckedFile {
    /// Opens a table of a finished trace.
    pub fn open(path: PathBuf, sums: Option<FileSums>) -> Result<CheckedFile, TraceError> {
        let (file, bytes) = open_regular(&path)?;
        if let Some(sums) = &sums {
            if bytes != sums.bytes {
                let kind = if bytes < sums.bytes { "truncated" } else { "too long" };
                let problem = format!("{kind}, expected {} bytes (meta.json)", sums.bytes);
                return Err(TraceError::corrupt(&path, format_args!("{bytes} bytes"), problem));
            }
            let blocks =
                sums.bytes.checked_div(sums.block_bytes).map(|_| sums.bytes.div_ceil(sums.block_bytes));
            if blocks != Some(sums.xxh3.len() as u64) {
                let problem = format!(
                    "{} checksums of {}-byte blocks in meta.json do not cover {bytes} bytes",
                    sums.xxh3.len(),
                    sums.block_bytes
                );
                return Err(TraceError::corrupt(&path, "checksums", problem));
            }
        }
        Ok(CheckedFile { path, file: Mutex::new(file), bytes, sums })
    }

    /// Opens a segment, whose one checksum is part of its name.
    pub fn open_segment(path: PathBuf, sum: &str) -> Result<CheckedFile, TraceError> {
        let mut file = CheckedFile::open(path, None)?;
        let block_bytes = file.bytes.max(1);
        let xxh3 = if file.bytes == 0 { Vec::new() } else { vec![sum.to_owned()] };
        file.sums = Some(FileSums { bytes: file.bytes, block_bytes, xxh3 });
        Ok(file)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Length of the file.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes `start..start + length`, checked.
    pub fn read(&self, start: u64, length: u64) -> Result<Bytes, TraceError> {
        let end = start.checked_add(length).filter(|&end| end <= self.bytes);
        let Some(end) = end else {
            let problem = format!("{length} bytes expected there, but the file has {}", self.bytes);
            return Err(TraceError::corrupt(&self.path, format_args!("byte {start}"), problem));
        };
        let block_bytes = self.sums.as_ref().map_or(1, |sums| sums.block_bytes);
        let from = start - start % block_bytes;
        let to = end.div_ceil(block_bytes).saturating_mul(block_bytes).min(self.bytes);
        let mut buffer = vec![0; (to - from) as usize];
        {
            let mut file = self.file.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            file.seek(SeekFrom::Start(from))
                .and_then(|_| file.read_exact(&mut buffer))
                .map_err(|e| TraceError::io("read", &self.path, e))?;
        }
        if let Some(sums) = &self.sums {
            self.verify(sums, from, &buffer)?;
        }
        Ok(Bytes::from(buffer).slice((start - from) as usize..(end - from) as usize))
    }

    /// Compares whole blocks, the first at byte `from`, with their checksums.
    fn verify(&self, sums: &FileSums, from: u64, blocks: &[u8]) -> Result<(), TraceError> {
        let first = (from / sums.block_bytes) as usize;
        let step = usize::try_from(sums.block_bytes).unwrap_or(usize::MAX);
        for (i, block) in blocks.chunks(step).enumerate() {
            let found = format!("{:016x}", XxHash3_64::oneshot(block));
            let expected = &sums.xxh3[first + i];
            if found != *expected {
                let start = from + (i * step) as u64;
                return Err(changed(&self.path, start..start + block.len() as u64, &found, expected));
            }
        }
        Ok(())
    }
}

impl Length for CheckedFile {
    fn len(&self) -> u64 {
        self.bytes
    }
}

impl ChunkReader for CheckedFile {
    type T = bytes::buf::Reader<Bytes>;

    fn get_read(&self, start: u64) -> parquet::errors::Result<Self::T> {
        let rest = self.bytes.saturating_sub(start);
        self.get_bytes(start, rest as usize).map(Buf::reader)
    }

    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        self.read(start, length as u64).map_err(|e| ParquetError::External(Box::new(e)))
    }
}

/// The bytes of one row group, presented at their place in the file.
#[derive(Clone)]
pub(super) struct Window {
    /// Offset of the first byte in the file.
    pub start: u64,
    /// The bytes.
    pub bytes: Bytes,
}

impl Length for Window {
    fn len(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

impl ChunkReader for Window {
    type T = bytes::buf::Reader<Bytes>;

    fn get_read(&self, start: u64) -> parquet::errors::Result<Self::T> {
        let end = self.len();
        self.get_bytes(start, end.saturating_sub(start) as usize).map(Buf::reader)
    }

    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        let from = start.checked_sub(self.start).and_then(|from| usize::try_from(from).ok());
        let range = from.and_then(|from| Some(from..from.checked_add(length)?));
        match range {
            Some(range) if range.end <= self.bytes.len() => Ok(self.bytes.slice(range)),
            _ => Err(ParquetError::EOF(format!(
                "{length} bytes at byte {start} lie outside the row group's bytes {} to {}",
                self.start,
                self.len()
            ))),
        }
    }
}
