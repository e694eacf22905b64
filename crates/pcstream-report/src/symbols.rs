//! Names of functions, short enough for a table, and which functions are a program's own.
//!
//! Idea: a function keeps its last two names without template arguments, return type, parameters and
//! compiler suffixes. By its name it is of a standard library, or the program's own.
//!
//! Weakness: names are read by their text, not by a demangler's syntax tree; a name that does not look
//! like C++, Rust or Go is shown as it is, and is the program's own.

use pcstream_trace::paths::file_name;
use pcstream_trace::{Context, Frame};

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
    let parts = parts(&bare);
    // What is nested in a method of Rust keeps the method's type.
    let nested = implementation(symbol).map_or(0, |of| self::parts(&without_arguments(of.rest)).len());
    let keep = parts.len().saturating_sub(2.max(nested + 1));
    match parts[keep..].join("::") {
        short if short.is_empty() => symbol.to_owned(),
        short => short,
    }
}

fn parts(bare: &str) -> Vec<&str> {
    bare.split("::").filter(|part| !part.is_empty() && !is_rust_hash(part)).collect()
}

/// A function of Go.
struct Go<'a> {
    /// Path of its package: `encoding/json`.
    package: &'a str,
    /// The last part of the package's path, and its name: `json.Marshal`.
    local: &'a str,
    /// Its name in the package: `Marshal`, `(*Tx).write`.
    name: &'a str,
}

/// `None`: it is none of Go's.
fn go(symbol: &str) -> Option<Go<'_>> {
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
    let package = &bare[..bare.len() - local.len() + package.len()];
    Some(Go { package, local, name })
}

/// A Go function without its package's path: a method keeps its type, a function its package. `None`: it is none of Go's.
/// `go.etcd.io/bbolt.(*Tx).write` is `Tx.write`, `encoding/json.Marshal` is `json.Marshal`.
fn go_name(symbol: &str) -> Option<String> {
    let Go { local, name, .. } = go(symbol)?;
    match name.strip_prefix("(*").and_then(|rest| rest.split_once(')')) {
        Some((of, method)) => Some(format!("{of}{method}")),
        // A method of a value, or a function within one, says enough without the package.
        None if name.contains('.') && !name.contains(".func") => Some(name.to_owned()),
        None => Some(local.to_owned()),
    }
}

/// A function of Rust in an implementation: `<Type as Trait>::rest`.
struct Implementation<'a> {
    of: &'a str,
    /// Empty if there is none.
    of_trait: &'a str,
    rest: &'a str,
}

/// `None`: it is in none.
fn implementation(symbol: &str) -> Option<Implementation<'_>> {
    let after = symbol.strip_prefix('<')?;
    let end = closing(after)?;
    let (of, of_trait) = after[..end].split_once(" as ").unwrap_or((&after[..end], ""));
    // A reference has the methods of what it refers to.
    let of = ["&", "*", "mut ", "const ", "dyn "].iter().fold(of, |of, start| of.trim_start_matches(start));
    Some(Implementation { of, of_trait, rest: &after[end + 1..] })
}

/// A function of C++ without the type that it returns, which templates have in their names. `None`: it has no
/// parameters, so it is none of C++.
fn without_return_type(symbol: &str) -> Option<&str> {
    let (mut depth, mut from) = (0usize, 0);
    for (at, c) in symbol.char_indices() {
        match c {
            '<' | '{' | '[' => depth += 1,
            '>' | '}' | ']' => depth = depth.saturating_sub(1),
            '(' if depth == 0 => return Some(&symbol[from..]),
            // Its sign may be a bracket.
            'o' if depth == 0 && symbol[at..].starts_with("operator") => return Some(&symbol[from..]),
            ' ' if depth == 0 => from = at + 1,
            _ => {}
        }
    }
    None
}

/// Types in implementations of types are shortened to this depth, which no compiler comes near.
const DEPTH: usize = 16;

/// Removes `<...>`, `(...)` and what follows the parameters. `(anonymous namespace)` stays as `anon`,
/// operators keep their names, Rust's `<T as Trait>::f` becomes `T::f`.
fn without_arguments(symbol: &str) -> String {
    without_arguments_to(DEPTH, symbol)
}

