//! Where the records of a format become events.
//!
//! - A request covers every page that it touches: a write of a part of a page counts as the whole.
//! - Time counts from the first request and never decreases: where a trace goes back in time, the
//!   time of the request before it is taken, and that is counted.
//! - A request of more than 2^32 - 1 pages becomes several events.
//! - One trace is of one volume.
//! - Only writes have a context, which says who wrote, a file and a hint.
//! - A file is its path. The inode number that it gets is its number in the table, so that no two are alike.

use std::borrow::Cow;
use std::collections::HashMap;

use super::Record;
use super::cells::BadLine;
use super::outcome::{Counts, LineError, Volumes};
use super::settings::{MAX_PAGES, Settings};
use crate::event::{Event, MAX_TIME_NS, Op};
use crate::ids::{ContextId, FileId, Lba, PAGE_BYTES};
use crate::tables::{Batch, Context, File};

/// Without a given size, the device ends at a multiple of 1 MiB.
const SIZE_STEP_PAGES: u64 = (1 << 20) / PAGE_BYTES;

/// Where records become events.
pub(super) struct Sink {
    pub(super) settings: Settings,
    /// The volume that is imported: chosen, or that of the first request.
    pub(super) volume: Option<String>,
    pub(super) volumes: Volumes,
    contexts: HashMap<String, ContextId>,
    /// By path.
    files: HashMap<String, FileId>,
    clock: Clock,
    /// End of the highest extent, in pages.
    highest_end: u64,
    pub(super) counts: Counts,
    pub(super) batch: Batch,
}

impl Sink {
    pub(super) fn new(settings: Settings) -> Sink {
        Sink {
            volume: settings.volume.clone(),
            settings,
            volumes: Volumes::default(),
            contexts: HashMap::new(),
            files: HashMap::new(),
            clock: Clock::default(),
            highest_end: 0,
            counts: Counts::default(),
            batch: Batch::default(),
        }
    }

    /// Size of the device in pages, by all that is known.
    pub(super) fn device_pages(&self) -> u64 {
        let needed = self.highest_end.max(1).next_multiple_of(SIZE_STEP_PAGES);
        self.settings.pages.unwrap_or(needed)
    }

    pub(super) fn add(&mut self, record: &Record) -> Result<(), LineError> {
        self.volumes.add(record.volume);
        if !self.is_wanted(record.volume)? {
            self.counts.other_volumes += 1;
            return Ok(());
        }
        if record.bytes == 0 && record.op != Op::Flush {
            self.counts.zero_length += 1;
            return Ok(());
        }
        let (lba, pages) = self.extent(record)?;
        if pages == 0 && record.op != Op::Flush {
            self.counts.short_discards += 1;
            return Ok(());
        }
        let (time_ns, moved_ns) = self.clock.at(record.time_ns)?;
        let event = self.event(record)?;
        self.counts.clamped_times += u64::from(moved_ns > 0);
        self.counts.most_clamped_ns = self.counts.most_clamped_ns.max(moved_ns);
        *self.count_of(record.op) += 1;
        if record.op == Op::Write {
            let end = record.offset + record.bytes;
            let is_partial = !record.offset.is_multiple_of(PAGE_BYTES) || !end.is_multiple_of(PAGE_BYTES);
            self.counts.partial_writes += u64::from(is_partial);
            self.counts.written_bytes = self.counts.written_bytes.saturating_add(record.bytes);
        }
        self.highest_end = self.highest_end.max(lba + pages);
        self.push(Event { time_ns, ..event }, lba, pages);
        Ok(())
    }

    /// Whether a volume is the chosen one; without a choice, the first is.
    fn is_wanted(&mut self, volume: &str) -> Result<bool, LineError> {
        match &self.volume {
            Some(wanted) if wanted == volume => Ok(true),
            Some(_) if self.settings.volume.is_some() => Ok(false),
            Some(_) => {
                let what = self.settings.format.volume.unwrap_or("volume");
                Err(LineError::Volumes { what, volumes: self.volumes.clone() })
            }
            None => {
                self.volume = Some(volume.to_owned());
                Ok(true)
            }
        }
    }

    /// First page and number of pages that a request touches, or that a discard covers whole: data beside it in a page
    /// stays. None for a barrier.
    fn extent(&self, record: &Record) -> Result<(u64, u64), BadLine> {
        if record.op == Op::Flush {
            return Ok((0, 0));
        }
        let limit = self.settings.pages.unwrap_or(MAX_PAGES);
        let end = record.offset.checked_add(record.bytes).map(|end| end.div_ceil(PAGE_BYTES));
        match end.filter(|&end| end <= limit) {
            Some(end) => {
                let lba = record.offset / PAGE_BYTES;
                if matches!(record.op, Op::Discard | Op::WriteZeroes) {
                    let first = record.offset.div_ceil(PAGE_BYTES);
                    return Ok((first, ((record.offset + record.bytes) / PAGE_BYTES).saturating_sub(first)));
                }
                Ok((lba, end - lba))
            }
            None => Err(self.beyond(record, limit)),
        }
    }

