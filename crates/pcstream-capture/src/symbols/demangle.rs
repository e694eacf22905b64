//! Names as their languages have them.
//!
//! Whoever is traced may have made a name. A short one can stand for a very long one (each part of a C++ name may repeat
//! all before it), so what it becomes is bounded; a name that becomes longer stays as it is in the table.

use std::fmt::{self, Write};

/// Longest name as a language has it.
const MAX_NAME: usize = 4096;

/// A text that takes no more than [`MAX_NAME`].
#[derive(Default)]
struct Bounded(String);

impl Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if text.len() > MAX_NAME - self.0.len() {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

/// A name as its language has it, or as it is.
pub fn demangled(name: &str) -> String {
    in_language(name).unwrap_or_else(|| name.to_owned())
}

fn in_language(name: &str) -> Option<String> {
    let mut text = Bounded::default();
    // Of C++ too, but there it takes a parser. Deep nesting is refused by both.
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        write!(text, "{rust:#}").ok()?;
    } else if name.starts_with("_Z") {
        let cpp = cpp_demangle::Symbol::new(name).ok()?;
        cpp.structured_demangle(&mut text, &cpp_demangle::DemangleOptions::new()).ok()?;
    } else {
        return None;
    }
    Some(text.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_demangled_by_language() {
        assert_eq!(demangled("_ZN7rocksdb6DBImpl5FlushEv"), "rocksdb::DBImpl::Flush()");
        assert_eq!(
            demangled("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE"),
            "core::fmt::Write::write_fmt"
        );
        assert_eq!(demangled("go.etcd.io/bbolt.(*Tx).write"), "go.etcd.io/bbolt.(*Tx).write");
        assert_eq!(demangled("_Z"), "_Z");
        assert_eq!(demangled("write"), "write");
    }

    /// Each argument is a pair of the one before: 2^40 names.
    #[test]
    fn a_short_name_for_a_very_long_one_stays_short() {
        let doubled = |times: usize| {
            let pair = |n: usize| match n {
                0 => "1PI1AS0_E".to_owned(),
                n => format!("S_IS{0}_S{0}_E", base_36(n)),
            };
            format!("_Z1f{}", (0..times).map(pair).collect::<String>())
        };
        let long = demangled(&doubled(6));
        assert!(long.len() > 8 * doubled(6).len(), "{long}");
        assert_eq!(demangled(&doubled(40)), doubled(40));
    }

    fn base_36(n: usize) -> String {
        let digit = |n: usize| char::from(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[n % 36]);
        if n < 36 { digit(n).to_string() } else { format!("{}{}", digit(n / 36), digit(n)) }
    }
}
