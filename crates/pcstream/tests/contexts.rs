//! `contexts` and `compare` on traces made by hand: which functions are kept apart, which runs are matched, and what
//! flags select.

mod common;

use std::fs;

use common::{Place, ends_with, json, pcstream, refuses, text};
use pcstream_trace::*;

/// A call path, innermost first, a file and pages.
type Write<'a> = (&'a [&'a str], &'a str, u32);

/// What every path has outside.
const OUTER: [&str; 3] = ["main", "__libc_start_main", "_start"];

/// A trace of what one program wrote. Functions without `::` and `/` but `main` are those of the C library.
fn trace(place: &Place, name: &str, program: &str, writes: &[Write]) -> String {
    build(place, name, program, "", writes)
}

/// The same of a build with this id.
fn build(place: &Place, name: &str, program: &str, id: &str, writes: &[Write]) -> String {
    let path = place.path(&format!("{name}.pctrace"));
    let mut writer = TraceWriter::create(&path, Meta::new("test", 4096), true).unwrap();
    let executable = format!("/opt/{program}");
    let frame = |at: usize, symbol: &str| {
        let own = symbol.is_empty() || symbol == "main" || symbol.contains(['/', ':']);
        let module = if own { &executable } else { "/lib/libc.so.6" };
        let module = if symbol.starts_with("java:") { "java:" } else { module }.to_owned();
        let build_id = if own { id.to_owned() } else { "c".repeat(40) };
        Frame { module, offset: 16 * at as u64, symbol: symbol.to_owned(), build_id }
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
    Event { context, file, ..Event::write(lba, pages) }
}

const WAL: &[&str] = &["db::wal::Writer::Write(int)"];
const SST: &[&str] = &["db::sst::Writer::Write(int)"];

#[test]
fn functions_that_look_alike_stay_apart() {
    let place = Place::new();
    let flushes: [&[&str]; 2] = [&["example.com/log.(*Writer).Flush"], &["example.com/zip.(*Writer).Flush"]];
    let writes = [(WAL, "/wal", 30), (SST, "/sst", 10), (flushes[0], "/x", 3), (flushes[1], "/y", 4)];
    let trace = trace(&place, "t", "app", &writes);
    let (table, _) = ends_with(0, &["contexts", &trace]);
    let (groups, _) = ends_with(0, &["contexts", &trace, "--by", "function"]);
    let (folded, _) = ends_with(0, &["contexts", &trace, "--folded", "-"]);
    let (flame, _) = ends_with(0, &["report", &trace, "--figure", "flame-written", "--csv", "-"]);
    for name in [WAL[0], SST[0], flushes[0][0], flushes[1][0]] {
        assert!(
            [&table, &groups, &folded, &flame].iter().all(|shown| shown.contains(name)),
            "{table}{groups}{folded}{flame}"
        );
    }
    assert!(groups.contains("120 KiB") && !groups.contains("160 KiB"), "{groups}");
    let (alone, _) = ends_with(0, &["contexts", &trace, "--by", "function", "--file", "wal"]);
    assert!(alone.contains("Writer::Write") && alone.contains("Writer.Flush"), "{alone}");
    assert!(!alone.contains("db::wal"), "it is short where it can be: {alone}");
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

/// Where nothing was written there is no WAF, which is no change.
#[test]
fn comparisons_of_no_writes_have_no_amplification() {
    let place = Place::new();
    let [a, b] = ["a.pctrace", "b.pctrace"].map(|name| place.path(name));
    for path in [&a, &b] {
        TraceWriter::create(path, Meta::new("test", 4096), true).unwrap().finish(None).unwrap();
    }
    let compare = ["compare", a.as_str(), &b, "--scheme", "baseline"];
    let (text, _) = ends_with(0, &compare);
    assert!(!text.contains("NaN"), "{text}");
    let result = json(&[&compare[..], &["--json", "-"]].concat());
    let measures = result["runs"][0]["measures"].as_object().unwrap();
    assert!(measures.keys().any(|name| name.starts_with("flash: ")), "{measures:?}");
    assert!(!measures.keys().any(|name| name.starts_with("WAF: ")), "{measures:?}");
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
    let [copy, dump] = ["cp", "dd"].map(|program| trace(&place, program, program, &[(&[], "/wal", 30)]));
    let alike = compare([&copy, &dump]);
    assert!(!alike.contains("counts as"), "any program could have these paths: {alike}");
    let same = compare([&old, &old]);
    assert!(!same.contains("counts as") && !same.contains("other run"), "{same}");
}

/// Offsets in two builds are of different functions, though they may be the same numbers.
#[test]
fn functions_without_names_are_the_same_in_one_build_alone() {
    let place = Place::new();
    let (a, b): ([Write; 2], [Write; 2]) =
        ([(&[""], "/wal", 30), (&[""], "/sst", 10)], [(&[""], "/sst", 10), (&[""], "/wal", 30)]);
    let old = build(&place, "old", "app", &"a".repeat(40), &a);
    let new = build(&place, "new", "app", &"b".repeat(40), &b);
    let [old_without, new_without] =
        [("c", &a), ("d", &b)].map(|(name, of)| build(&place, name, "app", "", of));
    let flags = ["--scheme", "baseline", "--gc", "own"];
    let compare = |runs: [&str; 2]| {
        let (text, _) = ends_with(0, &[&["compare"], &runs[..], &flags[..]].concat());
        text.replace('\n', " ")
    };
    let remark = "missing in app of A, app of B: record builds that are not stripped";
    let other = compare([&old, &new]);
    assert!(other.contains(remark) && other.contains("in the other run: app of A, app of B."), "{other}");
    let result = json(&[&["compare", old.as_str(), &new], &flags[..], &["--json", "-"]].concat());
    let name = |context: &serde_json::Value| context["name"].as_str().unwrap().to_owned();
    let names: Vec<String> = result["contexts"].as_array().unwrap().iter().map(name).collect();
    let of = |build: &str| names.iter().filter(|name| name.contains(build)).count();
    assert_eq!((of("app+0x10@aaaaaaaa"), of("app+0x10@bbbbbbbb"), names.len()), (1, 1, 5), "{names:?}");
    let same = compare([&old, &old]);
    assert!(!same.contains("stripped") && !same.contains("other run"), "{same}");
    let unknown = compare([&old_without, &new_without]);
    assert!(unknown.contains(remark) && !unknown.contains("other run"), "nobody knows: {unknown}");
}

#[test]
fn flags_hold_for_everything_that_is_put_out() {
    let place = Place::new();
    let trace = trace(&place, "t", "app", &[(WAL, "/wal", 30), (SST, "/sst", 10)]);
    let (groups, one) = (place.path("groups.json"), place.path("one.pb"));
    let (table, _) = ends_with(0, &["contexts", &trace, "--by", "file", "--json", &groups]);
    let result: serde_json::Value = serde_json::from_str(&fs::read_to_string(&groups).unwrap()).unwrap();
    let names: Vec<&str> =
        result["groups"].as_array().unwrap().iter().map(|group| group["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["/wal", "/sst", "(no file)"]);
    assert!(names.iter().all(|name| table.contains(name)), "{table}");
    assert_eq!(json(&["contexts", &trace, "--json", "-"])["groups"], serde_json::json!([]));

    let context = ["contexts", &trace, "--context", "0000000100"];
    let (folded, _) = ends_with(0, &[&context[..], &["--folded", "-"]].concat());
    assert_eq!(folded.lines().count(), 1, "{folded}");
    ends_with(0, &[&context[..], &["--pprof", &one]].concat());
    let profile = fs::read(&one).unwrap();
    assert!(!String::from_utf8_lossy(&profile).contains("sst"), "only one context is in it");
    let rows = json(&[&context[..], &["--json", "-"]].concat());
    assert_eq!(rows["contexts"].as_array().unwrap().len(), 1);

    let sorted = json(&["contexts", &trace, "--sort", "name", "--json", "-"]);
    assert!(sorted["contexts"][0]["signature"].is_null(), "what has no context has no name");
    refuses(2, &["contexts", &trace, "--lines", "--folded", "-"], &["--lines", "--folded"]);
    refuses(2, &["contexts", &trace, "--by", "file", "--folded", "-"], &["--by", "--folded -", "only one"]);
    refuses(2, &["contexts", &trace, "--csv", "--json", "-"], &["--csv", "--json -", "only one"]);
}

#[test]
fn patterns_select_files_and_programs() {
    let place = Place::new();
    let trace = trace(&place, "t", "app", &[(WAL, "/log/wal.1", 30), (SST, "/data/1.sst", 10)]);
    let pages = |flags: &[&str]| -> Vec<u64> {
        let result = json(&[&["contexts", trace.as_str()], flags, &["--json", "-"]].concat());
        let rows = result["contexts"].as_array().unwrap();
        let pages: Vec<u64> = rows.iter().map(|row| row["pages"].as_u64().unwrap()).collect();
        assert_eq!(pages.iter().sum::<u64>() + result["selection"]["left_out_pages"].as_u64().unwrap(), 50);
        pages
    };
    assert_eq!(pages(&["--file", "wal*"]), [30, 2]);
    assert_eq!(pages(&["--file", "/log/*"]), [30, 2]);
    assert_eq!(pages(&["--file", "/data/**"]), [10]);
    assert_eq!(pages(&["--file", "log"]), [0; 0]);
    assert_eq!(pages(&["--program", "a*"]), [30, 12]);
    assert_eq!(pages(&["--program", "/opt/app", "--file", "*.sst"]), [10]);
    assert_eq!(pages(&["--program", "/app"]), [0; 0]);

    let wal = ["contexts", &trace, "--file", "wal*"];
    let head = "only --file 'wal*': 128 KiB by 2 of 2 contexts; 72.0 KiB are left out";
    for view in [&[][..], &["--by", "function"]] {
        let (table, _) = ends_with(0, &[&wal, view].concat());
        assert!(table.replace('\n', " ").contains(head), "{table}");
        assert!(table.contains("other files") && !table.contains("(file system)"), "{table}");
    }
    let (nothing, _) = ends_with(0, &["contexts", &trace, "--file", "*/wal.1"]);
    assert!(nothing.contains("a * matches no /: write **"), "{nothing}");
    let (nothing, _) = ends_with(0, &["contexts", &trace, "--file", "log/*"]);
    assert!(
        nothing.replace('\n', " ").contains("begins with /, at the mount point: write **/ b"),
        "{nothing}"
    );
    assert_eq!(pages(&["--file", "**/log/*"]), [30, 2], "as it says");
    let (nothing, _) = ends_with(0, &["contexts", &trace, "--file", "/wal.1"]);
    assert!(!nothing.contains("write **"), "it has no star: {nothing}");
    let (files, _) = ends_with(0, &[&wal[..], &["--by", "file", "--csv"]].concat());
    assert_eq!(files.lines().count(), 2, "{files}");
    let csv = pcstream(&[&wal[..], &["--csv"]].concat());
    assert!(text(&csv.stderr).contains(head), "{}", text(&csv.stderr));
    assert!(text(&csv.stdout).lines().nth(2).unwrap().contains(",2,0.04,,,,,"), "{}", text(&csv.stdout));
    let (folded, _) = ends_with(0, &[&wal[..], &["--folded", "-"]].concat());
    assert!(folded.lines().nth(1).unwrap().ends_with(" 2"), "{folded}");
    refuses(2, &["contexts", &trace, "--file", "[a"], &["--file", "[a", "is not a glob"]);
    refuses(2, &["contexts", &trace, "--program", "a\"b"], &["--program", "double quotes"]);
}

#[test]
fn methods_of_java_are_said_to_have_no_source_lines() {
    let place = Place::new();
    let java = trace(&place, "j", "java", &[(&["java:org.J.put"], "/wal", 30)]);
    let other = trace(&place, "t", "app", &[(WAL, "/wal", 30)]);
    let remarks = |trace: &str| text(&pcstream(&["contexts", trace, "--lines"]).stderr).to_owned();
    assert!(remarks(&java).contains("no source lines of Java methods"), "{}", remarks(&java));
    assert!(!remarks(&other).contains("Java"), "{}", remarks(&other));
}

/// What the command line puts on standard output wins over what a configuration would put there.
#[test]
fn a_flag_for_standard_output_wins_over_defaults_for_it() {
    let place = Place::new();
    let trace = trace(&place, "t", "app", &[(WAL, "/wal", 30)]);
    let file = place.path("pcstream.toml");
    let contexts = |defaults: &str, flags: &[&str]| {
        fs::write(&file, format!("[contexts]\n{defaults}\n")).unwrap();
        let words = [&["--config", &file, "contexts", &trace], flags].concat();
        ends_with(0, &words).0
    };
    let folded = contexts("", &["--folded", "-"]);
    for defaults in ["by = 'function'", "csv = true", "by = 'function'\ncsv = true", "json = '-'"] {
        assert_eq!(contexts(defaults, &["--folded", "-"]), folded, "{defaults}");
    }
    let rows: serde_json::Value = serde_json::from_str(&contexts("csv = true", &["--json", "-"])).unwrap();
    assert!(rows["contexts"].is_array(), "{rows}");
    // JSON has the groups, so their default stays.
    let groups = contexts("by = 'function'", &["--json", "-"]);
    let groups: serde_json::Value = serde_json::from_str(&groups).unwrap();
    assert!(!groups["groups"].as_array().unwrap().is_empty(), "{groups}");
    assert_eq!(contexts("folded = '-'", &["--csv"]), contexts("", &["--csv"]));
    fs::write(&file, "[contexts]\nby = 'function'\nfolded = '-'\n").unwrap();
    let (_, err) = ends_with(2, &["--config", &file, "contexts", &trace]);
    assert!(err.contains("line 3: folded and by (line 2) exclude each other"), "{err}");
}

/// Digits may be a number, and the beginning of another context's signature.
#[test]
fn what_may_mean_several_contexts_is_refused_with_their_names() {
    let place = Place::new();
    let path = place.path("many.pctrace");
    let mut writer = TraceWriter::create(&path, Meta::new("test", 4096), true).unwrap();
    let signature = |id: u32| match id {
        7 => 0x1234_0000_0000_0007,
        8 => 0x0000_0000_0000_0008,
        _ => 0xabcd_0000_0000_0000 | u64::from(id),
    };
    let context = |id: u32| Context {
        id: ContextId(id),
        signature: Signature(signature(id)),
        executable: "/opt/app".to_owned(),
        ..Context::default()
    };
    let event = |id: u32| write(u64::from(id), 1, ContextId(id), FileId(0));
    let (contexts, events) = ((1..=1234).map(context).collect(), (0..=1234).map(event).collect());
    writer.write_batch(&Batch { contexts, events, ..Batch::default() }).unwrap();
    writer.finish(None).unwrap();
    let candidates = ["12340000", "(number 7)", "abcd", "(number 1234)", "give more of a signature"];
    refuses(2, &["contexts", &path, "--context", "1234"], &candidates);
    refuses(2, &["contexts", &path, "--context", "abcd"], &["one of 1232 contexts", "and 1227 more"]);
    let shown = |wanted: &str| ends_with(0, &["contexts", &path, "--context", wanted]).0;
    for (wanted, number) in
        [("12340", 7), ("7", 7), ("0000", 8), ("1233", 1233), (&format!("{:016x}", signature(1234)), 1234)]
    {
        assert!(shown(wanted).contains(&format!("(number {number} of the trace)")), "{wanted}");
    }
    assert!(shown("0").contains("all writes without a context"));
}
