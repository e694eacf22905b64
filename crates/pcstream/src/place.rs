//! `place`: streams and hints for real writes, for one command or as a service.
//!
//! A capture feeds a worker of `pcstream-place`, which learns and places. Here are arguments, signals and exit codes.

mod kernel_streams;
mod metrics;
mod observer;
mod result;
mod setup;
pub mod site;

use std::io::IsTerminal as _;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use anyhow::{Context as _, anyhow};
use pcstream_capture::capture::{self, CaptureError, CaptureOptions, Finished};
use pcstream_capture::session::PlacedBy;
use pcstream_fs::extents::DeviceNumber;
use pcstream_place::instance::Instance;
use pcstream_place::notify::Notifier;
use pcstream_place::sink::ByRequest;
use pcstream_place::sinks::{self, Choice};
use pcstream_place::{Summary, Worker};
use pcstream_report::human;
use pcstream_watch::About;
use signal_hook::consts::SIGINT;

use crate::args::PlaceArgs;
use crate::command_files;
use crate::failure::{Failure, Status};
use crate::stop::{Shown, StopSignals, failure_of};
use crate::ui::{self, JsonSink, Ui};
use crate::whole_file::all_different;
use metrics::{Parts, Served};
use observer::Placing;
use result::PlacingJson;
use setup::{capture_options, placer, streams};
use site::Site;

/// Losses of a capture that mean nothing to a service that is stopped: what is dirty then is placed by nobody.
const OF_THE_END: [&str; 3] = ["sync_abandoned", "names_abandoned", "names_late"];

/// `pcstream place`.
pub fn place(args: &PlaceArgs, ui: Ui) -> Result<Status, Failure> {
    all_different(&[("--json", args.output.json.as_deref()), ("--table", args.table.as_deref())])?;
    let json = JsonSink::asked(&args.output)?;
    let mut options = capture_options(args, ui)?;
    let place = Site::find(&args.on)?;
    let instance = Instance::claim(place.device.number).map_err(Failure::failed)?;
    let choice = sinks::choose(&args.sink, &place.device).map_err(Failure::wrong_arguments)?;
    options.session.placed_by = placed_by(choice.sink.by_request);
    // A hint of a file comes too late for requests that are made before.
    options.first_writers = choice.sink.by_request == ByRequest::No;
    options.session.answering = place.answers(&options.session.buffers, &choice, ui);
    options.session.stream_device = place.device.streams_below.map_or(0, DeviceNumber::kernel_dev_t);
    let streams = streams(args, &place, &choice)?;
    let placer = placer(args, streams, &place, &choice, &instance, ui)?;
    let metrics = metrics::start(&args.metrics, about(&place, &choice), streams, ui)?;
    let (spectator, mailbox, served) = match metrics {
        Some(Parts { spectator, mailbox, served }) => (Some(spectator), Some(mailbox), served),
        None => (None, None, Served::default()),
    };
    let reload = Arc::new(AtomicBool::new(false));
    // A signal that asks to stop ends the metrics at once: the end of a capture may take longer.
    let server = served.clone();
    let signals = StopSignals::catch_with(reloads().then(|| reload.clone()), move || metrics::stop(&server))?;
    let mut placing = Placing {
        place: &place,
        choice: &choice,
        offer: options.session.answering.then(|| instance.answers()),
        answers: None,
        worker: Worker::start(placer, args.save_every, spectator)
            .context("cannot start a thread that learns")?,
        notifier: Notifier::to(std::env::var_os("NOTIFY_SOCKET").as_deref()),
        stops: &signals.count,
        reload: &reload,
        mailbox,
        began: Instant::now(),
        looked: Instant::now(),
        reloads: 0,
        reloading: false,
        server: None,
        command: !args.words.is_empty(),
        gone: false,
        ui,
    };
    let captured = capture::capture(&options, &*signals.count, &mut placing);
    placing.notifier.stopping();
    // Whichever of the two looks, this one's or the capture's, saw it.
    let (seconds, gone) = (placing.began.elapsed().as_secs_f64(), placing.gone || placing.is_gone());
    // What was learned is saved, whatever became of the capture.
    let summary = placing.finish();
    metrics::stop(&served);
    let finished = match captured {
        // As good as a signal later, unless a command never ran.
        Err(CaptureError::Interrupted) if args.words.is_empty() => None,
        captured => Some(captured.map_err(|error| failure_of(error, signals.first()))?),
    };
    let summary = complete(summary, finished.as_ref(), args.words.is_empty());
    let result = PlacingJson {
        pcstream: pcstream_report::VERSION.to_owned(),
        on: args.on.display().to_string(),
        device: place.device.name.clone(),
        sink_because: choice.in_full(),
        seconds,
        summary,
    };
    let put_out = put_out(json, &result, args.top, &signals, ui);
    let gone = (gone && args.words.is_empty()).then_some(&place);
    put_out.and(outcome(&result.summary, finished.as_ref(), &options, gone, signals.first(), ui))
}

