//! A placer in a thread of its own.
//!
//! Idea: whoever reads a capture's records must never wait, or events would be lost for the trace and for learning alike.
//! A file's hint may take a lock that its writer holds, a table may lie on a slow disk. So batches queue, up to a bound;
//! events that find no room are not learned from, and counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pcstream_trace::{Batch, ContextId};

use crate::placer::Placer;
use crate::sink::StreamTable;
use crate::summary::Summary;

/// Events that may wait: 48 MiB.
const QUEUED_EVENTS_MAX: usize = 1 << 20;

enum Message {
    Batch(Batch, Vec<(u64, ContextId)>),
    Connect(Box<dyn StreamTable>),
    Reload,
}

/// The thread, and the queue before it.
pub struct Worker {
    /// Gone at the end.
    sender: Option<Sender<Message>>,
    notes: Receiver<String>,
    queued: Arc<AtomicUsize>,
    reloads: Arc<AtomicU64>,
    events_max: usize,
    lost_events: AtomicU64,
    thread: Option<JoinHandle<Summary>>,
}

impl Worker {
    /// Starts it. The table is saved each `interval`.
    pub fn start(placer: Placer, interval: Duration) -> Worker {
        Worker::with_queue(placer, interval, QUEUED_EVENTS_MAX)
    }

    fn with_queue(placer: Placer, interval: Duration, events_max: usize) -> Worker {
        let (sender, receiver) = channel();
        let (say, notes) = channel();
        let queued = Arc::new(AtomicUsize::new(0));
        let reloads = Arc::new(AtomicU64::new(0));
        let (counter, reloaded) = (queued.clone(), reloads.clone());
        let thread = std::thread::spawn(move || {
            let mut thread = Thread { placer, queued: counter, reloads: reloaded, say };
            thread.run(&receiver, interval)
        });
        Worker {
            sender: Some(sender),
            notes,
            queued,
            reloads,
            events_max,
            lost_events: AtomicU64::new(0),
            thread: Some(thread),
        }
    }

    /// The next events, and keys of contexts. Never waits.
    pub fn feed(&mut self, mut batch: Batch, keys: Vec<(u64, ContextId)>) {
        let events = batch.events.len();
        // Only this side adds, so what is there now does not grow before the batch is in.
        if self.queued.load(Ordering::Relaxed) + events > self.events_max {
            self.lost_events.fetch_add(events as u64, Ordering::Relaxed);
            // Contexts and files are needed by all that comes later.
            batch.events.clear();
        }
        self.queued.fetch_add(batch.events.len(), Ordering::Relaxed);
        self.send(Message::Batch(batch, keys));
    }

    /// The kernel side's table of streams is there.
    pub fn connect(&mut self, table: Box<dyn StreamTable>) {
        self.send(Message::Connect(table));
    }

    /// Takes up the table if somebody replaced it, and saves.
    pub fn reload(&mut self) {
        self.send(Message::Reload);
    }

    /// Reloads that are done.
    pub fn reloads(&self) -> u64 {
        self.reloads.load(Ordering::Relaxed)
    }

    /// What the user should know since the last call.
    pub fn notes(&self) -> Vec<String> {
        self.notes.try_iter().collect()
    }

    /// Ends the thread when it has done all that was queued. The second part is the last notes.
    pub fn finish(mut self) -> (Summary, Vec<String>) {
        self.sender = None;
        let thread = self.thread.take().expect("joined once");
        let mut summary = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        summary.losses.insert("events_not_learned".to_owned(), self.lost_events.load(Ordering::Relaxed));
        let notes = self.notes();
        (summary, notes)
    }

    fn send(&self, message: Message) {
        let sender = self.sender.as_ref().expect("it runs");
        // It ends early by a panic only, which `finish` passes on.
        let _ = sender.send(message);
    }
}

/// What lives in the thread.
struct Thread {
    placer: Placer,
    queued: Arc<AtomicUsize>,
    reloads: Arc<AtomicU64>,
    say: Sender<String>,
}

impl Thread {
    fn run(&mut self, messages: &Receiver<Message>, interval: Duration) -> Summary {
        let mut saved = Instant::now();
        loop {
            match messages.recv_timeout(interval.saturating_sub(saved.elapsed())) {
                Ok(Message::Batch(batch, keys)) => {
                    self.placer.feed(&batch, &keys);
                    self.queued.fetch_sub(batch.events.len(), Ordering::Relaxed);
                }
                Ok(Message::Connect(table)) => self.placer.connect(table),
                Ok(Message::Reload) => {
                    self.placer.reload();
                    self.reloads.fetch_add(1, Ordering::Relaxed);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if saved.elapsed() >= interval {
                self.placer.save();
                saved = Instant::now();
            }
            self.pass_on_notes();
        }
        let summary = self.placer.finish();
        self.pass_on_notes();
        summary
    }

    fn pass_on_notes(&mut self) {
        // Nobody reads them once the worker is dropped.
        self.placer.notes().into_iter().for_each(|note| _ = self.say.send(note));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learner::Learner;
    use crate::sinks::none::Nothing;
    use crate::table_file::TableFile;
    use crate::testing::{batch, scheme, write};

    fn placer(table: Option<TableFile>) -> Placer {
        let learner = Learner::new(scheme("pcstream")).expect("it places by context");
        Placer::new("pcstream", learner, Box::new(Nothing), table).expect("the table is good")
    }

    #[test]
    fn events_that_find_no_room_are_counted_and_their_contexts_stay() {
        let mut worker = Worker::with_queue(placer(None), Duration::from_secs(3600), 1);
        worker.feed(batch(2, 1, vec![write(1, 1, 0, 1), write(2, 1, 1, 1)]), Vec::new());
        worker.feed(batch(0, 0, vec![write(2, 1, 0, 1)]), Vec::new());
        let (summary, _) = worker.finish();
        assert_eq!(summary.losses["events_not_learned"], 2);
        assert_eq!((summary.contexts.len(), summary.written_pages), (2, 1));
    }

    #[test]
    fn the_table_is_saved_at_the_interval() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("t.table");
        let table = TableFile::new(&path, "pcstream").expect("it can be made");
        let worker = Worker::with_queue(placer(Some(table)), Duration::from_millis(1), 1);
        let began = Instant::now();
        while !path.exists() {
            assert!(began.elapsed() < Duration::from_secs(60), "waited too long");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(worker.notes().is_empty());
        assert_eq!(worker.finish().0.lost(), 0);
    }
}
