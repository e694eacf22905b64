//! The checked-in types of what crosses from the kernel (`src/wire/generated.rs`) are those of `bpf/wire.h`, whose text is
//! translated here.
//!
//! The header declares enumerations, and structures of integers, arrays and each other without padding. So both languages lay
//! them out alike.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

const HEADER: &str = include_str!("../bpf/wire.h");
const CHECKED_IN: &str = include_str!("../src/wire/generated.rs");
const RENEW: &str = "PCSTREAM_RENEW_WIRE=1 cargo test -p pcstream-capture --test wire_types";

/// Macros and enumerators that are numbers, and bytes of types.
type Numbers = BTreeMap<String, u64>;

/// A program without its comments.
fn without_comments(text: &str) -> String {
    let mut parts = text.split("/*");
    let first = parts.next().unwrap_or_default().to_owned();
    first + &parts.map(|part| part.split_once("*/").expect("a comment ends").1).collect::<String>()
}

/// The types of a header in Rust, in its order.
fn translated(header: &str) -> String {
    let integers = [("u8", 1), ("u16", 2), ("u32", 4), ("u64", 8), ("i32", 4), ("i64", 8)];
    let mut numbers: Numbers = integers.map(|(name, bytes)| (name.to_owned(), bytes)).into();
    let mut types = String::new();
    for block in without_comments(header).split("};") {
        for macro_of_header in block.lines().filter_map(|line| line.strip_prefix("#define ")) {
            let (name, text) = macro_of_header.split_once(' ').unwrap_or((macro_of_header, ""));
            // Others are no numbers that a type needs.
            if let Some(value) = number(text, &numbers) {
                numbers.insert(name.to_owned(), value);
            }
        }
        let begin = ["\nstruct ", "\nenum "].iter().find_map(|kind| Some((*kind, block.rfind(kind)?)));
        let Some((kind, at)) = begin else { continue };
        let (name, body) = block[at + kind.len()..].split_once(" {").expect("a type has members");
        types += &if kind.contains("enum") {
            enumeration(name, body, &mut numbers)
        } else {
            structure(name, body, &mut numbers)
        };
    }
    types
}

/// A sum of numbers, and of names of some.
fn number(text: &str, numbers: &Numbers) -> Option<u64> {
    let summand = |text: &str| {
        let text = text.trim();
        match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits.trim_end_matches('u'), 16).ok(),
            None => text.parse().ok().or_else(|| numbers.get(text).copied()),
        }
    };
    text.trim_matches(['(', ')']).split('+').map(summand).sum()
}

fn enumeration(name: &str, body: &str, numbers: &mut Numbers) -> String {
    let (mut constants, mut first, mut next) = (String::new(), None, 0);
    for part in body.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (enumerator, value) = part
            .split_once(" = ")
            .map_or((part, Some(next)), |(enumerator, text)| (enumerator, number(text, numbers)));
        let value = value.unwrap_or_else(|| panic!("{part}: no number"));
        constants += &format!("    pub const {enumerator}: Self = Self({value});\n");
        numbers.insert(enumerator.to_owned(), value);
        first = first.or(Some(enumerator));
        next = value + 1;
    }
    let first = first.expect("an enumeration has enumerators");
    format!(
        "#[derive(Debug, Copy, Clone, Eq, PartialEq)]\n#[repr(transparent)]\npub struct {name}(pub u32);\n\
         #[allow(non_upper_case_globals)]\nimpl {name} {{\n{constants}}}\n\
         impl Default for {name} {{\n    fn default() -> Self {{\n        Self::{first}\n    }}\n}}\n"
    )
}

fn structure(name: &str, body: &str, numbers: &mut Numbers) -> String {
    let (mut fields, mut defaults, mut derived) = (String::new(), String::new(), true);
    let (mut end, mut largest) = (0, 1);
    for line in body.split(';').map(str::trim).filter(|line| !line.is_empty()) {
        let (kind, names) = line.trim_start_matches("struct ").split_once(' ').expect("a type and names");
        let kind = kind.replace("s32", "i32").replace("s64", "i64");
        for field in names.split(',').map(str::trim) {
            let (field, length) = field.split_once('[').map_or((field, None), |(field, length)| {
                let length = number(length.trim_end_matches(']'), numbers);
                (field, Some(length.unwrap_or_else(|| panic!("{line}: no number"))))
            });
            let bytes = numbers[&kind];
            let alignment = 1 << bytes.trailing_zeros().min(3);
            assert_eq!(end % alignment, 0, "{name} has padding before {field}");
            (end, largest) = (end + bytes * length.unwrap_or(1), alignment.max(largest));
            let field = if field == "type" { "r#type" } else { field };
            // Rust has a default of arrays up to this length.
            derived &= length.is_none_or(|length| length <= 32);
            let array = |of: String| length.map_or(of.clone(), |length| format!("[{of}; {length}]"));
            fields += &format!("    pub {field}: {},\n", array(kind.clone()));
            defaults += &format!("            {field}: {},\n", array(format!("{kind}::default()")));
        }
    }
    assert_eq!(end % largest, 0, "{name} has padding at its end");
    numbers.insert(name.to_owned(), end);
    let default = if derived { "Default, " } else { "" };
    let of_type =
        format!("#[derive(Debug, {default}Copy, Clone)]\n#[repr(C)]\npub struct {name} {{\n{fields}}}\n");
    if derived {
        return of_type;
    }
    of_type
        + &format!(
            "impl Default for {name} {{\n    fn default() -> Self {{\n        Self {{\n{defaults}        }}\n    }}\n}}\n"
        )
}

/// What formatters leave alone.
fn tokens(text: &str) -> String {
    text.chars().filter(|character| !character.is_whitespace() && *character != ',').collect()
}

#[test]
fn checked_in_types_are_those_of_the_header() {
    let generated = format!(
        "//! Generated from `bpf/wire.h` by `tests/wire_types.rs`: do not edit.\n\n{}",
        translated(HEADER)
    );
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

/// The test of the test.
#[test]
fn headers_are_translated() {
    let header = r"
#define N 2
enum a {
	A, /* x, y = 3 */
	B = 0x20u,
	C = A,
	D,
};

struct b {
	s32 type, n; /* }; */
};

#define M (N + B)
#define O (M + 6)
struct c {
	struct b of[N];
	u8 text[O];
};
";
    let expected = "#[derive(Debug, Copy, Clone, Eq, PartialEq)] #[repr(transparent)] pub struct a(pub u32);
        #[allow(non_upper_case_globals)] impl a { pub const A: Self = Self(0); pub const B: Self = Self(32);
            pub const C: Self = Self(0); pub const D: Self = Self(1); }
        impl Default for a { fn default() -> Self { Self::A } }
        #[derive(Debug, Default, Copy, Clone)] #[repr(C)] pub struct b { pub r#type: i32, pub n: i32 }
        #[derive(Debug, Copy, Clone)] #[repr(C)] pub struct c { pub of: [b; 2], pub text: [u8; 40] }
        impl Default for c { fn default() -> Self { Self { of: [b::default(); 2], text: [u8::default(); 40] } } }";
    assert_eq!(tokens(&translated(header)), tokens(expected));
}
