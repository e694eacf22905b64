//! `extract`: what some files and programs wrote, as a trace of its own.

use anyhow::anyhow;
use pcstream_replay::{LeftOut, Part};
use pcstream_report::escape::visible_start;
use pcstream_report::human::{count, page_bytes};
use pcstream_system::shell;
use pcstream_trace::store::UNFINISHED;
use pcstream_trace::{Event, Kind, Meta, Summary, TraceReader};

use crate::args::ExtractArgs;
use crate::failure::{Failure, Status};
use crate::interrupt::Interrupt;
use crate::merge::refuse_an_input;
use crate::output::Output;
use crate::selection::Patterns;
use crate::simulate;
use crate::ui::Ui;

/// Characters of a pattern that a remark shows.
const LONGEST_SHOWN: usize = 80;

/// `pcstream extract`.
pub fn extract(args: &ExtractArgs, ui: Ui) -> Result<Status, Failure> {
    let interrupt = Interrupt::watch()?;
    let patterns = Patterns::new(&args.file, &args.program)?;
    let patterns = patterns.expect("one of the two is required");
    let reader = simulate::open(&args.trace, ui)?;
    refuse_an_input(&args.output, std::slice::from_ref(&reader))?;
    let from = reader.meta();
    let wanted = Wanted::new(&reader, &patterns, args.metadata);
    let part =
        Part::new(from.device.pages, reader.contexts(), reader.files(), |event| wanted.includes(event));
    let mut part = part.map_err(Failure::failed)?;
    let mut output = Output::create(&args.output, meta_of_part(args, from), args.force)?;
    let bar = ui.progress("extracting", "events", from.totals.events);
    let written = reader.batches().try_for_each(|batch| {
        interrupt.check()?;
        let batch = batch.map_err(Failure::failed)?;
        bar.inc(batch.events.len() as u64);
        Ok(output.write(&part.take(&batch.events))?)
    });
    bar.finish_and_clear();
    let nothing = output.meta_mut().totals.data_pages == 0;
    let written =
        written.and_then(|()| if nothing { Err(no_match(args, &wanted, &patterns)) } else { Ok(()) });
    let (summary, ()) = output.finish(written)?;
    for (flag, pattern) in patterns.without_match(reader.files(), reader.contexts()) {
        ui.remark(&format!("{flag} {}: matched nothing", visible_start(pattern, LONGEST_SHOWN)));
    }
    ui.remark(&in_words(&summary, from, part.left_out()));
    Ok(Status::with_losses(summary.meta.has_losses()))
}

/// Which contexts and files are meant, by id.
struct Wanted {
    contexts: Vec<bool>,
    files: Vec<bool>,
    metadata: bool,
}

impl Wanted {
    fn new(reader: &TraceReader, patterns: &Patterns, metadata: bool) -> Wanted {
        // First what is unknown: id 0.
        let contexts = reader.contexts().iter().map(Some);
        let files = reader.files().iter().map(|file| Some(file.path.as_str()));
        Wanted {
            contexts: std::iter::once(None).chain(contexts).map(|of| patterns.is_program(of)).collect(),
            files: std::iter::once(None).chain(files).map(|path| patterns.is_file(path)).collect(),
            metadata,
        }
    }

    fn includes(&self, event: &Event) -> bool {
        if event.kind != Kind::Data {
            return self.metadata;
        }
        self.contexts[event.context.0 as usize] && self.files[event.file.0 as usize]
    }
}

fn meta_of_part(args: &ExtractArgs, from: &Meta) -> Meta {
    let mut meta = Meta {
        created_unix_s: from.created_unix_s,
        start_unix_ns: from.start_unix_ns,
        file_system: from.file_system.clone(),
        kernel: from.kernel.clone(),
        command: from.command.clone(),
        exit: from.exit,
        settings: from.settings.clone(),
        losses: from.losses.clone(),
        ..Meta::new(&from.device.name, from.device.pages)
    };
    *meta.losses.entry(UNFINISHED.to_owned()).or_default() += u64::from(!from.complete);
    let origin = serde_json::json!({
        "path": args.trace.display().to_string(), "trace_id": from.trace_id, "file": args.file, "program": args.program,
        "metadata": args.metadata, "extracted": from.settings.get("extracted"),
    });
    meta.settings.insert("extracted".to_owned(), origin);
    meta
}

fn no_match(args: &ExtractArgs, wanted: &Wanted, patterns: &Patterns) -> Failure {
    let none = |of: &[bool]| !of.contains(&true);
    let (what, hint) = match (none(&wanted.files), none(&wanted.contexts)) {
        (true, _) => ("no file of the trace matches --file", patterns.hint()),
        (_, true) => ("no program of the trace matches --program", ""),
        _ => ("nothing was written by such programs to such files", ""),
    };
    let trace = shell::word(&args.trace);
    let ask = "expected a pattern such as '*.ibd', '/db/**' or postgres";
    Failure::failed(anyhow!(
        "{what}{hint}; {ask}. `pcstream contexts {trace} --by file` and `--by program` list what there is"
    ))
}

fn in_words(summary: &Summary, from: &Meta, left_out: LeftOut) -> String {
    let totals = &summary.meta.totals;
    let mut words = format!(
        "{}: {} events, {} of {} written, {} of {} contexts, id {}; left out: {} of other files and programs",
        summary.path.display(),
        count(totals.events),
        page_bytes(totals.host_pages),
        page_bytes(from.totals.host_pages),
        count(totals.contexts),
        count(from.totals.contexts),
        summary.meta.trace_id,
        page_bytes(left_out.data),
    );
    if left_out.metadata > 0 {
        words +=
            &format!(", {} of metadata and journal (--metadata keeps them)", page_bytes(left_out.metadata));
    }
    let before: u64 = from.prefilled.iter().map(|extent| extent.pages).sum();
    if before > 0 {
        words += &format!(", {} that lay there before", page_bytes(before));
    }
    if left_out.overwritten > 0 {
        let pages = page_bytes(left_out.overwritten);
        words += &format!("; {pages} count as discarded when something that is left out overwrote them");
    }
    words
}
