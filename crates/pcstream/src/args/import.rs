//! Arguments of `import`. Formats and their options come from the registry of importers: a new format needs
//! nothing here.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::builder::{NonEmptyStringValueParser, PossibleValuesParser};
use clap::{Arg, ArgMatches, Args, Command, Error, FromArgMatches};
use pcstream_trace::import::{FORMATS, Format};

use crate::values;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  zcat hm_1.csv.gz | pcstream import --format msr - -o hm_1.pctrace
  pcstream import --format alibaba io_traces.csv --list-volumes
  pcstream import --format alibaba io_traces.csv --volume 419 -o 419.pctrace
  blkparse -i sda | pcstream import --format blkparse - -o sda.pctrace
  pcstream import --format fio --wait-unit ms job.iolog -o job.pctrace
  pcstream import --format columns time_op_offset_size.csv -o my.pctrace")]
pub struct ImportArgs {
    /// Format of the input
    #[arg(long, value_name = "NAME", value_parser = values::format, help = formats_help(false), long_help = formats_help(true))]
    pub format: &'static Format,
    /// The trace to import: a text file, or '-' for standard input
    pub input: PathBuf,
    /// Where the trace goes: a new directory NAME.pctrace
    #[arg(short, long, value_name = "T.pctrace", required_unless_present = "list_volumes")]
    pub output: Option<PathBuf>,
    /// Import only this volume: disk, LUN, ASU, file, ... [default: the only one]
    #[arg(long, value_name = "V", long_help = volume_help())]
    pub volume: Option<String>,
    /// Print the volumes of the input with their requests, busiest first, and import nothing
    #[arg(long, conflicts_with_all = ["output", "volume", "size", "assume_filled", "skip_bad_lines", "force"])]
    pub list_volumes: bool,
    /// Size of the device [default: up to the last page used, rounded up to a MiB]
    #[arg(long, value_name = "BYTES", value_parser = values::size)]
    pub size: Option<u64>,
    /// Take the whole device as filled before the first request
    ///
    /// An import does not know what was on the device. Write amplification depends on it: a device that
    /// is empty at the beginning has none until it is full.
    #[arg(long)]
    pub assume_filled: bool,
    /// Leave out lines that cannot be imported, count them, and end with exit code 3
    #[arg(long)]
    pub skip_bad_lines: bool,
    /// Replace the trace if it exists
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub options: FormatOptions,
}

fn formats_help(long: bool) -> String {
    let names: Vec<&str> = FORMATS.iter().map(|format| format.name).collect();
    if !long {
        return format!("Format of the input: {}", names.join(", "));
    }
    let width = names.iter().map(|name| name.len()).max().unwrap_or(0);
    let mut help = String::from("Format of the input:\n");
    for format in FORMATS {
        help += &format!("\n  {:width$}  {}", format.name, format.about);
    }
    help
}

fn volume_help() -> String {
    let named = FORMATS.iter().filter_map(|format| Some(format!("{}: {}", format.name, format.volume?)));
    let named: Vec<String> = named.collect();
    format!(
        "Import only this volume [default: the only one]\n\nA trace is of one device. An input with \
         several volumes is refused unless one is chosen; the message lists them. Volumes are \
         distinguished by ({}).",
        named.join("; ")
    )
}

/// Options of single formats, from the registry; their names are unique.
#[derive(Debug)]
pub struct FormatOptions(pub BTreeMap<String, String>);

impl Args for FormatOptions {
    fn augment_args(command: Command) -> Command {
        FORMATS.iter().flat_map(|f| f.options.iter().map(move |o| (f, o))).fold(command, |command, (f, o)| {
            let arg = Arg::new(o.name).long(o.name);
            let arg = match o.text {
                Some(text) => arg.value_name(text.value_name).value_parser(NonEmptyStringValueParser::new()),
                None => arg
                    .value_name(o.choices.join("|"))
                    .value_parser(PossibleValuesParser::new(o.choices))
                    .hide_possible_values(true),
            };
            let arg = arg
                .help(format!("{} [default: {}]", o.help, o.choices[0]))
                .help_heading(format!("Format {}", f.name));
            command.arg(arg)
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for FormatOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<FormatOptions, Error> {
        let names = FORMATS.iter().flat_map(|format| format.options).map(|option| option.name);
        let given = |name: &str| Some((name.to_owned(), matches.get_one::<String>(name)?.clone()));
        Ok(FormatOptions(names.filter_map(given).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = FormatOptions::from_arg_matches(matches)?;
        Ok(())
    }
}
