//! What simulations of repeated runs measure, and how their means are written. `compare` and `run --repeat` share it.

use std::collections::BTreeMap;

use crate::Simulation;
use crate::human::{page_bytes, ratio};
use crate::statistics::{Mean, mean};

/// Values of each repetition by what was measured.
#[derive(Debug, Default)]
pub struct Measures(BTreeMap<String, Vec<f64>>);

impl Measures {
    /// Takes in one repetition.
    pub fn note(&mut self, simulation: &Simulation) {
        let totals = simulation.writers.totals();
        let mut measure = |name: String, value: f64| self.0.entry(name).or_default().push(value);
        measure("written by the host".to_owned(), totals.host_pages as f64);
        measure("traced seconds".to_owned(), simulation.traced_ns() as f64 / 1e9);
        for lane in &simulation.results {
            let name = format!("{} gc {}", lane.scheme, lane.settings.gc_destination);
            // There is none where nothing was written.
            if let Some(waf) = lane.waf() {
                measure(format!("WAF: {name}"), waf);
            }
            measure(format!("flash: {name}"), lane.flash_pages() as f64);
        }
    }

    /// Everything measured, by name.
    pub fn values(&self) -> impl Iterator<Item = (&String, &[f64])> {
        self.0.iter().map(|(name, values)| (name, &values[..]))
    }

    /// The values of a measure.
    pub fn get(&self, name: &str) -> Option<&[f64]> {
        self.0.get(name).map(|values| &values[..])
    }

    /// Their means.
    pub fn means(&self) -> BTreeMap<String, Mean> {
        self.values().map(|(name, values)| (name.clone(), mean(values))).collect()
    }
}

/// Whether a measure of this name tells little beside the others: what a scheme writes to flash is its WAF times what the host
/// writes. That of the drive as it is today is what a change is about.
pub fn is_detail(name: &str) -> bool {
    name.strip_prefix("flash: ").is_some_and(|lane| !lane.starts_with("baseline"))
}

/// A number of a measure of this name.
pub fn written(name: &str, number: f64) -> String {
    match name {
        _ if name.starts_with("WAF") => ratio(Some(number)),
        "traced seconds" => format!("{number:.1}"),
        _ => page_bytes(number as u64),
    }
}
