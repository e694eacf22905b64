//! Files of a trace: names, checksums, atomic replacement, locks, and what may be deleted.
//!
//! Parquet's own page checksums are optional and not written by the library in use, and a flipped
//! bit in a compressed page can decode to other numbers. So `meta.json` lists an XXH3-64 for every
//! 256 KiB of each table, and no byte reaches the decoder before its block was checked.

use std::fs;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use bytes::{Buf, Bytes};
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;
use twox_hash::XxHash3_64;

use super::error::TraceError;
use super::{META_FILE, PARTIAL_SUFFIX};
use crate::meta::FileSums;

/// Bytes covered by one checksum.
const BLOCK_BYTES: u64 = 256 * 1024;

/// The three tables, in the order in which they are written.
pub(super) const TABLES: [&str; 3] = ["contexts", "files", "events"];

/// Where a trace is written before it gets its name, `target`.
pub fn partial_path(target: &Path) -> PathBuf {
    let mut name = target.as_os_str().to_owned();
    name.push(PARTIAL_SUFFIX);
    PathBuf::from(name)
}

/// Name of segment `index` of a table. The checksum in the name lets a reader of a partial trace
/// tell a torn segment from a whole one.
pub(super) fn segment_name(table: &str, index: usize, bytes: &[u8]) -> String {
    format!("{table}-{index:06}-{:016x}.parquet", XxHash3_64::oneshot(bytes))
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
fn is_trace_file(name: &str) -> bool {
    let name = name.strip_suffix(".tmp").unwrap_or(name);
    name == META_FILE
        || TABLES.iter().any(|table| name.strip_suffix(".parquet") == Some(*table))
        || parse_segment_name(name).is_some()
}

/// Creates a file, or empties it, that only its owner may read: a trace holds command lines and file names.
fn create_private(path: &Path) -> io::Result<fs::File> {
    fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

/// Creates a directory that only its owner may look into.
pub(super) fn create_private_dir(path: &Path) -> Result<(), TraceError> {
    let made = fs::DirBuilder::new().mode(0o700).create(path);
    made.map_err(|e| TraceError::io("create the directory", path, e))
}

/// Writes a small file so that a reader sees the old content or the new, never a part.
pub(super) fn replace_file(path: &Path, content: &[u8]) -> Result<(), TraceError> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".tmp");
    let temporary = PathBuf::from(temporary);
    let write = |mut file: fs::File| file.write_all(content);
    create_private(&temporary).and_then(write).map_err(|e| TraceError::io("write", &temporary, e))?;
    fs::rename(&temporary, path).map_err(|e| TraceError::io("rename its temporary file to", path, e))
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

/// A lock on a directory, given up when dropped or when the process dies.
#[derive(Debug)]
pub(super) struct DirLock(#[allow(dead_code)] fs::File);

/// Locks a directory: exclusively for a recorder, shared for readers of a partial trace.
pub(super) fn lock_dir(path: &Path, exclusive: bool) -> Result<DirLock, TraceError> {
    let dir = fs::File::open(path).map_err(|e| TraceError::io("open", path, e))?;
    let operation = if exclusive {
        FlockOperation::NonBlockingLockExclusive
    } else {
        FlockOperation::NonBlockingLockShared
    };
    match flock(&dir, operation) {
        Ok(()) => Ok(DirLock(dir)),
        // File systems without locks (some network ones) cannot tell; a trace there is worth having.
        Err(Errno::NOLCK | Errno::NOTSUP | Errno::NOSYS) => Ok(DirLock(dir)),
        Err(Errno::WOULDBLOCK) => Err(TraceError::InUse(path.to_owned())),
        Err(e) => Err(TraceError::io("lock", path, e.into())),
    }
}

/// Refuses a directory that holds anything but a trace. An empty directory passes: it is what a
/// recorder leaves that was killed at once.
pub(super) fn check_only_trace(path: &Path) -> Result<(), TraceError> {
    let refuse = |found: String| TraceError::NotATrace {
        path: path.to_owned(),
        found,
        remedy: "; it was left untouched, choose another name",
    };
    let kind = fs::symlink_metadata(path).map_err(|e| TraceError::io("look at", path, e))?;
    if !kind.is_dir() {
        return Err(refuse("it is not a directory".to_owned()));
    }
    let (mut entries, mut has_meta) = (0, false);
    for entry in fs::read_dir(path).map_err(|e| TraceError::io("list", path, e))? {
        let entry = entry.map_err(|e| TraceError::io("list", path, e))?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_file = entry.file_type().is_ok_and(|t| t.is_file());
        if !is_file || !is_trace_file(&name) {
            return Err(refuse(format!("it holds {name:?}")));
        }
        entries += 1;
        has_meta |= name.trim_end_matches(".tmp") == META_FILE;
    }
    if entries > 0 && !has_meta { Err(refuse("it has no meta.json".to_owned())) } else { Ok(()) }
}

/// Deletes a trace, whole or partial, after checking that it is nothing else.
pub(super) fn remove_trace(path: &Path) -> Result<(), TraceError> {
    check_only_trace(path)?;
    for entry in fs::read_dir(path).map_err(|e| TraceError::io("list", path, e))? {
        let entry = entry.map_err(|e| TraceError::io("list", path, e))?.path();
        fs::remove_file(&entry).map_err(|e| TraceError::io("remove", &entry, e))?;
    }
    fs::remove_dir(path).map_err(|e| TraceError::io("remove", path, e))
}

/// A file that is checksummed while it is written.
pub(super) struct SummedFile {
    file: io::BufWriter<fs::File>,
    block: XxHash3_64,
    in_block: u64,
    sums: FileSums,
}

impl SummedFile {
    pub fn create(path: &Path) -> Result<SummedFile, TraceError> {
        let file = create_private(path).map_err(|e| TraceError::io("create", path, e))?;
        Ok(SummedFile {
            file: io::BufWriter::with_capacity(BLOCK_BYTES as usize, file),
            block: XxHash3_64::with_seed(0),
            in_block: 0,
            sums: FileSums { bytes: 0, block_bytes: BLOCK_BYTES, xxh3: Vec::new() },
        })
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
                let place = format!(
                    "bytes {} to {}",
                    from + (i * step) as u64,
                    from + (i * step + block.len()) as u64
                );
                let problem = format!(
                    "checksum {found}, expected {expected}: the bytes have changed since they were written"
                );
                return Err(TraceError::corrupt(&self.path, place, problem));
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
