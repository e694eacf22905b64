//! Pictures of a run: each one a self-contained SVG with its numbers as CSV, and the HTML report that holds them all.
//!
//! Idea: SVG is written by hand (`svg`), with classes for colours, so that one style sheet serves light and dark
//! screens and paper. Sizes are bounded by the resolution of the pictures and by the number of contexts shown, not by
//! the length of the trace.

mod address_map;
mod chart;
mod curves;
mod flame;
mod html;
mod lifetimes;
mod svg;
mod throughput;
mod timeline;
mod waf;

use pcstream_replay::LaneResult;
use pcstream_replay::survey::Survey;

use crate::{ContextRow, Simulation};

pub use html::page;
pub use svg::standalone;

/// A line of a chart, such as the WAF of a scheme over something.
#[derive(Clone, Debug)]
pub struct Curve {
    /// For the legend, such as the scheme and the kind of drive in words.
    pub name: String,
    /// x and y, such as where and the WAF there.
    pub points: Vec<(f64, f64)>,
}

/// Everything that pictures are made of.
pub struct Material<'a> {
    /// The comparison of schemes.
    pub simulation: &'a Simulation<'a>,
    /// Contexts, heaviest first.
    pub rows: &'a [ContextRow<'a>],
    /// Maps, copies and rates.
    pub survey: &'a Survey,
    /// WAF over how full the flash is at most; empty if it was not simulated.
    pub by_utilisation: &'a [Curve],
    /// WAF over the number of streams; empty if it was not simulated.
    pub by_streams: &'a [Curve],
}

impl Material<'_> {
    /// The results.
    fn lanes(&self) -> &[LaneResult] {
        &self.simulation.results
    }
}

/// A picture with its numbers.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Its title.
    pub title: &'static str,
    /// What it shows and how to read it.
    pub note: String,
    /// An SVG element with a style of its own; empty if there is nothing to show.
    pub svg: String,
    /// Its numbers.
    pub csv: String,
}

type Draw = fn(&Material) -> Figure;

/// Every figure, by its name on the command line: one file and one line here.
const FIGURES: [(&str, Draw); 10] = [
    ("waf", waf::by_scheme),
    ("waf-over-run", waf::over_run),
    ("waf-over-utilisation", curves::over_utilisation),
    ("waf-over-streams", curves::over_streams),
    ("lifetimes", lifetimes::figure),
    ("address-map", address_map::figure),
    ("flame-written", flame::written),
    ("flame-copied", flame::copied),
    ("rates", timeline::figure),
    ("throughput", throughput::figure),
];

/// Names of the figures, in the order of the report.
pub fn names() -> impl Iterator<Item = &'static str> {
    FIGURES.iter().map(|(name, _)| *name)
}

/// The figure of this name.
pub fn figure(name: &str, material: &Material) -> Option<Figure> {
    FIGURES.iter().find(|(known, _)| *known == name).map(|(_, draw)| draw(material))
}

/// Number of colours for contexts and schemes.
const COLOURS: usize = 8;
