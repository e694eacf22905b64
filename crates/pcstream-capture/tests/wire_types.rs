//! The checked-in types of what crosses from the kernel (`src/wire/generated.rs`) are those of `bpf/wire.h`.
//!
//! Names, order and values are compared by text, which needs no clang. With the feature `bpf` the compiler describes what
//! `bpf/wire_types.bpf.c` names (`build.rs`): then the types of the header are taken out, and compared whole.

const HEADER: &str = include_str!("../bpf/wire.h");
const CHECKED_IN: &str = include_str!("../src/wire/generated.rs");
const RENEW: &str = "PCSTREAM_RENEW_WIRE=1 cargo test -p pcstream-capture --features bpf --test wire_types";

/// A type, its enumerators with their values, and its fields without.
type Declared = (String, Vec<(String, Option<u32>)>);

/// A program without its comments.
fn without_comments(text: &str) -> String {
    let mut parts = text.split("/*");
    let first = parts.next().unwrap_or_default().to_owned();
    first + &parts.map(|part| part.split_once("*/").expect("a comment ends").1).collect::<String>()
}

/// The types of a header, in its order.
fn types_of_header(header: &str) -> Vec<Declared> {
    let mut types = Vec::new();
    for block in without_comments(header).split("};") {
        let begin = ["\nstruct ", "\nenum "].iter().find_map(|kind| Some((*kind, block.rfind(kind)?)));
        let Some((kind, at)) = begin else { continue };
        let (name, body) = block[at + kind.len()..].split_once(" {").expect("a type has members");
        let members = if kind.contains("enum") { enumerators(body) } else { fields(body) };
        types.push((name.to_owned(), members));
    }
    types
}

fn enumerators(body: &str) -> Vec<(String, Option<u32>)> {
    let mut known: Vec<(String, Option<u32>)> = Vec::new();
    for part in body.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (name, value) = match part.split_once(" = ") {
            Some((name, text)) => (name, value(text, &known)),
            None => (part, known.last().map_or(0, |(_, value)| value.expect("a number") + 1)),
        };
        known.push((name.to_owned(), Some(value)));
    }
    known
}

/// A number, or an enumerator before this one.
fn value(text: &str, known: &[(String, Option<u32>)]) -> u32 {
    let hexadecimal = text.strip_prefix("0x").map(|digits| digits.trim_end_matches('u'));
    let number = hexadecimal.map_or_else(|| text.parse(), |digits| u32::from_str_radix(digits, 16));
    let named = || known.iter().find(|(name, _)| name == text).and_then(|(_, value)| *value);
    number.ok().or_else(named).unwrap_or_else(|| panic!("{text}: no number"))
}

fn fields(body: &str) -> Vec<(String, Option<u32>)> {
    let names = |line: &str| {
        let line = line.trim().trim_start_matches("struct ");
        let list = line.split_once(char::is_whitespace).map_or("", |(_, list)| list).to_owned();
        list.split(',').map(|name| name.split('[').next().unwrap_or_default().trim().to_owned()).collect()
    };
    let all = body
        .split(';')
        .filter(|line| !line.trim().is_empty())
        .flat_map(|line| -> Vec<String> { names(line) });
    all.map(|name| (name, None)).collect()
}

/// The types of a Rust file as the compiler's description has them, in its order.
fn types_of_rust(text: &str) -> Vec<Declared> {
    let mut types: Vec<Declared> = Vec::new();
    for line in text.lines().map(str::trim) {
        let Some(item) = line.strip_prefix("pub ") else { continue };
        let member = if let Some(name) = item.strip_prefix("struct ") {
            types.push((name.split([' ', '(']).next().unwrap_or_default().to_owned(), Vec::new()));
            continue;
        } else if let Some(constant) = item.strip_prefix("const ") {
            let (name, value) = constant.split_once(": Self = Self(").expect("an enumerator");
            (name, value.trim_end_matches(");").parse().ok())
        } else {
            (item.split_once(':').expect("a field").0.trim_start_matches("r#"), None)
        };
        types.last_mut().expect("a type comes first").1.push((member.0.to_owned(), member.1));
    }
    types
}

#[test]
fn checked_in_names_and_values_are_those_of_the_header() {
    let (header, checked_in) = (types_of_header(HEADER), types_of_rust(CHECKED_IN));
    for (of_header, of_rust) in header.iter().zip(&checked_in) {
        assert_eq!(of_header, of_rust, "bpf/wire.h and src/wire/generated.rs differ; renew it: {RENEW}");
    }
    assert_eq!(header.len(), checked_in.len(), "a type is missing; renew src/wire/generated.rs: {RENEW}");
}

/// The test of the test.
#[test]
fn headers_are_read() {
    let header = "\n#define N 2\nenum a {\n\tA, /* x, y = 3 */\n\tB = 0xffu,\n\tC = A,\n\tD,\n};\n\nstruct b {\n\tu32 type, n; /* }; */\n\tstruct a f[N];\n};\n";
    let member = |name: &str, value| (name.to_owned(), value);
    let a = vec![member("A", Some(0)), member("B", Some(255)), member("C", Some(0)), member("D", Some(1))];
    let b = vec![member("type", None), member("n", None), member("f", None)];
    assert_eq!(types_of_header(header), [("a".to_owned(), a), ("b".to_owned(), b)]);
}

#[cfg(feature = "bpf")]
mod compiled {
    use std::path::Path;
    use std::process::Command;

    use super::{CHECKED_IN, HEADER, RENEW, types_of_header};

    const SKELETON: &str = include_str!(concat!(env!("OUT_DIR"), "/wire_types.skel.rs"));

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
        let mut items = Vec::new();
        for (name, _) in types_of_header(HEADER) {
            let parts = ["pub struct ", "impl ", "impl Default for "];
            let [of_type, code, default] = parts.map(|kind| item(types, &format!("{kind}{name}")));
            assert!(!of_type.is_empty(), "bpf/wire_types.bpf.c has no {name}");
            items.extend([of_type, code, default].into_iter().filter(|item| !item.is_empty()));
        }
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
}
