//! What the queues of a device share: the table of streams, if somebody notes any, and what was done.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use crate::plan::{Operation, Request};
use crate::table::{STREAMS, StreamTable, Use};

/// Between queues, and who gives them streams.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    table: RwLock<Option<Arc<StreamTable>>>,
    pub totals: Arc<Totals>,
    no_flusher: AtomicBool,
}

impl Shared {
    /// The table, for a moment.
    pub fn table(&self) -> Option<Arc<StreamTable>> {
        self.table.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// From now on streams are taken from this table, or none are.
    pub fn set_table(&self, table: Option<StreamTable>) {
        let table = table.map(Arc::new);
        let before =
            std::mem::replace(&mut *self.table.write().unwrap_or_else(PoisonError::into_inner), table);
        // Not under the lock, for which queues wait.
        drop(before);
    }

    pub fn no_flusher(&self) {
        self.no_flusher.store(true, Ordering::Relaxed);
    }

    /// Whether the kernel refused that allocations wait for no write.
    pub fn lacks_flusher(&self) -> bool {
        self.no_flusher.load(Ordering::Relaxed)
    }
}

/// What a device did since it was started.
#[derive(Debug, Default)]
pub struct Totals {
    reads: AtomicU64,
    discards: AtomicU64,
    flushes: AtomicU64,
    errors: AtomicU64,
    refused_bytes: AtomicU64,
    bytes: [AtomicU64; STREAMS],
}

impl Totals {
    pub(crate) fn asked(&self, request: &Request) {
        let count = match request.operation {
            Operation::Read => &self.reads,
            Operation::Flush => &self.flushes,
            Operation::Discard => &self.discards,
            Operation::Write | Operation::WriteZeroes { .. } => return,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn wrote(&self, stream: u8, of: Use) {
        self.bytes[usize::from(stream) % STREAMS].fetch_add(of.bytes, Ordering::Relaxed);
        self.refused_bytes.fetch_add(of.refused_bytes, Ordering::Relaxed);
    }

    pub(crate) fn failed(&self) {
        self.errors.fetch_add(1, Ordering::Relaxed);
    }

    /// Bytes that were written with each stream.
    pub fn written(&self) -> [u64; STREAMS] {
        std::array::from_fn(|stream| self.bytes[stream].load(Ordering::Relaxed))
    }

    /// Bytes whose stream was refused.
    pub fn refused_bytes(&self) -> u64 {
        self.refused_bytes.load(Ordering::Relaxed)
    }

    /// Requests that failed, as the disk failed.
    pub fn errors(&self) -> u64 {
        self.errors.load(Ordering::Relaxed)
    }

    /// Requests to read, to flush and to discard.
    pub fn others(&self) -> [u64; 3] {
        [&self.reads, &self.flushes, &self.discards].map(|count| count.load(Ordering::Relaxed))
    }
}
