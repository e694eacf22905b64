//! Schemes as the command line names them, and `schemes`, which shows what can be set.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use pcstream_placement::manual::ManualParams;
use pcstream_placement::pcstream::PcStreamParams;
use pcstream_placement::saved_table::SavedTable;
use pcstream_placement::{Configured, ParameterInfo, Rules, SchemeFactory, SchemeInfo, configure};
use pcstream_replay::LaneResult;
use pcstream_report::{Layout, VERSION};
use serde::Serialize;

use crate::args::{SchemeOptions, SchemesArgs};
use crate::failure::{Failure, Status};
use crate::learned_table;
use crate::small_file;
use crate::ui::{self, JsonSink, Ui};
use crate::values::{BEST, Schemes, Setting};

/// What comes between a scheme and the reading that was tried.
const TRIED: &str = ":best=";

/// The parameter that `--table-bytes` sets.
const TABLE_BYTES: &str = "table_bytes";

/// What makes the schemes of a run, in order. `NAME:best` becomes one for each reading.
pub fn factories(schemes: &Schemes, options: &SchemeOptions) -> Result<Vec<Arc<dyn SchemeFactory>>, Failure> {
    check_settings(options, false)?;
    let mut configured = Vec::new();
    for choice in &schemes.0 {
        configured.extend(readings(choice).map_err(Failure::wrong_arguments)?);
    }
    apply(&mut configured, options)?;
    Ok(configured.into_iter().map(|scheme| Arc::new(scheme) as Arc<dyn SchemeFactory>).collect())
}

/// What makes one scheme with the options that concern it; settings of other schemes are left out, and the table of one
/// that has none. `rules` are those of `manual`, whatever the options say.
pub fn factory(
    name: &str,
    options: &SchemeOptions,
    rules: Option<Rules>,
) -> Result<Arc<dyn SchemeFactory>, Failure> {
    check_settings(options, false)?;
    let mut scheme = configure(name).map_err(Failure::wrong_arguments)?;
    let set = options.set.iter().filter(|setting| setting.scheme == scheme.scheme()).cloned().collect();
    let load_table = options.load_table.clone().filter(|_| scheme.params_mut::<PcStreamParams>().is_some());
    let rules_file = options.rules.clone().filter(|_| scheme.params_mut::<ManualParams>().is_some());
    let options = SchemeOptions { set, load_table, rules: rules_file, ..options.clone() };
    apply(std::slice::from_mut(&mut scheme), &options)?;
    if let (Some(rules), Some(params)) = (rules, scheme.params_mut::<ManualParams>()) {
        *params = ManualParams { rules, name: "from the trace".to_owned() };
    }
    Ok(Arc::new(scheme))
}

/// A scheme with one value for each parameter that `--set` gives values for.
pub struct Variant {
    /// Makes it.
    pub scheme: Configured,
    /// `SCHEME.PARAMETER` and the value, in the order of the flags.
    pub settings: Vec<(String, String)>,
}

/// Every scheme with every combination of the values that `--set` gives: several by repeating the flag, or separated by
/// commas where the whole text is no value itself.
pub fn variants(schemes: &Schemes, options: &SchemeOptions) -> Result<Vec<Variant>, Failure> {
    check_settings(options, true)?;
    let mut configured = Vec::new();
    for choice in &schemes.0 {
        for mut scheme in readings(choice).map_err(Failure::wrong_arguments)? {
            if let Some((name, reading)) = scheme.name().split_once(TRIED) {
                scheme.rename(format!("{name}:{reading}"));
            }
            if !configured.iter().any(|known: &Configured| known.name() == scheme.name()) {
                configured.push(scheme);
            }
        }
    }
    apply(&mut configured, &SchemeOptions { set: Vec::new(), ..options.clone() })?;
    let mut variants: Vec<Variant> =
        configured.into_iter().map(|scheme| Variant { scheme, settings: Vec::new() }).collect();
    for (name, values) in values_of(&options.set, &variants)? {
        let (scheme, parameter) = name.split_once('.').expect("a setting names scheme and parameter");
        let mut next = Vec::new();
        for variant in variants {
            if variant.scheme.scheme() != scheme {
                next.push(variant);
                continue;
            }
            for value in &values {
                let (mut scheme, mut settings) = (variant.scheme.clone(), variant.settings.clone());
                scheme.set(parameter, value).expect("the value has been tried");
                settings.push((name.clone(), value.clone()));
                next.push(Variant { scheme, settings });
            }
        }
        variants = next;
    }
    Ok(variants)
}