fn without_arguments_to(depth: usize, symbol: &str) -> String {
    let Some(below) = depth.checked_sub(1) else { return symbol.to_owned() };
    let text = symbol.replace("(anonymous namespace)", "anon").replace("{{closure}}", "closure");
    let mut rest = without_return_type(&text).unwrap_or(&text);
    match rest.find("operator") {
        // What follows `operator` may itself be brackets; its parameters are after them.
        Some(at) if rest[..at].ends_with("::") || at == 0 => return operator(rest, at),
        _ => {}
    }
    let mut out = String::new();
    if let Some(within) = implementation(rest) {
        out.push_str(&without_arguments_to(below, within.of));
        rest = within.rest;
    }
    let (mut depth, mut braces) = (0usize, 0usize);
    for c in rest.chars() {
        match c {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            // Parameters, or a suffix such as ` [clone .cold]`, `.isra.0`, `.constprop.0`.
            '(' | ' ' | '[' | '.' | '@' if depth == 0 && braces == 0 && !out.is_empty() => break,
            c if depth == 0 => {
                // `{{vtable.shim}}` and `{lambda(int)#1}` are names.
                match c {
                    '{' => braces += 1,
                    '}' => braces = braces.saturating_sub(1),
                    _ => {}
                }
                out.push(c);
            }
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
    } else if is_java(frame) {
        // Class and method, without the package.
        let from = frame.symbol.rmatch_indices('.').nth(1).map_or(0, |(at, _)| at + 1);
        frame.symbol[from..].to_owned()
    } else {
        short_name(&frame.symbol)
    }
}

fn is_java(frame: &Frame) -> bool {
    frame.module.starts_with("java:")
}

/// By frame, whether it is the program's own; if none is, those outside of system libraries are; else all.
pub(crate) fn own_frames(context: &Context) -> Vec<bool> {
    let outside = |skipped: fn(&Frame) -> bool| -> Vec<bool> {
        context.frames.iter().map(|frame| !skipped(frame)).collect()
    };
    let found = [is_wrapper, is_library].map(outside).into_iter().find(|own| own.contains(&true));
    found.unwrap_or_else(|| outside(|_| false))
}

/// Whether a frame lies in code that every writer passes through: in a system library, or in the standard library of
/// its language.
fn is_wrapper(frame: &Frame) -> bool {
    is_library(frame) || (!is_java(frame) && is_standard(&frame.symbol))
}

fn is_library(frame: &Frame) -> bool {
    const LIBRARIES: [&str; 8] =
        ["libc.", "libc-", "libpthread", "ld-linux", "ld-musl", "libstdc++", "linux-vdso", "[vdso]"];
    let module = file_name(&frame.module);
    LIBRARIES.iter().any(|library| module.starts_with(library))
}

/// Whether a function is of the standard library of Go, Rust, C++ or C.
fn is_standard(symbol: &str) -> bool {
    /// Of Go: what writes, encodes, or calls functions, by the first part of the package's path.
    const PACKAGES: [&str; 17] = [
        "archive", "bufio", "compress", "encoding", "fmt", "internal", "io", "log", "net", "os", "reflect",
        "runtime", "sync", "syscall", "testing", "text", "time",
    ];
    if let Some(Go { package, .. }) = go(symbol) {
        return package == "golang.org/x/sys/unix"
            || package.split('/').next().is_some_and(|first| PACKAGES.contains(&first));
    }
    let of_rust = |name: &str| ["std::", "core::", "alloc::"].iter().any(|start| name.starts_with(start));
    match (implementation(symbol), without_return_type(symbol)) {
        // A method is its type's. Type parameters, and types of the language, have it from the trait.
        (Some(Implementation { of, of_trait, .. }), _)
            if !of.contains("::") || of.starts_with(['[', '(']) =>
        {
            of_trait.is_empty() || of_rust(of_trait)
        }
        (Some(within), _) => of_rust(within.of),
        (None, Some(of_cpp)) => of_cpp.starts_with("std::"),
        (None, None) => of_rust(symbol) || is_of_c(symbol),
    }
}

/// Whether a function is of the C library, which static programs have in their own file: what writes, and what calls
/// functions.
fn is_of_c(symbol: &str) -> bool {
    const NAMES: [&str; 43] = [
        "__write",
        "__write_nocancel",
        "__pwrite",
        "__pwrite64",
        "__pwrite64_nocancel",
        "write",
        "pwrite",
        "pwrite64",
        "writev",
        "pwritev",
        "pwritev64",
        "pwritev2",
        "pwritev64v2",
        "fwrite",
        "fwrite_unlocked",
        "fputs",
        "fputc",
        "putc",
        "puts",
        "fprintf",
        "vfprintf",
        "dprintf",
        "new_do_write",
        "fflush",
        "fclose",
        "fsync",
        "fdatasync",
        "msync",
        "syncfs",
        "sync_file_range",
        "fallocate",
        "posix_fallocate",
        "ftruncate",
        "sendfile",
        "sendfile64",
        "copy_file_range",
        "splice",
        "syscall",
        "start_thread",
        "clone",
        "clone3",
        "__clone",
        "__clone3",
    ];
    const BEGINNINGS: [&str; 12] = [
        "_IO_",
        "__libc_",
        "libc_start_main",
        "__GI_",
        "__stdio_",
        "__fwrite",
        "__vfprintf",
        "__clone_internal",
        "__syscall",
        "__memcpy",
        "__memset",
        "__memmove",
    ];
    let name = symbol.split(['.', '@']).next().unwrap_or(symbol);
    NAMES.contains(&name) || BEGINNINGS.iter().any(|start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Traced programs choose their names.
    #[test]
    fn brackets_may_be_nested_to_any_depth() {
        let deep = format!("{}{}::f", "<".repeat(32_000), ">".repeat(32_000));
        assert!(short_name(&deep).ends_with("::f"));
    }

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
            ("core::ops::function::FnOnce::call_once{{vtable.shim}}", "FnOnce::call_once{{vtable.shim}}"),
            ("<std::sys::thread::unix::Thread>::new::thread_start", "Thread::new::thread_start"),
            ("<&mut db::Log as std::io::Write>::write", "Log::write"),
            ("<db::Log as db::Sink>::put::{closure#0}", "Log::put::{closure#0}"),
            ("db::main::{{closure}}", "main::closure"),
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
        let cases = [
            ("operator new(unsigned long)", "operator new"),
            ("v8::MaybeHandle<v8::Object> v8::(anonymous namespace)::Call<false>(int, A<B>)", "anon::Call"),
            ("std::ostream& db::operator<< <int>(std::ostream&, int)", "db::operator<< <int>"),
            ("non-virtual thunk to db::Log::write(int)", "Log::write"),
            ("main::{lambda(int)#1}::operator()(int) const", "{lambda(int)#1}::operator()"),
        ];
        cases.iter().for_each(|&(long, short)| assert_eq!(short_name(long), short, "{long}"));
    }

    #[test]
    fn functions_of_standard_libraries_are_known() {
        let standard = [
            "internal/runtime/syscall/linux.Syscall6",
            "internal/poll.(*FD).Write",
            "os.(*File).Write",
            "encoding/json.(*Encoder).Encode",
            "golang.org/x/sys/unix.Pwrite",
            "runtime.goexit.abi0",
            "<std::fs::File as std::io::Write>::write",
            "<W as std::io::Write>::write_all",
            "<&mut W as std::io::Write>::write_all",
            "<[u8]>::concat",
            "<alloc::boxed::Box<db::Job> as core::ops::function::FnOnce<()>>::call_once",
            "std::io::buffered::bufwriter::BufWriter<W>::flush_buf",
            "core::ops::function::FnOnce::call_once{{vtable.shim}}",
            "core::ops::function::FnOnce::call_once::<fn(), ()>",
            "std::thread::_State_impl<std::thread::_Invoker<std::tuple<main::{lambda()#1}> > >::_M_run()",
            "void std::__invoke_impl<void, db::Job>(std::__invoke_other, db::Job&&)",
            "pwrite64",
            "__libc_pwrite64",
            "_IO_new_file_write",
            "fwrite.cold",
            "__libc_start_call_main",
            "start_thread",
            "clone3",
            "__memset_avx512_unaligned_erms",
        ];
        standard.iter().for_each(|symbol| assert!(is_standard(symbol), "{symbol}"));
        let own = [
            "main.(*Btree).Put",
            "example.com/internal/store.Put",
            "log.example.com/log.Put",
            "io.part.0",
            "<db::Log as std::io::Write>::write",
            "<W as db::Sink>::put",
            "<&db::Log as db::Sink>::put",
            "db::compact",
            "std::vector<int> db::pages<int>(std::string const&)",
            "std::ostream& db::operator<< <int>(std::ostream&, int)",
            "core::Database::write(std::string const&)",
            "stdio_write",
            "write_page",
            "pwrite_all",
            "clone_repository",
            "main",
            "",
        ];
        own.iter().for_each(|symbol| assert!(!is_standard(symbol), "{symbol}"));
        let java =
            Frame { module: "java:".into(), symbol: "io.netty.Channel.write".into(), ..Frame::default() };
        assert!(!is_wrapper(&java));
    }
}
