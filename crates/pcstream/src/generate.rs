//! `generate`: synthetic traces whose write amplification is known in closed form.

use pcstream_trace::generators::{self, Common};

use crate::args::{Pattern, PatternArgs};
use crate::failure::{Failure, Status};
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::ui::Ui;

/// `pcstream generate`.
pub fn generate(pattern: &Pattern, ui: Ui) -> Result<Status, Failure> {
    let Pattern { generator, options, common } = pattern;
    let PatternArgs { pages, writes, seed, .. } = *common;
    let generated = generators::generate(generator, Common { pages, writes, seed }, options)
        .map_err(Failure::wrong_arguments)?;
    ui.remark(&format!("seed {seed}"));
    let interrupt = Interrupt::watch()?;
    let mut output = Output::create(&common.output, generated.meta().clone(), common.force)?;
    let bar = ui.progress("generating", "writes", writes);
    let written = generated.into_iter().try_for_each(|batch| {
        interrupt.check()?;
        bar.inc(batch.events.len() as u64);
        Ok(output.write(&batch)?)
    });
    bar.finish_and_clear();
    let (summary, ()) = output.finish(written)?;
    ui.remark(&format!(
        "{}: {writes} writes to {pages} pages, {} on disk, id {}",
        summary.path.display(),
        pcstream_report::human::bytes(summary.bytes),
        summary.meta.trace_id,
    ));
    Ok(Status::Done)
}
