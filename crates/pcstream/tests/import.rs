//! `pcstream import` as scripts see it.

mod common;

use std::fs;
use std::path::Path;

use assert_cmd::Command;
use common::{ends_with, json, refuses, text};
use serde_json::Value;
use tempfile::TempDir;

const MSR: &str = "128166372003061629,hm,1,Read,383496192,32768,413\n\
                   128166372016382155,hm,1,Write,2822144,4096,552\n\
                   128166372016382150,hm,1,Write,2824704,512,1\n\
                   128166372026382245,hm,1,Write,8192,0,1\n";

/// A place for inputs and traces.
struct Desk(TempDir);

impl Desk {
    fn new() -> Desk {
        Desk(TempDir::new().expect("a temporary directory"))
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().expect("UTF-8").to_owned()
    }

    fn input(&self, contents: impl AsRef<[u8]>) -> String {
        let path = self.path("input");
        fs::write(&path, contents).expect("a file can be written");
        path
    }

    fn meta(&self, trace: &str) -> Value {
        let meta = fs::read_to_string(self.0.path().join(trace).join("meta.json")).expect("meta.json");
        serde_json::from_str(&meta).expect("JSON")
    }

    /// Imports into `t.pctrace` and returns what was said.
    #[track_caller]
    fn imports(&self, code: i32, format: &str, contents: impl AsRef<[u8]>, flags: &[&str]) -> String {
        let (input, output) = (self.input(contents), self.path("t.pctrace"));
        let (out, err) =
            ends_with(code, &[&["import", "--format", format, &input, "-o", &output], flags].concat());
        assert!(out.is_empty(), "nothing but results on stdout: {out}");
        err
    }

    /// Expects a refusal that leaves no trace behind.
    #[track_caller]
    fn refuses(&self, code: i32, format: &str, contents: impl AsRef<[u8]>, flags: &[&str], words: &[&str]) {
        let (input, output) = (self.input(contents), self.path("refused.pctrace"));
        refuses(code, &[&["import", "--format", format, &input, "-o", &output], flags].concat(), words);
        assert!(!Path::new(&output).exists() && !Path::new(&format!("{output}.partial")).exists());
    }

    /// The trace as `simulate` sees it.
    fn simulated(&self, code: i32) -> Value {
        let trace = self.path("t.pctrace");
        let (out, _) =
            ends_with(code, &["simulate", &trace, "--scheme", "baseline", "--streams", "1", "--json", "-"]);
        serde_json::from_str(&out).expect("JSON")
    }
}

/// Lines that hold no request are none that were lost, but whoever expects some should know.
#[test]
fn lines_without_a_request_are_said() {
    let desk = Desk::new();
    let input = desk.input("0 1 0 4096\n1 2 0 4096\n2 2 0 4096\n");
    let (_, said) = ends_with(0, &["import", "--format", "midas", &input, "-o", &desk.path("t.pctrace")]);
    assert!(said.contains("lines without a request, left out: 2"), "{said}");
    let one = |format: &str, lines: &str| {
        let input = desk.input(lines);
        let words = ["import", "--format", format, &input, "--force", "-o", &desk.path("t.pctrace")];
        let (_, said) = ends_with(0, &words);
        said.contains("lines without a request, left out: 1")
    };
    assert!(one("midas", "0 1 0 4096\n1 2 0 4096\n"), "one is as lost as two");
    assert!(!one("midas", "0 1 0 4096\n\n"), "an empty line is none");
    assert!(!one("alibaba", "device_id,opcode,offset,length,timestamp\n1,W,0,4096,0\n"), "nor a heading");
    assert!(!one("columns", "# 1\ntime,op,offset,size\n0,W,0,4096\n"), "nor a comment");
}

