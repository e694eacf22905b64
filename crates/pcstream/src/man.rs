//! Man pages: one for each command, from the definition of the command line.
//!
//! What `clap_mangen` puts into one section EXTRA (`after_help`) becomes sections of their own: a paragraph that begins with
//! a heading such as `Examples:` is a section, with its indented lines as they are; other paragraphs are NOTES.
//!
//! Many commands simulate, and take the flags of `simulate`. Only its own page describes them; the others name them.

use std::fs;
use std::io;
use std::path::Path;

use anyhow::Context as _;
use clap::{Arg, Command, CommandFactory as _};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use crate::args::Cli;
use crate::failure::{Failure, Status};
use crate::ui;

/// Who documents what: stands in the foot of each page.
const MANUAL: &str = "pcstream manual";
/// Files that every command may read.
const FILES: [(&str, &str); 2] = [
    (
        "$XDG_CONFIG_HOME/pcstream/pcstream.toml, ~/.config/pcstream/pcstream.toml",
        "The user's defaults of flags.",
    ),
    ("/etc/pcstream.toml", "The machine's defaults of flags."),
];

/// The command whose page describes flags that others take, too, and their headings.
const DESCRIBES: &str = "simulate";
const SHARED: [&str; 3] = ["Schemes", "Device", "Timing"];

/// `pcstream man`: the main page on stdout, or all pages into a directory.
pub fn man(output: Option<&Path>) -> Result<Status, Failure> {
    let mut root = Cli::command().disable_help_subcommand(true);
    root.build();
    let Some(directory) = output else {
        let page = page(&root, &root).context("cannot render the man page")?;
        ui::print(&String::from_utf8_lossy(&page))?;
        return Ok(Status::Done);
    };
    let written = fs::create_dir_all(directory).and_then(|()| write_all(&root, &root, directory));
    written.with_context(|| format!("cannot write man pages into {}", directory.display()))?;
    Ok(Status::Done)
}

fn write_all(root: &Command, command: &Command, directory: &Path) -> io::Result<()> {
    fs::write(directory.join(format!("{}.1", name(command))), page(root, command)?)?;
    let visible = command.get_subcommands().filter(|below| !below.is_hide_set());
    visible.into_iter().try_for_each(|below| write_all(root, below, directory))
}

/// `pcstream-generate-zipf`.
fn name(command: &Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}

