//! Passes over a recorded trace, as the user sees them: progress, and why there is no result.

use indicatif::ProgressBar;
use pcstream_placement::SchemeError;
use pcstream_replay::ReplayError;
use pcstream_replay::recorded::{Pass, RecordedError};
use pcstream_trace::{TraceError, TraceReader};

use crate::failure::Failure;
use crate::ui::Ui;

/// Shows progress through passes over a trace, from the first events on. The bar goes with what is returned.
pub fn progress(reader: &TraceReader, ui: Ui) -> impl FnMut(Pass, usize) + use<> {
    let (total, mut shown) = (reader.meta().totals.events, None::<(Pass, ProgressBar)>);
    move |pass, events| {
        // The bar of the pass before goes first.
        shown = shown.take().filter(|(before, _)| *before == pass);
        let (_, bar) = shown.get_or_insert_with(|| {
            let what = match pass {
                Pass::Survey => "surveying",
                Pass::LiveData => "surveying live data",
                Pass::LookAhead => "looking ahead",
                Pass::Simulate => "simulating",
            };
            (pass, ui.progress(what, "events", total))
        });
        bar.inc(events as u64);
    }
}

/// Says if a trace cannot be read to its end.
pub fn remark_damage(damage: Option<&str>, ui: Ui) {
    if let Some(damage) = damage {
        ui.remark(&format!("the trace is damaged; results are for what comes before: {damage}"));
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