#[test]
fn an_import_can_be_simulated() {
    let desk = Desk::new();
    let said = desk.imports(0, "msr", MSR, &["--size", "1G", "--assume-filled"]);
    for words in [
        "writes 2 (66.7 %), reads 1 (33.3 %), discards 0 (0 %)",
        "earlier than the one before them, which were given its time: 1",
        "requests of 0 bytes, left out: 1",
        "8.00 KiB written to a device of 1.00 GiB",
    ] {
        assert!(said.contains(words), "expected {words:?} in\n{said}");
    }
    let simulation = desk.simulated(0);
    let trace = &simulation["trace"];
    assert_eq!(
        (&trace["events"], &trace["host_pages"], &trace["read_pages"]),
        (&3.into(), &2.into(), &8.into())
    );
    assert_eq!(trace["context_coverage"], 0.0);
    assert_eq!(simulation["device"]["prefill_pages"], 1 << 18);
    let meta = desk.meta("t.pctrace");
    assert_eq!(meta["device"]["name"], "imported msr hm_1");
    assert_eq!(meta["losses"], serde_json::json!({"events": 0, "bad_lines": 0}));
    let settings = &meta["settings"];
    for (name, value) in [("lines", 4), ("other_lines", 0), ("zero_length", 1), ("clamped_times", 1)] {
        assert_eq!(settings[name], value, "{name}");
    }
    assert_eq!((settings["format"].as_str(), settings["input"].as_str()), (Some("msr"), Some("input")));
    assert_eq!(
        (settings["volume"].as_str(), settings["assume_filled"].as_bool()),
        (Some("hm_1"), Some(true))
    );
}

#[test]
fn the_size_comes_from_the_requests_unless_given() {
    let desk = Desk::new();
    let said = desk.imports(0, "alibaba", "1,W,1048576,4096,0\n", &[]);
    assert!(said.contains("to a device of 2.00 MiB"), "{said}");
    let meta = desk.meta("t.pctrace");
    assert_eq!((&meta["device"]["pages"], &meta["prefilled"]), (&512.into(), &serde_json::json!([])));
    let size = ["--size", "1M"];
    desk.refuses(
        1,
        "alibaba",
        "1,W,0,4096,0\n1,W,1048576,4096,0\n",
        &size,
        &["input, line 2", "larger --size"],
    );
    desk.refuses(2, "alibaba", "1,W,0,4096,0\n", &["--size", "65537T"], &["64 PiB"]);
    desk.refuses(2, "alibaba", "1,W,0,4096,0\n", &["--size", "0"], &["--size"]);
}

#[test]
fn tags_become_contexts() {
    let desk = Desk::new();
    let lines = "8,0 1 1 0.000001 7 D W 8 + 8 [kworker/0:1]\n8,0 1 2 0.5 7 D W 16 + 16 [jbd2]\n\
                 8,0 1 3 0.6 7 Q W 800 + 8 [x]\nCPU0 (8,0):\n";
    desk.imports(0, "blkparse", lines, &[]);
    let trace = desk.path("t.pctrace");
    let contexts = json(&["contexts", &trace, "--json", "-"]);
    let named: Vec<_> =
        contexts["contexts"].as_array().unwrap().iter().map(|c| c["executable"].as_str()).collect();
    assert_eq!(named, [Some("jbd2"), Some("kworker/0:1")]);
    // A process's name is no path.
    for flags in [&[][..], &["--by", "program"], &["--by", "thread"]] {
        let (table, _) = ends_with(0, &[&["contexts", &trace][..], flags].concat());
        assert!(table.contains(" kworker/0:1"), "{flags:?}: {table}");
    }
    assert_eq!(contexts["trace"]["context_coverage"], 1.0);
    assert_eq!(desk.meta("t.pctrace")["settings"]["action"], "D");
    desk.imports(0, "blkparse", lines, &["--action", "Q", "--force"]);
    assert_eq!(desk.simulated(0)["trace"]["host_pages"], 1);
}

