//! Passes over a recorded trace, as the user sees them: progress, and why there is no result.

use indicatif::ProgressBar;
use pcstream_placement::SchemeError;
use pcstream_replay::ReplayError;
use pcstream_replay::recorded::{Pass, RecordedError};
use pcstream_trace::{TraceError, TraceReader};

use crate::failure::Failure;
use crate::ui::Ui;

/// Progress through the passes over a trace.
pub struct Bars {
    ui: Ui,
    events: u64,
    shown: Option<(Pass, ProgressBar)>,
}

impl Bars {
    /// Nothing is shown until the first pass begins.
    pub fn new(reader: &TraceReader, ui: Ui) -> Bars {
        Bars { ui, events: reader.meta().totals.events, shown: None }
    }

    /// So many more events of a pass are done.
    pub fn advance(&mut self, pass: Pass, events: usize) {
        if self.shown.as_ref().is_none_or(|(shown, _)| *shown != pass) {
            self.clear();
            let what = match pass {
                Pass::Survey => "surveying",
                Pass::LiveData => "surveying live data",
                Pass::LookAhead => "looking ahead",
                Pass::Simulate => "simulating",
            };
            self.shown = Some((pass, self.ui.progress(what, "events", self.events)));
        }
        if let Some((_, bar)) = &self.shown {
            bar.inc(events as u64);
        }
    }

    /// The end of all passes; says if the trace was damaged.
    pub fn finish(mut self, damage: Option<&str>) {
        self.clear();
        if let Some(damage) = damage {
            self.ui.remark(&format!("the trace is damaged; results are for what comes before: {damage}"));
        }
    }

    fn clear(&mut self) {
        if let Some((_, bar)) = self.shown.take() {
            bar.finish_and_clear();
        }
    }
}

/// Why a trace has no result.
pub fn failure(error: RecordedError<TraceError>, reader: &TraceReader) -> Failure {
    match error {
        RecordedError::Trace(error) => Failure::failed(error),
        RecordedError::Replay(error) => {
            refused(error).map_failed(|error| error.context(format!("trace {}", reader.path().display())))
        }
    }
}

/// Devices and schemes that cannot be are wrong arguments.
pub fn refused(error: ReplayError) -> Failure {
    match error {
        // Defaults and readings are in range, so that only `--set` can be out of it.
        ReplayError::Scheme(error @ SchemeError::Parameter { .. }) => {
            Failure::wrong_arguments(anyhow::Error::new(error).context("--set"))
        }
        ReplayError::Scheme(error @ SchemeError::Table(_)) => {
            Failure::wrong_arguments(anyhow::Error::new(error).context("--load-table"))
        }
        ReplayError::Device(_) | ReplayError::Timing(_) | ReplayError::Scheme(_) => {
            Failure::wrong_arguments(error)
        }
        other => Failure::failed(other),
    }
}
