//! The rules that hold for every event of a trace, checked by the writer before an event is stored
//! and by the reader after it was loaded.

use super::error::EventFault;
use crate::event::{Event, MAX_TIME_NS};

/// What the rules depend on.
#[derive(Clone, Copy, Debug)]
pub(super) struct EventCheck {
    /// Size of the device in pages; `u64::MAX` while a writer does not know it.
    pub device_pages: u64,
    /// Entries of the contexts table.
    pub contexts: u64,
    /// Entries of the files table.
    pub files: u64,
    /// Time of the last event.
    pub last_ns: u64,
    /// End of the highest extent seen, in pages.
    pub highest_end: u64,
}

impl EventCheck {
    /// Before the first event of a device with this many pages, 0 while that is not known.
    pub fn new(device_pages: u64, contexts: u64, files: u64) -> EventCheck {
        let device_pages = if device_pages == 0 { u64::MAX } else { device_pages };
        EventCheck { device_pages, contexts, files, last_ns: 0, highest_end: 0 }
    }

    /// Checks the next event.
    #[inline]
    pub fn check(&mut self, event: &Event) -> Result<(), EventFault> {
        let pages = u64::from(event.pages);
        let end = event.lba.0.saturating_add(pages);
        let good = event.time_ns >= self.last_ns
            && event.time_ns <= MAX_TIME_NS
            && (event.pages > 0) == event.op.has_pages()
            && end <= self.device_pages
            && event.lba.0.checked_add(pages).is_some()
            && u64::from(event.context.0) <= self.contexts
            && u64::from(event.file.0) <= self.files
            && event.file_page.checked_add(pages).is_some();
        if !good {
            return Err(self.fault(event));
        }
        self.last_ns = event.time_ns;
        self.highest_end = self.highest_end.max(end);
        Ok(())
    }

    /// Which rule a bad event breaks.
    #[cold]
    fn fault(&self, event: &Event) -> EventFault {
        let pages = event.pages;
        if event.time_ns < self.last_ns {
            EventFault::Time { previous: self.last_ns, found: event.time_ns }
        } else if event.time_ns > MAX_TIME_NS {
            EventFault::TooLate(event.time_ns)
        } else if pages == 0 && event.op.has_pages() {
            EventFault::NoPages(event.op.name())
        } else if pages > 0 && !event.op.has_pages() {
            EventFault::Pages { op: event.op.name(), pages }
        } else if event.lba.0.checked_add(u64::from(pages)).is_none_or(|end| end > self.device_pages) {
            EventFault::BeyondDevice { lba: event.lba, pages, device_pages: self.device_pages }
        } else if u64::from(event.context.0) > self.contexts {
            EventFault::Context { found: event.context.0, known: self.contexts }
        } else if u64::from(event.file.0) > self.files {
            EventFault::File { found: event.file.0, known: self.files }
        } else {
            EventFault::FilePage { file_page: event.file_page, pages }
        }
    }
}