#[test]
fn standard_input_is_read() {
    let desk = Desk::new();
    let run = |input: &[u8]| {
        let output = desk.path("t.pctrace");
        let mut command = Command::cargo_bin("pcstream").expect("the binary is built");
        command.args(["import", "--format", "msr", "-", "-o", &output, "--force"]);
        command.write_stdin(input).output().expect("it runs")
    };
    let good = run(MSR.as_bytes());
    assert_eq!(good.status.code(), Some(0), "{}", text(&good.stderr));
    assert_eq!(desk.simulated(0)["trace"]["host_pages"], 2);
    assert_eq!(desk.meta("t.pctrace")["settings"]["input"], "-");
    for (input, words) in [
        (&b"1,hm,0,Read,0\n"[..], "standard input, line 1, \"1,hm,0,Read,0\""),
        (b"\x1f\x8b\x08\0", "is compressed (gzip), expected text; use `zcat FILE |"),
        (b"", "standard input: no request to import (lines read: 0)"),
        (b"\n", "no request to import (lines read: 1)"),
    ] {
        let bad = run(input);
        assert_eq!(bad.status.code(), Some(1));
        assert!(text(&bad.stderr).contains(words), "expected {words:?} in\n{}", text(&bad.stderr));
    }
    assert_eq!(desk.simulated(0)["trace"]["host_pages"], 2, "a failed import replaces nothing");
}

#[test]
fn several_volumes_need_a_choice() {
    let desk = Desk::new();
    let lines = "7,W,0,4096,1\n7,W,0,4096,2\n8,W,4096,8192,3\n9,W,4096,4096,4\n8,W,0,4096,5\n8,W,0,4096,6\n";
    let words = [
        "input, line 3",
        "first 6 lines",
        "\"8\" (3 requests), \"7\" (2 requests), \"9\" (1 request)",
        "--volume",
    ];
    desk.refuses(1, "alibaba", lines, &[], &words);
    desk.refuses(1, "alibaba", lines, &["--skip-bad-lines"], &words);
    desk.refuses(1, "alibaba", lines, &["--volume", "6"], &["no request to import", "\"8\" (3 requests)"]);
    desk.refuses(2, "midas", "0 1 0 4096\n", &["--volume", "6"], &["--volume", "midas has no column"]);
    let said = desk.imports(0, "alibaba", lines, &["--volume", "8"]);
    assert!(said.contains("requests of other volumes, left out: 3"), "{said}");
    assert_eq!(desk.simulated(0)["trace"]["host_pages"], 4);
}

#[test]
fn bad_lines_end_the_import_or_are_counted() {
    let desk = Desk::new();
    let lines = "1,W,0,4096,1\n1,\tX\x1b,0,4096,2\n1,W,4096,4096,3\n1,W\n";
    let words = [
        r#"input, line 2, "1,\tX\u{1b},0,4096,2": opcode: found "X\u{1b}""#,
        "expected R (read) or W (write)",
        "--skip-bad-lines",
    ];
    desk.refuses(1, "alibaba", lines, &[], &words);
    let said = desk.imports(3, "alibaba", lines, &["--skip-bad-lines"]);
    assert!(said.contains("bad lines, left out: 2; the first: ") && said.contains("line 2"), "{said}");
    assert_eq!(desk.meta("t.pctrace")["losses"]["bad_lines"], 2);
    let simulation = desk.simulated(3);
    assert_eq!(
        (&simulation["trace"]["host_pages"], &simulation["trace"]["lost_events"]),
        (&2.into(), &2.into())
    );
    desk.refuses(
        1,
        "alibaba",
        "x\n",
        &["--skip-bad-lines"],
        &["bad lines skipped: 1, the first", "found 1 column"],
    );
}

/// A time of 0 before real ones would make a trace that nothing can read.
#[test]
fn times_further_apart_than_any_trace_are_bad_lines() {
    let desk = Desk::new();
    let lines = "0,hm,1,Write,0,4096,1\n128166372003061629,hm,1,Write,4096,4096,413\n";
    let words = ["input, line 2", "time: found 12816637200306162900 ns", "the first request has 0 ns"];
    desk.refuses(1, "msr", lines, &[], &words);
    desk.imports(3, "msr", lines, &["--skip-bad-lines"]);
    assert_eq!(desk.simulated(3)["trace"]["host_pages"], 1);
}

