//! Flags of `run --live`.

use std::time::Duration;

use clap::{Args, Command, ValueEnum};

use crate::values;

/// The emulated device under a run.
#[derive(Clone, Debug, Args)]
pub struct EmulatedArgs {
    /// Run on an emulated SSD that carries the data, once for each scheme, and show what it counted beside the simulation
    ///
    /// Every page is programmed with the stream that its call path earned; `baseline` runs without streams. Defaults
    /// change: --scheme baseline,pcstream, --size 1G, --gc internal. The device is memory: --size and a seventh.
    /// With --image FILE the data outlives the run: FILE is read at the start, if it exists, and written at the end.
    #[arg(long, conflicts_with_all = ["on", "pack", "pack_live"], help_heading = "Emulated device")]
    pub live: bool,
    /// Cut the power after N pages, as the next one comes; then the file system is mounted again, and checked
    #[arg(long, value_name = "N", requires = "live", value_parser = values::page_number, help_heading = "Emulated device")]
    pub power_cut: Option<u64>,
    /// What a power cut takes of the pages that were not flushed
    #[arg(
        long,
        value_name = "WHAT",
        requires = "power_cut",
        default_value = "half",
        help_heading = "Emulated device"
    )]
    pub power_loss: PowerLoss,
    /// Let garbage collection take this much longer for each page that it copies, such as 50us
    #[arg(long, value_name = "TIME", requires = "live", value_parser = values::duration, help_heading = "Emulated device")]
    pub slow_gc: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PowerLoss {
    /// All of them
    All,
    /// Each with a probability of a half, drawn from --seed
    Half,
    /// None: only the write under way is torn
    None,
}

impl PowerLoss {
    /// The name on the command line.
    #[cfg(feature = "capture")]
    pub fn name(self) -> &'static str {
        match self {
            PowerLoss::All => "all",
            PowerLoss::Half => "half",
            PowerLoss::None => "none",
        }
    }
}

/// The value of `--live` where it is given; its default is a value, too.
const LIVE: &str = "true";
/// Schemes of `run --live`, unless --scheme says otherwise: without streams and with.
const LIVE_SCHEMES: &str = "baseline,pcstream";
/// Size of its device.
const LIVE_SIZE: &str = "1G";

/// The command line on which `run --live` changes the defaults of other flags: of those that are `free`, which no
/// configuration sets. `always`: a configuration gives `--live` itself.
pub fn with_live_defaults(command: Command, free: impl Fn(&str) -> bool, always: bool) -> Command {
    let changed = |run: Command, (flag, value): (&'static str, &'static str)| {
        run.mut_arg(flag, |arg| match always {
            true => arg.default_value(value),
            false => arg.default_value_if("live", LIVE, value),
        })
    };
    let defaults = [("scheme", LIVE_SCHEMES), ("size", LIVE_SIZE)];
    command
        .mut_subcommand("run", |run| defaults.into_iter().filter(|(flag, _)| free(flag)).fold(run, changed))
}

#[cfg(test)]
mod tests {
    use super::super::simulation::DEFAULT_SCHEMES;
    use super::super::{Cli, Command};
    use super::*;

    #[test]
    fn defaults_change_with_live_alone() {
        let parse = |words: &str| Cli::of_words(words.split(' ').map(Into::into)).expect("it parses");
        let parsed = |words: &str| match parse(words).command {
            Command::Run(args) => (args.simulation.scheme, args.capture.size),
            _ => unreachable!("it is run"),
        };
        let schemes = |text: &str| text.parse().expect("schemes");
        assert_eq!(parsed("pcstream run -- x"), (schemes(DEFAULT_SCHEMES), 8 << 30));
        assert_eq!(parsed("pcstream run --live -- x"), (schemes(LIVE_SCHEMES), 1 << 30));
        assert_eq!(
            parsed("pcstream run --live --size 2G --scheme oracle -- x"),
            (schemes("oracle"), 2 << 30)
        );
    }
}
