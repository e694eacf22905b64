//! Names of functions, short enough for a table.
//!
//! Idea: a function keeps its last two names without template arguments, parameters and compiler
//! suffixes.
//!
//! Weakness: names are shortened by their text, not by a demangler's syntax tree; a name that does
//! not look like C++ or Rust is shown as it is.

use pcstream_trace::Frame;
use pcstream_trace::paths::file_name;

/// How names of functions are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Names {
    /// The last two names, without arguments.
    #[default]
    Short,
    /// As the language has them, with template arguments and parameters.
    Full,
}

/// The last two names of a function: `rocksdb::DBImpl::Flush<int>(bool) const [clone .cold]` is
/// `DBImpl::Flush`.
pub fn short_name(symbol: &str) -> String {
    if let Some(name) = go_name(symbol) {
        return name;
    }
    let bare = without_arguments(symbol);
    let parts: Vec<&str> = bare.split("::").filter(|p| !p.is_empty() && !is_rust_hash(p)).collect();
    let keep = parts.len().saturating_sub(2);
    match parts[keep..].join("::") {
        short if short.is_empty() => symbol.to_owned(),
        short => short,
    }
}

/// A Go function without its package's path: a method keeps its type, a function its package. `None`: it is none of Go's.
/// `go.etcd.io/bbolt.(*Tx).write` is `Tx.write`, `encoding/json.Marshal` is `json.Marshal`.
fn go_name(symbol: &str) -> Option<String> {
    /// What compilers for other languages put behind a dot.
    const SUFFIXES: [&str; 8] =
        ["isra", "constprop", "part", "cold", "lto_priv", "llvm", "localalias", "resolver"];
    if symbol.contains("::") || symbol.contains(' ') || symbol.starts_with('_') {
        return None;
    }
    // Type arguments may hold slashes and dots.
    let bare = symbol.split('[').next().unwrap_or(symbol);
    let local = bare.rsplit('/').next().unwrap_or(bare);
    let (package, name) = local.split_once('.')?;
    let suffix = name.split('.').next().unwrap_or(name);
    let is_suffix = SUFFIXES.contains(&suffix) || suffix.bytes().all(|byte| byte.is_ascii_digit());
    if package.is_empty() || (local == bare && is_suffix) {
        return None;
    }
    match name.strip_prefix("(*").and_then(|rest| rest.split_once(')')) {
        Some((of, method)) => Some(format!("{of}{method}")),
        // A method of a value, or a function within one, says enough without the package.
        None if name.contains('.') && !name.contains(".func") => Some(name.to_owned()),
        None => Some(local.to_owned()),
    }
}

/// Removes `<...>`, `(...)` and what follows the parameters. `(anonymous namespace)` stays as `anon`,
/// operators keep their names, Rust's `<T as Trait>::f` becomes `T::f`.
fn without_arguments(symbol: &str) -> String {
    let text = symbol.replace("(anonymous namespace)", "anon").replace("{{closure}}", "closure");
    let text = match text.find("operator") {
        // What follows `operator` may itself be brackets; its parameters are after them.
        Some(at) if text[..at].ends_with("::") || at == 0 => return operator(&text, at),
        _ => text,
    };
    let mut out = String::new();
    let mut rest = text.as_str();
    if let Some(after) = rest.strip_prefix('<')
        && let Some(end) = closing(after)
    {
        let inner = after[..end].split(" as ").next().unwrap_or_default();
        out.push_str(&without_arguments(inner));
        rest = &after[end + 1..];
    }
    let mut depth = 0usize;
    for c in rest.chars() {
        match c {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            // Parameters, or a suffix such as ` [clone .cold]`, `.isra.0`, `.constprop.0`.
            '(' | ' ' | '[' | '.' | '@' if depth == 0 && !out.is_empty() => break,
            c if depth == 0 => out.push(c),
            _ => {}
        }
    }
    out
}

/// Index of the `>` that closes an angle bracket opened before `text`.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 1usize;
    for (index, c) in text.char_indices() {
        match c {
            '<' => depth += 1,
            '>' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(index);
        }
    }
    None
}