#[test]
fn lines_that_are_no_text_are_bad_lines() {
    let desk = Desk::new();
    let good = b"1,W,0,4096,1\n";
    let long = [&good[..], &[b'1'; 300_000], b"\n", good].concat();
    desk.refuses(1, "alibaba", &long, &[], &["line 2", "1111\"...", "more than 65536 bytes"]);
    desk.refuses(1, "alibaba", [b'x'; 70_000], &[], &["line 1", "more than 65536 bytes"]);
    desk.refuses(1, "alibaba", b"1,W\xff,0\n", &[], &["line 1", "byte 0xff at column 4", "not UTF-8"]);
    desk.imports(3, "alibaba", &long, &["--skip-bad-lines"]);
    assert_eq!(desk.simulated(3)["trace"]["host_pages"], 2, "the lines around it are whole");
    let largest = [&[b' '; 65_524][..], &good[..12], b"\r\n1,W,0,4096,2"].concat();
    desk.refuses(1, "alibaba", &largest, &[], &["line 1", "more than 65536 bytes"]);
    desk.imports(0, "alibaba", &largest[1..], &["--force"]);
    assert_eq!(desk.simulated(0)["trace"]["host_pages"], 2);
}

#[test]
fn inputs_that_are_no_trace_are_refused() {
    let desk = Desk::new();
    for (magic, words) in [
        (&[0x1f, 0x8b, 8][..], "`zcat /"),
        (&[0x28, 0xb5, 0x2f, 0xfd, 0], "`zstdcat /"),
        (b"\xfd7zXZ\0.", "xz"),
        (b"\x04\x22\x4d\x18", "lz4"),
        (b"BZh9", "`bzcat"),
        (b"PK\x03\x04", "`unzip -p"),
    ] {
        desk.refuses(1, "msr", magic, &[], &["is compressed", words, "--format msr -"]);
    }
    let spaced = desk.path("it's mine.gz");
    fs::write(&spaced, b"\x1f\x8b\x08\0").unwrap();
    let quoted = format!("use `zcat '{}' |", spaced.replace('\'', r"'\''"));
    refuses(1, &["import", "--format", "msr", &spaced, "-o", &desk.path("t.pctrace")], &[&quoted]);
    let output = desk.path("t.pctrace");
    let import = |input: &str, words: &[&str]| {
        refuses(1, &["import", "--format", "msr", input, "-o", &output], words);
    };
    import(&desk.path("missing"), &["missing: cannot read", "No such file"]);
    import(&desk.path(""), &["is a directory"]);
    import("/dev/zero", &["/dev/zero, line 1", "more than 65536 bytes"]);
    desk.refuses(1, "blkparse", "text\n", &[], &["no request to import (lines read: 1)", "--action"]);
    desk.refuses(1, "fio", "/dev/sda write 0 4096\n", &[], &["fio version 3 iolog"]);
    desk.imports(0, "msr", MSR, &[]);
    let input = desk.input(MSR);
    import(&input, &["t.pctrace", "exists"]);
}

#[test]
fn a_trace_without_writes_is_suspicious() {
    let desk = Desk::new();
    let said = desk.imports(0, "mqsim", "0 0 0 8 1\n", &[]);
    assert!(said.contains("not a single write") && said.contains("(0 write, 1 read)"), "{said}");
}

/// The example of docs/importing.md.
#[test]
fn a_table_of_ones_own_is_imported_by_its_columns() {
    let desk = Desk::new();
    let table = "started,op,LBA,n\n10.5,write,16,8\n10.75,read,16,8\n11,trim,16,8\n";
    let chosen = "time=started,op=op,offset:sectors=LBA,size:sectors=n";
    let said = desk.imports(0, "columns", table, &["--columns", chosen]);
    assert!(said.contains("writes 1 (33.3 %), reads 1 (33.3 %), discards 1 (33.3 %)"), "{said}");
    assert_eq!(desk.meta("t.pctrace")["settings"]["columns"], chosen);
    let wrong = ["input, line 2, \"10.5,write,16,8\"", "op: found \"write\"", "0 (read) or 1 (write)"];
    desk.refuses(1, "columns", table, &["--columns", &chosen.replace("op=", "op:r0w1=")], &wrong);
    let heading = ["input, line 1", "a heading with the columns time=when"];
    desk.refuses(1, "columns", table, &["--columns", &chosen.replace("started", "when")], &heading);
    desk.refuses(2, "columns", table, &["--columns", "time=0"], &["--columns no column for op"]);
    desk.refuses(2, "msr", MSR, &["--columns", chosen], &["--columns", "an option of columns"]);
}

