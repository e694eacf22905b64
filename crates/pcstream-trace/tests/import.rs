//! Importers against any input: no bytes make one panic or hang, and requests written in a format's
//! own syntax come back as the events that they mean.

use pcstream_trace::import::{FORMATS, Format, Importer, MAX_PAGES, Settings, find};
use pcstream_trace::*;
use proptest::prelude::*;
use proptest::sample::select;

/// Imports what can be imported and checks that every event is one that a trace may hold.
fn import_all<L: AsRef<[u8]>>(format: &'static Format, lines: impl IntoIterator<Item = L>) -> Vec<Event> {
    let mut importer = Importer::new(Settings::new(format)).unwrap();
    let mut events = Vec::new();
    let mut contexts = 0;
    for line in lines {
        // A bad line says what was found and expected; a second volume says what to do.
        if let Err(error) = importer.line(line.as_ref()) {
            let message = error.to_string();
            assert!(message.contains("expected") || message.contains("--volume"), "{message}");
            assert!(message.len() < 2000, "{message}");
        }
        let batch = importer.take_batch();
        contexts += batch.contexts.len();
        assert!(batch.events.iter().all(|e| e.context.0 as usize <= contexts), "contexts come first");
        events.extend(batch.events);
    }
    let mut meta = importer.meta();
    importer.complete(&mut meta);
    assert_eq!(meta.check(), Ok(()));
    assert!(events.is_sorted_by_key(|e| e.time_ns), "time never goes back");
    for event in &events {
        assert_eq!(event.pages == 0, event.op == Op::Flush);
        assert!(event.lba.0 + u64::from(event.pages) <= meta.device.pages);
    }
    assert!(meta.device.pages <= MAX_PAGES);
    let counts = importer.counts();
    let other = counts.other_lines
        + counts.bad_lines
        + counts.zero_length
        + counts.short_discards
        + counts.other_volumes;
    assert!(counts.requests() + other <= counts.lines);
    events
}

/// Pieces of lines of all formats, and what breaks parsers.
fn piece() -> impl Strategy<Value = String> {
    let usual = select(vec![
        "0",
        "1",
        "8",
        "512",
        "4096",
        "18446744073709551615",
        "184467440737095517",
        "36028797018963968",
        "72057594037927936",
        "-1",
        "1.5",
        "1e9",
        "0.000000001",
        "18446744073.709551616",
        ".",
        "R",
        "W",
        "r",
        "Read",
        "Write",
        "D",
        "Q",
        "N",
        "F",
        "FN",
        "FWFS",
        "+",
        "[sh]",
        "[",
        "]",
        "(12 00)",
        "8,0",
        "8,",
        "hm",
        "read",
        "write",
        "trim",
        "sync",
        "wait",
        "add",
        "Timestamp",
        "time",
        "op",
        "offset",
        "size",
        "\"",
        "#",
        "",
        "\u{1f600}",
        "\u{661}",
        "\0",
        "\r",
    ]);
    prop_oneof![9 => usual.prop_map(str::to_owned), 1 => any::<String>()]
}

fn likely_line() -> impl Strategy<Value = String> {
    let pieces = proptest::collection::vec(piece(), 0..10);
    let line =
        (pieces, select(vec![",", " ", "\t", ";"])).prop_map(|(pieces, separator)| pieces.join(separator));
    let headers = ["fio version 2 iolog", "fio version 3 iolog", "time,op,offset,size"];
    let header = select(headers.map(str::to_owned).to_vec());
    prop_oneof![9 => line, 1 => header]
}

proptest! {
    #[test]
    fn no_bytes_are_too_much(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        for format in FORMATS {
            import_all(format, bytes.split(|b| *b == b'\n'));
        }
    }

    #[test]
    fn no_line_is_too_much(lines in proptest::collection::vec(likely_line(), 0..20)) {
        for format in FORMATS {
            import_all(format, &lines);
        }
    }

    /// A good line with a byte changed, lost or doubled.
    #[test]
    fn no_slip_is_too_much(which in 0..SAMPLES.len(), at in any::<prop::sample::Index>(), byte in any::<u8>(), kind in 0..3) {
        let (name, before, line) = SAMPLES[which];
        let mut bytes = line.as_bytes().to_vec();
        let at = at.index(bytes.len());
        match kind {
            0 => bytes[at] = byte,
            1 => _ = bytes.remove(at),
            _ => bytes.insert(at, byte),
        }
        import_all(find(name).unwrap(), [before.as_bytes(), &bytes]);
    }
}

