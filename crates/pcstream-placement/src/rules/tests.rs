use std::collections::BTreeMap;

use pcstream_trace::generators::{Common, generate};

use super::*;

fn error(text: &str) -> String {
    Rules::parse(text).expect_err("refused").to_string()
}

fn file(path: &str) -> File {
    File { path: path.to_owned(), ..File::default() }
}

fn stream(rules: &Rules, path: &str, kind: Kind, context: Option<(&str, &str, Unwind)>) -> Option<u8> {
    let context = context.map(|(executable, comm, unwind)| Context {
        executable: executable.to_owned(),
        comm: comm.to_owned(),
        unwind,
        ..Context::default()
    });
    let file = file(path);
    rules.stream_of(Subject { kind, file: Some(&file), context: context.as_ref(), size: None })
}

#[test]
fn the_first_match_decides() {
    let rules = Rules::parse(
        "# head\n\n  kind=journal,inode -> 1   # tail\nname=*.log->2\npath=/db/*.sst comm=flush? -> 3\n\
         path=\"/db/with blank/**\" -> 4\nexecutable=**/cc1 -> 5\nlabel=hot -> 6\nkind=data -> 7\n",
    )
    .expect("valid");
    assert_eq!(rules.rules().len(), 7);
    let of = |path, kind, context| stream(&rules, path, kind, context);
    let data = Kind::Data;
    assert_eq!(of("/x.log", Kind::Journal, None), Some(1));
    assert_eq!(of("/x.log", Kind::Inode, None), Some(1));
    assert_eq!(of("/deep/down/x.log", data, None), Some(2), "a name is the last component");
    assert_eq!(of("/db/1.sst", data, Some(("x", "flush1", Unwind::Scan))), Some(3));
    assert_eq!(of("/db/1.sst", data, Some(("x", "flush12", Unwind::Scan))), Some(7));
    assert_eq!(of("/db/sub/1.sst", data, Some(("x", "flush1", Unwind::Scan))), Some(7), "* stops at /");
    assert_eq!(of("/db/with blank/a/b", data, None), Some(4));
    assert_eq!(of("/a", data, Some(("/usr/lib/gcc/cc1", "", Unwind::Scan))), Some(5));
    assert_eq!(of("/a", data, Some(("hot", "", Unwind::Label))), Some(6));
    assert_eq!(of("/a", data, Some(("hot", "", Unwind::Scan))), Some(7), "not a label");
    assert_eq!(of("", data, None), Some(7));
    assert_eq!(of("/a", Kind::Bitmap, None), None);
}

/// What the other presets know and `common` does not: classes beyond its eight streams, and files of little weight.
#[rustfmt::skip]
const NOT_IN_COMMON: &[&str] = &[
    "class8", "class-8", "class9", "class-9", "class10", "class-10", "class11", "class-11", "class12", "class-12",
    "class13", "class-13", "class14", "class-14",
    "*-mj*",
    "*.res", "*.rc", "*.le", "*.ld", "*.dwo", "*.obj", "*.so.*", "*.la",
];

/// A pattern without its braces, one for each choice in them.
fn without_braces(pattern: &str) -> Vec<String> {
    let Some((before, rest)) = pattern.split_once('{') else { return vec![pattern.to_owned()] };
    let (choices, behind) = rest.split_once('}').expect("braces are closed");
    choices.split(',').flat_map(|choice| without_braces(&format!("{before}{choice}{behind}"))).collect()
}

#[test]
fn common_knows_the_names_and_labels_of_the_others() {
    let common = Rules::default();
    let named = |name: &str| stream(&common, name, Kind::Data, None);
    let labelled = |label: &str| stream(&common, "", Kind::Data, Some((label, "", Unwind::Label)));
    let mut unknown = Vec::new();
    for line in PRESETS.iter().flat_map(|(.., text)| text.lines()) {
        let (value, is_label) = match (line.strip_prefix("name="), line.strip_prefix("label=")) {
            (Some(name), _) => (name, false),
            (_, Some(label)) => (label, true),
            _ => continue,
        };
        let end = if value.starts_with('"') { '"' } else { ' ' };
        let pattern = value.trim_start_matches('"').split(end).next().expect("there is a first part");
        for pattern in without_braces(pattern) {
            let like_it = pattern.replace('*', "7");
            let found = if is_label { labelled(&like_it) } else { named(&like_it) };
            if found.is_none() {
                unknown.push(pattern);
            }
        }
    }
    assert_eq!(unknown, NOT_IN_COMMON, "names and labels that `common` does not know");
}

