//! `merge`: traces that were recorded apart, as one of a device that they share.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use pcstream_report::human;
use pcstream_trace::TraceReader;
use pcstream_trace::store::{Merged, partial_path};

use crate::args::{MergeArgs, Offset};
use crate::failure::{Failure, Status};
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::simulate;
use crate::ui::Ui;

/// `pcstream merge`.
pub fn merge(args: &MergeArgs, ui: Ui) -> Result<Status, Failure> {
    let interrupt = Interrupt::watch()?;
    let readers = args.traces.iter().map(|path| simulate::open(path, ui)).collect::<Result<Vec<_>, _>>()?;
    refuse_an_input(&args.output, &readers)?;
    let offsets = if args.by_start { starts(&readers)? } else { offsets(args)? };
    let merged = Merged::new(&readers, &offsets).map_err(Failure::failed)?;
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

/// The offset of each trace, in nanoseconds.
fn offsets(args: &MergeArgs) -> Result<Vec<u64>, Failure> {
    let mut offsets = vec![None; args.traces.len()];
    for Offset { trace, nanoseconds } in &args.offset {
        let refused = |problem: &str| {
            let traces = args.traces.iter().map(|path| path.display().to_string()).collect::<Vec<_>>();
            let given = traces.join(", ");
            Failure::wrong_arguments(anyhow!(
                "--offset {trace}: {problem}; expected one of {given}, or its number from 1 to {}",
                traces.len()
            ))
        };
        let at = match meant(&args.traces, trace)[..] {
            [at] => at,
            [] => return Err(refused("no such trace among those that are merged")),
            _ => return Err(refused("this is more than one of the traces")),
        };
        if offsets[at].replace(*nanoseconds).is_some() {
            return Err(refused("this trace has an offset already"));
        }
    }
    Ok(offsets.into_iter().map(|offset| offset.unwrap_or(0)).collect())
}

/// How much later than the first each trace was begun, in nanoseconds. Where one knows that only to a second, so do all.
fn starts(readers: &[TraceReader]) -> Result<Vec<u64>, Failure> {
    let exact: Option<Vec<u64>> = readers.iter().map(|reader| reader.meta().start_unix_ns).collect();
    if let Some(exact) = exact {
        let first = exact.iter().min().copied().unwrap_or(0);
        return Ok(exact.iter().map(|start| start - first).collect());
    }
    let started = |reader: &TraceReader| {
        reader.meta().created_unix_s.ok_or_else(|| {
            let trace = reader.path().display();
            Failure::wrong_arguments(anyhow!(
                "--by-start: {trace} does not say when it was recorded, as generated and imported traces; use --offset"
            ))
        })
    };
    let starts = readers.iter().map(started).collect::<Result<Vec<u64>, Failure>>()?;
    let first = starts.iter().min().copied().unwrap_or(0);
    Ok(starts.iter().map(|start| (start - first).saturating_mul(1_000_000_000)).collect())
}

/// Which traces are called so: by path, or else by number, or else by name.
fn meant(traces: &[PathBuf], called: &str) -> Vec<usize> {
    let which = |is: &dyn Fn(&Path) -> bool| {
        let found = traces.iter().enumerate().filter(|(_, path)| is(path));
        found.map(|(at, _)| at).collect::<Vec<_>>()
    };
    let by_path = which(&|path| path == Path::new(called));
    let number = called.parse().ok().and_then(|number: usize| number.checked_sub(1));
    match number.filter(|at| *at < traces.len()) {
        _ if !by_path.is_empty() => by_path,
        Some(at) => vec![at],
        None => which(&|path| [path.file_name(), path.file_stem()].contains(&Some(called.as_ref()))),
    }
}

/// Refuses an output whose place is that of an input, by whatever name: writing it would remove the input.
pub fn refuse_an_input(output: &Path, inputs: &[TraceReader]) -> Result<(), Failure> {
    let identity = |path: &Path| fs::metadata(path).ok().map(|there| (there.dev(), there.ino()));
    let written = [identity(output), identity(&partial_path(output))];
    let is_written = |input: &&TraceReader| {
        let input = identity(input.path());
        input.is_some() && written.contains(&input)
    };
    match inputs.iter().find(is_written) {
        Some(input) => Err(Failure::wrong_arguments(anyhow!(
            "-o {}: this is the trace {}, which is to be read; expected another place",
            output.display(),
            input.path().display()
        ))),
        None => Ok(()),
    }
}
