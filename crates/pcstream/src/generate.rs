//! `generate`: synthetic traces.

use pcstream_trace::generators::{self, Common, Generated};

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
    let bar = ui.progress("generating", "pages", writes);
    let written =
        generate_into(&mut output, generated, &interrupt, |remaining| bar.set_position(writes - remaining));
    bar.finish_and_clear();
    let (summary, ()) = output.finish(written)?;
    ui.remark(&format!(
        "{}: {writes} pages written to a device of {pages}, {} on disk, id {}",
        summary.path.display(),
        pcstream_report::human::bytes(summary.bytes),
        summary.meta.trace_id,
    ));
    Ok(Status::Done)
}

/// Writes the whole trace; `progress` gets the number of pages still to be written.
fn generate_into(
    output: &mut Output,
    mut generated: Generated,
    interrupt: &Interrupt,
    progress: impl Fn(u64),
) -> Result<(), Failure> {
    while let Some(batch) = generated.next() {
        interrupt.check()?;
        output.write(&batch)?;
        progress(generated.remaining());
    }
    Ok(())
}