/// The values of each parameter, by `SCHEME.PARAMETER`, in the order in which they are first named.
fn values_of(settings: &[Setting], variants: &[Variant]) -> Result<Vec<(String, Vec<String>)>, Failure> {
    let mut all: Vec<(String, Vec<String>)> = Vec::new();
    for setting in settings {
        let refuse = |error: anyhow::Error| refused_setting(setting, error);
        pcstream_placement::find(&setting.scheme).map_err(|error| refuse(error.into()))?;
        let concerned = variants.iter().find(|variant| variant.scheme.scheme() == setting.scheme);
        let mut trial = concerned.ok_or_else(|| refuse(not_in_this_run(setting)))?.scheme.clone();
        let name = format!("{}.{}", setting.scheme, setting.parameter);
        let whole = trial.set(&setting.parameter, &setting.value);
        let values: Vec<&str> = match &whole {
            Err(_) if setting.value.contains(',') => setting.value.split(',').map(str::trim).collect(),
            _ => vec![&setting.value],
        };
        for value in values {
            trial.set(&setting.parameter, value).map_err(|error| refuse(error.into()))?;
            match all.iter_mut().find(|(known, _)| *known == name) {
                Some((_, values)) if values.iter().any(|known| known == value) => {}
                Some((_, values)) => values.push(value.to_owned()),
                None => all.push((name.clone(), vec![value.to_owned()])),
            }
        }
    }
    Ok(all)
}

fn refused_setting(setting: &Setting, error: anyhow::Error) -> Failure {
    Failure::wrong_arguments(error.context(format!("--set {}", setting.text)))
}

fn not_in_this_run(setting: &Setting) -> anyhow::Error {
    anyhow!("{} is not in this run: add it to --scheme", setting.scheme)
}

/// The schemes that a choice stands for.
fn readings(choice: &str) -> Result<Vec<Configured>, pcstream_placement::SchemeError> {
    let Some(name) = choice.strip_suffix(BEST) else { return Ok(vec![configure(choice)?]) };
    let tried = |reading: &str| {
        let mut scheme = configure(&format!("{name}:{reading}"))?;
        scheme.rename(format!("{name}{TRIED}{reading}"));
        Ok(scheme)
    };
    pcstream_placement::find(name)?.readings().into_iter().map(tried).collect()
}

/// Keeps, of the readings that were tried of a scheme, the one with the lowest WAF on each device.
pub fn keep_best(results: Vec<LaneResult>) -> Vec<LaneResult> {
    let group = |lane: &LaneResult| {
        let scheme = lane.scheme.split_once(TRIED)?.0.to_owned();
        Some((scheme, lane.settings.gc_destination))
    };
    let mut kept: Vec<LaneResult> = Vec::new();
    for lane in results {
        let of = group(&lane);
        match kept.iter_mut().find(|other| of.is_some() && group(other) == of) {
            None => kept.push(lane),
            Some(best) if lane.flash_pages() < best.flash_pages() => *best = lane,
            Some(_) => {}
        }
    }
    kept
}

/// The same under the name of the choice: which reading is the best may differ from trace to trace.
pub fn best_by_name(results: Vec<LaneResult>) -> Vec<LaneResult> {
    let mut kept = keep_best(results);
    for lane in &mut kept {
        if let Some((scheme, _)) = lane.scheme.split_once(TRIED) {
            lane.scheme = format!("{scheme}{BEST}");
        }
    }
    kept
}

/// Refuses settings of which one would replace another: a parameter that is set twice, where `is_grid` does not make it two
/// runs, and the size of the table by two flags.
fn check_settings(options: &SchemeOptions, is_grid: bool) -> Result<(), Failure> {
    for (at, setting) in options.set.iter().enumerate() {
        let is_same =
            |other: &&Setting| (&other.scheme, &other.parameter) == (&setting.scheme, &setting.parameter);
        if let Some(first) = options.set[..at].iter().find(is_same).filter(|_| !is_grid) {
            let problem =
                format!("--set {} was given, too: give one of them; sweep takes several values", first.text);
            return Err(refused_setting(setting, anyhow!(problem)));
        }
        if let Some(bytes) = options.table_bytes.filter(|_| setting.parameter == TABLE_BYTES) {
            return Err(refused_setting(
                setting,
                anyhow!("--table-bytes {bytes} says the same: give one of them"),
            ));
        }
    }
    Ok(())
}

