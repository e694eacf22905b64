//! What a configuration file says: tables named like commands, with keys named like their long flags.

use anyhow::{anyhow, bail};
use clap::builder::ValueParser;
use clap::{Arg, ArgAction, Command, Id};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::values::did_you_mean;

/// Flags about the configuration itself, or about help.
const NOT_HERE: [&str; 4] = ["config", "no-config", "help", "version"];

/// A key and what it says.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The commands that lead to the flag, such as `generate` and `zipf`; none for flags of all commands.
    pub command: Vec<String>,
    /// The flag.
    pub id: Id,
    /// The flag's name, without dashes.
    pub key: String,
    /// Its values as texts; one, but for flags that may be repeated.
    pub values: Vec<String>,
    /// Where, counted from 1.
    pub line: usize,
}

impl Entry {
    /// As it would stand on the command line.
    pub fn as_flag(&self) -> String {
        let flag = |value: &String| format!("--{}={value}", self.key);
        self.values.iter().map(flag).collect::<Vec<_>>().join(" ")
    }
}

/// Everything that a file says; `root` is the whole, built command.
pub fn read(text: &str, root: &Command) -> anyhow::Result<Vec<Entry>> {
    let table = DeTable::parse(text)?;
    let mut entries = Vec::new();
    read_table(&Source { text }, table.get_ref(), root, &[], &mut entries)?;
    Ok(entries)
}

struct Source<'a> {
    text: &'a str,
}

impl Source<'_> {
    fn line<T>(&self, at: &Spanned<T>) -> usize {
        1 + self.text[..at.span().start].matches('\n').count()
    }
}

fn read_table(
    source: &Source<'_>,
    table: &DeTable<'_>,
    command: &Command,
    path: &[String],
    entries: &mut Vec<Entry>,
) -> anyhow::Result<()> {
    // In the order of the file, so that the first mistake is the one that is reported.
    let mut keys: Vec<_> = table.iter().collect();
    keys.sort_by_key(|(key, _)| key.span().start);
    for (key, value) in keys {
        let (name, line) = (key.get_ref().as_ref(), source.line(key));
        let below = command.get_subcommands().find(|sub| sub.get_name() == name && is_configurable(sub));
        if let (Some(below), Some(table)) = (below, value.get_ref().as_table()) {
            let path: Vec<String> = path.iter().cloned().chain([name.to_owned()]).collect();
            read_table(source, table, below, &path, entries)?;
            continue;
        }
        let flag = flag(command, path, name).map_err(|error| anyhow!("line {line}: {error}"))?;
        let values = values(flag, value.get_ref()).map_err(|error| anyhow!("line {line}: {error}"))?;
        let (id, key) = (flag.get_id().clone(), name.to_owned());
        entries.push(Entry { command: path.to_vec(), id, key, values, line });
    }
    Ok(())
}

fn is_configurable(command: &Command) -> bool {
    !command.is_hide_set() && command.get_name() != "help"
}

/// The flag with this name. Flags of all commands stand at the top alone.
fn flag<'a>(command: &'a Command, path: &[String], name: &str) -> anyhow::Result<&'a Arg> {
    let usable = |arg: &&Arg| !arg.is_hide_set() && arg.is_global_set() == path.is_empty();
    let flags: Vec<&Arg> =
        command.get_arguments().filter(usable).filter(|a| a.get_long().is_some()).collect();
    let found = flags.iter().find(|arg| arg.get_long() == Some(name));
    if NOT_HERE.contains(&name) || found.is_some_and(|arg| arg.is_required_set()) {
        bail!("{name} is given on the command line, not in a configuration file");
    }
    if let Some(found) = found {
        return Ok(found);
    }
    let commands = command.get_subcommands().filter(|sub| is_configurable(sub)).map(Command::get_name);
    let names: Vec<&str> = flags
        .iter()
        .filter_map(|arg| arg.get_long())
        .filter(|long| !NOT_HERE.contains(long))
        .chain(commands)
        .collect();
    let near = did_you_mean(name.trim_start_matches('-'), &names);
    match path {
        [] => bail!("there is no command, and no flag of all commands, named '{name}'{near}"),
        path => bail!("'{}' has no flag '{name}'{near}", path.join(" ")),
    }
}

/// The values of a key as the flag would take them.
fn values(flag: &Arg, value: &DeValue<'_>) -> anyhow::Result<Vec<String>> {
    let name = flag.get_long().unwrap_or_default();
    let switch = matches!(flag.get_action(), ArgAction::SetTrue);
    let texts = match value {
        DeValue::Boolean(on) if switch => return Ok(vec![on.to_string()]),
        _ if switch => bail!("{name} is true or false"),
        DeValue::Array(array) => {
            let texts: anyhow::Result<Vec<String>> =
                array.iter().map(|value| scalar(name, value.get_ref())).collect();
            texts?
        }
        value => vec![scalar(name, value)?],
    };
    let repeated = matches!(flag.get_action(), ArgAction::Append);
    let texts = if repeated { texts } else { vec![texts.join(",")] };
    texts.iter().try_for_each(|text| check(flag, text))?;
    Ok(texts)
}

fn scalar(name: &str, value: &DeValue<'_>) -> anyhow::Result<String> {
    match value {
        DeValue::String(text) => Ok(text.to_string()),
        DeValue::Float(number) => Ok(number.as_str().to_owned()),
        DeValue::Integer(number) => Ok(i64::from_str_radix(number.as_str(), number.radix())?.to_string()),
        DeValue::Boolean(_) => bail!("{name} takes a value, not true or false"),
        other => bail!("{name} takes a text or a number, not a {}", other.type_str()),
    }
}

/// What the flag itself would say of a value.
fn check(flag: &Arg, text: &str) -> anyhow::Result<()> {
    let long = flag.get_long().unwrap_or_default();
    let parser: ValueParser = flag.get_value_parser().clone();
    let mut probe = Arg::new("value").long(long.to_owned()).value_parser(parser);
    if let Some(names) = flag.get_value_names() {
        probe = probe.value_names(names.to_vec());
    }
    let command = Command::new("value").no_binary_name(true).disable_help_flag(true).arg(probe);
    match command.try_get_matches_from([format!("--{long}={text}")]) {
        Ok(_) => Ok(()),
        Err(error) => {
            let said = error.render().to_string();
            // Not the hint at --help.
            let said: Vec<&str> = said.lines().take_while(|line| !line.starts_with("For more")).collect();
            bail!("{}", said.join("\n").trim().trim_start_matches("error: "))
        }
    }
}