#[test]
fn sizes_are_from_and_below() {
    let rules =
        Rules::parse("size=..64K -> 1\nname=*.db size=64K..1MiB -> 2\nsize=1M.. -> 3").expect("valid");
    let of = |size| {
        let file = file("/a.db");
        rules.stream_of(Subject { kind: Kind::Data, file: Some(&file), context: None, size })
    };
    let kib = |n: u64| Some(n << 10);
    assert_eq!(
        [of(kib(0)), of(Some(65535)), of(kib(64)), of(kib(1023))],
        [Some(1), Some(1), Some(2), Some(2)]
    );
    assert_eq!([of(kib(1024)), of(Some(u64::MAX)), of(None)], [Some(3), Some(3), None]);
    assert_eq!(rules.size_steps(), [0, 64 << 10, 1 << 20]);
    for bad in ["4M", "..", "2M..1M", "1M..1M", "x..1M", "-1..4", "1Q..", "99999999999999999999.."] {
        assert_eq!(
            error(&format!("\nsize={bad} -> 1")),
            format!(
                "line 2: '{bad}' are no sizes; write FROM..TO with one or both, as in 16M..64M (from 16 MiB to less \
                 than 64 MiB)"
            )
        );
    }
    assert!(error("size=1M.. size=2M.. -> 1").starts_with("line 1: 'size' is given twice"));
}

#[test]
fn unknown_things_match_no_condition() {
    let rules = Rules::parse("name=** -> 1\ncomm=* -> 2\n* -> 3").expect("valid");
    let nothing = Subject { kind: Kind::Data, file: None, context: None, size: None };
    assert_eq!(rules.stream_of(nothing), Some(3));
    assert_eq!(stream(&rules, "", Kind::Data, None), Some(3), "a file without a name");
    let generated = Some(("hot", "", Unwind::Label));
    assert_eq!(stream(&rules, "", Kind::Data, generated), Some(3), "a context without a thread");
    assert_eq!(Rules::parse("").expect("valid").stream_of(nothing), None);
}

#[test]
fn a_byte_order_mark_is_no_part_of_the_first_rule() {
    let rules = Rules::parse("\u{feff}name=*.log -> 1\r\n").expect("valid");
    assert_eq!(stream(&rules, "/a.log", Kind::Data, None), Some(1));
}

#[test]
fn errors_name_line_value_and_remedy() {
    assert_eq!(
        error("kind=data -> 1\nname=*.log 2"),
        "line 2: 'name=*.log 2' has no '->'; write CONDITIONS -> STREAM, as in 'name=*.log -> 2'"
    );
    assert_eq!(
        error("-> 3"),
        "line 1: no condition before '->'; write one such as 'kind=journal', or '*' for every write"
    );
    for (text, found) in
        [("* -> x", "x"), ("* -> 256", "256"), ("* ->", ""), ("* -> 1 2", "1 2"), ("* -> -1", "-1")]
    {
        let expected = format!("line 1: '{found}' is not a stream; write a number from 0 to 255 after '->'");
        assert_eq!(error(text), expected);
    }
    assert_eq!(
        error("\n\npth=/a -> 1"),
        "line 3: 'pth=/a' is not a condition; write FIELD=VALUE with a field of path, name, kind, \
         executable, comm, label, size (did you mean path?)"
    );
    assert!(error("path -> 1").starts_with("line 1: 'path' is not a condition"));
    assert!(error("path= -> 1").starts_with("line 1: 'path=' is not a condition"));
    assert_eq!(
        error("kind=log -> 1"),
        "line 1: 'log' is not a kind; the kinds are data, journal, inode, directory, bitmap, other"
    );
    assert!(error("name=a name=b -> 1").starts_with("line 1: 'name' is given twice"));
    assert!(error("kind=data kind=data -> 1").starts_with("line 1: 'kind' is given twice"));
    let long = error(&format!("* -> 0\nname={} -> 1", "?".repeat(200_000)));
    assert!(
        long.starts_with("line 2: the pattern of 'name' has 200000 bytes, expected at most 4096"),
        "{long}"
    );
    assert!(error("name=a[ -> 1").starts_with("line 1: 'a[' is not a glob ("));
    assert_eq!(error("name=\"a -> 1"), "line 1: a double quote is not closed; close it on the same line");
}

