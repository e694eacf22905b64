//! Arguments of `report`, `advise` and `compare`.

use std::path::PathBuf;

use clap::{Arg, ArgGroup, Args};
use pcstream_report::pictures;

use super::simulation::{DeviceArgs, FitArgs, MeasureArgs, OutputArgs, SchemeOptions, SimulationArgs};
use crate::values;

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("what").required(true).multiple(true).args(["output", "figure"])), after_help = "\
Examples:
  pcstream generate hotcold --pages 64K --writes 1M -o hot.pctrace
  pcstream report hot.pctrace -o report.html
  pcstream report hot.pctrace -o report.html --profile pm963-480g --no-curves
  pcstream report hot.pctrace -o report.html --pack 0.9    # a large disk
  pcstream report hot.pctrace --figure address-map --svg map.svg
  pcstream report hot.pctrace --figure address-map --png map.png
  pcstream report hot.pctrace --figure waf --csv - --no-curves")]
pub struct ReportArgs {
    /// The trace: a directory NAME.pctrace
    pub trace: PathBuf,
    /// Write the whole report to FILE, one HTML file that needs no network; '-' is stdout
    #[arg(short, long, value_name = "FILE.html", help_heading = "Report")]
    pub output: Option<PathBuf>,
    /// A single picture, for --svg, --png and --csv
    #[arg(long, value_name = "NAME", value_parser = figure_name, help_heading = "Report", long_help = figures_help())]
    pub figure: Option<String>,
    /// Write the picture to FILE; '-' is stdout
    #[arg(long, value_name = "FILE", requires = "figure", help_heading = "Report")]
    pub svg: Option<PathBuf>,
    /// Write the picture to FILE as PNG, in light colours; '-' is stdout
    #[arg(long, value_name = "FILE", requires = "figure", help_heading = "Report")]
    pub png: Option<PathBuf>,
    /// Write the numbers of the picture to FILE; '-' is stdout
    #[arg(long, value_name = "FILE", requires = "figure", help_heading = "Report")]
    pub csv: Option<PathBuf>,
    /// Leave out the curves over utilisation and over the number of streams, which take most of the time
    #[arg(long, help_heading = "Report")]
    pub no_curves: bool,
    #[command(flatten)]
    pub simulation: SimulationArgs,
    #[command(flatten)]
    pub fit: FitArgs,
}

fn figure_name(name: &str) -> Result<String, String> {
    if pictures::names().any(|known| known == name) {
        return Ok(name.to_owned());
    }
    Err(format!(
        "there is no such picture; expected one of {}",
        pictures::names().collect::<Vec<_>>().join(", ")
    ))
}

fn figures_help() -> String {
    format!(
        "A single picture, for --svg, --png and --csv: {}",
        pictures::names().collect::<Vec<_>>().join(", ")
    )
}

/// Flags of `simulate` that `advise` refuses, by their fields, and those that need them.
const NOT_IN_ADVISE: [&str; 6] = ["gc", "pools", "rules", "timing", "queue_depth", "open_loop"];

/// Flags of `simulate` that `compare` refuses.
const NOT_IN_COMPARE: [&str; 3] = ["timing", "queue_depth", "open_loop"];

/// Leaves arguments that a command refuses out of its help, and of configuration files.
fn without(refused: &'static [&'static str]) -> impl Fn(Arg) -> Arg {
    |arg| if refused.contains(&arg.get_id().as_str()) { arg.hide(true) } else { arg }
}

#[derive(Debug, Args)]
#[command(mut_args(without(&NOT_IN_ADVISE)), after_help = "\
Examples:
  pcstream generate hotcold --pages 64K --writes 1M -o hot.pctrace
  pcstream advise hot.pctrace
  pcstream advise hot.pctrace --rules-out my.rules
  pcstream advise hot.pctrace --pack 0.9       # a large disk, little written
  pcstream simulate hot.pctrace --scheme baseline,manual --rules my.rules
  pcstream advise hot.pctrace --json - | jq '.changes[0]'")]
pub struct AdviseArgs {
    /// The trace: a directory NAME.pctrace
    pub trace: PathBuf,
    /// Write the rules made from the trace to FILE, for --rules of `simulate` and `run`
    #[arg(long, value_name = "FILE", value_parser = values::named_file(), help_heading = "Advice")]
    pub rules_out: Option<PathBuf>,
    #[command(flatten)]
    pub device: DeviceArgs,
    #[command(flatten)]
    pub measure: MeasureArgs,
    #[command(flatten)]
    pub fit: FitArgs,
    #[command(flatten)]
    pub scheme_options: SchemeOptions,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Debug, Args)]
#[command(mut_args(without(&NOT_IN_COMPARE)), after_help = "\
Examples:
  pcstream generate zipf --pages 64K --writes 1M -o a1.pctrace
  pcstream generate zipf --pages 64K --writes 1M --seed 2 -o a2.pctrace
  pcstream generate hotcold --pages 64K --writes 1M -o b.pctrace
  pcstream compare a1.pctrace b.pctrace
  pcstream compare a1.pctrace,a2.pctrace b.pctrace     # two repetitions
  pcstream compare a1.pctrace b.pctrace --pack 0.9     # large disks
  pcstream compare a1.pctrace b.pctrace --json - | jq .contexts")]
pub struct CompareArgs {
    /// Runs to compare with the first: a trace, or repetitions separated by commas
    #[arg(required = true, num_args = 2.., value_name = "TRACE[,TRACE...]")]
    pub runs: Vec<String>,
    /// How many contexts the table shows; JSON has them all
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = values::rows)]
    pub top: usize,
    #[command(flatten)]
    pub simulation: SimulationArgs,
    #[command(flatten)]
    pub fit: FitArgs,
}