/// Whether a scheme, by the name of its results, has a table of contexts.
pub fn has_table(name: &str) -> bool {
    let name = name.split(':').next().unwrap_or(name);
    configure(name).is_ok_and(|mut scheme| scheme.params_mut::<PcStreamParams>().is_some())
}

/// Applies the options that change schemes. A setting of a scheme that is not in the run is refused.
fn apply(schemes: &mut [Configured], options: &SchemeOptions) -> Result<(), Failure> {
    if let Some(path) = &options.rules {
        let rules = load_rules(path)?;
        for params in schemes.iter_mut().filter_map(Configured::params_mut::<ManualParams>) {
            *params = ManualParams { rules: rules.clone(), name: path.display().to_string() };
        }
    }
    let saved = options.load_table.as_deref().map(load_table).transpose()?;
    for params in schemes.iter_mut().filter_map(Configured::params_mut::<PcStreamParams>) {
        params.table_bytes = options.table_bytes.unwrap_or(params.table_bytes);
    }
    for setting in &options.set {
        let refuse = |error: anyhow::Error| refused_setting(setting, error);
        pcstream_placement::find(&setting.scheme).map_err(|error| refuse(error.into()))?;
        let mut changed = false;
        for scheme in schemes.iter_mut().filter(|scheme| scheme.scheme() == setting.scheme) {
            scheme.set(&setting.parameter, &setting.value).map_err(|error| refuse(error.into()))?;
            changed = true;
        }
        if !changed {
            return Err(refuse(not_in_this_run(setting)));
        }
    }
    match (&saved, &options.load_table) {
        (Some((table, bytes)), Some(path)) => begin_with(schemes, table, bytes, path),
        _ => Ok(()),
    }
}

/// Lets those begin with a table whose settings it fits. Refuses one that fits none of the schemes.
fn begin_with(
    schemes: &mut [Configured],
    table: &SavedTable,
    bytes: &Arc<[u8]>,
    path: &Path,
) -> Result<(), Failure> {
    let mut learners = Vec::new();
    for scheme in schemes {
        let name = scheme.scheme();
        let Some(params) = scheme.params_mut::<PcStreamParams>() else { continue };
        params.saved_table = learned_table::fits(table, name, params.key).then(|| bytes.clone());
        learners.push((name, params.key));
    }
    let place = format!("--load-table {}", path.display());
    if learners.is_empty() {
        return Err(Failure::wrong_arguments(anyhow!(
            "{place}: no scheme of this run begins with a table: name pcstream in --scheme"
        )));
    }
    learned_table::refuse_foreign(table, &place, learners.into_iter())
}

/// A table, parsed and as it is.
pub fn load_table(path: &Path) -> Result<(SavedTable, Arc<[u8]>), Failure> {
    let place = || format!("--load-table {}", path.display());
    let refused = |error: anyhow::Error| Failure::wrong_arguments(error.context(place()));
    let saved = learned_table::read(path).map_err(refused)?;
    let table = SavedTable::parse(&saved).map_err(|error| refused(error.into()))?;
    Ok((table, saved.into()))
}

/// A preset by name, else a file.
fn load_rules(rules: &Path) -> Result<Rules, Failure> {
    let unknown = match rules.to_str().map(Rules::preset) {
        Some(Ok(preset)) => return Ok(preset),
        Some(Err(unknown)) => unknown.to_string(),
        None => String::new(),
    };
    if !rules.exists() {
        let error = anyhow!("--rules {}: there is no such file, and {unknown}", rules.display());
        return Err(Failure::wrong_arguments(error));
    }
    let place = || format!("--rules {}", rules.display());
    let parse = |text: String| Ok(Rules::parse(&text)?);
    small_file::read_text(rules).and_then(parse).with_context(place).map_err(Failure::wrong_arguments)
}

/// Whether `--rules` names a preset and no file.
pub fn is_preset(rules: &Path) -> bool {
    rules.to_str().is_some_and(|name| Rules::preset(name).is_ok())
}