#[test]
fn every_preset_parses_and_an_unknown_one_gets_its_neighbours() {
    for (name, _) in Rules::presets() {
        let rules = Rules::preset(name).expect(name);
        assert_eq!(rules.rules().is_empty(), name == "cassandra-normal", "{name}");
    }
    let error = Rules::preset("rockdb").expect_err("unknown").to_string();
    assert!(error.starts_with("no preset is called 'rockdb' (did you mean rocksdb?)"), "{error}");
}

#[test]
fn presets_know_the_classes_of_every_generator() {
    let many = BTreeMap::from([("classes".to_owned(), 20.0), ("file-pages".to_owned(), 16.0)]);
    let none = BTreeMap::new();
    for (generator, options) in [("hotcold", &none), ("zipf", &none), ("files", &none), ("files", &many)] {
        let common = Common { pages: 1 << 16, writes: 1, seed: 1 };
        let generated = generate(generator, common, options).expect(generator);
        let contexts: Vec<Context> = generated.flat_map(|batch| batch.contexts).collect();
        assert!(contexts.len() > 1, "{generator}");
        for (preset, last) in [("classes", 16), ("common", 8)] {
            let rules = Rules::preset(preset).expect(preset);
            for (class, context) in (1u8..).zip(&contexts) {
                let subject = Subject { kind: Kind::Data, file: None, context: Some(context), size: None };
                assert_eq!(
                    rules.stream_of(subject),
                    Some(class.min(last)),
                    "{preset}: {}",
                    context.executable
                );
            }
        }
    }
}

#[test]
fn presets_separate_what_the_path_and_the_thread_tell() {
    let of = |preset, path, comm| {
        let rules = Rules::preset(preset).expect(preset);
        stream(&rules, path, Kind::Data, Some(("/usr/bin/x", comm, Unwind::Scan)))
    };
    for preset in ["rocksdb", "common"] {
        let streams = [
            of(preset, "/db/000012.log", "db_bench"),
            of(preset, "/db/000013.sst", "rocksdb:high"),
            of(preset, "/db/000013.sst", "rocksdb:low"),
            of(preset, "/db/MANIFEST-000004", "db_bench"),
            of(preset, "/db/LOG", "db_bench"),
        ];
        assert_eq!(streams[3], streams[4]);
        let mut distinct: Vec<_> = streams[..4].iter().map(|s| s.expect("matched")).collect();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), 4, "{preset}: {streams:?}");
    }
    assert_ne!(of("sqlite", "/a.db-journal", ""), of("sqlite", "/a.db", ""));
    assert_ne!(of("gcc", "/tmp/ccX.s", "cc1"), of("gcc", "/b/x.o", "as"));
    assert_ne!(of("gcc", "/b/x.o", "as"), of("gcc", "/b/vmlinux", "ld"));
}

/// HotStorage'14, Table 1: the commit log and three tiers of SSTables, four streams beside the default.
#[test]
fn tiers_of_cassandra_are_known_by_thread_and_size() {
    let rules = Rules::preset("cassandra-multi-data").expect("a preset");
    let of = |path, kind, comm: &str, mib: u64| {
        let (file, context) = (file(path), Context { comm: comm.to_owned(), ..Context::default() });
        let subject = Subject { kind, file: Some(&file), context: Some(&context), size: Some(mib << 20) };
        rules.stream_of(subject)
    };
    let table = "/c/nb-1-big-Data.db";
    let streams = [
        of("/c/commitlog/CommitLog-7-1.log", Kind::Data, "x", 32),
        of(table, Kind::Data, "MemtableFlushWr", 16),
        of(table, Kind::Data, "CompactionExecu", 1),
        of(table, Kind::Data, "CompactionExecu", 200),
    ];
    assert_eq!(streams, [Some(1), Some(2), Some(3), Some(4)]);
}

#[test]
fn errors_show_the_beginning_of_what_is_long() {
    let long = "x".repeat(20_000);
    for text in [
        long.clone(),
        format!("* -> {long}"),
        format!("{long} -> 2"),
        format!("kind={long} -> 2"),
        format!("size={long} -> 2"),
    ] {
        let error = error(&text);
        assert!(error.len() < 400 && error.contains(" ... (20000 characters in all)"), "{error}");
    }
}