#[test]
fn a_table_may_have_files_and_hints() {
    let desk = Desk::new();
    let table = "time,op,offset,size,name,hint\n0,W,0,8192,db/1.log,SHORT\n1,W,8192,4096,db/2.sst,5\n\
                 2,R,0,4096,,\n3,W,16384,4096,,\n";
    let chosen = "time=time,op=op,offset=offset,size=size,file=name,hint=hint";
    desk.imports(0, "columns", table, &["--columns", chosen]);
    let rules = desk.path("my.rules");
    fs::write(&rules, "path=/db/*.log -> 1\n").unwrap();
    let facts = |flags: &[&str]| {
        let trace = desk.path("t.pctrace");
        let asked = ["simulate", &trace, "--gc", "own", "--json", "-", "--scheme"];
        json(&[&asked[..], flags].concat())["results"][0]["facts"].clone()
    };
    assert_eq!(facts(&["hints"])["pages_hinted"], 3);
    assert_eq!(facts(&["manual", "--rules", &rules])["pages_off_default"], 2);
    let wrong = ["input, line 2", "hint: found \"SOON\"", "extreme, or their numbers from 0 to 5"];
    desk.refuses(1, "columns", table.replace("SHORT", "SOON"), &["--columns", chosen], &wrong);
}

#[test]
fn wrong_arguments_end_with_2() {
    let desk = Desk::new();
    desk.refuses(2, "blkprse", "", &[], &["'blkprse'", "did you mean blkparse?"]);
    desk.refuses(2, "msr", MSR, &["--wait-unit", "ms"], &["--wait-unit", "an option of fio"]);
    desk.refuses(2, "fio", "", &["--wait-unit", "s"], &["--wait-unit", "us", "ms"]);
    refuses(2, &["import", "--format", "msr", "x"], &["--output"]);
    refuses(2, &["import", "x", "-o", "y"], &["--format"]);
}

#[test]
fn help_lists_every_format() {
    let (help, _) = ends_with(0, &["import", "--help"]);
    for format in pcstream_trace::import::FORMATS {
        let listed = help.lines().any(|line| line.trim_start().starts_with(&format!("{} ", format.name)));
        assert!(listed, "{}:\n{help}", format.name);
        format.options.iter().for_each(|option| assert!(help.contains(&format!("--{}", option.name))));
    }
    assert!(help.contains("Examples:"), "{help}");
}

/// docs/importing.md has a row for every format, and docs/commands/trace-tools.md names every option.
#[test]
fn the_documents_name_every_format() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let importing = fs::read_to_string(docs.join("importing.md")).expect("docs/importing.md");
    let commands = fs::read_to_string(docs.join("commands/trace-tools.md")).expect("the page of import");
    for format in pcstream_trace::import::FORMATS {
        let name = format.name;
        assert!(importing.contains(&format!("| `{name}` |")), "docs/importing.md has no row for `{name}`");
        for option in format.options {
            let flag = format!("--{}", option.name);
            assert!(commands.contains(&flag), "docs/commands/trace-tools.md does not name {flag} of {name}");
        }
    }
}

