//! From flags to what places: the capture's options, the scheme, its table and the sink.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use pcstream_capture::capture::{self, CaptureOptions, Target};
use pcstream_capture::command::TracedOptions;
use pcstream_capture::session::{Followed, SessionOptions};
use pcstream_fs::scratch::hidden_writers;
use pcstream_place::hint::HintClasses;
use pcstream_place::instance::Instance;
use pcstream_place::settings::set_for_placing;
use pcstream_place::sink::{ByRequest, STREAMS_MAX, SinkInputs};
use pcstream_place::sinks::Choice;
use pcstream_place::table_file::{self, Room, TableFile, TableFileError};
use pcstream_place::{Learner, Placer};
use pcstream_placement::pcstream::PcStreamParams;
use pcstream_placement::pcstream::key::KeySource;
use pcstream_placement::pcstream::table::AttributeTable;
use pcstream_placement::registry::names;
use pcstream_placement::{Environment, SchemeError, SchemeFactory as _, configure, plus};

use super::site::{self, Site};
use crate::args::PlaceArgs;
use crate::attached;
use crate::failure::Failure;
use crate::ui::Ui;
use crate::whole_file;
use crate::write_buffers;

/// What is captured, and how.
pub(super) fn capture_options(args: &PlaceArgs, ui: Ui) -> Result<CaptureOptions, Failure> {
    // Before anything of root's is looked at: of that another user learned only that others can change it.
    capture::check_machine().map_err(Failure::failed)?;
    hidden_writers(&args.on).iter().for_each(|hidden| ui.remark(hidden));
    let subject = attached::subject(&args.words, &args.attach);
    // With a command, what others write is not placed.
    if !args.dir_only && args.words.is_empty() {
        attached::takes_all(&args.on, &subject, "placed").iter().for_each(|taken| ui.remark(taken));
    }
    let session = SessionOptions {
        // Of a command. What is attached to says itself whom it follows.
        followed: if args.words.is_empty() { Followed::All } else { Followed::Processes },
        buffers: write_buffers::probes(&args.write_buffers, &subject, ui)?,
        unwind: args.unwind.0,
        depth: args.depth.map(u32::from),
        only_below: attached::only_below(Some(&args.on), args.dir_only)?,
        ..SessionOptions::default()
    };
    let target = Target::Existing(args.on.clone());
    // Labels of metrics have the names of functions. A service outlives programs, which keep their room on the disk until their
    // names are found.
    let live_names = args.metrics.metrics.is_some() || args.words.is_empty();
    Ok(CaptureOptions {
        session,
        forget_files: true,
        live_names,
        duration: args.duration,
        traced: TracedOptions { reap: true, ..TracedOptions::default() },
        ..CaptureOptions::new(subject, target)
    })
}

/// Streams that the scheme has, the default included.
pub(super) fn streams(args: &PlaceArgs, place: &Site, choice: &Choice) -> Result<u8, Failure> {
    let usual = (choice.sink.streams)(&place.device);
    let streams = args.streams.unwrap_or(usual);
    // Where no request has a stream of the device, the device sets no limit.
    let most = if choice.sink.by_request == ByRequest::No { STREAMS_MAX } else { usual };
    if streams <= most {
        return Ok(streams);
    }
    let (sink, device) = (choice.sink.name, &place.device.name);
    let error = anyhow!("--streams {streams}: with the sink {sink} {device} has {most}");
    Err(Failure::wrong_arguments(error))
}

/// Schemes that place by program context alone.
fn that_place(streams: u8) -> Vec<&'static str> {
    let places = |name: &&str| {
        let built = Environment::new(streams).and_then(|device| configure(name)?.build(&device));
        built.ok().and_then(Learner::new).is_some()
    };
    names().filter(places).collect()
}

