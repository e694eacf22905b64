//! Pictures of a run: each one a self-contained SVG with its numbers as CSV, and the HTML report that holds them all.
//!
//! Idea: SVG is written by hand (`svg`), with classes for colours, so that one style sheet serves light and dark
//! screens and paper. The report has each picture twice, of which a browser shows the one for its window: text that is
//! legible in half the width needs another layout. Sizes are bounded by the resolution of the pictures and by the
//! number of contexts shown, not by the length of the trace.

mod address_map;
mod axis;
mod chart;
mod curves;
mod flame;
mod html;
mod lifetimes;
mod look;
mod svg;
mod throughput;
mod timeline;
mod waf;

use pcstream_replay::LaneResult;
use pcstream_replay::survey::Survey;
use pcstream_ssd::GcDestination;
use pcstream_trace::paths::file_name;

use crate::call_paths::row_names;
use crate::{ContextRow, Simulation};

pub use html::page;
pub use svg::standalone;

/// The WAF of a scheme on a kind of drive, over something.
#[derive(Clone, Debug)]
pub struct Curve {
    /// Name of the scheme.
    pub scheme: String,
    /// The kind of drive.
    pub drive: GcDestination,
    /// Where, and the WAF there.
    pub points: Vec<(f64, f64)>,
}

/// The curves of a picture.
#[derive(Clone, Debug, Default)]
pub struct Sweep {
    /// Those of which there are points.
    pub curves: Vec<Curve>,
    /// Points where garbage collection would have no room, so that there is no such drive.
    pub left_out: u64,
    /// What else is to be known of them, in sentences.
    pub remarks: Vec<String>,
}

/// Everything that pictures are made of.
pub struct Material<'a> {
    /// The comparison of schemes.
    pub simulation: &'a Simulation<'a>,
    /// Contexts, heaviest first.
    pub rows: &'a [ContextRow<'a>],
    /// Maps, copies and rates, for the pictures that [`needs_survey`] names.
    pub survey: Option<&'a Survey>,
    /// WAF over how full the flash is at most; `None` if it was not simulated.
    pub by_utilisation: Option<&'a Sweep>,
    /// WAF over the number of streams; `None` if it was not simulated.
    pub by_streams: Option<&'a Sweep>,
}

impl Material<'_> {
    /// The results.
    fn lanes(&self) -> &[LaneResult] {
        &self.simulation.results
    }

    /// Names of all contexts: those of some would name them in another way.
    fn names(&self) -> Vec<String> {
        row_names(self.rows)
    }

    fn survey(&self) -> &Survey {
        self.survey.expect("the pictures that need a survey say so")
    }
}

/// The name of the trace of a simulation; none where it was not kept.
pub fn trace_name<'a>(simulation: &'a Simulation) -> Option<&'a str> {
    let name = file_name(simulation.about.trace.path.trim_end_matches('/'));
    (!name.is_empty()).then_some(name)
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
    /// The same for a narrow window.
    pub narrow: String,
    /// Its numbers.
    pub csv: String,
}

impl Figure {
    /// One for which nothing was simulated, as was asked.
    fn left_out(title: &'static str) -> Figure {
        let nothing = String::new;
        Figure { title, note: nothing(), svg: nothing(), narrow: nothing(), csv: nothing() }
    }

    /// Whether it is [`Figure::left_out`].
    fn is_left_out(&self) -> bool {
        self.note.is_empty() && self.svg.is_empty() && self.csv.is_empty()
    }
}

/// What a picture is drawn for. Its units are pixels there, about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Window {
    /// A screen, or paper.
    Wide,
    /// The screen of a telephone.
    Narrow,
}

impl Window {
    /// One of two.
    fn pick<T>(self, wide: T, narrow: T) -> T {
        match self {
            Window::Wide => wide,
            Window::Narrow => narrow,
        }
    }

    /// Width of pictures.
    fn width(self) -> f64 {
        self.pick(760.0, 380.0)
    }

    /// Where legends begin: below the plot, or at the edge.
    fn legend_left(self, plot: f64) -> f64 {
        self.pick(plot, 8.0)
    }
}

/// A picture that can be asked for.
struct Entry {
    /// On the command line.
    name: &'static str,
    draw: fn(&Material) -> Figure,
    source: Source,
}

/// What a picture is made of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    /// The results of schemes.
    Results,
    /// A survey of the trace, too.
    Survey,
    /// The results of a clock.
    Clock,
}

const fn of(source: Source, name: &'static str, draw: fn(&Material) -> Figure) -> Entry {
    Entry { name, draw, source }
}

/// Every figure: one file and one line here.
const FIGURES: &[Entry] = &[
    of(Source::Results, "waf", waf::by_scheme),
    of(Source::Results, "waf-over-run", waf::over_run),
    // How full the flash was is a result of the survey.
    of(Source::Survey, "waf-over-utilisation", curves::over_utilisation),
    of(Source::Results, "waf-over-streams", curves::over_streams),
    of(Source::Results, "lifetimes", lifetimes::figure),
    of(Source::Survey, "address-map", address_map::figure),
    of(Source::Results, "flame-written", flame::written),
    of(Source::Survey, "flame-copied", flame::copied),
    of(Source::Survey, "rates", timeline::figure),
    of(Source::Clock, "throughput", throughput::figure),
];

/// Names of the figures, in the order of the report.
pub fn names() -> impl Iterator<Item = &'static str> {
    FIGURES.iter().map(|entry| entry.name)
}

/// Whether the figure of this name is made of a survey of the trace.
pub fn needs_survey(name: &str) -> bool {
    FIGURES.iter().any(|entry| entry.name == name && entry.source == Source::Survey)
}

/// Whether the figure of this name shows the results of a clock.
pub fn needs_clock(name: &str) -> bool {
    FIGURES.iter().any(|entry| entry.name == name && entry.source == Source::Clock)
}

/// The figure of this name.
pub fn figure(name: &str, material: &Material) -> Option<Figure> {
    FIGURES.iter().find(|entry| entry.name == name).map(|entry| (entry.draw)(material))
}

/// Characters of the name of a context in a picture.
const LABEL: usize = 43;

/// Number of colours for contexts and schemes.
const COLOURS: usize = 8;