/// Format, a line that must come first, a line.
const SAMPLES: &[(&str, &str, &str)] = &[
    ("msr", "", "128166372003061629,hm,1,Read,383496192,32768,413"),
    ("alibaba", "", "3,W,5496832,4096,1577808000000372"),
    ("tencent", "", "1538323200,12910952,128,0,1063"),
    ("systor17", "", "1455592509.130265951,0.004178,R,2,21491712,8192"),
    ("fiu", "", "89967404388475 4892 syslogd 904265560 8 W 6 0 531e779b"),
    ("blkparse", "", "  8,0    3        5     0.000005000    35  D   W 223490 + 8 [kworker/0:1H]"),
    ("fio", "fio version 2 iolog", "/dev/sda trim 8192 4096"),
    ("fio", "fio version 3 iolog", "878 Nvme1n1 write 0 16384"),
    ("mqsim", "", "4389000 0 4607 16 1"),
    ("midas", "", "0.146559796 1 0 4096 3"),
    ("spc", "", "0,303567,3584,w,0.000000"),
    ("columns", "time,op,offset,size", "0.5,W,4096,8192"),
];

#[test]
fn every_format_has_a_sample_that_is_a_request() {
    for Format { name, .. } in FORMATS {
        let sample = SAMPLES.iter().any(|(of, ..)| of == name);
        let writer = WRITERS.iter().any(|writer| writer.name == *name);
        assert!(sample && writer, "{name}: a line in SAMPLES ({sample}) and an entry in WRITERS ({writer})");
    }
    for &(name, before, line) in SAMPLES {
        assert_eq!(import_all(find(name).unwrap(), [before, line]).len(), 1, "{name}");
    }
}

#[test]
fn names_and_options_are_unique() {
    let mut names: Vec<&str> = FORMATS.iter().map(|f| f.name).collect();
    let mut options: Vec<&str> = FORMATS.iter().flat_map(|f| f.options).map(|o| o.name).collect();
    let (known_names, known_options) = (names.len(), options.len());
    names.sort_unstable();
    names.dedup();
    options.sort_unstable();
    options.dedup();
    assert_eq!((names.len(), options.len()), (known_names, known_options));
    assert!(FORMATS.iter().flat_map(|f| f.options).all(|o| !o.choices.is_empty()));
}

/// A request in the units that formats use: time in microseconds, address and length in sectors.
#[derive(Clone, Copy, Debug)]
struct Request {
    after_us: u64,
    op: Op,
    sector: u64,
    sectors: u64,
    tag: usize,
}

const TAGS: [&str; 3] = ["jbd2/sda1-8", "Web Content", "kworker/0:1H"];

fn requests() -> impl Strategy<Value = Vec<Request>> {
    let request = (0..10_000_000u64, select(ALL_OPS), 0..1u64 << 30, 1..5000u64, 0..TAGS.len());
    let request = request.prop_map(|(after_us, op, sector, sectors, tag)| Request {
        after_us,
        op,
        sector,
        sectors,
        tag,
    });
    proptest::collection::vec(request, 1..50)
}

/// What the requests mean, computed page by page boundary instead of by division.
fn expected(requests: &[Request], tagged: bool) -> Vec<Event> {
    let mut seen = Vec::new();
    let (mut now_ns, mut first_ns) = (0, None);
    let event = |r: &Request| {
        now_ns += r.after_us * 1000;
        let touched = r.sector >> 3..(r.sector + r.sectors).div_ceil(8);
        // Data beside what is discarded of a page stays.
        let whole = r.sector.div_ceil(8)..(r.sector + r.sectors) >> 3;
        let pages = if r.op == Op::Discard { whole } else { touched };
        if pages.is_empty() && r.op != Op::Flush {
            return None;
        }
        let mut context = ContextId::NONE;
        if tagged && r.op == Op::Write {
            if !seen.contains(&r.tag) {
                seen.push(r.tag);
            }
            context = ContextId(seen.iter().position(|t| *t == r.tag).unwrap() as u32 + 1);
        }
        let flush = r.op == Op::Flush;
        Some(Event {
            time_ns: now_ns - *first_ns.get_or_insert(now_ns),
            lba: if flush { Lba(0) } else { Lba(pages.start) },
            pages: if flush { 0 } else { pages.count() as u32 },
            context,
            file: FileId::NONE,
            file_page: 0,
            op: r.op,
            kind: Kind::Data,
            hint: Default::default(),
        })
    };
    requests.iter().filter_map(event).collect()
}

/// How a format writes requests.
struct Writer {
    name: &'static str,
    /// Its operations. Another one is taken for the first.
    ops: &'static [Op],
    /// Whether writes have a context.
    tagged: bool,
    /// Lines that come first.
    before: &'static [&'static str],
    /// Its steps of time.
    step_us: u64,
    /// Its steps of an address.
    step_sectors: u64,
    /// The line of a request, at a time in microseconds.
    line: fn(u64, &Request) -> String,
}

/// What most formats can say.
const USUAL: Writer = Writer {
    name: "",
    ops: &[Op::Write, Op::Read],
    tagged: false,
    before: &[],
    step_us: 1,
    step_sectors: 1,
    line: |_, _| String::new(),
};