/// Puts the result out. A file comes first, and is written whole however long that takes. After a signal, whoever reads a pipe has to
/// do that soon.
fn put_out(
    json: Option<JsonSink>,
    result: &PlacingJson,
    top: usize,
    signals: &StopSignals,
    ui: Ui,
) -> Result<(), Failure> {
    let (written, json) = match json {
        Some(sink) if sink.is_file() => (sink.write(result), None),
        json => (Ok(()), json),
    };
    let shown = Arc::new(Shown::default());
    signals.end_without_readers(shown.clone(), ui);
    let printed = ui::show(json, result, || result::text(result, top, ui.layout(false)));
    shown.all();
    printed.and(written)
}

fn placed_by(by_request: ByRequest) -> PlacedBy {
    match by_request {
        ByRequest::No => PlacedBy::Nobody,
        ByRequest::Module => PlacedBy::Module,
        ByRequest::Server => PlacedBy::Server,
        ByRequest::Programs => PlacedBy::Programs,
    }
}

fn about(place: &Site, choice: &Choice) -> About {
    About {
        on: place.directory.display().to_string(),
        device: place.device.name.clone(),
        fs: place.device.file_system.map_or("", |fs| fs.name()).to_owned(),
        sink: choice.sink.name.to_owned(),
    }
}

/// Whether SIGHUP asks for a reload. On a terminal it says that this closed, unless systemd started a service there.
fn reloads() -> bool {
    let terminal = std::io::stdin().is_terminal() || std::io::stderr().is_terminal();
    !terminal || std::env::var_os("NOTIFY_SOCKET").is_some()
}

/// A summary with the names and losses of the capture. `service`: nobody waits for what is dirty at the end.
fn complete(mut summary: Summary, finished: Option<&Finished>, service: bool) -> Summary {
    let Some(finished) = finished else { return summary };
    result::name(&mut summary, &finished.contexts);
    let counts = |(name, _): &(&String, &u64)| !(service && OF_THE_END.contains(&name.as_str()));
    let losses = finished.losses.iter().filter(counts).map(|(name, value)| (name.clone(), *value));
    summary.standing.losses.extend(losses);
    summary
}

/// Says what the user should know, and what exit code that makes. `gone`: the file system whose end was that of placing.
fn outcome(
    summary: &Summary,
    finished: Option<&Finished>,
    options: &CaptureOptions,
    gone: Option<&Site>,
    signal: Option<i32>,
    ui: Ui,
) -> Result<Status, Failure> {
    let Some(finished) = finished else {
        ui.remark("ended as you asked, before anything was placed");
        return Ok(Status::with_losses(say_losses(summary, ui)));
    };
    match gone {
        Some(place) => {
            ui.remark(&format!("ended: {}; what was learned until then is kept", place.what_is_gone()));
        }
        None => finished.notes.iter().for_each(|note| ui.remark(note)),
    }
    let lost = say_losses(summary, ui);
    if finished.interrupted {
        let error = anyhow!("interrupted; what was learned until then is reported");
        return Err(Failure::Interrupted { error, signal: signal.unwrap_or(SIGINT) });
    }
    if let Some(status) = finished.status.filter(|status| !status.success()) {
        command_files::misplaced(options).iter().for_each(|misplaced| ui.remark(misplaced));
        return Err(anyhow!("the command failed: {status}").into());
    }
    Ok(Status::with_losses(lost))
}

/// Whether anything was lost.
fn say_losses(summary: &Summary, ui: Ui) -> bool {
    let lost = human::losses(&summary.standing.losses);
    if !lost.is_empty() {
        ui.remark(&format!("not all writes were learned from or placed: {lost}"));
    }
    !lost.is_empty()
}
