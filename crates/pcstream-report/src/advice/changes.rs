//! What could be changed: which scheme on which kind of drive stands for it, and what to write where.

use pcstream_ssd::GcDestination;
use pcstream_trace::Life;

use super::{Source, classes, rules};
use crate::human::page_bytes;

/// The title of hints to be set.
pub(super) const SET_HINTS: &str = "fcntl(F_SET_RW_HINT) after opening files, by class of lifetimes";
/// The scheme of hints that are set.
pub(super) const OWN_HINTS: &str = "hints";
/// Rules for the file system's own writes, which have no context.
const METADATA_RULES: &str = "kind=journal -> 1\nkind=inode,directory,bitmap,other -> 2\n";

/// Schemes that `place` takes. Of those on one drive, the one that saves most is advised.
pub(super) const BY_CONTEXT: [&str; 2] = ["pcstream", "pcstream-plus-context"];

/// Something to change, before its gain is known.
#[derive(Debug)]
pub struct Change {
    pub(super) title: &'static str,
    pub(super) whose: &'static str,
    /// The scheme that does it.
    pub scheme: &'static str,
    /// Of the scheme `manual`.
    pub rules: Option<String>,
    /// The kind of drive.
    pub gc_destination: GcDestination,
    /// What to write where; one line per source.
    pub(super) steps: Vec<String>,
}

/// Everything that could be changed on a device of so many streams.
#[derive(Debug)]
pub struct Possible {
    /// What could be changed, in no order.
    pub changes: Vec<Change>,
    /// Rules of the scheme `manual`: a stream for each class of lifetimes.
    pub rules: String,
    /// Streams cannot keep sources apart: all have like lifetimes.
    pub(super) one_class: bool,
    /// Pages of programs that no source has.
    pub(super) unassigned: u64,
}

impl Change {
    /// Whether it needs program contexts, and nothing else.
    pub fn is_by_context(&self) -> bool {
        BY_CONTEXT.contains(&self.scheme)
    }
}

impl Possible {
    /// Of these sources, those that are too young to tell, and pages of programs that are of none; `hinted`: programs set write
    /// hints or streams already.
    pub fn of(
        (sources, young): (&[Source], &[Source]),
        unassigned: u64,
        streams: usize,
        hinted: bool,
    ) -> Possible {
        let classes = classes(sources, streams.saturating_sub(1).max(1));
        let rules = rules(sources, &classes, young, 1);
        let changes = changes((sources, young), &classes, &rules, (streams, hinted));
        let one_class = streams > 2 && !sources.is_empty() && young.is_empty() && at_most_one_class(&classes);
        Possible { changes, rules, one_class, unassigned }
    }
}

fn changes(
    (sources, young): (&[Source], &[Source]),
    classes: &[usize],
    rules: &str,
    (streams, hinted): (usize, bool),
) -> Vec<Change> {
    let stream = |(source, class): (&Source, &usize)| format!("S{}: {}", class + 1, named(source));
    let by_stream: Vec<String> = sources.iter().zip(classes).map(stream).collect();
    let on_all = |scheme| GcDestination::ALL.into_iter().map(move |to| by_context(scheme, to));
    let mut out: Vec<Change> = BY_CONTEXT.into_iter().flat_map(on_all).collect();
    if !at_most_one_class(classes) && streams > 1 {
        out.extend(GcDestination::ALL.into_iter().map(|gc_destination| Change {
            title: match gc_destination {
                GcDestination::Own => "a stream for each class of lifetimes",
                _ => "a placement handle for each class of lifetimes",
            },
            whose: "the programs' (streams or placement handles where they open files)",
            scheme: "manual",
            rules: Some(rules.to_owned()),
            gc_destination,
            steps: by_stream.clone(),
        }));
        if streams > Life::TIMED.len() {
            out.push(set_hints(sources, young));
        }
    }
    out.extend((hinted && streams > 1).then(|| own_hints(sources)));
    if streams > 2 {
        out.push(Change {
            title: "the file system's journal and metadata apart from data",
            whose: "the file system's (or an external journal)",
            scheme: "manual",
            rules: Some(METADATA_RULES.to_owned()),
            gc_destination: GcDestination::Own,
            steps: vec!["S1: the journal; S2: inodes, directories, bitmaps, other metadata".to_owned()],
        });
    }
    out
}

fn at_most_one_class(classes: &[usize]) -> bool {
    classes.iter().all(|class| *class == classes[0])
}

fn by_context(scheme: &'static str, gc_destination: GcDestination) -> Change {
    let place = format!("pcstream place --scheme {scheme} --on DIR");
    Change {
        title: "place writes by program context, without changing any program",
        whose: "nobody's: the host's kernel and drive",
        scheme,
        rules: None,
        gc_destination,
        steps: vec![format!("{place}; `pcstream doctor DIR` says what that needs")],
    }
}

/// What C programs call a hint.
fn constant(life: Life) -> String {
    format!("RWH_WRITE_LIFE_{}", life.kernel_name())
}

/// A hint for each source that has another one, or none.
fn set_hints(sources: &[Source], young: &[Source]) -> Change {
    let classes = classes(sources, Life::TIMED.len());
    let step = |(source, class): (&Source, &usize)| {
        let life = Life::TIMED[*class];
        let instead = match source.own_hint() {
            Some(own) if own == life => return None,
            Some(own) => format!(" instead of {}", constant(own)),
            None => String::new(),
        };
        Some(format!("{}{instead}: {}", constant(life), named(source)))
    };
    Change {
        title: SET_HINTS,
        whose: "the programs'",
        scheme: "manual",
        rules: Some(rules(sources, &classes, young, 1)),
        gc_destination: GcDestination::Own,
        steps: sources.iter().zip(&classes).filter_map(step).collect(),
    }
}

/// What programs ask for already.
fn own_hints(sources: &[Source]) -> Change {
    let step = |source: &Source| Some(format!("{}: {}", constant(source.own_hint()?), named(source)));
    Change {
        title: "the hints and write streams that are set already",
        whose: "nobody's: the host's kernel passes them on, and the drive uses them",
        scheme: OWN_HINTS,
        rules: None,
        gc_destination: GcDestination::Own,
        steps: sources.iter().filter_map(step).collect(),
    }
}

/// The files of a source.
pub(super) fn file_named(source: &Source) -> &str {
    if source.file.is_empty() { "(no file name)" } else { &source.file }
}

fn named(source: &Source) -> String {
    let file = file_named(source);
    let program = source.executable.rsplit('/').next().unwrap_or_default();
    let thread = if source.thread.is_empty() || source.thread == program {
        String::new()
    } else {
        format!(" ({})", source.thread)
    };
    let module = source.module.rsplit('/').next().unwrap_or_default();
    let line = source.line.as_ref().map_or(String::new(), |line| format!(" at {line}"));
    // Labels of generators and importers name no function.
    let space = if source.function.is_empty() { "" } else { " " };
    let others = match source.contexts {
        0 | 1 => String::new(),
        2 => ", and another call path".to_owned(),
        several => format!(", and {} more call paths", several - 1),
    };
    format!(
        "{program}{thread} writing {file}: {}{space}[{module}]{line}{others}, {}",
        source.function,
        page_bytes(source.pages)
    )
}
