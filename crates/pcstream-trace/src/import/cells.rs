//! Cells of a line: numbers, times and codes, and what is wrong with them.

use crate::event::Op;

/// Bytes of a sector, the unit of addresses in most block traces.
pub(super) const SECTOR_BYTES: u64 = 512;

/// Nanoseconds of a second.
const SECOND_NS: u64 = 1_000_000_000;

/// The place of what is wrong with no single column.
const WHOLE_LINE: &str = "line";

/// Characters of the input that a message quotes.
const QUOTED_CHARS: usize = 80;

/// A line that cannot be imported. The message does not say which line: that is known to whoever
/// reads the input.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}found {found}, expected {expected}", before(place))]
pub struct BadLine {
    /// The column, or `line` for the line as a whole: whoever reads the input names that anyway.
    pub place: &'static str,
    /// What it holds.
    pub found: String,
    /// What it should hold, and the remedy if there is one.
    pub expected: String,
}

impl BadLine {
    /// A column that holds `found`.
    #[cold]
    pub(super) fn column(place: &'static str, found: &str, expected: impl Into<String>) -> BadLine {
        BadLine { place, found: quote(found.as_bytes()), expected: expected.into() }
    }
}

/// What a message says of a place in the line.
fn before(place: &str) -> String {
    if place == WHOLE_LINE { String::new() } else { format!("{place}: ") }
}

/// Bytes of the input in quotes, for a message: control characters escaped, long text clipped.
pub fn quote(bytes: &[u8]) -> String {
    // A character has at most 4 bytes.
    let head = &bytes[..bytes.len().min(4 * QUOTED_CHARS)];
    let text = String::from_utf8_lossy(head);
    let mut chars = text.chars();
    let shown: String = chars.by_ref().take(QUOTED_CHARS).flat_map(char::escape_debug).collect();
    let clipped = chars.next().is_some() || head.len() < bytes.len();
    format!("\"{shown}\"{}", if clipped { "..." } else { "" })
}

/// The `N` columns of a line, separated by commas. `header` names them for the message about another number of columns;
/// nothing is read from it.
pub(super) fn comma_columns<'a, const N: usize>(
    line: &'a str,
    header: &'static str,
) -> Result<[&'a str; N], BadLine> {
    separated_columns(line, ',', header)
}

/// The same with any one separator, such as a tab or a semicolon.
pub(super) fn separated_columns<'a, const N: usize>(
    line: &'a str,
    separator: char,
    header: &'static str,
) -> Result<[&'a str; N], BadLine> {
    exactly(line.split(separator).map(str::trim), || line.split(separator).count(), header)
}

/// The same with columns separated by white space.
pub(super) fn spaced_columns<'a, const N: usize>(
    line: &'a str,
    header: &'static str,
) -> Result<[&'a str; N], BadLine> {
    exactly(line.split_ascii_whitespace(), || line.split_ascii_whitespace().count(), header)
}

fn exactly<'a, const N: usize>(
    mut parts: impl Iterator<Item = &'a str>,
    count: impl Fn() -> usize,
    header: &'static str,
) -> Result<[&'a str; N], BadLine> {
    let mut columns = [""; N];
    for column in &mut columns {
        *column = parts.next().ok_or_else(|| wrong_count(count(), format!("{N}: {header}")))?;
    }
    if parts.next().is_some() { Err(wrong_count(count(), format!("{N}: {header}"))) } else { Ok(columns) }
}

/// A line with another number of columns than its format has.
#[cold]
pub(super) fn wrong_count(found: usize, expected: impl Into<String>) -> BadLine {
    let found = format!("{found} column{}", if found == 1 { "" } else { "s" });
    BadLine { place: WHOLE_LINE, found, expected: expected.into() }
}

/// Takes the next word off a line; empty at its end.
pub(super) fn word<'a>(rest: &mut &'a str) -> &'a str {
    let text = rest.trim_ascii_start();
    let end = text.bytes().position(|b| b.is_ascii_whitespace()).unwrap_or(text.len());
    let (word, after) = text.split_at(end);
    *rest = after;
    word
}

/// A whole number.
pub(super) fn number(column: &'static str, text: &str) -> Result<u64, BadLine> {
    scaled(column, text, 1)
}

/// A whole number of units: a sector in bytes, a microsecond in nanoseconds.
pub(super) fn scaled(column: &'static str, text: &str, unit: u64) -> Result<u64, BadLine> {
    let value = digits(text).and_then(|value| value.checked_mul(unit));
    value.ok_or_else(|| BadLine::column(column, text, format!("a whole number up to {}", u64::MAX / unit)))
}

/// The same where programs write whole numbers as `4096.0`.
pub(super) fn scaled_decimal(column: &'static str, text: &str, unit: u64) -> Result<u64, BadLine> {
    let whole = text.split_once('.').filter(|(_, zeros)| zeros.bytes().all(|b| b == b'0'));
    let whole = whole.map(|(whole, _)| whole).filter(|whole| !whole.is_empty());
    scaled(column, whole.unwrap_or(text), unit)
        .map_err(|_| scaled(column, text, unit).expect_err("it is no number"))
}

