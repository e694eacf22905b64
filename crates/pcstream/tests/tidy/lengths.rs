//! Files of at most 600 lines, functions of at most 70, Markdown of at most 100 columns; documents that are read first are short.

use crate::{Faults, Source};

const FILE_LINES: usize = 600;
const FUNCTION_LINES: usize = 70;
const MARKDOWN_COLUMNS: usize = 100;
/// Documents that have to stay short, and their lines.
const SHORT: [(&str, usize); 3] =
    [("README.md", 150), ("docs/architecture.md", 100), ("docs/performance.md", 80)];
/// What begins a block with parentheses in Java and is no method.
const JAVA_BLOCKS: [&str; 10] =
    ["if ", "for ", "while ", "switch ", "try ", "} ", "synchronized ", "return ", "else ", "do "];

pub fn check(sources: &[Source], faults: &mut Faults) {
    for source in sources {
        let lines: Vec<&str> = source.text.lines().collect();
        if source.extension() == "md" {
            let most =
                SHORT.iter().find(|(path, _)| *path == source.path).map_or(usize::MAX, |(_, most)| *most);
            if lines.len() > most {
                faults.insert(("document-lines".into(), source.path.clone()), lines.len());
            }
            let wide = wide_lines(&lines);
            if wide > 0 {
                faults.insert(("markdown-width".into(), source.path.clone()), wide);
            }
            continue;
        }
        if lines.len() > FILE_LINES {
            faults.insert(("file-lines".into(), source.path.clone()), lines.len());
        }
        for (name, length) in functions(source.extension(), &lines) {
            if length > FUNCTION_LINES {
                faults.insert(("function-lines".into(), format!("{}:{name}", source.path)), length);
            }
        }
    }
}

/// Lines that are too wide and could be wrapped: no tables, nothing without a blank.
fn wide_lines(lines: &[&str]) -> usize {
    let wide = |line: &&&str| {
        let text = line.trim();
        let breakable = text.trim_start_matches(['-', '*', ' ']).contains(' ');
        breakable && !text.starts_with('|') && line.chars().count() > MARKDOWN_COLUMNS
    };
    lines.iter().filter(wide).count()
}

/// Names and lines of the functions.
fn functions(extension: &str, lines: &[&str]) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let name = match extension {
            "rs" => rust_function(line),
            "c" | "h" => c_function(lines, at),
            "java" => java_method(line),
            "py" => python_function(line),
            _ => None,
        };
        let Some(name) = name else { continue };
        if extension == "py" {
            found.push((name.to_owned(), python_lines(&lines[at..])));
            continue;
        }
        let indent = &line[..line.len() - line.trim_start().len()];
        let end = format!("{indent}}}");
        let one_line = line.trim_end().ends_with(['}', ';']);
        let length =
            if one_line { 1 } else { lines[at..].iter().position(|l| *l == end).map_or(1, |n| n + 1) };
        found.push((name.to_owned(), length));
    }
    found
}

fn identifier(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    &text[..end]
}

fn rust_function(line: &str) -> Option<&str> {
    let (before, after) = line.split_once("fn ")?;
    let words = ["pub", "pub(crate)", "pub(super)", "const", "async", "unsafe", "extern", "\"C\""];
    let head = before.split_whitespace().all(|word| words.contains(&word));
    Some(identifier(after)).filter(|name| head && !name.is_empty())
}

/// The kernel's style: a brace of its own, or at the end of the first line.
fn c_function<'a>(lines: &[&'a str], at: usize) -> Option<&'a str> {
    let line = lines[at];
    let first = line.chars().next()?;
    if !first.is_alphabetic() || !line.contains('(') || line.starts_with("struct") || line.ends_with(';') {
        return None;
    }
    let brace = line.ends_with('{') || lines[at..].iter().skip(1).take(4).any(|next| *next == "{");
    let name = line.split('(').next()?.rsplit([' ', '*']).next()?;
    Some(name).filter(|_| brace)
}

fn java_method(line: &str) -> Option<&str> {
    let text = line.trim();
    let block =
        JAVA_BLOCKS.iter().any(|word| text.starts_with(word)) || text.contains("->") || text.contains("new ");
    if block || !text.ends_with('{') || !text.contains('(') {
        return None;
    }
    // `A a = f(...)` calls a method.
    let head = text.split('(').next().filter(|head| !head.contains('='))?;
    head.rsplit(' ').next()
}

fn python_function(line: &str) -> Option<&str> {
    let text = line.trim_start();
    let after = text.strip_prefix("async ").unwrap_or(text).strip_prefix("def ")?;
    Some(identifier(after)).filter(|name| !name.is_empty())
}

/// Lines of a function without its docstring and the blank lines behind it: up to the next one that is indented as little.
fn python_lines(lines: &[&str]) -> usize {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let outside = |line: &str| {
        !line.trim().is_empty() && indent(line) <= indent(lines[0]) && !line.trim().starts_with(')')
    };
    let end = lines.iter().skip(1).position(|line| outside(line)).map_or(lines.len(), |n| n + 1);
    let quotes = |line: &&str| line.trim().matches("\"\"\"").count();
    let body = lines[..end].iter().position(|line| line.trim_end().ends_with(':')).map_or(0, |n| n + 1);
    let docstring = match lines[..end].get(body) {
        Some(first) if first.trim().starts_with("\"\"\"") && quotes(first) == 1 => {
            lines[body + 1..end].iter().position(|line| quotes(line) == 1).map_or(0, |n| n + 2)
        }
        _ => 0,
    };
    lines[..end].iter().rposition(|line| !line.trim().is_empty()).map_or(0, |last| last + 1) - docstring
}

#[test]
fn long_things_are_found() {
    let body = "    x();\n".repeat(FUNCTION_LINES);
    let source = |path: &str, text: String| Source { path: path.into(), text };
    let sources = [
        source(
            "a.rs",
            format!(
                "impl A {{\n    pub fn long(\n        a: u8,\n    ) {{\n{body}    }}\n}}\nfn short() {{\n    x();\n}}\n"
            ),
        ),
        source("a.c", format!("static int long_one(int a)\n{{\n{body}}}\n\nint declared(int a);\n")),
        source("A.java", format!("class A {{\n    void longOne(int a) {{\n    {body}    }}\n}}\n")),
        source("a.py", format!("def long(\n    a,\n):\n    x()\n{body}\n\ndef short():\n    x()\n")),
        source("b.py", format!("def long():\n    \"\"\"Docs.\n\n{body}    \"\"\"\n    x()\n")),
        source("README.md", "\n".repeat(SHORT[0].1 + 1)),
        source("a.md", format!("{0}\n| {0} |\n```\n{0}\n```\n", "word ".repeat(21))),
        source("b.rs", "\n".repeat(FILE_LINES + 1)),
    ];
    let mut faults = Faults::new();
    check(&sources, &mut faults);
    let found: Vec<String> = faults.keys().map(|(rule, place)| format!("{rule} {place}")).collect();
    let expected = [
        "document-lines README.md",
        "file-lines b.rs",
        "function-lines A.java:longOne",
        "function-lines a.c:long_one",
        "function-lines a.py:long",
        "function-lines a.rs:long",
        "markdown-width a.md",
    ];
    assert_eq!(found, expected);
    assert_eq!(faults[&("markdown-width".to_owned(), "a.md".to_owned())], 2);
}
