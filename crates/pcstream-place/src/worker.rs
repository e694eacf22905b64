//! A placer in a thread of its own.
//!
//! Idea: whoever reads a capture's records must never wait, or events would be lost for the trace and for learning alike.
//! A file's hint may take a lock that its writer holds, a table may lie on a slow disk. So batches queue, up to a bound;
//! events that find no room are not learned from, and counted. So are those that still wait some time after a stop. New files count
//! by the memory that their names take: those that find no room are not followed. Contexts and their keys always find room, since the
//! capture bounds them.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pcstream_trace::{Batch, ContextId, Event, File, FileId};

use crate::placer::Placer;
use crate::sink::StreamTable;
use crate::spectator::Spectator;
use crate::summary::Summary;

/// The loss of events that found no room.
const NOT_LEARNED: &str = "events_not_learned";
/// The loss of new files, and of who made them dirty.
const NOT_ENTERED: &str = "files_not_entered";
/// Events that may wait, and files for as many as they take the memory of: 48 MiB.
const QUEUED_EVENTS_MAX: usize = 1 << 20;

enum Message {
    Batch(Batch, Vec<(u64, ContextId)>),
    FirstWriters(Vec<(FileId, ContextId)>),
    Connect(Box<dyn StreamTable>),
    Reload,
}

/// The memory of new files, in events.
fn room_of(files: &[File]) -> usize {
    files.iter().map(|file| file.bytes().div_ceil(size_of::<Event>())).sum()
}

/// What was lost, by both sides.
#[derive(Default)]
struct Lost {
    events: AtomicU64,
    files: AtomicU64,
}

impl Lost {
    fn add_to(&self, losses: &mut BTreeMap<String, u64>) {
        losses.insert(NOT_LEARNED.to_owned(), self.events.load(Ordering::Relaxed));
        losses.insert(NOT_ENTERED.to_owned(), self.files.load(Ordering::Relaxed));
    }
}

/// The thread, and the queue before it.
pub struct Worker {
    /// Gone at the end.
    sender: Option<Sender<Message>>,
    notes: Receiver<String>,
    queued: Arc<AtomicUsize>,
    reloads: Arc<AtomicU64>,
    /// In all, in events.
    room: usize,
    lost: Arc<Lost>,
    /// When events are no longer learned from, once that is known.
    until: Arc<OnceLock<Instant>>,
    thread: Option<JoinHandle<Summary>>,
}

impl Worker {
    /// Starts it. The table is saved each `interval`; `spectator` looks on. Errors: there is no room for a thread.
    pub fn start(
        placer: Placer,
        interval: Duration,
        spectator: Option<Box<dyn Spectator>>,
    ) -> io::Result<Worker> {
        Worker::with_queue(placer, interval, spectator, QUEUED_EVENTS_MAX)
    }

    fn with_queue(
        placer: Placer,
        interval: Duration,
        spectator: Option<Box<dyn Spectator>>,
        room: usize,
    ) -> io::Result<Worker> {
        let (sender, receiver) = channel();
        let (say, notes) = channel();
        let queued = Arc::new(AtomicUsize::new(0));
        let reloads = Arc::new(AtomicU64::new(0));
        let lost = Arc::new(Lost::default());
        let until = Arc::new(OnceLock::new());
        let mut thread = Thread {
            placer,
            queued: queued.clone(),
            reloads: reloads.clone(),
            lost: lost.clone(),
            until: until.clone(),
            say,
            spectator: spectator.map(|spectator| Seat { spectator, looked: Instant::now() }),
        };
        let thread = std::thread::Builder::new().spawn(move || thread.run(&receiver, interval))?;
        Ok(Worker { sender: Some(sender), notes, queued, reloads, room, lost, until, thread: Some(thread) })
    }

    /// The next events, and keys of contexts. Never waits.
    pub fn feed(&mut self, mut batch: Batch, keys: Vec<(u64, ContextId)>) {
        let (events, files) = (batch.events.len(), room_of(&batch.files));
        if !self.take_room(files) {
            self.lost.files.fetch_add(batch.files.len() as u64, Ordering::Relaxed);
            batch.files.clear();
        }
        if !self.take_room(events) {
            self.lost.events.fetch_add(events as u64, Ordering::Relaxed);
            // Contexts are needed by all that comes later.
            batch.events.clear();
        }
        self.send(Message::Batch(batch, keys));
    }

    /// Contexts that made new files dirty, before any request.
    pub fn first_writers(&mut self, files: Vec<(FileId, ContextId)>) {
        if self.take_room(files.len()) {
            self.send(Message::FirstWriters(files));
        } else {
            self.lost.files.fetch_add(files.len() as u64, Ordering::Relaxed);
        }
    }