/// Refuses pipes, which can be read once, where a command or flag (`with`) reads files for each of several runs.
pub fn check_files(options: &SchemeOptions, with: &str) -> Result<(), Failure> {
    check_regular("--rules", options.rules.as_deref().filter(|path| !is_preset(path)), with)?;
    check_regular("--load-table", options.load_table.as_deref(), with)
}

/// The same for the file of one flag.
pub fn check_regular(flag: &str, path: Option<&Path>, with: &str) -> Result<(), Failure> {
    match path.filter(|path| path.exists() && !path.is_file()) {
        None => Ok(()),
        Some(path) => Err(Failure::wrong_arguments(anyhow!(
            "{flag} {}: is no regular file, and with {with} it is read for each run; copy it into one",
            path.display()
        ))),
    }
}

/// `pcstream schemes`.
pub fn schemes(args: &SchemesArgs, ui: Ui) -> Result<Status, Failure> {
    let (layout, json) = (ui.layout(false), JsonSink::asked(&args.output)?);
    let one = args.name.as_deref().map(pcstream_placement::find).transpose();
    let one = one.map_err(Failure::wrong_arguments)?;
    let shown = one.map_or(pcstream_placement::schemes(), std::slice::from_ref);
    let result = SchemesJson { pcstream: VERSION, schemes: shown.iter().map(scheme_json).collect() };
    ui::show(json, &result, || one.map_or_else(|| list(layout), |scheme| layout.fit(&describe(scheme), 6)))?;
    Ok(Status::Done)
}

/// What `schemes --json` writes.
#[derive(Serialize)]
struct SchemesJson {
    pcstream: &'static str,
    schemes: Vec<SchemeJson>,
}

#[derive(Serialize)]
struct SchemeJson {
    name: &'static str,
    summary: &'static str,
    knows_future: bool,
    readings: Vec<&'static str>,
    parameters: Vec<ParameterJson>,
}

#[derive(Serialize)]
struct ParameterJson {
    name: &'static str,
    default: String,
    unit: &'static str,
    about: &'static str,
    source: &'static str,
}

fn scheme_json(scheme: &SchemeInfo) -> SchemeJson {
    let parameter = |ParameterInfo { name, value, unit, about, source }| ParameterJson {
        name,
        default: value,
        unit,
        about,
        source,
    };
    SchemeJson {
        name: scheme.name,
        summary: scheme.summary,
        knows_future: scheme.needs_future(),
        readings: scheme.readings(),
        parameters: scheme.parameters().into_iter().map(parameter).collect(),
    }
}

/// All schemes, a line each.
fn list(layout: Layout) -> String {
    let width = pcstream_placement::names().map(str::len).max().unwrap_or(0);
    let line =
        |scheme: &SchemeInfo| layout.fit(&format!("{:width$}  {}\n", scheme.name, scheme.summary), width + 2);
    pcstream_placement::schemes().iter().map(line).collect()
}

/// One scheme with everything that can be set.
fn describe(scheme: &SchemeInfo) -> String {
    let mut text = format!("{}: {}\n", scheme.name, scheme.summary);
    let parameters = scheme.parameters();
    if parameters.is_empty() {
        return text + "\nNo parameters.\n";
    }
    text += &format!("\nParameters, for --set {}.NAME=VALUE:\n", scheme.name);
    for parameter in &parameters {
        text += &format!(
            "\n  {} = {}\n      {}\n      Values: {}\n      Source: {}\n",
            parameter.name, parameter.value, parameter.about, parameter.unit, parameter.source
        );
    }
    let readings = scheme.readings();
    if !readings.is_empty() {
        text += &format!("\nReadings, for --scheme {}:READING:\n\n", scheme.name);
        let width = readings.iter().map(|reading| reading.len()).max().unwrap_or(0);
        for reading in &readings {
            let line = format!("  {reading:width$}  {}", changes(scheme, reading));
            text += &format!("{}\n", line.trim_end());
        }
        text += &format!("\n--scheme {}{BEST} tries all of them and reports the lowest WAF.\n", scheme.name);
    }
    text
}

/// What a reading sets to other values than the scheme's defaults.
fn changes(scheme: &SchemeInfo, reading: &str) -> String {
    let mut read = scheme.configure();
    read.set_reading(reading).expect("the scheme names its readings");
    read.changed().iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
}
