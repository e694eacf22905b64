//! Devices: from `pcstream.Device` to the settings of the model, as the command line makes them of its flags.

use pcstream_report::geometry;
use pcstream_ssd::profile::KNOWN;
use pcstream_ssd::request::DEFAULT_LOGICAL_PAGES;
use pcstream_ssd::timing::TimingSettings;
use pcstream_ssd::{Base, DeviceRequest, Devices, GcDestination, Profile, Spare, Watermarks};
use pyo3::prelude::*;

use crate::errors;
use crate::options::DeviceArg;

impl DeviceArg {
    /// The devices for a trace of `trace_pages`, if there is one; `packs` says whether it can be packed onto a smaller one.
    pub fn devices(&self, trace_pages: Option<u64>, packs: bool) -> PyResult<Devices> {
        if let Some((given, trace)) =
            self.logical_pages.zip(trace_pages).filter(|(given, trace)| given < trace)
        {
            return Err(errors::no_device(format_args!(
                "the device has {given} logical pages, but the trace is of one with {trace}: expected at least as many \
                 (logical_pages, or Device.scaled())"
            )));
        }
        let mut base = self.base(trace_pages)?;
        base.profile.timing = self.timing(&base.profile.timing)?;
        let gives = |wanted: &str| self.timing.iter().flatten().any(|(name, _)| name == wanted);
        base.gives_erase |= gives("erase_ns");
        base.gives_buffer |= gives("buffer_pages");
        if let Some(trace) = trace_pages.filter(|&trace| base.profile.device.logical_pages < trace) {
            return Err(errors::no_device(format_args!(
                "profile {} has {} logical pages, but the trace is of a device with {trace}: scale it, with \
                 Device.profile(...).scaled()",
                self.profile_name.as_deref().unwrap_or_default(),
                base.profile.device.logical_pages,
            )));
        }
        self.request()?.devices(base).map_err(|error| errors::device(&error, packs))
    }

    /// Where it comes from, for results.
    pub fn origin(&self) -> Option<String> {
        self.profile_name.as_ref().map(|name| format!("profile {name}"))
    }

    fn base(&self, trace_pages: Option<u64>) -> PyResult<Base> {
        let pages = self.logical_pages.or(trace_pages);
        let Some(name) = &self.profile_name else {
            return Ok(Base::defaults(pages.unwrap_or(DEFAULT_LOGICAL_PAGES)));
        };
        let whole = Profile::named(name).map_err(errors::argument)?;
        let scaled = self.logical_pages.or(trace_pages.filter(|_| self.to_trace));
        Ok(Base::known(scaled.map_or(whole.clone(), |pages| whole.scaled_to(pages))))
    }

    /// The speeds of a base with those that the device replaces.
    fn timing(&self, base: &TimingSettings) -> PyResult<TimingSettings> {
        let refuse = |error: serde_json::Error| errors::argument(format_args!("timing: {error}"));
        let mut values = serde_json::to_value(base).map_err(refuse)?;
        for (name, value) in self.timing.iter().flatten() {
            values[name] = (*value).into();
        }
        serde_json::from_value(values).map_err(refuse)
    }

    fn request(&self) -> PyResult<DeviceRequest> {
        let destinations = |names: &Vec<String>| {
            names.iter().map(|name| name.parse::<GcDestination>()).collect::<Result<Vec<_>, _>>()
        };
        let spare = self.spare_factor.map(Spare::SpareFactor);
        Ok(DeviceRequest {
            spare: spare.or(self.overprovisioning.map(Spare::Overprovisioning)),
            superblock_pages: self.superblock_pages,
            streams: self.streams,
            gc_destinations: self.gc.as_ref().map(destinations).transpose().map_err(errors::argument)?,
            victim: self.victim.as_deref().map(str::parse).transpose().map_err(errors::argument)?,
            pools: self.pools.clone(),
            background_gc: self.background_gc.map(|(low, high)| Watermarks { low, high }),
            seed: self.seed,
        })
    }
}

/// Name and description of every profile.
#[pyfunction]
pub fn profiles() -> Vec<(&'static str, &'static str)> {
    KNOWN.iter().map(|profile| (profile.name, profile.about)).collect()
}

/// Refuses a device that names a profile, a GC destination, a victim policy or a speed that does not exist.
#[pyfunction]
pub fn check(device: DeviceArg) -> PyResult<()> {
    if let Some(name) = &device.profile_name {
        Profile::named(name).map_err(errors::argument)?;
    }
    device.timing(&TimingSettings::default())?;
    device.request().map(drop)
}

/// The sizes and budgets of a device, as `pcstream geometry --json` writes them.
#[pyfunction]
pub fn derive(device: DeviceArg) -> PyResult<String> {
    let devices = device.devices(None, false)?;
    let json = geometry::json(device.origin(), &devices.settings, &devices.profile);
    serde_json::to_string(&json).map_err(errors::argument)
}
