//! The native half of the Python package `pcstream`: traces as Arrow, simulations, schemes in Python.
//!
//! Idea: Python holds what is asked for (a device, options) as plain data classes, which are read here by their attributes, and
//! gets results as the JSON that the command line writes. So both say the same, and neither is described twice.
//!
//! Invariants: the interpreter is free while a simulation runs; nothing here prints; every error is one of
//! `pcstream._errors`, or what Python code that was called raised.

mod device;
mod errors;
mod forked;
mod options;
mod scheme;
mod simulate;
mod stop;
mod tables;
mod trace;
mod write;

use pyo3::prelude::*;

/// The module `pcstream._pcstream`; its types are in `_pcstream.pyi`.
#[pymodule]
fn _pcstream(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", pcstream_report::VERSION)?;
    module.add_class::<trace::Trace>()?;
    module.add_function(wrap_pyfunction!(trace::open, module)?)?;
    module.add_function(wrap_pyfunction!(trace::generate, module)?)?;
    module.add_function(wrap_pyfunction!(write::write, module)?)?;
    module.add_function(wrap_pyfunction!(device::profiles, module)?)?;
    module.add_function(wrap_pyfunction!(device::check, module)?)?;
    module.add_function(wrap_pyfunction!(device::derive, module)?)?;
    module.add_function(wrap_pyfunction!(scheme::schemes, module)?)?;
    module.add_function(wrap_pyfunction!(scheme::presets, module)?)?;
    module.add_function(wrap_pyfunction!(scheme::check_schemes, module)?)?;
    module.add_function(wrap_pyfunction!(simulate::simulate, module)?)?;
    module.add_function(wrap_pyfunction!(simulate::memory_allowed, module)?)?;
    Ok(())
}
