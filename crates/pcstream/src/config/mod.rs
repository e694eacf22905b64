//! Defaults from configuration files: `pcstream.toml`.
//!
//! Idea: the command line is parsed twice. The first time as it is: that says which flags were given. What the files say
//! then becomes the default of each flag that was not given and that excludes none that was; with these defaults it is
//! parsed again. So flags always win, and what a flag needs or excludes is decided by flags alone.
//!
//! Files: the one of `--config` alone, or the user's and then the machine's (`places.rs`). Each is checked whole, also what
//! it says of other commands (`entries.rs`). Which defaults are taken is said on stderr.

mod entries;
mod places;
mod repeated;
mod stdout;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context as _, anyhow};
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command, FromArgMatches as _, Id};

use crate::args::{self, Cli};
use crate::failure::Failure;
use crate::ui::with_causes;
use entries::Entry;
use places::Found;

/// A command line, completed by the configuration.
#[derive(Debug)]
pub struct Configured {
    /// What to do.
    pub cli: Cli,
    /// What to say of the configuration.
    pub remarks: Vec<String>,
    /// What of the command line stands in files.
    pub defaults: Defaults,
}

/// Flags with what files say of them. An error of a flag names it as if it stood on the command line.
#[derive(Debug, Default)]
pub struct Defaults(Vec<(String, String)>);

impl Defaults {
    /// The failure; one of arguments with the files that said what it names.
    pub fn explain(&self, failure: Failure) -> Failure {
        let error = match failure {
            Failure::WrongArguments(error) => error,
            other => return other,
        };
        let said = with_causes(&error);
        let is_end = |rest: &str| !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '-');
        let is_named = |flag: &str| said.match_indices(flag).any(|(at, _)| is_end(&said[at + flag.len()..]));
        let named = self.0.iter().filter(|(flag, _)| is_named(flag)).map(|(_, what)| what.as_str());
        match named.collect::<Vec<_>>()[..] {
            [] => Failure::WrongArguments(error),
            ref named => Failure::wrong_arguments(anyhow!("{said} ({})", named.join(", "))),
        }
    }
}

/// Why a command line does not lead to a command.
#[derive(Debug)]
pub enum Refused {
    /// What clap has to say: help, a version, or what is wrong with flags.
    Flags(Box<clap::Error>),
    /// What is wrong with a configuration file.
    Configuration(Failure),
}

impl From<clap::Error> for Refused {
    fn from(error: clap::Error) -> Refused {
        Refused::Flags(Box::new(error))
    }
}

impl From<anyhow::Error> for Refused {
    fn from(error: anyhow::Error) -> Refused {
        Refused::Configuration(Failure::wrong_arguments(error))
    }
}

/// Parses the words of a command line, the program's name first.
pub fn parse(words: &[OsString]) -> Result<Configured, Refused> {
    let mut known = Cli::definition();
    known.build();
    let matches = Cli::definition()
        .try_get_matches_from(words)
        .map_err(|error| of_missing_flags(repeated::with_tip(error, words), words, &known))?;
    let cli = Cli::from_arg_matches(&matches)?;
    let (path, _) = chosen(&matches);
    command_is_there(words, descend(&known, &path))?;
    if cli.global.no_config || descend(&known, &path).is_hide_set() {
        return Ok(Configured { cli, remarks: Vec::new(), defaults: Defaults::default() });
    }
    let found = places::files(cli.global.config.as_deref())?;
    complete(words, &matches, &known, found)
}

/// What clap says of flags that are missing; but if a file has one of them, what is wrong with that.
fn of_missing_flags(error: clap::Error, words: &[OsString], known: &Command) -> Refused {
    let lenient = Cli::definition().ignore_errors(true).try_get_matches_from(words);
    let Some(matches) = lenient.ok().filter(|_| error.kind() == ErrorKind::MissingRequiredArgument) else {
        return error.into();
    };
    let (path, leaf) = chosen(&matches);
    if leaf.get_flag("no_config") || descend(known, &path).is_hide_set() {
        return error.into();
    }
    let wrong = places::files(leaf.get_one::<PathBuf>("config").map(PathBuf::as_path)).and_then(|found| {
        let check = |file: &places::ConfigFile| entries::read(&file.text, known).with_context(|| place(file));
        found.files.iter().try_for_each(|file| check(file).map(drop))
    });
    wrong.map_or_else(Refused::from, |()| error.into())
}