fn page(root: &Command, command: &Command) -> io::Result<Vec<u8>> {
    let version = format!("pcstream {}", root.get_version().unwrap_or_default());
    let shared: Vec<&Arg> = shared(root, command).collect();
    let own = shared.iter().fold(command.clone(), |own, arg| own.mut_arg(arg.get_id(), |arg| arg.hide(true)));
    // The short version is enough: the page has it in its foot.
    let man = Man::new(own).title(name(command).to_uppercase()).source(version).manual(MANUAL);
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    synopsis(command).to_writer(&mut page)?;
    man.render_description_section(&mut page)?;
    if command.get_arguments().any(|arg| !arg.is_hide_set()) {
        man.render_options_section(&mut page)?;
    }
    described_elsewhere(root, &shared).to_writer(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    let mut rest = Roff::default();
    let help = command.get_after_long_help().or_else(|| command.get_after_help());
    sections(&mut rest, &help.map(ToString::to_string).unwrap_or_default());
    if std::ptr::eq(root, command) {
        rest.control("SH", ["FILES"]);
        for (file, what) in FILES {
            rest.control("TP", []);
            rest.text([bold(file)]);
            rest.text([roman(what)]);
        }
    }
    see_also(&mut rest, root, command);
    rest.to_writer(&mut page)?;
    Ok(page)
}

/// Flags that the page of `simulate` describes in the same words.
fn shared<'a>(root: &'a Command, command: &'a Command) -> impl Iterator<Item = &'a Arg> {
    let simulate = root.find_subcommand(DESCRIBES).filter(|simulate| name(simulate) != name(command));
    let of_simulate: Vec<&Arg> = simulate.into_iter().flat_map(Command::get_arguments).collect();
    let words = |arg: &Arg| {
        let help = arg.get_long_help().or_else(|| arg.get_help()).map(ToString::to_string);
        (arg.get_id().clone(), help, arg.get_default_values().to_vec())
    };
    command.get_arguments().filter(move |arg| {
        let is_shared = arg.get_help_heading().is_some_and(|heading| SHARED.contains(&heading));
        is_shared && !arg.is_hide_set() && of_simulate.iter().any(|other| words(other) == words(arg))
    })
}

/// The names of these flags, and where they are described.
fn described_elsewhere(root: &Command, flags: &[&Arg]) -> Roff {
    let mut roff = Roff::default();
    let Some(simulate) = root.find_subcommand(DESCRIBES).filter(|_| !flags.is_empty()) else { return roff };
    roff.control("SH", ["FLAGS OF THE SIMULATION"]);
    let mut words = vec![roman("Described in "), bold(name(simulate)), roman("(1): ")];
    for (at, flag) in flags.iter().filter_map(|flag| flag.get_long()).enumerate() {
        words.extend([roman(if at == 0 { "" } else { ", " }), bold(format!("--{flag}"))]);
    }
    words.push(roman("."));
    roff.text(words);
    roff
}

/// What `--help` shows as usage: `clap_mangen` lists every flag, without values.
fn synopsis(command: &Command) -> Roff {
    let mut roff = Roff::default();
    roff.control("SH", ["SYNOPSIS"]);
    let usage = command.clone().render_usage().to_string();
    for line in usage.trim_start_matches("Usage:").lines().map(str::trim).filter(|line| !line.is_empty()) {
        roff.text([roman(line)]);
        roff.control("br", []);
    }
    roff
}

/// The paragraphs of `after_help` as sections.
fn sections(roff: &mut Roff, help: &str) {
    let mut heading = "";
    for paragraph in help.split("\n\n").map(str::trim_end).filter(|paragraph| !paragraph.trim().is_empty()) {
        let lines: Vec<&str> = paragraph.lines().filter(|line| !line.is_empty()).collect();
        let own = lines[0].strip_suffix(':').filter(|name| !name.contains(' ') || *name == "Exit codes");
        let (section, body) = match own {
            Some("Example" | "Examples") => ("EXAMPLES", &lines[1..]),
            Some("Exit codes") => ("EXIT STATUS", &lines[1..]),
            _ => ("NOTES", &lines[..]),
        };
        if section != heading {
            roff.control("SH", [section]);
            heading = section;
        } else {
            roff.control("PP", []);
        }
        let verbatim = body.iter().all(|line| line.starts_with(' '));
        if verbatim {
            roff.control("EX", []);
        }
        for line in body {
            roff.text([roman(if verbatim { *line } else { line.trim() })]);
        }
        if verbatim {
            roff.control("EE", []);
        }
    }
}

/// The page above, and the commands that work on what this one makes.
fn see_also(roff: &mut Roff, root: &Command, command: &Command) {
    let own = name(command);
    let mut pages: Vec<&str> = if std::ptr::eq(root, command) { Vec::new() } else { vec![name(root)] };
    let parent = own.rsplit_once('-').map(|(parent, _)| parent).filter(|parent| *parent != name(root));
    pages.extend(parent);
    let next: &[&str] = match own.trim_start_matches("pcstream-") {
        "run" => &["pcstream-record", "pcstream-simulate", "pcstream-doctor"],
        "record" => &["pcstream-simulate", "pcstream-contexts", "pcstream-advise", "pcstream-doctor"],
        "simulate" => &["pcstream-sweep", "pcstream-geometry", "pcstream-schemes"],
        "advise" => &["pcstream-contexts", "pcstream-compare"],
        "demo" => &["pcstream-run"],
        "import" | "generate" | "merge" | "extract" => &["pcstream-simulate", "pcstream-contexts"],
        _ => &[],
    };
    pages.extend(next.iter().filter(|page| **page != own));
    if pages.is_empty() {
        return;
    }
    roff.control("SH", ["SEE ALSO"]);
    let mut words = Vec::new();
    for (at, page) in pages.iter().enumerate() {
        words.extend([roman(if at == 0 { "" } else { ", " }), bold(*page), roman("(1)")]);
    }
    roff.text(words);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every command that users see, with its page.
    fn pages() -> Vec<(String, String)> {
        fn collect(root: &Command, command: &Command, pages: &mut Vec<(String, String)>) {
            let text = String::from_utf8(page(root, command).unwrap()).unwrap();
            pages.push((name(command).to_owned(), text));
            for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
                collect(root, below, pages);
            }
        }
        let mut root = Cli::command().disable_help_subcommand(true);
        root.build();
        let mut pages = Vec::new();
        collect(&root, &root, &mut pages);
        pages
    }

    #[test]
    fn every_page_has_examples_of_its_command() {
        let pages = pages();
        assert!(pages.len() > 20, "{}", pages.len());
        for (name, text) in &pages {
            for section in [".SH NAME", ".SH SYNOPSIS", ".SH DESCRIPTION", ".SH EXAMPLES"] {
                assert_eq!(text.matches(&format!("{section}\n")).count(), 1, "{section} of {name}:\n{text}");
            }
            assert!(!text.contains(".SH EXTRA"), "{name}");
            let examples = text.split(".SH EXAMPLES").nth(1).unwrap();
            let examples = examples.split(".SH").next().unwrap().replace("\\-", "-");
            let command = name.replacen('-', " ", 2);
            assert!(examples.contains(&command), "{command} is not among\n{examples}");
        }
    }

    #[test]
    fn the_synopsis_is_the_usage() {
        let simulate = pages().into_iter().find(|(name, _)| name == "pcstream-simulate").unwrap().1;
        assert!(simulate.contains(".SH SYNOPSIS\npcstream simulate [OPTIONS] <TRACE>\n.br\n"), "{simulate}");
    }

    /// `--gc` means the same everywhere, and is described once.
    #[test]
    fn flags_of_simulate_are_described_on_its_page_alone() {
        let described = |text: &str| text.contains("\n\\fB\\-\\-gc\\fR");
        for (name, text) in pages() {
            let is_named = text.contains(".SH \"FLAGS OF THE SIMULATION\"") && text.contains("\\-\\-gc");
            match name.as_str() {
                "pcstream-simulate" => assert!(described(&text) && !is_named, "{text}"),
                "pcstream-run" | "pcstream-report" | "pcstream-compare" => {
                    assert!(is_named && !described(&text), "{name}: {text}");
                }
                _ => {}
            }
            let lines = text.lines().filter(|line| line.starts_with(".TP")).count();
            assert!(name == "pcstream-simulate" || lines < 50, "{name} describes {lines} flags");
        }
    }

    #[test]
    fn paragraphs_become_sections() {
        let mut roff = Roff::default();
        sections(&mut roff, "Examples:\n  a --b\n\nA remark\nof two lines.\n\nExit codes:\n  0  done\n");
        let text = roff.to_roff();
        for part in [
            ".SH EXAMPLES\n.EX\n  a \\-\\-b\n.EE\n",
            ".SH NOTES\nA remark\nof two lines.",
            ".SH \"EXIT STATUS\"\n.EX",
        ] {
            assert!(text.contains(part), "{part:?} is not in\n{text}");
        }
    }
}
