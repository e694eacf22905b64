//! Schemes that are written in Python: each gets whole batches of events as columns and answers with a stream for each event.
//!
//! Idea: the crates ask for one placement at a time, and say before which events come. Then Python is called once, and its
//! answers wait until they are asked for.
//!
//! Invariants: a scheme of its own for every device, copied from the one given; after an exception nothing more is asked of
//! any scheme, and the simulation ends with it.

use std::sync::Arc;

use pcstream_placement::manual::ManualParams;
use pcstream_placement::{
    Configured, Environment, Placement, Rules, Scheme, SchemeError, SchemeFactory, Stream, configure,
};
use pcstream_trace::{Event, Op, Tables};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors;
use crate::options::OptionsArg;
use crate::stop::Stop;

/// What Python gives as a scheme.
#[derive(Debug, FromPyObject)]
pub enum SchemeArg {
    /// A registered one: NAME or NAME:READING.
    Name(String),
    /// A `pcstream.Scheme`.
    Python(Py<PyAny>),
}

/// What makes the schemes of a run, in order.
pub fn factories(
    py: Python<'_>,
    schemes: Vec<SchemeArg>,
    options: &OptionsArg,
    stop: &Stop,
) -> PyResult<Vec<Arc<dyn SchemeFactory>>> {
    let rules = rules(options)?;
    let (mut set, mut with_rules) = (vec![false; options.set.len()], false);
    let mut made: Vec<Arc<dyn SchemeFactory>> = Vec::new();
    for scheme in schemes {
        match scheme {
            SchemeArg::Name(name) => {
                let mut scheme = configure(&name).map_err(errors::argument)?;
                if let (Some(rules), Some(params)) = (&rules, scheme.params_mut::<ManualParams>()) {
                    *params = rules.clone();
                    with_rules = true;
                }
                apply(&mut scheme, options, &mut set)?;
                made.push(Arc::new(scheme));
            }
            SchemeArg::Python(prototype) => {
                let name: String = prototype.getattr(py, "name")?.extract(py)?;
                if let Some((_, parameter, _)) = options.set.iter().find(|(of, ..)| *of == name) {
                    return Err(errors::argument(format_args!(
                        "set {name}.{parameter}: {name} is a scheme in Python, which has no parameters: set its attributes, \
                         as in scheme.{parameter} = ..."
                    )));
                }
                made.push(Arc::new(PythonFactory { name, prototype, stop: stop.clone() }));
            }
        }
    }
    if let Some(unused) = set.iter().position(|used| !used) {
        let (scheme, parameter, _) = &options.set[unused];
        pcstream_placement::find(scheme).map_err(errors::argument)?;
        return Err(errors::argument(format_args!(
            "set {scheme}.{parameter}: {scheme} is not in this run: add it to schemes"
        )));
    }
    match rules {
        Some(ManualParams { name, .. }) if !with_rules => Err(errors::argument(format_args!(
            "rules {name}: manual, which they are for, is not in this run: add it to schemes"
        ))),
        _ => Ok(made),
    }
}

/// The rules for `manual`, if any are given.
fn rules(options: &OptionsArg) -> PyResult<Option<ManualParams>> {
    let Some(name) = &options.rules_name else { return Ok(None) };
    let rules = options.rules_text.as_deref().map_or_else(|| Rules::preset(name), Rules::parse);
    let rules = rules.map_err(|error| errors::argument(format_args!("rules {name}: {error}")))?;
    Ok(Some(ManualParams { rules, name: name.clone() }))
}

/// Names of the presets of rules.
#[pyfunction]
pub fn presets() -> Vec<&'static str> {
    Rules::presets().map(|(name, _)| name).collect()
}

/// Refuses schemes, parameters and rules that cannot be.
#[pyfunction]
pub fn check_schemes(py: Python<'_>, schemes: Vec<SchemeArg>, options: OptionsArg) -> PyResult<()> {
    factories(py, schemes, &options, &Stop::default()).map(drop)
}

/// Applies the parameters that are set of a scheme, and marks them in `set`.
fn apply(scheme: &mut Configured, options: &OptionsArg, set: &mut [bool]) -> PyResult<()> {
    for ((of, parameter, value), used) in options.set.iter().zip(set) {
        if of == scheme.scheme() {
            scheme.set(parameter, value).map_err(errors::argument)?;
            *used = true;
        }
    }
    Ok(())
}

/// Name, summary, whether it looks ahead, readings, and of each parameter name, default, unit, meaning and source.
type SchemeRow = (
    &'static str,
    &'static str,
    bool,
    Vec<&'static str>,
    Vec<(&'static str, String, &'static str, &'static str, &'static str)>,
);

