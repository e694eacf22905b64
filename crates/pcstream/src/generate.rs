//! `generate`: synthetic traces whose write amplification is known in closed form.

use anyhow::Context as _;
use pcstream_trace::TraceWriter;
use pcstream_trace::generators::{self, Common};

use crate::args::{Pattern, PatternArgs};
use crate::failure::{Failure, Status};
use crate::ui::Ui;

/// `pcstream generate`.
pub fn generate(pattern: &Pattern, ui: Ui) -> Result<Status, Failure> {
    let Pattern { generator, options, common } = pattern;
    let PatternArgs { pages, writes, seed, .. } = *common;
    let generated = generators::generate(generator, Common { pages, writes, seed }, options)
        .map_err(Failure::wrong_arguments)?;
    ui.remark(&format!("seed {seed}"));
    let place = || format!("-o {}", common.output.display());
    let mut writer =
        TraceWriter::create(&common.output, generated.meta().clone(), common.force).with_context(place)?;
    let bar = ui.progress("generating", "writes", writes);
    for batch in generated {
        writer.write_batch(&batch).with_context(place)?;
        bar.inc(batch.events.len() as u64);
    }
    let summary = writer.finish(None).with_context(place)?;
    bar.finish_and_clear();
    ui.remark(&format!(
        "{}: {writes} writes to {pages} pages, {} on disk, id {}",
        summary.path.display(),
        pcstream_report::human::bytes(summary.bytes),
        summary.meta.trace_id,
    ));
    Ok(Status::Done)
}
