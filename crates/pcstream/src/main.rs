//! The command line: arguments, progress, exit codes, and the glue between the crates that do the
//! work. Results go to stdout, everything else to stderr.

mod advise;
mod args;
mod asked;
#[cfg(feature = "capture")]
mod attached;
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
mod extract;
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
mod temporary;
#[cfg(feature = "capture")]
mod top;
mod ui;
mod unkept;
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
    let Configured { cli, remarks, defaults } = match config::parse(&words) {
        Ok(configured) => configured,
        // Help and versions: clap would end with 0 though nobody could read them.
        Err(Refused::Flags(error)) if !error.use_stderr() => {
            return ended(ui::finish(error.print()).map(|()| Status::Done));
        }
        Err(Refused::Flags(error)) => error.exit(),
        Err(Refused::Configuration(failure)) => return ended(Err(failure)),
    };
    let ui = Ui::new(&cli.global);
    remarks.iter().for_each(|remark| ui.remark(remark));
    let result = match cli.command {
        Command::Simulate(args) => simulate::simulate(&args, ui),
        Command::Sweep(args) => sweep::sweep(&args, ui),
        Command::Contexts(args) => simulate::contexts(&args, ui),
        Command::Report(args) => report::report(&args, ui),
        Command::Advise(args) => advise::advise(args, ui),
        Command::Compare(args) => compare::compare(args, ui),
        Command::Geometry(args) => geometry::geometry(&args, ui),
        Command::Schemes(args) => schemes::schemes(&args, ui),
        Command::Rules(args) => rules::rules(&args, ui),
        Command::Import(args) => import::import(&args, ui),
        Command::Serve(args) => serve::serve(&args, ui),
        Command::Merge(args) => merge::merge(&args, ui),
        Command::Extract(args) => extract::extract(&args, ui),
        Command::Table(args) => table::table(&args, ui),
        Command::Generate { pattern } => generate::generate(&pattern, ui),
        Command::Completions { shell } => completions(shell),
        Command::Man { output } => man::man(output.as_deref()),
        #[cfg(feature = "capture")]
        Command::Doctor(args) => doctor::doctor(args, ui),
        #[cfg(feature = "capture")]
        Command::Demo(args) => demo::run_args(args, ui).and_then(|args| run_once_or_more(args, ui)),
        #[cfg(feature = "capture")]
        Command::DemoWorkload(args) => demo::workload(&args),
        #[cfg(feature = "capture")]
        Command::EmulatedDevice => device_process::serve(),
        #[cfg(feature = "capture")]
        Command::Run(args) => run_once_or_more(args, ui),
        #[cfg(feature = "capture")]
        Command::Record(args) => live::record(&args, ui),
        #[cfg(feature = "capture")]
        Command::Top(args) => top::top(args, ui),
        #[cfg(feature = "capture")]
        Command::Place(args) => place::place(&args, ui),
        #[cfg(not(feature = "capture"))]
        _ => Err(Failure::failed(anyhow::anyhow!(
            "this command is not in this binary: built without capture. Rebuild with --features capture \
             (needs clang and libelf, Linux with BTF): cargo build --release --features capture"
        ))),
    };
    ended(result.map_err(|failure| defaults.explain(failure)))
}

#[cfg(feature = "capture")]
fn run_once_or_more(args: args::RunArgs, ui: Ui) -> Result<Status, Failure> {
    if args.capture.on.len() > 1 {
        return Err(Failure::wrong_arguments(anyhow::anyhow!(
            "run: --on is given several times, and one device is simulated: record takes several, and simulate then takes \
             the trace of each"
        )));
    }
    match args.repeat {
        _ if args.emulated.live => emulated::run(args, ui),
        Some(times) => repeated::run(&args, times, ui),
        None => run::run(&args, ui),
    }
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
