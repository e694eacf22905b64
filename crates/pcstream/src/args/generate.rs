//! Arguments of `generate`. The subcommands are made from the registry of generators: a new generator needs
//! nothing here.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{Arg, ArgMatches, Args, Command, Error, FromArgMatches, Subcommand};
use pcstream_trace::generators::{GENERATORS, Generator};

use crate::values;

/// A generator with its parameters.
#[derive(Debug)]
pub struct Pattern {
    pub generator: &'static str,
    pub options: BTreeMap<String, f64>,
    pub common: PatternArgs,
}

// Arguments of every generator. No doc comment: it would be the generator's description in its help.
#[derive(Debug, Args)]
pub struct PatternArgs {
    /// Pages of the device, such as 64K (65,536 pages of 4 KiB)
    #[arg(long, value_name = "U", value_parser = values::size)]
    pub pages: u64,
    /// Pages written, such as 1M
    #[arg(long, value_name = "N", value_parser = values::size)]
    pub writes: u64,
    /// Seed of the random numbers
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true, value_parser = values::number)]
    pub seed: u64,
    /// Where the trace goes: a new directory NAME.pctrace
    #[arg(short, long, value_name = "T.pctrace")]
    pub output: PathBuf,
    /// Replace the trace if it exists
    #[arg(long)]
    pub force: bool,
}

fn command(generator: &Generator) -> Command {
    let name = generator.name;
    let example = format!(
        "Example:\n  pcstream generate {name} --pages 256K --writes 4M -o {name}.pctrace\n  pcstream simulate {name}.pctrace"
    );
    let command = Command::new(name).about(generator.about).after_help(example);
    let command = PatternArgs::augment_args(command);
    generator.options.iter().fold(command, |command, option| {
        let arg = Arg::new(option.name)
            .long(option.name)
            .value_name("F")
            .help(option.help)
            .allow_negative_numbers(true);
        command.arg(arg.value_parser(values::decimal).default_value(option.default.to_string()))
    })
}

impl Subcommand for Pattern {
    fn augment_subcommands(parent: Command) -> Command {
        let commands = GENERATORS.iter().map(command);
        parent.subcommand_required(true).arg_required_else_help(true).subcommands(commands)
    }

    fn augment_subcommands_for_update(parent: Command) -> Command {
        Self::augment_subcommands(parent)
    }

    fn has_subcommand(name: &str) -> bool {
        GENERATORS.iter().any(|g| g.name == name)
    }
}

impl FromArgMatches for Pattern {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Pattern, Error> {
        let missing = || Error::new(clap::error::ErrorKind::MissingSubcommand);
        let (name, matches) = matches.subcommand().ok_or_else(missing)?;
        let generator = GENERATORS.iter().find(|g| g.name == name).ok_or_else(missing)?;
        let value = |name: &str| *matches.get_one::<f64>(name).expect("every option has a default");
        let options = generator.options.iter().map(|o| (o.name.to_owned(), value(o.name))).collect();
        Ok(Pattern { generator: generator.name, options, common: PatternArgs::from_arg_matches(matches)? })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Pattern::from_arg_matches(matches)?;
        Ok(())
    }
}
