//! Errors of the crates as exceptions of `pcstream._errors`, with the same words: place, value, remedy.

use std::fmt::Display;

use pcstream_replay::budget::NotEnough;
use pcstream_replay::recorded::RecordedError;
use pcstream_replay::space::SpaceError;
use pcstream_replay::{ReplayError, Smaller};
use pcstream_report::human::bytes;
use pcstream_ssd::request::RequestError;
use pcstream_trace::TraceError;
use pyo3::prelude::*;

/// An exception by the name of its class.
fn exception(class: &str, message: String) -> PyErr {
    Python::attach(|py| {
        let made = py.import("pcstream._errors").and_then(|module| module.getattr(class)?.call1((message,)));
        made.map_or_else(|error| error, PyErr::from_value)
    })
}

/// Flags that the crates name as remedies, and what they are called in Python.
const FLAGS: [(&str, &str); 6] = [
    ("--superblock-pages", "superblock_pages"),
    ("--spare-factor", "spare_factor"),
    ("--overprovision", "overprovisioning"),
    ("--capacity", "logical_pages"),
    ("--streams", "streams"),
    ("--gc", "gc"),
];

/// A message with the names of arguments instead of those of flags, but in commands, which stand between backticks.
pub fn for_python(message: &str) -> String {
    let text = FLAGS.iter().fold(message.to_owned(), |text, (flag, name)| text.replace(flag, name));
    let parts = text.split('`').enumerate();
    let parts = parts.map(|(at, part)| if at % 2 == 0 { without_dashes(part) } else { part.to_owned() });
    parts.collect::<Vec<_>>().join("`")
}

/// `--some-flag` becomes `some_flag`.
fn without_dashes(text: &str) -> String {
    let word = |word: &str| match word.split_once("--") {
        Some((before, flag))
            if !before.contains(char::is_alphanumeric) && flag.starts_with(char::is_alphabetic) =>
        {
            let end = flag.find(|c: char| !c.is_ascii_alphanumeric() && c != '-').unwrap_or(flag.len());
            format!("{before}{}{}", flag[..end].replace('-', "_"), &flag[end..])
        }
        _ => word.to_owned(),
    };
    text.split_inclusive(char::is_whitespace).map(word).collect()
}

/// What was asked for cannot be.
pub fn argument(error: impl Display) -> PyErr {
    exception("ArgumentError", for_python(&error.to_string()))
}

/// No such device can be, or it cannot hold the trace.
pub fn no_device(error: impl Display) -> PyErr {
    exception("DeviceError", for_python(&error.to_string()))
}

/// A trace cannot be read or written.
pub fn trace(error: &TraceError) -> PyErr {
    match error {
        TraceError::Missing(_) => exception("TraceNotFoundError", error.to_string()),
        TraceError::Exists(path) => {
            let remedy = "exists already; choose another name, or replace it with overwrite=True";
            exception("TraceError", format!("{}: {remedy}", path.display()))
        }
        _ => exception("TraceError", error.to_string()),
    }
}

/// A replay cannot begin or go on.
pub fn replay(error: &ReplayError) -> PyErr {
    match error {
        ReplayError::Device(_) | ReplayError::Timing(_) => no_device(error),
        ReplayError::Scheme(_) | ReplayError::NoLanes => argument(error),
        other => exception("SimulationError", other.to_string()),
    }
}

/// Why a trace has no result.
pub fn recorded(error: &RecordedError<TraceError>) -> PyErr {
    match error {
        RecordedError::Trace(error) => trace(error),
        RecordedError::Replay(error) => replay(error),
    }
}

/// What takes less of everything than the device of a trace that writes little of it.
const PACKED: &str = ", or pack=0.9 for a device that is no larger than what the trace writes";

/// No such device can be. `packs`: one without the pages that the trace never writes would be smaller.
pub fn device(error: &RequestError, packs: bool) -> PyErr {
    no_device(format_args!("{error}{}", if packs && error.is_too_large() { PACKED } else { "" }))
}

/// The trace cannot have the address space that was asked for.
pub fn space(error: &SpaceError) -> PyErr {
    match error {
        SpaceError::TooSmall { .. } => no_device(error),
        SpaceError::Nothing => argument(error),
    }
}

/// More memory would be needed.
pub fn memory(NotEnough { needed, available }: NotEnough, smaller: Option<Smaller>) -> PyErr {
    let smaller = match smaller {
        Some(Smaller::Packed) => PACKED,
        Some(Smaller::Capacity) => ", or take a device of less capacity",
        None => "",
    };
    let message = format!(
        "the simulation needs at least {} of memory, for one scheme at a time, and {} are allowed (three quarters of what is \
         free, unless memory says otherwise): free some, or allow more with memory={smaller}",
        bytes(needed),
        bytes(available),
    );
    exception("NotEnoughMemoryError", message)
}
