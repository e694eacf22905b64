//! The trait that every placement scheme implements, and the plain data it trades in.
//!
//! A scheme sees the events of a trace in order and answers each write with streams. It never looks
//! ahead; the oracle is given the future explicitly, when it is made.
//!
//! Units: logical time counts pages written by the host so far, the write itself excluded.

use pcstream_trace::{ContextId, Event, Op, Tables};

use crate::saved_table::TableError;

use crate::prefetch::Ahead;

/// External stream: S0 (the default) … S(n−1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stream(pub u8);

impl Stream {
    /// S0: writes whose lifetime is unknown.
    pub const DEFAULT: Stream = Stream(0);
}

/// Consecutive pages of one write that go to one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Number of pages.
    pub pages: u32,
    /// Where they go.
    pub stream: Stream,
}

/// Appends pages to a write's placements, which begin at `start`, joining equal neighbours.
#[inline]
pub(crate) fn push_run(out: &mut Vec<Placement>, start: usize, pages: u32, stream: Stream) {
    match out[start..].last_mut() {
        Some(last) if last.stream == stream => last.pages += pages,
        _ => out.push(Placement { pages, stream }),
    }
}

/// A number that a scheme reports about itself, by name: `reclusterings`, `contexts_known`, …
pub type SchemeFact = (&'static str, u64);

/// A placement scheme.
pub trait Scheme: Send {
    /// The events that `place`, `discard` and `exit` will be called for next, for schemes that work on many at once; `now` is
    /// the logical time before the first. Where a batch ends must not matter to a scheme that is compared with others.
    fn prepare(&mut self, events: &[Event], now: u64, tables: &Tables) {
        let _ = (events, now, tables);
    }

    /// This event comes in a moment: asks the processor for what placing it will look at. Called twice for each, it
    /// changes nothing.
    fn prefetch(&self, event: &Event, ahead: Ahead) {
        let _ = (event, ahead);
    }

    /// Places one write (`event.op` is `Write`): appends placements to `out` whose pages sum to
    /// `event.pages`, in address order. `now` is the logical time before this write. Another sum, or a stream that the
    /// device does not have, makes a replay panic.
    fn place(&mut self, event: &Event, now: u64, tables: &Tables, out: &mut Vec<Placement>);

    /// Pages of `event` no longer hold data (`Discard` or `WriteZeroes`).
    fn discard(&mut self, event: &Event, now: u64, tables: &Tables) {
        let _ = (event, now, tables);
    }

    /// The last process of the program ended that the event's context belongs to (`Exit`). Its pages may still be written.
    fn exit(&mut self, event: &Event, tables: &Tables) {
        let _ = (event, tables);
    }

    /// Passes an event of any sort on, as it happens at logical time `now`: placements of a write are appended to `out`.
    /// Returns the logical time after it. For whoever wants nothing else of events.
    fn take(&mut self, event: &Event, now: u64, tables: &Tables, out: &mut Vec<Placement>) -> u64 {
        match event.op {
            Op::Write if event.pages > 0 => {
                self.place(event, now, tables, out);
                return now + u64::from(event.pages);
            }
            Op::Discard | Op::WriteZeroes => self.discard(event, now, tables),
            Op::Exit => self.exit(event, tables),
            Op::Write | Op::Read | Op::Flush => {}
        }
        now
    }

    /// What the scheme has to say about itself, for reports.
    fn facts(&self) -> Vec<SchemeFact> {
        Vec::new()
    }

    /// What whoever configured the scheme should know, each a clause without a full stop: rules that did nothing.
    fn remarks(&self) -> Vec<String> {
        Vec::new()
    }

    /// The streams of program contexts, if the context alone decides where a write goes.
    fn by_context(&mut self) -> Option<&mut dyn ByContext> {
        None
    }

    /// What the scheme has learned, as bytes that a later run may begin with; `None` if it learns
    /// nothing that outlives a run. Of `pcstream` it is the PC attribute table.
    fn learned(&self) -> Option<Vec<u8>> {
        None
    }
}

/// What is known of a program context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContextStream {
    /// Where its writes go.
    pub stream: Stream,
    /// Expected lifetime of its data, in pages written by the host; `None`: none of it has died yet.
    pub lifetime_pages: Option<u64>,
    /// Lifetimes that went into it.
    pub samples: u32,
}

/// A scheme whose streams are a function of the context: whoever places real writes asks before they are made.
pub trait ByContext {
    /// What is known of a context now.
    fn of(&mut self, context: ContextId, tables: &Tables) -> ContextStream;

    /// How often all contexts were given streams together.
    fn clusterings(&self) -> u64;

    /// The streams that the last of these gave contexts, the shortest lifetime first.
    fn by_lifetime(&self) -> Vec<Stream>;

    /// Takes up a saved table, as if just learned at logical time `now`. It replaces what is known of its contexts.
    fn load_table(&mut self, saved: &[u8], now: u64) -> Result<(), TableError>;
}
