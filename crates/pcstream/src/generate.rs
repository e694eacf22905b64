//! `generate`: synthetic traces whose write amplification is known in closed form.

use anyhow::Context as _;
use pcstream_trace::TraceWriter;
use pcstream_trace::generators::{self, Common};
use pcstream_trace::store::remove_partial;

use crate::args::{Pattern, PatternArgs};
use crate::failure::{Failure, Status};
use crate::interrupt::Interrupt;
use crate::ui::Ui;

/// `pcstream generate`.
pub fn generate(pattern: &Pattern, ui: Ui) -> Result<Status, Failure> {
    let Pattern { generator, options, common } = pattern;
    let PatternArgs { pages, writes, seed, .. } = *common;
    let generated = generators::generate(generator, Common { pages, writes, seed }, options)
        .map_err(Failure::wrong_arguments)?;
    ui.remark(&format!("seed {seed}"));
    let interrupt = Interrupt::watch()?;
    let place = || format!("-o {}", common.output.display());
    let mut writer =
        TraceWriter::create(&common.output, generated.meta().clone(), common.force).with_context(place)?;
    let bar = ui.progress("generating", "writes", writes);
    let written = generated.into_iter().try_for_each(|batch| {
        interrupt.check()?;
        bar.inc(batch.events.len() as u64);
        Ok(writer.write_batch(&batch).with_context(place)?)
    });
    bar.finish_and_clear();
    if let Err(failure) = written {
        // What went wrong first is what the user has to know.
        _ = writer.abandon();
        return Err(failure);
    }
    let summary = writer.finish(None).with_context(place).inspect_err(|_| {
        _ = remove_partial(&common.output);
    })?;
    ui.remark(&format!(
        "{}: {writes} writes to {pages} pages, {} on disk, id {}",
        summary.path.display(),
        pcstream_report::human::bytes(summary.bytes),
        summary.meta.trace_id,
    ));
    Ok(Status::Done)
}