fn operator(text: &str, at: usize) -> String {
    let name_end = at + "operator".len();
    let sign_end = text[name_end..].strip_prefix("()").map(|_| name_end + 2);
    let end = sign_end.or_else(|| text[name_end..].find('(').map(|i| name_end + i)).unwrap_or(text.len());
    format!("{}{}", qualifier(&text[..at]), &text[at..end])
}

/// The names before an operator, without template arguments.
fn qualifier(text: &str) -> String {
    let mut depth = 0usize;
    let keep = |c: &char| {
        match c {
            '<' => depth += 1,
            '>' => {
                depth = depth.saturating_sub(1);
                return false;
            }
            _ => {}
        }
        depth == 0
    };
    text.chars().filter(keep).collect()
}

/// `h` and 16 hexadecimal digits, which rustc appends to names.
fn is_rust_hash(part: &str) -> bool {
    part.len() == 17 && part.starts_with('h') && part[1..].bytes().all(|b| b.is_ascii_hexdigit())
}

/// A frame as a name: the function, or module+offset where the code is stripped.
pub fn frame_name(frame: &Frame, names: Names) -> String {
    if frame.symbol.is_empty() {
        format!("{}+{:#x}", file_name(&frame.module), frame.offset)
    } else if names == Names::Full {
        frame.symbol.clone()
    } else if frame.module.starts_with("java:") {
        // Class and method, without the package.
        let from = frame.symbol.rmatch_indices('.').nth(1).map_or(0, |(at, _)| at + 1);
        frame.symbol[from..].to_owned()
    } else {
        short_name(&frame.symbol)
    }
}

/// Whether a frame lies in a library that every writer passes through.
pub(crate) fn is_wrapper(frame: &Frame) -> bool {
    const LIBRARIES: [&str; 8] =
        ["libc.", "libc-", "libpthread", "ld-linux", "ld-musl", "libstdc++", "linux-vdso", "[vdso]"];
    let module = file_name(&frame.module);
    LIBRARIES.iter().any(|library| module.starts_with(library))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_shortened() {
        let cases = [
            ("rocksdb::DBImpl::BackgroundFlush(bool*, rocksdb::LogBuffer*)", "DBImpl::BackgroundFlush"),
            ("rocksdb::(anonymous namespace)::PosixFileSystem::Fsync()", "PosixFileSystem::Fsync"),
            ("rocksdb::(anonymous namespace)::PosixWrite(int, char const*)", "anon::PosixWrite"),
            ("std::function<void (int)>::operator()(int) const", "function::operator()"),
            ("ns::Slice::operator<(ns::Slice const&)", "Slice::operator<"),
            ("std::vector<std::pair<int, char>, A<B>>::push_back(T&&)", "vector::push_back"),
            ("sqlite3PagerCommitPhaseOne", "sqlite3PagerCommitPhaseOne"),
            ("unixWrite.isra.0", "unixWrite"),
            ("do_write [clone .cold]", "do_write"),
            ("write@@GLIBC_2.2.5", "write"),
            ("<std::fs::File as std::io::Write>::write::h0123456789abcdef", "File::write"),
            ("std::sys::fs::write_all::h0123456789abcdef", "fs::write_all"),
            ("go.etcd.io/bbolt.(*Tx).write", "Tx.write"),
            ("go.etcd.io/bbolt.(*Tx).writeMeta", "Tx.writeMeta"),
            ("go.etcd.io/bbolt.(*DB).run.func1", "DB.run.func1"),
            ("encoding/json.Marshal", "json.Marshal"),
            ("main.main", "main.main"),
            ("main.main.func2", "main.main.func2"),
            ("main.Store.write", "Store.write"),
            ("slices.SortFunc[go.shape.[]example.com/a.T]", "slices.SortFunc"),
            ("foo.constprop.0", "foo"),
            ("foo.part.0.isra.0", "foo"),
            ("foo.123", "foo"),
            ("main", "main"),
            ("", ""),
            ("<", "<"),
        ];
        cases.iter().for_each(|&(long, short)| assert_eq!(short_name(long), short, "{long}"));
    }

    #[test]
    fn return_types_of_templates_do_not_hide_the_name() {
        assert_eq!(short_name("operator new(unsigned long)"), "operator new");
    }
}
