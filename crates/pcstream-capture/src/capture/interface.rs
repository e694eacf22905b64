//! What a capture is asked for, and what it hands over.

use std::collections::BTreeMap;
use std::error::Error;
use std::ffi::OsString;
use std::process::ExitStatus;
use std::time::Duration;

use pcstream_trace::{Batch, Context, ContextId, FileId};

use crate::attach::Running;
use crate::command::TracedOptions;
use crate::join::JoinCounts;
use crate::session::SessionOptions;
use crate::signature::Order;
use crate::streams::StreamMaps;
use crate::target::{Started, Target};

/// Whose writes are captured.
#[derive(Clone, Debug)]
pub enum Subject {
    /// Of a command that is started for it: program and arguments; `{}` stands for the mount point.
    Command(Vec<OsString>),
    /// Of what runs already.
    Running(Running),
}

/// What to capture.
#[derive(Clone, Debug)]
pub struct CaptureOptions {
    /// Whose writes.
    pub subject: Subject,
    /// Where it runs.
    pub target: Target,
    /// For so long at most. A command is asked to end then.
    pub duration: Option<Duration>,
    /// How.
    pub session: SessionOptions,
    /// How call paths are named.
    pub order: Order,
    /// The observer's device waits for what is captured: events are handed over as they come, also while the file system
    /// is synced.
    pub live: bool,
    /// Nothing is kept: the capture's end waits for nothing that is dirty still.
    pub watch: bool,
    /// Files that were not written for long are forgotten: what goes on for weeks meets files without end.
    pub forget_files: bool,
    /// Who makes a new file dirty is said at once, before its first request ([`Observer::first_writers`]).
    pub first_writers: bool,
    /// Functions get their names while the capture runs ([`Observer::named`]).
    pub live_names: bool,
    /// What notes call a module with this path.
    pub module_name: fn(&str) -> String,
    /// How a command is started. Its standard output is ours only if that does not belong to our results.
    pub traced: TracedOptions,
}

impl CaptureOptions {
    /// The usual: whole paths, recorded to the end.
    pub fn new(subject: Subject, target: Target) -> CaptureOptions {
        CaptureOptions {
            subject,
            target,
            duration: None,
            session: SessionOptions::default(),
            order: Order::Hash,
            live: false,
            watch: false,
            forget_files: false,
            first_writers: false,
            live_names: false,
            module_name: str::to_owned,
            traced: TracedOptions::default(),
        }
    }
}

/// What a capture does before anything is recorded. Each may take seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The kernel verifies the BPF program.
    Load,
    /// The scratch file system is made and filled. Not on one that was there before.
    Make,
    /// What is dirty is written, also that of other programs.
    Sync,
}

/// How a capture stands.
#[derive(Clone, Debug)]
pub struct Progress {
    /// Since the command started.
    pub elapsed: Duration,
    /// Bytes written to the device.
    pub written_bytes: u64,
    /// Contexts seen.
    pub contexts: usize,
    /// Events lost so far.
    pub lost: u64,
    /// ... by limit, with what else was lost.
    pub losses: BTreeMap<String, u64>,
}

/// What a capture came to.
#[derive(Clone, Debug)]
pub struct Finished {
    /// How the command ended, if one was started, and ended by itself or was ended from outside.
    pub status: Option<ExitStatus>,
    /// Whether it was ended from outside.
    pub interrupted: bool,
    /// Every context, with names of functions.
    pub contexts: Vec<Context>,
    /// What was lost, by limit; all 0 in a complete trace.
    pub losses: BTreeMap<String, u64>,
    /// What captures cost and how they were answered.
    pub statistics: BTreeMap<String, u64>,
    /// Pages and events.
    pub counts: JoinCounts,
    /// What the user should know besides.
    pub notes: Vec<String>,
    /// Why the scratch file system is still there: it takes nothing from what was captured.
    pub not_removed: Option<String>,
}

impl Finished {
    /// Everything that was lost.
    pub fn lost(&self) -> u64 {
        self.losses.values().sum()
    }
}

/// The note of a capture that a wish to stop ended, as is expected of one that is attached.
pub const ENDED_AS_ASKED: &str = "ended as you asked";

/// Whoever receives a capture. Called from one thread.
pub trait Observer {
    /// Once for each stage of the start, as it begins; all come before [`Observer::ready`].
    fn starting(&mut self, stage: Stage) {
        let _ = stage;
    }
    /// Once, before anything is recorded, when what was dirty before is written.
    fn ready(&mut self) -> Result<(), Box<dyn Error + Send + Sync>> {
        Ok(())
    }
    /// Once, before the command starts.
    fn started(&mut self, started: &Started) -> Result<(), Box<dyn Error + Send + Sync>>;
    /// Once, as soon as it is there, if [`SessionOptions::placed_by`] or [`SessionOptions::answering`] is set: where streams of
    /// contexts go.
    fn streams(&mut self, streams: StreamMaps) -> Result<(), Box<dyn Error + Send + Sync>> {
        drop(streams);
        Ok(())
    }
    /// Keys by which the BPF program knows contexts. The batch that introduces them comes next, unless it came before.
    fn keys(&mut self, keys: Vec<(u64, ContextId)>) {
        drop(keys);
    }
    /// Events, as they come.
    fn batch(&mut self, batch: Batch) -> Result<(), Box<dyn Error + Send + Sync>>;
    /// New files, and the contexts that made them dirty, if [`CaptureOptions::first_writers`] is set. Batches have introduced both.
    fn first_writers(&mut self, files: Vec<(FileId, ContextId)>) {
        drop(files);
    }
    /// Once, when the command or what was followed has ended, or following it failed. What is dirty still is written after that.
    fn ended(&mut self) {}
    /// A few times a second.
    fn progress(&mut self, progress: &Progress);
    /// What the user should know now.
    fn remark(&mut self, text: &str) {
        let _ = text;
    }
    /// Contexts that were in batches and have the names of their functions now, if [`CaptureOptions::live_names`] is set.
    fn named(&mut self, contexts: &[Context]) {
        let _ = contexts;
    }
}