    /// Room in the queue, if there is as much.
    fn take_room(&self, room: usize) -> bool {
        // Only this side adds, so what is there now does not grow before the message is in.
        let has_room = self.queued.load(Ordering::Relaxed) + room <= self.room;
        if has_room {
            self.queued.fetch_add(room, Ordering::Relaxed);
        }
        has_room
    }

    /// The BPF program's table of streams is there.
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

    /// Events that wait longer than `rest` from now are not learned from. What was said first counts.
    pub fn hurry(&self, rest: Duration) {
        _ = self.until.set(Instant::now() + rest);
    }

    /// Ends the thread when it has done all that was queued. The second part is the last notes.
    pub fn finish(mut self) -> (Summary, Vec<String>) {
        self.sender = None;
        let thread = self.thread.take().expect("joined once");
        let mut summary = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        self.lost.add_to(&mut summary.standing.losses);
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
    lost: Arc<Lost>,
    until: Arc<OnceLock<Instant>>,
    say: Sender<String>,
    spectator: Option<Seat>,
}

/// A spectator, and when it looked last.
struct Seat {
    spectator: Box<dyn Spectator>,
    looked: Instant,
}

impl Seat {
    /// Until it looks again.
    fn rest(&self) -> Duration {
        self.spectator.every().saturating_sub(self.looked.elapsed())
    }
}

impl Thread {
    fn run(&mut self, messages: &Receiver<Message>, interval: Duration) -> Summary {
        let mut saved = Instant::now();
        loop {
            let until_save = interval.saturating_sub(saved.elapsed());
            let until_look = self.spectator.as_ref().map_or(until_save, Seat::rest);
            match messages.recv_timeout(until_save.min(until_look)) {
                Ok(Message::Batch(batch, keys)) => self.batch(batch, &keys),
                Ok(Message::FirstWriters(files)) => {
                    self.placer.first_writers(&files);
                    self.queued.fetch_sub(files.len(), Ordering::Relaxed);
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
            self.look();
            self.pass_on_notes();
        }
        let summary = self.placer.finish();
        self.pass_on_notes();
        summary
    }

    fn batch(&mut self, mut batch: Batch, keys: &[(u64, ContextId)]) {
        let (events, files) = (batch.events.len(), room_of(&batch.files));
        if self.until.get().is_some_and(|until| Instant::now() >= *until) {
            self.lost.events.fetch_add(events as u64, Ordering::Relaxed);
            batch.events.clear();
        }
        if let Some(seat) = &mut self.spectator {
            seat.spectator.batch(&batch, self.placer.decisions());
        }
        self.placer.feed(&batch, keys);
        self.queued.fetch_sub(events + files, Ordering::Relaxed);
    }

    /// The spectator's turn, if it is due.
    fn look(&mut self) {
        let Some(seat) = self.spectator.as_mut().filter(|seat| seat.rest().is_zero()) else { return };
        let mut standing = self.placer.standing();
        self.lost.add_to(&mut standing.losses);
        seat.spectator.look(&standing, self.placer.decisions());
        seat.looked = Instant::now();
    }

    fn pass_on_notes(&mut self) {
        // Nobody reads them once the worker is dropped.
        self.placer.notes().into_iter().for_each(|note| _ = self.say.send(note));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contexts::Decisions;
    use crate::learner::Learner;
    use crate::sinks::none::Nothing;
    use crate::summary::Standing;
    use crate::table_file::TableFile;
    use crate::testing::{batch, locks, scheme, write};
    use pcstream_placement::pcstream::key::KeySource;

    fn placer(table: Option<TableFile>) -> Placer {
        let learner = Learner::new(scheme("pcstream")).expect("it places by context");
        Placer::new("pcstream", learner, Box::new(Nothing), table).expect("the table is good")
    }

    #[test]
    fn events_that_find_no_room_are_counted_and_their_contexts_stay() {
        let mut worker =
            Worker::with_queue(placer(None), Duration::from_secs(3600), None, 1).expect("a thread");
        worker.feed(batch(2, 1, vec![write(1, 1, 0, 1), write(2, 1, 1, 1)]), Vec::new());
        worker.feed(batch(0, 0, vec![write(2, 1, 0, 1)]), Vec::new());
        let (summary, _) = worker.finish();
        assert_eq!(summary.standing.losses["events_not_learned"], 2);
        assert_eq!((summary.contexts.len(), summary.written_pages), (2, 1));
    }

    #[test]
    fn files_that_find_no_room_are_counted_by_their_names() {
        let mut worker =
            Worker::with_queue(placer(None), Duration::from_secs(3600), None, 100).expect("a thread");
        let named = |path: &str| {
            let mut batch = batch(1, 1, vec![write(1, 1, 0, 1)]);
            batch.files[0].path = path.to_owned();
            batch
        };
        worker.feed(named(&"n".repeat(100 * size_of::<Event>())), Vec::new());
        worker.first_writers(vec![(FileId(1), ContextId(1)); 101]);
        let (summary, _) = worker.finish();
        assert_eq!((summary.standing.losses[NOT_ENTERED], summary.standing.losses[NOT_LEARNED]), (102, 0));
        let mut worker =
            Worker::with_queue(placer(None), Duration::from_secs(3600), None, 100).expect("a thread");
        worker.feed(named("/f"), Vec::new());
        worker.first_writers(vec![(FileId(1), ContextId(1)); 90]);
        let queued = worker.queued.clone();
        let (summary, _) = worker.finish();
        assert_eq!((summary.standing.losses[NOT_ENTERED], queued.load(Ordering::Relaxed)), (0, 0));
    }

    #[test]
    fn what_waits_too_long_after_a_stop_is_counted() {
        let mut worker =
            Worker::with_queue(placer(None), Duration::from_secs(3600), None, 10).expect("a thread");
        worker.hurry(Duration::ZERO);
        worker.feed(batch(2, 1, vec![write(1, 1, 0, 1), write(2, 1, 1, 1)]), Vec::new());
        worker.hurry(Duration::from_secs(3600));
        let (summary, _) = worker.finish();
        assert_eq!((summary.standing.losses["events_not_learned"], summary.contexts.len()), (2, 2));
    }

    #[test]
    fn the_table_is_saved_at_the_interval() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("t.table");
        let table = TableFile::new(&path, &locks(), "pcstream", KeySource::Context).expect("it can be made");
        let mut worker =
            Worker::with_queue(placer(Some(table)), Duration::from_millis(1), None, 10).expect("a thread");
        worker.feed(batch(1, 1, vec![write(1, 1, 0, 1)]), Vec::new());
        let began = Instant::now();
        while !path.exists() {
            assert!(began.elapsed() < Duration::from_secs(60), "waited too long");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(worker.notes().is_empty());
        assert_eq!(worker.finish().0.lost(), 0);
    }

    /// Passes on what it sees: streams of events, then how placing stands.
    struct Seen(Sender<(Vec<u8>, Option<Standing>)>);

    impl Spectator for Seen {
        fn every(&self) -> Duration {
            Duration::from_millis(1)
        }

        fn batch(&mut self, batch: &Batch, decisions: &Decisions) {
            let streams = batch.events.iter().map(|event| decisions.of(event.context).stream.0).collect();
            _ = self.0.send((streams, None));
        }

        fn look(&mut self, standing: &Standing, _: &Decisions) {
            _ = self.0.send((Vec::new(), Some(standing.clone())));
        }
    }

    #[test]
    fn a_spectator_sees_what_the_summary_says() {
        let (sender, seen) = channel();
        let hour = Duration::from_secs(3600);
        let mut worker =
            Worker::with_queue(placer(None), hour, Some(Box::new(Seen(sender))), 100).expect("a thread");
        worker.feed(batch(2, 2, Vec::new()), Vec::new());
        for round in 0..50 {
            let events = vec![write(1, 1, 0, 1), write(2, 2, 10 + round % 20, 1)];
            // Waits as the queue is drained, or events would be lost.
            while worker.queued.load(Ordering::Relaxed) > 0 {
                std::thread::yield_now();
            }
            worker.feed(batch(0, 0, events), Vec::new());
        }
        worker.feed(batch(0, 0, vec![write(1, 1, 0, 1); 101]), Vec::new());
        // A look that began after all was fed.
        let mut streams = Vec::new();
        let standing = loop {
            match seen.recv().expect("it looks again and again") {
                (_, Some(standing)) if streams.len() == 100 && standing.losses[NOT_LEARNED] > 0 => {
                    break standing;
                }
                (of_events, _) => streams.extend(of_events),
            }
        };
        let (summary, _) = worker.finish();
        assert_eq!((standing.statistics["contexts_known"], standing.losses[NOT_LEARNED]), (2, 101));
        assert_eq!(standing, summary.standing);
        assert_eq!(streams[0], 0, "nothing was known of the first");
        assert!(streams[98..].iter().any(|&stream| stream > 0), "{streams:?}");
    }
}