/// Scheme, table and sink.
pub(super) fn placer(
    args: &PlaceArgs,
    streams: u8,
    place: &Site,
    choice: &Choice,
    instance: &Instance,
    ui: Ui,
) -> Result<Placer, Failure> {
    let mut scheme = configure(&args.scheme).map_err(|error| refused("--scheme", &args.scheme, error))?;
    set_for_placing(&mut scheme, streams);
    for setting in &args.set {
        if setting.scheme != scheme.scheme() {
            let error = anyhow!("--set {}: the scheme is {}", setting.text, scheme.scheme());
            return Err(Failure::wrong_arguments(error));
        }
        scheme
            .set(&setting.parameter, &setting.value)
            .map_err(|error| refused("--set", &setting.text, error))?;
    }
    let built = match Environment::new(streams).and_then(|device| scheme.build(&device)) {
        Err(SchemeError::NeedsFuture { .. }) => None,
        built => Some(built.map_err(|error| refused("--scheme", &args.scheme, error))?),
    };
    let learner = built.and_then(Learner::new).ok_or_else(|| {
        Failure::wrong_arguments(anyhow!(
            "--scheme {}: it does not place by program context alone, so there is nothing to decide before a write is \
             made; take one of {}",
            args.scheme,
            that_place(streams).join(", ")
        ))
    })?;
    let default = args.words.is_empty().then(|| table_file::default_path(&place.directory));
    let learner = learner.with_hints(HintClasses::of(place.device.file_system));
    let name = scheme.scheme();
    let table = args.table.as_deref().or(default.as_deref());
    let (key, room) = match scheme.params_mut::<PcStreamParams>() {
        Some(params) => (params.key, Room::TableBytes(AttributeTable::room(params.table_bytes))),
        None => (KeySource::Context, Room::Fixed(plus::MAX_CONTEXTS)),
    };
    let table = table.map(|path| real_table(path, args.table.is_some())).transpose()?;
    let table = table.map(|real| table_file(&real, instance.directory(), name, key, ui)).transpose()?;
    let table = table.map(|table| table.with_room(room));
    let (directory, device) = (place.mount_point.clone(), place.device.clone());
    let given = instance.given().to_owned();
    let sink = (choice.sink.make)(SinkInputs {
        directory,
        device,
        override_hints: args.override_hints,
        given: given.clone(),
    })
    .with_context(|| format!("cannot use {}", given.display()))?;
    if !sink.gives_hints() && !place.device.is_raw() && given.metadata().is_ok_and(|left| left.len() > 0) {
        ui.remark(&site::hints_left(&place.mount_point));
    }
    Placer::new(name, learner, sink, table).map_err(unusable)
}

/// Where symbolic links from `table` lead: it is replaced as a whole, which the links outlive. The directory of a table that
/// was named must be there. That of the default is made; a mistyped one is not.
fn real_table(table: &Path, named: bool) -> Result<PathBuf, Failure> {
    let given = table.display();
    let real = whole_file::resolve(table)
        .with_context(|| format!("--table {given}"))
        .map_err(Failure::wrong_arguments)?;
    let directory = whole_file::parent(&real);
    if named && !directory.is_dir() {
        return Err(Failure::wrong_arguments(anyhow!(
            "--table {given}: there is no directory {}",
            directory.display()
        )));
    }
    Ok(real)
}

fn table_file(real: &Path, locks: &Path, scheme: &str, key: KeySource, ui: Ui) -> Result<TableFile, Failure> {
    let table = TableFile::new(real, locks, scheme, key).map_err(Failure::failed)?;
    if !table.is_there() {
        ui.remark(&format!("the table {} is new", real.display()));
    }
    Ok(table)
}

/// A table that is none stays none: a service need not try again.
fn unusable(error: TableFileError) -> Failure {
    match error {
        TableFileError::Io { .. } => Failure::failed(error),
        _ => Failure::wrong_arguments(error),
    }
}

fn refused(flag: &str, value: &str, error: SchemeError) -> Failure {
    Failure::wrong_arguments(anyhow::Error::from(error).context(format!("{flag} {value}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemes_that_place_are_named() {
        let names = that_place(8);
        assert!(names.starts_with(&["pcstream"]), "{names:?}");
        assert!(
            ["vstream-executable", "pcstream-plus-context"].iter().all(|name| names.contains(name)),
            "{names:?}"
        );
        let others = ["baseline", "manual", "autostream-mq", "pcstream-plus", "vstream-file", "oracle"];
        assert!(!others.iter().any(|other| names.contains(other)), "{names:?}");
    }
}
