//! Small parts of traces, for unit tests.

use std::path::PathBuf;

use pcstream_placement::{Environment, Scheme, find};
use pcstream_trace::{Batch, Context, ContextId, Event, File, FileId, Signature};

/// A scheme with its defaults for 8 streams.
pub(crate) fn scheme(name: &str) -> Box<dyn Scheme> {
    let device = Environment::new(8).expect("8 streams");
    find(name).expect("it is registered").build(&device).expect("its defaults are good")
}

/// The first contexts and files, and events.
pub(crate) fn batch(contexts: u32, files: u32, events: Vec<Event>) -> Batch {
    let context = |id: u32| Context {
        id: ContextId(id),
        signature: Signature(1000 + u64::from(id)),
        executable: format!("/bin/writer-{id}"),
        entry: "write".to_owned(),
        ..Context::default()
    };
    let file =
        |id: u32| File { id: FileId(id), inode: 100 + u64::from(id), generation: id, path: format!("/{id}") };
    Batch { contexts: (1..=contexts).map(context).collect(), files: (1..=files).map(file).collect(), events }
}

/// A context writes pages of a file.
pub(crate) fn write(context: u32, file: u32, lba: u64, pages: u32) -> Event {
    Event { context: ContextId(context), file: FileId(file), ..Event::write(lba, pages) }
}

/// Where the tables of tests are locked: one directory for all, as for placers.
pub(crate) fn locks() -> PathBuf {
    std::env::temp_dir()
}

/// The document has each of these counts in a table of its section.
pub(crate) fn are_documented<'a>(heading: &str, names: impl IntoIterator<Item = &'a str>) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/commands/place-serve.md");
    let document = std::fs::read_to_string(path).expect("docs/commands/place-serve.md");
    let section = document.split_once(&format!("\n### {heading}\n")).expect(heading).1;
    let section = section.split("\n#").next().unwrap_or_default();
    // What a row counts is not its name.
    let cells: String =
        section.lines().filter_map(|line| line.strip_prefix("| ")?.split('|').next()).collect();
    for name in names {
        assert!(cells.contains(&format!("`{name}`")), "docs/commands/place-serve.md, {heading}: {name}");
    }
}