const WRITERS: &[Writer] = &[
    Writer {
        name: "msr",
        line: |us, r| {
            let (op, ticks) = (r.code(["Write", "", "Read", ""]), 128_166_372_000_000_000 + us * 10);
            format!("{ticks},src1,2,{op},{},{},99", r.sector * 512, r.sectors * 512)
        },
        ..USUAL
    },
    Writer {
        name: "alibaba",
        line: |us, r| {
            format!("17,{},{},{},{us}", r.code(["W", "", "R", ""]), r.sector * 512, r.sectors * 512)
        },
        ..USUAL
    },
    Writer {
        name: "tencent",
        step_us: 1_000_000,
        line: |us, r| {
            let op = r.code(["1", "", "0", ""]);
            format!("{},{},{},{op},1063", us / 1_000_000, r.sector, r.sectors)
        },
        ..USUAL
    },
    Writer {
        name: "systor17",
        line: |us, r| {
            let op = r.code(["W", "", "R", ""]);
            format!("{}000,,{op},3,{},{}", seconds(us), r.sector * 512, r.sectors * 512)
        },
        ..USUAL
    },
    Writer {
        name: "fiu",
        tagged: true,
        line: |us, r| {
            let (tag, op, hash) =
                (TAGS[r.tag], r.code(["W", "", "R", ""]), "d41d8cd98f00b204e9800998ecf8427e");
            format!("{} 42 {tag} {} {} {op} 6 0 {hash}", us * 1000, r.sector, r.sectors)
        },
        ..USUAL
    },
    Writer {
        name: "blkparse",
        ops: ALL_OPS,
        tagged: true,
        line: |us, r| {
            let (rwbs, tag, seconds) = (r.code(["WS", "D", "RA", "FN"]), TAGS[r.tag], seconds(us));
            let extent =
                if r.op == Op::Flush { String::new() } else { format!("{} + {} ", r.sector, r.sectors) };
            format!("259,1    3 {us:>8} {seconds:>12}000     7  D {rwbs:>3} {extent}[{tag}]")
        },
        ..USUAL
    },
    Writer {
        name: "fio",
        ops: ALL_OPS,
        before: &["fio version 3 iolog", "0 /dev/nvme0n1 add"],
        line: |us, r| {
            let op = r.code(["write", "trim", "read", "sync"]);
            format!("{us} /dev/nvme0n1 {op} {} {}", r.sector * 512, r.sectors * 512)
        },
        ..USUAL
    },
    Writer {
        name: "mqsim",
        line: |us, r| format!("{} 0 {} {} {}", us * 1000, r.sector, r.sectors, r.code(["0", "", "1", ""])),
        ..USUAL
    },
    Writer {
        name: "midas",
        ops: &[Op::Write, Op::Read, Op::Discard],
        tagged: true,
        step_sectors: 8,
        line: |us, r| {
            let op = r.code(["1", "3", "0", ""]);
            format!("{} {op} {} {} {}", seconds(us), r.sector / 8, r.sectors * 512, r.tag)
        },
        ..USUAL
    },
    Writer {
        name: "spc",
        line: |us, r| {
            let op = r.code(["w", "", "r", ""]);
            format!("0,{},{},{op},{}", r.sector, r.sectors * 512, seconds(us))
        },
        ..USUAL
    },
    Writer {
        name: "columns",
        ops: ALL_OPS,
        before: &["op,time,size,offset"],
        line: |us, r| {
            let op = r.code(["W", "D", "R", "F"]);
            format!("{op},{},{},{}", seconds(us), r.sectors * 512, r.sector * 512)
        },
        ..USUAL
    },
];

const ALL_OPS: &[Op] = &[Op::Write, Op::Discard, Op::Read, Op::Flush];

impl Request {
    /// The code of its operation, of those for writes, discards, reads and flushes.
    fn code(&self, codes: [&'static str; 4]) -> &'static str {
        codes[self.op as usize]
    }
}

fn seconds(us: u64) -> String {
    format!("{}.{:06}", us / 1_000_000, us % 1_000_000)
}

impl Writer {
    /// What the format can say of a request.
    fn adapt(&self, request: &Request) -> Request {
        Request {
            after_us: request.after_us / self.step_us * self.step_us,
            op: if self.ops.contains(&request.op) { request.op } else { self.ops[0] },
            sector: request.sector / self.step_sectors * self.step_sectors,
            ..*request
        }
    }

    /// The requests with their absolute times.
    fn lines(&self, requests: &[Request]) -> Vec<String> {
        let mut now_us = 0;
        let line = |request: &Request| {
            now_us += request.after_us;
            (self.line)(now_us, request)
        };
        let before = self.before.iter().map(|line| (*line).to_owned());
        before.chain(requests.iter().map(line)).collect()
    }
}

proptest! {
    #[test]
    fn requests_come_back(requests in requests()) {
        for writer in WRITERS {
            let requests: Vec<Request> = requests.iter().map(|request| writer.adapt(request)).collect();
            let imported = import_all(find(writer.name).unwrap(), writer.lines(&requests));
            prop_assert_eq!(imported, expected(&requests, writer.tagged), "{}", writer.name);
        }
    }
}