/// Every registered scheme.
#[pyfunction]
pub fn schemes() -> Vec<SchemeRow> {
    let row = |scheme: &pcstream_placement::SchemeInfo| {
        let parameters = scheme.parameters().into_iter();
        let parameters = parameters.map(|p| (p.name, p.value, p.unit, p.about, p.source)).collect();
        (scheme.name, scheme.summary, scheme.needs_future(), scheme.readings(), parameters)
    };
    pcstream_placement::schemes().iter().map(row).collect()
}

#[derive(Debug)]
struct PythonFactory {
    name: String,
    prototype: Py<PyAny>,
    stop: Stop,
}

impl SchemeFactory for PythonFactory {
    fn name(&self) -> &str {
        &self.name
    }

    fn build(&self, environment: &Environment) -> Result<Box<dyn Scheme>, SchemeError> {
        let made = Python::attach(|py| {
            let device = (environment.streams(), environment.superblock_pages);
            self.prototype.call_method1(py, "_started", device)
        });
        // A simulation without a scheme ends before the first event.
        let instance = made.map_err(|error| self.stop.because(error)).ok();
        let (stop, streams) = (self.stop.clone(), environment.streams());
        Ok(Box::new(PythonScheme { instance, stop, streams, answers: Vec::new(), next: 0 }))
    }
}

struct PythonScheme {
    /// None if it could not be made.
    instance: Option<Py<PyAny>>,
    stop: Stop,
    streams: u8,
    /// For each write of the batch.
    answers: Vec<u8>,
    next: usize,
}

impl PythonScheme {
    fn ask(&self, events: &[Event], now: u64) -> PyResult<Vec<u8>> {
        let Some(instance) = &self.instance else { return Ok(Vec::new()) };
        Python::attach(|py| {
            let columns = (
                column(py, events, |e| e.time_ns.to_ne_bytes())?,
                column(py, events, |e| e.lba.0.to_ne_bytes())?,
                column(py, events, |e| e.pages.to_ne_bytes())?,
                column(py, events, |e| e.context.0.to_ne_bytes())?,
                column(py, events, |e| e.file.0.to_ne_bytes())?,
                column(py, events, |e| e.file_page.to_ne_bytes())?,
                column(py, events, |e| [e.op as u8])?,
                column(py, events, |e| [e.kind as u8])?,
                column(py, events, |e| [e.hint.life as u8])?,
                column(py, events, |e| [e.hint.stream])?,
                now,
            );
            let answer = instance.call_method1(py, "_place_columns", columns)?;
            let answer = answer.bind(py).cast::<PyBytes>()?.as_bytes();
            if answer.len() != events.len() {
                let (found, expected) = (answer.len(), events.len());
                return Err(errors::argument(format_args!(
                    "place() returned {found} streams for {expected} events"
                )));
            }
            let writes = events.iter().zip(answer).filter(|(event, _)| event.op == Op::Write);
            let answers: Vec<u8> = writes.map(|(_, &stream)| stream).collect();
            match answers.iter().find(|&&stream| stream >= self.streams) {
                Some(stream) => Err(errors::argument(format_args!(
                    "place() returned stream {stream}, expected 0 to {}",
                    self.streams - 1
                ))),
                None => Ok(answers),
            }
        })
    }
}

/// One field of all events, as bytes of the machine's order.
fn column<'py, const N: usize>(
    py: Python<'py>,
    events: &[Event],
    field: impl Fn(&Event) -> [u8; N],
) -> PyResult<Bound<'py, PyBytes>> {
    PyBytes::new_with(py, events.len() * N, |bytes| {
        let (places, _) = bytes.as_chunks_mut::<N>();
        places.iter_mut().zip(events).for_each(|(place, event)| *place = field(event));
        Ok(())
    })
}

impl Scheme for PythonScheme {
    fn prepare(&mut self, events: &[Event], now: u64, _tables: &Tables) {
        self.next = 0;
        self.answers.clear();
        if !self.stop.asked() {
            match self.ask(events, now) {
                Ok(answers) => self.answers = answers,
                Err(error) => self.stop.because(error),
            }
        }
    }

    fn place(&mut self, event: &Event, _now: u64, _tables: &Tables, out: &mut Vec<Placement>) {
        // Without an answer the simulation is about to end without a result.
        let stream = self.answers.get(self.next).copied().unwrap_or(0);
        self.next += 1;
        out.push(Placement { pages: event.pages, stream: Stream(stream) });
    }
}