/// Errors: `--` with no command behind it, as of a script whose variable is empty. Without the command the flags would mean
/// something else.
fn command_is_there(words: &[OsString], command: &Command) -> Result<(), clap::Error> {
    let takes_one = command.get_arguments().any(Arg::is_last_set);
    if takes_one && words.iter().position(|word| word == "--") == Some(words.len() - 1) {
        return Err(command.clone().error(ErrorKind::MissingRequiredArgument, "no command after --"));
    }
    Ok(())
}

fn place(file: &places::ConfigFile) -> String {
    format!("configuration {}", file.path.display())
}

/// The command line with what files say; `matches` is what it says itself, `known` the whole, built command.
fn complete(
    words: &[OsString],
    matches: &ArgMatches,
    known: &Command,
    found: Found,
) -> Result<Configured, Refused> {
    let (path, leaf) = chosen(matches);
    let target = descend(known, &path);
    let (mut remarks, mut command) = (found.remarks, Cli::without_live_defaults());
    let mut defaults = Defaults::default();
    let mut given = explicit(target, leaf);
    for file in found.files {
        let entries = entries::read(&file.text, known).with_context(|| place(&file))?;
        let taken = taken(target, &path, entries, &given).with_context(|| place(&file))?;
        if !taken.is_empty() {
            let shown: Vec<String> = taken.iter().map(Entry::as_flag).collect();
            remarks.push(format!("defaults of {}: {}", file.path.display(), shown.join(" ")));
        }
        for entry in taken {
            let origin = format!("{} is of {}", entry.as_flag(), place(&file));
            defaults.0.push((format!("--{}", entry.key), origin));
            command = with_default(command, &entry.command, &entry);
            given.insert(entry.id, entry.values);
        }
    }
    let is_given = |flag: &str| given.keys().any(|id| id.as_str() == flag);
    let is_live = given.iter().any(|(id, values)| id.as_str() == "live" && values[..] == ["true"]);
    let command = args::with_live_defaults(command, |flag| !is_given(flag), is_live);
    let matches = command.try_get_matches_from(words)?;
    Ok(Configured { cli: Cli::from_arg_matches(&matches)?, remarks, defaults })
}

/// The names that lead to the command that was chosen, and what it was given.
fn chosen(matches: &ArgMatches) -> (Vec<String>, &ArgMatches) {
    let (mut path, mut leaf) = (Vec::new(), matches);
    while let Some((name, below)) = leaf.subcommand() {
        path.push(name.to_owned());
        leaf = below;
    }
    (path, leaf)
}

fn descend<'a>(command: &'a Command, path: &[String]) -> &'a Command {
    path.iter().fold(command, |command, name| command.find_subcommand(name).unwrap_or(command))
}

/// Flags and arguments that were given, with their values as texts.
type Given = BTreeMap<Id, Vec<String>>;

/// Those of the command line.
fn explicit(command: &Command, matches: &ArgMatches) -> Given {
    let ids = command.get_arguments().map(Arg::get_id);
    // An argument of a subcommand, such as a generator's, is not one of its parent's.
    let given = ids.filter(|id| {
        matches.try_contains_id(id.as_str()).is_ok()
            && matches.value_source(id.as_str()) == Some(ValueSource::CommandLine)
    });
    let values = |id: &Id| {
        let raw = matches.get_raw(id.as_str()).into_iter().flatten();
        raw.map(|value| value.to_string_lossy().into_owned()).collect()
    };
    given.map(|id| (id.clone(), values(id))).collect()
}

/// What of a file counts for this command: neither given already nor in conflict with what is given.
fn taken(
    command: &Command,
    path: &[String],
    entries: Vec<Entry>,
    given: &Given,
) -> anyhow::Result<Vec<Entry>> {
    let ours = entries.into_iter().filter(|entry| entry.command.is_empty() || entry.command == path);
    let ours: Vec<Entry> = ours.collect();
    let excludes = |entry: &Entry, other: &Id, values: &[String]| {
        exclude(command, &entry.id, other)
            || stdout::compete(command, (&entry.id, &entry.values), (other, values))
    };
    for (at, entry) in ours.iter().enumerate() {
        if let Some(other) = ours[..at].iter().find(|other| excludes(entry, &other.id, &other.values)) {
            return Err(anyhow!(
                "line {}: {} and {} (line {}) exclude each other",
                entry.line,
                entry.key,
                other.key,
                other.line
            ));
        }
    }
    let free = |entry: &Entry| {
        !given.contains_key(&entry.id) && !given.iter().any(|(other, values)| excludes(entry, other, values))
    };
    Ok(ours.into_iter().filter(free).collect())
}

