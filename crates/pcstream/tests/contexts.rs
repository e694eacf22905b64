//! `contexts` and `compare` on traces made by hand: which functions are kept apart, and which runs are matched.

mod common;

use common::{Place, ends_with, json};
use pcstream_trace::*;

/// A call path, innermost first, a file and pages.
type Write<'a> = (&'a [&'a str], &'a str, u32);

/// What every path has outside.
const OUTER: [&str; 3] = ["main", "__libc_start_main", "_start"];

/// A trace of what one program wrote. Functions without `::` and `/` but `main` are those of the C library.
fn trace(place: &Place, name: &str, program: &str, writes: &[Write]) -> String {
    let path = place.path(&format!("{name}.pctrace"));
    let mut writer = TraceWriter::create(&path, Meta::new("test", 4096), true).unwrap();
    let executable = format!("/opt/{program}");
    let frame = |at: usize, symbol: &str| {
        let own = symbol.is_empty() || symbol == "main" || symbol.contains(['/', ':']);
        let module = if own { executable.clone() } else { "/lib/libc.so.6".to_owned() };
        Frame { module, offset: 16 * at as u64, symbol: symbol.to_owned(), ..Frame::default() }
    };
    let mut batch = Batch::default();
    let mut lba = 0;
    for (at, (functions, file, pages)) in writes.iter().enumerate() {
        let id = at as u32 + 1;
        let frames = ["write"].iter().chain(*functions).chain(&OUTER);
        batch.contexts.push(Context {
            id: ContextId(id),
            signature: Signature(u64::from(id) << 32),
            executable: executable.clone(),
            comm: program.to_owned(),
            entry: "write".to_owned(),
            unwind: Unwind::Exact,
            frames: frames.enumerate().map(|(depth, symbol)| frame(100 * at + depth, symbol)).collect(),
        });
        let path = (*file).to_owned();
        batch.files.push(File { id: FileId(id), inode: u64::from(id), generation: 0, path });
        let (context, file) = (ContextId(id), FileId(id));
        batch.events.push(write(lba, *pages, context, file));
        lba += u64::from(*pages);
    }
    // One context writes the first file, too.
    batch.events.push(write(lba, 2, ContextId(writes.len() as u32), FileId(1)));
    batch.events.push(Event { kind: Kind::Journal, ..write(lba + 2, 8, ContextId(0), FileId(0)) });
    writer.write_batch(&batch).unwrap();
    writer.finish(None).unwrap();
    path
}

fn write(lba: u64, pages: u32, context: ContextId, file: FileId) -> Event {
    let (time_ns, op, kind) = (0, Op::Write, Kind::Data);
    Event { time_ns, lba: Lba(lba), pages, context, file, file_page: 0, op, kind, hint: Default::default() }
}

const WAL: &[&str] = &["db::wal::Writer::Write(int)"];
const SST: &[&str] = &["db::sst::Writer::Write(int)"];

#[test]
fn functions_that_look_alike_stay_apart() {
    let place = Place::new();
    let flushes: [&[&str]; 2] = [&["example.com/log.(*Writer).Flush"], &["example.com/zip.(*Writer).Flush"]];
    let writes = [(WAL, "/wal", 30), (SST, "/sst", 10), (flushes[0], "/x", 3), (flushes[1], "/y", 4)];
    let trace = trace(&place, "t", "app", &writes);
    let (groups, _) = ends_with(0, &["contexts", &trace, "--by", "function"]);
    let (folded, _) = ends_with(0, &["contexts", &trace, "--folded", "-"]);
    let (flame, _) = ends_with(0, &["report", &trace, "--figure", "flame-written", "--csv", "-"]);
    for name in [WAL[0], SST[0], flushes[0][0], flushes[1][0]] {
        assert!(
            [&groups, &folded, &flame].iter().all(|shown| shown.contains(name)),
            "{groups}{folded}{flame}"
        );
    }
    assert!(groups.contains("120 KiB") && !groups.contains("160 KiB"), "{groups}");
}

#[test]
fn comparisons_name_the_functions_that_changed() {
    let place = Place::new();
    let flush: &[&str] = &["db::Log::Flush()", "db::Log::Close()"];
    let writes = [(WAL, "/wal", 30), (SST, "/sst", 10), (flush, "/log", 5)];
    let swapped = [(WAL, "/wal", 10), (SST, "/sst", 30), (flush, "/log", 5)];
    let (a, b) = (trace(&place, "a", "app", &writes), trace(&place, "b", "app", &swapped));
    let flags = ["--scheme", "baseline", "--gc", "own"];
    let (text, _) = ends_with(0, &[&["compare", a.as_str(), &b], &flags[..]].concat());
    let rows: Vec<&str> = text.lines().filter(|line| line.contains(" app  ")).collect();
    assert_eq!(rows.len(), 2, "{text}");
    for (row, name) in rows.iter().zip([SST[0], WAL[0]]) {
        assert!(row.contains(&format!("app  write < {name}")) && !row.contains("libc"), "{text}");
    }
    let result = json(&[&["compare", a.as_str(), &b], &flags[..], &["--json", "-"]].concat());
    let names: Vec<&str> =
        result["contexts"].as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap()).collect();
    assert!(
        names.contains(&"app;_start;__libc_start_main;main;db::wal::Writer::Write(int);write;write"),
        "{names:?}"
    );
}

#[test]
fn builds_with_other_names_are_compared() {
    let place = Place::new();
    let (a, b) = ([(WAL, "/wal", 30), (SST, "/sst", 10)], [(WAL, "/wal", 30), (SST, "/sst", 20)]);
    let old = trace(&place, "old", "application-1.0", &a);
    let new = trace(&place, "new", "application-2.0", &b);
    let stripped =
        trace(&place, "stripped", "application-1.0", &[(&[""], "/wal", 30), (&["", ""], "/sst", 10)]);
    let other = trace(&place, "other", "tool", &[(&["tool::run()"], "/wal", 30)]);
    let compare = |runs: [&str; 2]| {
        let flags = ["--scheme", "baseline", "--gc", "own"];
        let (text, _) = ends_with(0, &[&["compare"], &runs[..], &flags[..]].concat());
        text.replace('\n', " ")
    };
    let renamed = compare([&old, &new]);
    assert!(renamed.contains("application-2.0 of B counts as application-1.0 of A"), "{renamed}");
    assert!(renamed.contains("2 contexts wrote as much in every run"), "the log and the journal: {renamed}");
    assert!(!renamed.contains("is in the other run"), "{renamed}");
    let bare = compare([&old, &stripped]);
    assert!(bare.contains("in the other run: application-1.0 of A, application-1.0 of B."), "{bare}");
    assert!(bare.contains("missing in application-1.0 of B: record builds that are not stripped"), "{bare}");
    let foreign = compare([&old, &other]);
    assert!(foreign.contains("in the other run: application-1.0 of A, tool of B."), "{foreign}");
    assert!(!foreign.contains("stripped"), "{foreign}");
    let same = compare([&old, &old]);
    assert!(!same.contains("of A") && !same.contains("of B"), "{same}");
}
