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
    /// Maps, copies and rates, for the pictures that [`needs_survey`] names.
    pub survey: Option<&'a Survey>,
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

    fn survey(&self) -> &Survey {
        self.survey.expect("the pictures that need a survey say so")
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

/// A picture that can be asked for.
struct Entry {
    /// On the command line.
    name: &'static str,
    draw: fn(&Material) -> Figure,
    needs_survey: bool,
}

const fn of_results(name: &'static str, draw: fn(&Material) -> Figure) -> Entry {
    Entry { name, draw, needs_survey: false }
}

const fn of_survey(name: &'static str, draw: fn(&Material) -> Figure) -> Entry {
    Entry { name, draw, needs_survey: true }
}

/// Every figure: one file and one line here.
const FIGURES: [Entry; 10] = [
    of_results("waf", waf::by_scheme),
    of_results("waf-over-run", waf::over_run),
    // How full the flash was is a result of the survey.
    of_survey("waf-over-utilisation", curves::over_utilisation),
    of_results("waf-over-streams", curves::over_streams),
    of_results("lifetimes", lifetimes::figure),
    of_survey("address-map", address_map::figure),
    of_results("flame-written", flame::written),
    of_survey("flame-copied", flame::copied),
    of_survey("rates", timeline::figure),
    of_results("throughput", throughput::figure),
];

/// Names of the figures, in the order of the report.
pub fn names() -> impl Iterator<Item = &'static str> {
    FIGURES.iter().map(|entry| entry.name)
}

/// Whether the figure of this name is made of a survey of the trace.
pub fn needs_survey(name: &str) -> bool {
    FIGURES.iter().any(|entry| entry.name == name && entry.needs_survey)
}

/// The figure of this name.
pub fn figure(name: &str, material: &Material) -> Option<Figure> {
    FIGURES.iter().find(|entry| entry.name == name).map(|entry| (entry.draw)(material))
}

/// Number of colours for contexts and schemes.
const COLOURS: usize = 8;
