//! The checked-in types of what crosses from the kernel (`src/wire/generated.rs`) are those of `bpf/wire.h`.
//!
//! `build.rs` has the compiler describe all types of the BPF program; this test takes out those of the header and compares.
//! Formatting does not count, because there may be no formatter.

use std::path::Path;
use std::process::Command;

const SKELETON: &str = include_str!(concat!(env!("OUT_DIR"), "/pcstream.skel.rs"));
const CHECKED_IN: &str = include_str!("../src/wire/generated.rs");
const RENEW: &str = "PCSTREAM_RENEW_WIRE=1 cargo test -p pcstream-capture --features bpf --test wire_types";

/// Types of `bpf/wire.h`, in its order.
const NAMES: [&str; 22] = [
    "record_type",
    "io_source",
    "unwind_mode",
    "io_flag",
    "io_record",
    "stream_count",
    "frame_record",
    "module_key",
    "entry",
    "context_record",
    "range",
    "rule_key",
    "unwind_rule",
    "rule_kind",
    "buffer_kind",
    "buffer_rule",
    "buffer_key",
    "stack_record",
    "process_record",
    "runtime_record",
    "path_record",
    "counter",
];

/// The item that begins with `head`, with its attributes; empty if there is none.
fn item<'a>(text: &'a str, head: &str) -> &'a str {
    let whole = |at: &usize| text[at + head.len()..].starts_with([' ', '(', '{']);
    let Some(start) = text.match_indices(head).map(|(at, _)| at).find(whole) else { return "" };
    let mut begin = start;
    while text[..begin].trim_end().ends_with(']') {
        begin = text[..begin].rfind("#[").expect("an attribute begins");
    }
    let (mut depth, mut end) = (0, start);
    for (at, character) in text[start..].char_indices() {
        end = start + at + 1;
        match character {
            '{' => depth += 1,
            '}' if depth == 1 => break,
            '}' => depth -= 1,
            ';' if depth == 0 => break,
            _ => {}
        }
    }
    &text[begin..end]
}

fn generated() -> String {
    let types = SKELETON.split_once("pub mod types").expect("the skeleton has types").1;
    let parts = |name: &&str| {
        ["pub struct ", "impl ", "impl Default for "].map(|kind| item(types, &format!("{kind}{name}")))
    };
    let items: Vec<_> = NAMES.iter().flat_map(parts).filter(|item| !item.is_empty()).collect();
    format!(
        "//! Generated from `bpf/wire.h` by `tests/wire_types.rs`: do not edit.\n\n{}\n",
        items.join("\n")
    )
}

/// What formatters leave alone.
fn tokens(text: &str) -> String {
    text.chars().filter(|character| !character.is_whitespace() && *character != ',').collect()
}

#[test]
fn checked_in_types_are_those_of_the_header() {
    let generated = generated();
    if std::env::var_os("PCSTREAM_RENEW_WIRE").is_some() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/wire/generated.rs");
        std::fs::write(&path, &generated).expect("it can be written");
        // Without a formatter, whoever has one formats it.
        drop(Command::new("rustfmt").args(["--edition", "2024"]).arg(path).status());
        return;
    }
    assert!(
        tokens(&generated) == tokens(CHECKED_IN),
        "src/wire/generated.rs is not what bpf/wire.h says; renew it: {RENEW}"
    );
}

#[test]
fn every_type_of_the_header_is_generated() {
    let header = include_str!("../bpf/wire.h");
    let declared: Vec<&str> = header
        .lines()
        .filter_map(|line| line.strip_prefix("struct ").or(line.strip_prefix("enum "))?.strip_suffix(" {"))
        .collect();
    assert_eq!(declared.len(), NAMES.len(), "{declared:?}");
    for name in declared {
        assert!(
            generated().contains(&format!("pub struct {name}")),
            "{name} is in no variable of settings.h"
        );
    }
}
