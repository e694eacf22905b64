//! The command line: arguments, progress, exit codes, and the glue between the crates that do the
//! work. Results go to stdout, everything else to stderr.

mod advise;
mod args;
#[cfg(feature = "capture")]
mod attached;
mod capture_glue;
#[cfg(feature = "capture")]
mod command_files;
mod compare;
mod config;
mod contexts_view;
#[cfg(feature = "capture")]
mod demo;
mod device;
mod device_file;
#[cfg(feature = "capture")]
mod device_process;
#[cfg(feature = "capture")]
mod doctor;
#[cfg(feature = "capture")]
mod emulated;
mod failure;
mod fitted;
mod generate;
mod geometry;
mod import;
mod interrupt;
mod learned_table;
mod lists;
#[cfg(feature = "capture")]
mod live;
#[cfg(feature = "capture")]
mod live_simulation;
mod man;
mod measures;
mod merge;
#[cfg(feature = "capture")]
mod metrics_server;
mod output;
mod passes;
#[cfg(feature = "capture")]
mod place;
mod png;
#[cfg(feature = "capture")]
mod redact;
#[cfg(feature = "capture")]
mod repeated;
mod report;
mod rules;
#[cfg(feature = "capture")]
mod run;
mod schemes;
mod selection;
mod serve;
mod simulate;
mod small_file;
mod source_lines;
#[cfg(feature = "capture")]
mod stop;
mod sweep;
mod table;
#[cfg(feature = "capture")]
mod top;
mod ui;
mod values;
mod version;
mod whole_file;
#[cfg(feature = "capture")]
mod write_buffers;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::CommandFactory as _;

use crate::args::{Cli, Command};
use crate::config::{Configured, Refused};
use crate::failure::{Failure, Status};
use crate::ui::Ui;

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    let Configured { cli, remarks } = match config::parse(&words) {
        Ok(configured) => configured,
        Err(Refused::Flags(error)) => error.exit(),
        Err(Refused::Configuration(failure)) => return ended(Err(failure)),
    };
    let ui = Ui::new(&cli.global);
    remarks.iter().for_each(|remark| ui.remark(remark));
    let result = match cli.command {
        Command::Doctor(args) => capture_glue::doctor(args, ui),
        Command::Demo(args) => capture_glue::demo(args, ui),
        Command::DemoWorkload(args) => capture_glue::demo_workload(&args),
        Command::EmulatedDevice => capture_glue::emulated_device(),
        Command::Run(args) => capture_glue::run(args, ui),
        Command::Record(args) => capture_glue::record(args, ui),
        Command::Top(args) => capture_glue::top(args, ui),
        Command::Simulate(args) => simulate::simulate(&args, ui),
        Command::Sweep(args) => sweep::sweep(&args, ui),
        Command::Contexts(args) => simulate::contexts(&args, ui),
        Command::Report(args) => report::report(&args, ui),
        Command::Advise(args) => advise::advise(args, ui),
        Command::Compare(args) => compare::compare(&args, ui),
        Command::Geometry(args) => geometry::geometry(&args, ui),
        Command::Schemes(args) => schemes::schemes(&args, ui),
        Command::Rules(args) => rules::rules(&args, ui),
        Command::Import(args) => import::import(&args, ui),
        Command::Place(args) => capture_glue::place(&args, ui),
        Command::Serve(args) => serve::serve(&args, ui),
        Command::Merge(args) => merge::merge(&args, ui),
        Command::Table(args) => table::table(&args, ui),
        Command::Generate { pattern } => generate::generate(&pattern, ui),
        Command::Completions { shell } => completions(shell),
        Command::Man { output } => man::man(output.as_deref()),
    };
    ended(result)
}

fn ended(result: Result<Status, Failure>) -> ExitCode {
    match result {
        Ok(status) => status.into(),
        Err(failure) => {
            if let Some(error) = failure.error() {
                ui::complain(error);
            }
            failure.exit_code()
        }
    }
}

fn completions(shell: clap_complete::Shell) -> Result<Status, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "pcstream", &mut script);
    ui::print(&String::from_utf8_lossy(&script))?;
    Ok(Status::Done)
}