/// A trace without contexts shows what streams by address save; of streams by call path it says nothing.
#[test]
fn nothing_is_said_of_schemes_that_an_import_cannot_show() {
    let desk = Desk::new();
    let mut page = 1u64;
    let lines: String = (0..40_000)
        .map(|time| {
            page = page.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let among = if time % 5 == 0 { 8192 } else { 256 };
            format!("1,W,{},4096,{time}\n", (page >> 33) % among * 4096)
        })
        .collect();
    desk.imports(0, "alibaba", lines, &["--assume-filled", "--size", "32M"]);
    let trace = desk.path("t.pctrace");
    let verdict =
        |schemes: &str| json(&["simulate", &trace, "--scheme", schemes, "--json", "-"])["verdict"].clone();
    let no_context = "No write of this trace has a program context";

    let blind = verdict("baseline,pcstream,manual");
    assert!(blind["with_streams"].is_null() && blind["real_writes"].is_null(), "{blind}");
    assert_eq!(blind["matters"], "unknown", "{blind}");
    let sentences = blind["sentences"].to_string();
    assert!(sentences.contains(no_context) && sentences.contains("Add autostream-sfr"), "{sentences}");

    let by_address = verdict("baseline,pcstream,autostream-sfr");
    assert_eq!(by_address["with_streams"]["scheme"], "autostream-sfr", "{by_address}");
    let sentences = by_address["sentences"].to_string();
    assert!(sentences.contains(no_context) && !sentences.contains("pcstream place"), "{sentences}");

    let advice = json(&["advise", &trace, "--json", "-"]);
    assert!(!advice["changes"].to_string().contains("by program context"), "{advice}");
    assert!(advice["remarks"].to_string().contains(no_context), "{advice}");
}

/// One time that is far too late takes the times of all that come after it.
#[test]
fn an_import_says_that_its_times_are_worth_nothing() {
    let desk = Desk::new();
    let late = "1,W,0,4096,0\n1,W,0,4096,10000000000000\n1,W,0,4096,1\n1,W,0,4096,2\n";
    let said = desk.imports(0, "alibaba", late, &[]);
    let times = "given its time: 2\npcstream: one of them by > 99.9 % of the whole time: rates a day";
    assert!(said.contains(times), "{said}");
    let early = "1,W,0,4096,0\n1,W,0,4096,10000000\n1,W,0,4096,9999990\n";
    let said = desk.imports(0, "alibaba", early, &["--force"]);
    assert!(said.contains("given its time: 1") && !said.contains("rates a day"), "{said}");
}

#[test]
fn volumes_are_listed_before_one_is_chosen() {
    let desk = Desk::new();
    let input =
        desk.input("device_id,opcode,offset,length,timestamp\n7,W,0,4096,0\n9,W,0,4096,1\n9,R,0,4096,2\n");
    let list = ["import", "--format", "alibaba", &input, "--list-volumes"];
    let (listed, _) = ends_with(0, &list);
    let rows: Vec<Vec<&str>> = listed.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[1..], [["2", "66.7", "%", "9"], ["1", "33.3", "%", "7"]], "{listed}");
    desk.input("7,W,0,4096,0\nwhat\n");
    assert!(ends_with(3, &list).1.contains("bad lines, left out: 1"));
    desk.input("7,W,zz,4096,0\n7,W,0,4096,1\n");
    assert!(
        ends_with(3, &list).1.contains("bad lines, left out: 1"),
        "a first line with digits is no heading"
    );
    refuses(2, &["import", "--format", "alibaba", &input], &["--output"]);
}

/// What was made of the requests is said: parts of pages became pages, and the device is taken as empty.
#[test]
fn an_import_says_what_it_took_for_granted() {
    let desk = Desk::new();
    let heading = "\u{feff}device_id,opcode,offset,length,timestamp\r\n";
    let lines = format!("{heading}1,W,512,4096,0\r\n1,W,8192,4096,1\r\n");
    let said = desk.imports(0, "alibaba", &lines, &[]);
    let partial = "within a page of 4 KiB: 1 (50.0 % of the writes); all writes ask for 8.00 KiB";
    assert!(said.contains(partial) && said.contains("pages that they touch are 12.0 KiB"), "{said}");
    assert!(said.contains("--assume-filled takes it as full"), "{said}");
    let settings = &desk.meta("t.pctrace")["settings"];
    assert_eq!((&settings["partial_writes"], &settings["written_bytes"]), (&1.into(), &8192.into()));
    let said = desk.imports(0, "alibaba", "1,W,0,4096,0", &["--force", "--assume-filled"]);
    assert!(!said.contains("within a page") && !said.contains("as empty"), "{said}");
}
