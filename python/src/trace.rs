//! Traces: opened, looked at, generated.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use pcstream_trace::generators::{self, Common};
use pcstream_trace::store::arrow;
use pcstream_trace::{TraceReader, TraceWriter};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::stop::Stop;
use crate::{errors, tables};

/// An opened trace; its events stay on disk.
#[pyclass(frozen, module = "pcstream._pcstream")]
pub struct Trace {
    /// The trace.
    pub reader: Arc<TraceReader>,
}

#[pymethods]
impl Trace {
    /// Where it was found.
    #[getter]
    fn path(&self) -> PathBuf {
        self.reader.path().to_owned()
    }

    /// What is missing of it, in words; None for a whole trace.
    #[getter]
    fn damage(&self) -> Option<&str> {
        self.reader.damage()
    }

    /// Pages of the traced device; 0 if its recorder ended before it knew.
    #[getter]
    fn device_pages(&self) -> u64 {
        self.reader.meta().device.pages
    }

    /// `meta.json` as text.
    fn meta_json(&self) -> PyResult<String> {
        serde_json::to_string(self.reader.meta()).map_err(errors::argument)
    }

    /// The events as a capsule with an Arrow stream.
    fn events<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        tables::stream(py, Box::new(arrow::events(&self.reader)))
    }

    /// The contexts as a capsule with an Arrow stream.
    fn contexts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        tables::one(py, arrow::contexts(&self.reader))
    }

    /// The files as a capsule with an Arrow stream.
    fn files<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        tables::one(py, arrow::files(&self.reader))
    }
}

/// Opens a trace.
#[pyfunction]
pub fn open(py: Python<'_>, path: PathBuf) -> PyResult<Trace> {
    let reader = py.detach(|| TraceReader::open(path)).map_err(|error| errors::trace(&error))?;
    Ok(Trace { reader: Arc::new(reader) })
}

/// Writes a generated trace.
#[pyfunction]
pub fn generate(
    py: Python<'_>,
    name: &str,
    common: (u64, u64, u64),
    options: BTreeMap<String, f64>,
    output: PathBuf,
    overwrite: bool,
) -> PyResult<()> {
    let (pages, writes, seed) = common;
    let generated = generators::generate(name, Common { pages, writes, seed }, &options);
    let generated = generated.map_err(errors::argument)?;
    let stop = Stop::default();
    py.detach(|| {
        let mut watch = stop.watch();
        let mut writer = TraceWriter::create(&output, generated.meta().clone(), overwrite)?;
        for batch in generated {
            watch();
            if stop.asked() {
                break;
            }
            writer.write_batch(&batch)?;
        }
        if stop.asked() { writer.abandon() } else { writer.finish(None).map(drop) }
    })
    .map_err(|error| errors::trace(&error))?;
    stop.check()
}