    #[cold]
    fn beyond(&self, record: &Record, limit: u64) -> BadLine {
        let remedy = match self.settings.pages {
            Some(_) => "give a larger --size or none",
            None => "is this the right format?",
        };
        BadLine {
            place: "address",
            found: format!("byte {} + {} bytes", record.offset, record.bytes),
            expected: format!("an end within the device's {} bytes; {remedy}", limit * PAGE_BYTES),
        }
    }

    /// All of an event but its time and place.
    fn event(&mut self, record: &Record) -> Result<Event, BadLine> {
        let event = Event { op: record.op, ..Event::write(0, 0) };
        if record.op != Op::Write {
            return Ok(event);
        }
        let written = record.written;
        Ok(Event {
            context: written.tag.map_or(Ok(ContextId::NONE), |tag| self.context(tag))?,
            file: written.file.map_or(Ok(FileId::NONE), |path| self.file(path))?,
            file_page: written.file.map_or(0, |_| written.file_offset / PAGE_BYTES),
            hint: written.hint,
            ..event
        })
    }

    /// The context of a tag, by first occurrence.
    fn context(&mut self, tag: &str) -> Result<ContextId, BadLine> {
        if let Some(&id) = self.contexts.get(tag) {
            return Ok(id);
        }
        let id = u32::try_from(self.contexts.len() + 1)
            .map_err(|_| BadLine::column("line", tag, format!("at most {} different tags", u32::MAX)))?;
        let id = ContextId(id);
        self.contexts.insert(tag.to_owned(), id);
        self.batch.contexts.push(Context::label(id, tag));
        Ok(id)
    }

    /// The file at a path, by first occurrence. Paths begin with a slash; a name without one is below the root.
    fn file(&mut self, path: &str) -> Result<FileId, BadLine> {
        let path = if path.starts_with('/') { Cow::Borrowed(path) } else { Cow::Owned(format!("/{path}")) };
        if let Some(&id) = self.files.get(&*path) {
            return Ok(id);
        }
        let id = u32::try_from(self.files.len() + 1)
            .map_err(|_| BadLine::column("line", &path, format!("at most {} different files", u32::MAX)))?;
        let (inode, id) = (id.into(), FileId(id));
        self.files.insert(path.to_string(), id);
        self.batch.files.push(File { id, inode, generation: 0, path: path.into_owned() });
        Ok(id)
    }

    fn count_of(&mut self, op: Op) -> &mut u64 {
        match op {
            Op::Write => &mut self.counts.writes,
            Op::Read => &mut self.counts.reads,
            Op::Discard | Op::WriteZeroes => &mut self.counts.discards,
            Op::Flush => &mut self.counts.flushes,
            Op::Exit => unreachable!("no format has it"),
        }
    }

    /// Appends a request as one event, or as several if it is too long for one.
    fn push(&mut self, mut event: Event, lba: u64, mut pages: u64) {
        event.lba = Lba(lba);
        loop {
            event.pages = u32::try_from(pages).unwrap_or(u32::MAX);
            self.batch.events.push(event);
            let now = u64::from(event.pages);
            event.lba.0 += now;
            event.file_page = event.file_page.saturating_add(now);
            pages -= now;
            if pages == 0 {
                return;
            }
        }
    }
}

/// Time since the first request.
#[derive(Default)]
struct Clock {
    first_ns: Option<u64>,
    last_ns: u64,
}

impl Clock {
    /// Time of a request, and by how much it had to be moved to that of the one before; 0: it had not.
    fn at(&mut self, time_ns: u64) -> Result<(u64, u64), BadLine> {
        let first = *self.first_ns.get_or_insert(time_ns);
        if time_ns.saturating_sub(first) > MAX_TIME_NS {
            return Err(BadLine {
                place: "time",
                found: format!("{time_ns} ns, where the first request has {first} ns"),
                expected: "at most 146 years after the first request; is the time of that wrong?".to_owned(),
            });
        }
        let moved = first.saturating_add(self.last_ns).saturating_sub(time_ns);
        if moved == 0 {
            self.last_ns = time_ns - first;
        }
        Ok((self.last_ns, moved))
    }
}