/// A decimal number of seconds, in nanoseconds. Digits beyond the ninth are cut off.
pub(super) fn seconds(column: &'static str, text: &str) -> Result<u64, BadLine> {
    decimal(text, 9).ok_or_else(|| {
        BadLine::column(column, text, format!("seconds such as 12.345, up to {}", u64::MAX / SECOND_NS))
    })
}

/// A decimal number of units of 10^`places`, also one with an exponent, as `1.5e-05`. Digits beyond are cut off.
pub(super) fn decimal_or_power(text: &str, places: usize) -> Option<u64> {
    let Some((text, exponent)) = text.split_once(['e', 'E']) else { return decimal(text, places) };
    let places = i64::try_from(places).ok()?.checked_add(exponent.parse().ok()?)?;
    match usize::try_from(places) {
        Ok(places) => decimal(text, places),
        Err(_) => {
            let scale =
                u32::try_from(places.unsigned_abs()).ok().and_then(|digits| 10u64.checked_pow(digits));
            decimal(text, 0).map(|value| scale.map_or(0, |scale| value / scale))
        }
    }
}

/// A decimal number of units of 10^`places`. Digits beyond are cut off.
pub(super) fn decimal(text: &str, places: usize) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    fraction.bytes().all(|b| b.is_ascii_digit()).then_some(())?;
    let kept = &fraction[..fraction.len().min(places)];
    let scale = |digits: usize| 10u64.checked_pow(u32::try_from(digits).ok()?);
    // Nothing of a unit, however small the unit is.
    let times = |count: u64, digits| if count == 0 { Some(0) } else { count.checked_mul(scale(digits)?) };
    let parts = if kept.is_empty() { 0 } else { times(digits(kept)?, places - kept.len())? };
    times(digits(whole)?, places)?.checked_add(parts)
}

/// Digits and nothing else: `parse` would take a sign.
fn digits(text: &str) -> Option<u64> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok())?
}

/// The operation that a code stands for; upper and lower case are the same.
pub(super) fn op(column: &'static str, text: &str, codes: &[(&str, Op)]) -> Result<Op, BadLine> {
    let found = codes.iter().find(|(code, _)| code.eq_ignore_ascii_case(text));
    found.map(|&(_, op)| op).ok_or_else(|| {
        let names: Vec<String> = codes.iter().map(|(code, op)| format!("{code} ({})", op.name())).collect();
        BadLine::column(column, text, names.join(" or "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        assert_eq!(scaled("c", "3", 512), Ok(1536));
        assert_eq!(number("c", "18446744073709551615"), Ok(u64::MAX));
        for bad in ["", "+1", "-1", "1.5", "0x10", "18446744073709551616", " 1", "\u{661}"] {
            assert!(number("c", bad).is_err(), "{bad}");
        }
        let error = scaled("Offset", "36028797018963968", 512).unwrap_err().to_string();
        assert_eq!(
            error,
            "Offset: found \"36028797018963968\", expected a whole number up to 36028797018963967"
        );
    }

    #[test]
    fn columns_are_as_many_as_the_format_has() {
        assert_eq!(separated_columns("a; b;", ';', "x;y;z"), Ok(["a", "b", ""]));
        for line in ["a", "a,b,c"] {
            let error = comma_columns::<2>(line, "x,y").unwrap_err().to_string();
            let found = if line == "a" { "1 column" } else { "3 columns" };
            assert_eq!(error, format!("found {found}, expected 2: x,y"));
        }
    }

    #[test]
    fn decimal_seconds_are_exact() {
        for (text, ns) in [
            ("0", 0),
            ("0.026214", 26_214_000),
            ("1455592509.130265951", 1_455_592_509_130_265_951),
            ("1.0000000019", 1_000_000_001),
            ("5.", 5_000_000_000),
            ("18446744073.709551615", u64::MAX),
        ] {
            assert_eq!(seconds("t", text), Ok(ns), "{text}");
        }
        for bad in ["", ".", ".5", "-1", "1e3", "1.2.3", "1.+2", "18446744073.709551616", "nan", "1.\u{661}"]
        {
            assert!(seconds("t", bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn powers_of_ten_end_where_64_bits_do() {
        for (text, units) in [
            ("1.5e-05", Some(15_000)),
            ("0.9e10", Some(9_000_000_000_000_000_000)),
            ("0.9e11", None),
            ("0.0e11", Some(0)),
            ("0e99999999999", Some(0)),
            ("1e4294967296", None),
            ("1e-99", Some(0)),
        ] {
            assert_eq!(decimal_or_power(text, 9), units, "{text}");
        }
    }

    #[test]
    fn quotes_are_short_and_printable() {
        assert_eq!(quote(b"a\tb\x1b"), r#""a\tb\u{1b}""#);
        assert_eq!(quote(&[b'x'; 80]), format!("\"{}\"", "x".repeat(80)));
        assert_eq!(quote(&[b'x'; 81]), format!("\"{}\"...", "x".repeat(80)));
        assert_eq!(quote("\u{e4}".repeat(1000).as_bytes()), format!("\"{}\"...", "\u{e4}".repeat(80)));
        assert!(quote(&[0xff; 100_000]).chars().count() < 100);
    }

    #[test]
    fn words() {
        let mut rest = "  a\tbc  ";
        assert_eq!([word(&mut rest), word(&mut rest), word(&mut rest)], ["a", "bc", ""]);
    }
}
