//! `merge`: traces that were recorded apart, as one of a device that they share.

use std::path::PathBuf;

use anyhow::Context as _;
use pcstream_report::human;
use pcstream_trace::TraceReader;
use pcstream_trace::store::Merged;

use crate::args::MergeArgs;
use crate::failure::{Failure, Status};
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::ui::Ui;

/// `pcstream merge`.
pub fn merge(args: &MergeArgs, ui: Ui) -> Result<Status, Failure> {
    let interrupt = Interrupt::watch()?;
    let open = |path: &PathBuf| TraceReader::open(path).context("cannot read the trace");
    let readers = args.traces.iter().map(open).collect::<Result<Vec<_>, _>>()?;
    for reader in &readers {
        if let Some(damage) = reader.damage() {
            ui.remark(&format!("{}: {damage}", reader.path().display()));
        }
    }
    let merged = Merged::new(&readers).map_err(Failure::failed)?;
    let mut output = Output::create(&args.output, merged.meta().clone(), args.force)?;
    let events = readers.iter().map(|reader| reader.meta().totals.events).sum();
    let bar = ui.progress("merging", "events", events);
    let mut merged = merged;
    let written = merged.try_for_each(|batch| {
        interrupt.check()?;
        let batch = batch.map_err(Failure::failed)?;
        bar.inc(batch.events.len() as u64);
        Ok(output.write(&batch)?)
    });
    bar.finish_and_clear();
    let (summary, ()) = output.finish(written)?;
    ui.remark(&format!(
        "{}: {} events of {} traces, {} written to {}, id {}",
        summary.path.display(),
        human::count(summary.meta.totals.events),
        readers.len(),
        human::page_bytes(summary.meta.totals.host_pages),
        human::page_bytes(summary.meta.device.pages),
        summary.meta.trace_id,
    ));
    Ok(Status::with_losses(summary.meta.has_losses()))
}