/// Whether two arguments of a command cannot be given together.
fn exclude(command: &Command, a: &Id, b: &Id) -> bool {
    let argument = |id: &Id| command.get_arguments().find(|arg| arg.get_id() == id);
    let (Some(first), Some(second)) = (argument(a), argument(b)) else { return false };
    let named = |arg: &Arg, other: &Id| {
        command.get_arg_conflicts_with(arg).iter().any(|conflict| conflict.get_id() == other)
    };
    let one_of_a_group = command.get_groups().any(|group| {
        let members: Vec<&Id> = group.get_args().collect();
        !group.clone().is_multiple() && members.contains(&a) && members.contains(&b)
    });
    a != b && (one_of_a_group || named(first, b) || named(second, a))
}

/// The command with a default in the place of the flag's own.
fn with_default(command: Command, path: &[String], entry: &Entry) -> Command {
    match path.split_first() {
        None => command.mut_arg(&entry.id, |arg| arg.default_values(entry.values.clone())),
        Some((name, below)) => command.mut_subcommand(name, |command| with_default(command, below, entry)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::places::ConfigFile;

    /// The words with a configuration.
    fn configured(text: &str, words: &[&str]) -> Result<Configured, Refused> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pcstream.toml");
        std::fs::write(&path, text).unwrap();
        let path = path.to_str().unwrap();
        let words = ["pcstream", "--config", path].into_iter().chain(words.iter().copied());
        parse(&words.map(OsString::from).collect::<Vec<_>>())
    }

    fn refused(text: &str) -> String {
        match configured(text, &["simulate", "t"]).unwrap_err() {
            Refused::Configuration(failure) => crate::ui::with_causes(failure.error().unwrap()),
            Refused::Flags(error) => panic!("{error}"),
        }
    }

    fn simulate(text: &str, flags: &[&str]) -> (args::SimulationArgs, Vec<String>) {
        let words: Vec<&str> = ["simulate", "t"].iter().chain(flags).copied().collect();
        let configured = configured(text, &words).unwrap();
        let args::Command::Simulate(simulate) = configured.cli.command else { panic!("it is simulate") };
        (simulate.simulation, configured.remarks)
    }

    const SIMULATE: &str = "[simulate]\nstreams = 5\nscheme = ['baseline', 'pcstream']\nspare-factor = 0.07\n\
                            details = true\nset = ['pcstream.mapper.distance=log']\nsuperblock-pages = '1K'\n";

    #[test]
    fn keys_are_defaults() {
        let (simulation, remarks) = simulate(SIMULATE, &[]);
        assert_eq!(
            (simulation.device.streams, simulation.device.spare_factor, simulation.device.superblock_pages),
            (Some(5), Some(0.07), Some(1024))
        );
        assert_eq!(simulation.scheme.0, ["baseline", "pcstream"]);
        assert!(simulation.details && simulation.scheme_options.set.len() == 1);
        assert!(remarks[0].contains("--streams=5 --scheme=baseline,pcstream"), "{remarks:?}");
        let (other, remarks) = simulate("[sweep]\nstreams = '1..4'\n", &[]);
        assert!(other.device.streams.is_none() && remarks.is_empty());
    }

    #[test]
    fn flags_win() {
        let flags = ["--streams", "3", "--scheme=oracle", "--set", "pcstream.mapper.distance=linear"];
        let (simulation, remarks) = simulate(SIMULATE, &flags);
        assert_eq!((simulation.device.streams, simulation.scheme.0), (Some(3), vec!["oracle".to_owned()]));
        assert_eq!(simulation.scheme_options.set[0].value, "linear");
        assert!(!remarks[0].contains("--streams"), "{remarks:?}");
        // Also over a key that excludes what was given.
        let (simulation, _) = simulate(SIMULATE, &["--overprovision", "0.2"]);
        assert_eq!((simulation.device.overprovision, simulation.device.spare_factor), (Some(0.2), None));
        let (simulation, remarks) = simulate(SIMULATE, &["--no-config"]);
        assert!(simulation.device.streams.is_none() && remarks.is_empty());
    }

    #[test]
    fn the_first_file_wins_over_the_next() {
        let file = |name: &str, text: &str| ConfigFile { path: name.into(), text: text.into() };
        let user = file("user", "[simulate]\nstreams = 3\noverprovision = 0.2\ndetails = false\n");
        let machine =
            file("machine", "[simulate]\nstreams = 5\nspare-factor = 0.1\ndetails = true\nseed = 4\n");
        let words = ["pcstream", "simulate", "t"].map(OsString::from);
        let mut known = Cli::definition();
        known.build();
        let matches = Cli::definition().try_get_matches_from(&words).unwrap();
        let found = Found { files: vec![user, machine], remarks: Vec::new() };
        let configured = complete(&words, &matches, &known, found).unwrap();
        let args::Command::Simulate(simulate) = configured.cli.command else { panic!("it is simulate") };
        let device = simulate.simulation.device;
        assert_eq!((device.streams, device.overprovision, device.seed), (Some(3), Some(0.2), Some(4)));
        assert!(device.spare_factor.is_none() && !simulate.simulation.details);
        assert_eq!(configured.remarks[1], "defaults of machine: --seed=4");
    }

    /// Although `--live` has defaults of its own for some of them.
    #[test]
    fn keys_count_for_live_runs_too() {
        let run = |text: &str, flags: &[&str]| {
            let words: Vec<&str> = ["run"].iter().chain(flags).chain(&["--", "true"]).copied().collect();
            let args::Command::Run(run) = configured(text, &words).unwrap().cli.command else {
                panic!("it is run")
            };
            (run.simulation.scheme.0.join(","), run.capture.size >> 30, run.emulated.live)
        };
        let of = |schemes: &str, gib| (schemes.to_owned(), gib, true);
        assert_eq!(run("", &["--live"]), of("baseline,pcstream", 1));
        assert_eq!(run("[run]\nscheme = 'oracle'\nsize = '2G'\n", &["--live"]), of("oracle", 2));
        assert_eq!(run("[run]\nsize = '2G'\n", &["--live"]), of("baseline,pcstream", 2));
        assert_eq!(run("[run]\nsize = '2G'\n", &["--live", "--size", "3G"]), of("baseline,pcstream", 3));
        assert_eq!(run("[run]\nlive = true\n", &[]), of("baseline,pcstream", 1));
        assert_eq!(run("[run]\nlive = true\nsize = '2G'\n", &["--scheme", "pcstream"]), of("pcstream", 2));
        assert_eq!(run("[run]\nsize = '2G'\n", &[]).1, 2);
    }

    #[test]
    fn errors_of_keys_name_the_file() {
        let text = "[simulate]\ntable-bytes = 1300\nset = ['pcstream.averaging=0.3', 'pcstream.order=1']\n";
        let defaults = configured(text, &["simulate", "t"]).unwrap().defaults;
        let explained = |said: &'static str| {
            let failure = defaults.explain(Failure::wrong_arguments(anyhow!(said)));
            failure.error().unwrap().to_string()
        };
        let error = explained("--table-bytes 1300 says the same");
        assert!(
            error.starts_with("--table-bytes 1300 says the same (--table-bytes=1300 is of configuration /")
        );
        assert!(error.ends_with("/pcstream.toml)"), "{error}");
        assert!(
            explained("--set x: no").contains("(--set=pcstream.averaging=0.3 --set=pcstream.order=1 is of")
        );
        assert_eq!(explained("--settle and --table"), "--settle and --table");
        let failed = defaults.explain(Failure::failed(anyhow!("--set")));
        assert_eq!(failed.error().unwrap().to_string(), "--set");
    }

    #[test]
    fn what_a_flag_needs_is_decided_by_flags() {
        let (simulation, _) = simulate("[simulate]\nqueue-depth = 8\n", &[]);
        assert!(!simulation.measure.timing);
        let (simulation, _) = simulate("[simulate]\nqueue-depth = 8\n", &["--timing", "--open-loop"]);
        assert_eq!(simulation.measure.queue_depth, None);
        let text = "[record]\nsize = '4G'\nfill = 0.5\n";
        let words = ["record", "-o", "t.pctrace", "--on", "/tmp", "--", "true"];
        assert!(configured(text, &words).unwrap().remarks.is_empty());
        let text = "[record]\npid = 1\nunit = 'x'\n";
        assert!(configured(text, &["record", "-o", "t.pctrace", "--", "true"]).is_err());
    }

    #[test]
    fn global_flags_and_subcommands() {
        let text = "quiet = true\ncolor = 'never'\n[generate.zipf]\ntheta = 0.5\nseed = 7\n";
        let words = ["generate", "zipf", "--pages", "1K", "--writes", "1K", "-o", "t"];
        let cli = configured(text, &words).unwrap().cli;
        assert!(cli.global.quiet && cli.global.color == args::Color::Never);
        let args::Command::Generate { pattern } = cli.command else { panic!("it is generate") };
        assert_eq!((pattern.options["theta"], pattern.common.seed), (0.5, 7));
        assert!(configured("quiet = true\n", &["--quiet", "schemes"]).unwrap().cli.global.quiet);
    }

    #[test]
    fn a_required_flag_in_a_file_is_named() {
        let refused = |text, words: &[&str]| match configured(text, words).unwrap_err() {
            Refused::Configuration(failure) => crate::ui::with_causes(failure.error().unwrap()),
            Refused::Flags(error) => error.to_string(),
        };
        let error = refused("[place]\nsink = 'none'\non = '/x'\n", &["place"]);
        assert!(error.contains("pcstream.toml: line 3: on is given on the command line"), "{error}");
        let error = refused("[place]\non = '/x'\n", &["place", "--no-config"]);
        assert!(error.contains("--on"), "{error}");
        assert!(refused("[place]\nsink = 'none'\n", &["place"]).contains("required arguments"));
    }

    #[test]
    fn two_dashes_need_a_command() {
        for words in [&["place", "--on", "/", "--"][..], &["record", "--on", "/", "-o", "t", "--"]] {
            let Refused::Flags(error) = configured("", words).unwrap_err() else { panic!("it is of flags") };
            assert!(error.to_string().contains("no command after --") && error.exit_code() == 2, "{error}");
        }
        assert!(configured("", &["place", "--on", "/", "--", "env", "--"]).is_ok());
    }

    #[test]
    fn errors_say_where_and_what() {
        for (text, parts) in [
            ("[simulate]\n\nstream = 5\n", ["line 3", "'stream'", "did you mean streams?"]),
            ("[simulat]\n", ["line 1", "'simulat'", "did you mean simulate?"]),
            ("quite = true\n", ["line 1", "'quite'", "did you mean quiet?"]),
            ("[generate.zipff]\n", ["line 1", "'zipff'", "did you mean zipf?"]),
            ("[simulate]\nstreams = 900\n", ["line 2", "'900'", "from 1 to 255"]),
            ("[sweep]\nstreams = '5..1'\n", ["line 2", "'5..1'", "ascending"]),
            ("[run]\nfs = 'ext3'\n", ["line 2", "'ext3'", "ext4"]),
            ("[run]\nquick = 1\n", ["line 2", "'quick'", "no flag"]),
            ("[simulate]\ndetails = 'yes'\n", ["line 2", "details", "true or false"]),
            ("[simulate]\nstreams = true\n", ["line 2", "streams", "takes a value"]),
            ("[simulate]\nstreams = { a = 1 }\n", ["line 2", "streams", "table"]),
            ("[record]\noutput = 'x'\n", ["line 2", "output", "on the command line"]),
            ("config = 'x'\n", ["line 1", "config", "on the command line"]),
            ("[simulate]\nspare-factor = 0.1\noverprovision = 0.1\n", ["line 3", "line 2", "exclude"]),
            ("[simulate\n", ["line 1", "simulate", "expected"]),
        ] {
            let error = refused(text);
            for part in parts {
                assert!(error.contains(part), "{part:?} is not in {error:?}");
            }
        }
    }
}
