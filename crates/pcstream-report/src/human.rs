//! Numbers for people. JSON has them exact; here three digits are enough.

use std::collections::BTreeMap;

use pcstream_trace::PAGE_BYTES;

/// What is saved counts as nothing if it is less than this share.
pub const SHOWN: f64 = 0.000_05;

/// Suffixes of bytes.
const BINARY: [&str; 8] = [" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB", " ZiB"];

/// A count with a decimal suffix: `0`, `999`, `12.3 k`, `4.56 M`.
pub fn count(value: u64) -> String {
    scaled(value as f64, 1000.0, &["", " k", " M", " G", " T", " P", " E"])
}

/// A count with what is counted, in the plural unless it is one: `1 context`, `37 contexts`, `12.3 k contexts`.
pub fn counted(value: u64, what: &str) -> String {
    format!("{} {what}{}", count(value), if value == 1 { "" } else { "s" })
}

/// Losses by cause, those that there are: `missed_events 7, watch_rows 2`; empty without any.
pub fn losses(losses: &BTreeMap<String, u64>) -> String {
    let lost = losses.iter().filter(|(_, count)| **count > 0);
    lost.map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
}

/// Bytes with a binary suffix: `4.00 KiB`, `1.25 GiB`.
pub fn bytes(value: u64) -> String {
    scaled(value as f64, 1024.0, &BINARY)
}

/// Pages as bytes.
pub fn page_bytes(pages: u64) -> String {
    // More than 2^64 bytes is possible.
    scaled(pages as f64 * PAGE_BYTES as f64, 1024.0, &BINARY)
}

/// A share as a percentage: `0 %`, `0.23 %`, `12.5 %`, `100 %`.
pub fn percent(share: f64) -> String {
    let value = share * 100.0;
    // What rounds to 100 without being 100 says so: "100 %" means all of it.
    if (99.95..100.0).contains(&value) {
        return "> 99.9 %".to_owned();
    }
    if value > 0.0 && value < 0.01 {
        return "< 0.01 %".to_owned();
    }
    match value {
        0.0 | 100.0 => format!("{value:.0} %"),
        v if v < 10.0 => format!("{v:.2} %"),
        v => format!("{v:.1} %"),
    }
}

/// A change as a percentage with its sign: `+0.23 %`, `-12.5 %`, `-0.00 %` for less than 0.01 %.
pub fn change(share: f64) -> String {
    let (sign, value) = (if share < 0.0 { '-' } else { '+' }, share.abs() * 100.0);
    if value < 10.0 { format!("{sign}{value:.2} %") } else { format!("{sign}{value:.1} %") }
}

/// What is saved, as a percentage with a minus where it costs more: `12.5 %`, `-3.21 %`; `0 %` for what rounds to it.
pub fn saving(share: f64) -> String {
    match share {
        share if share.abs() < SHOWN => percent(0.0),
        share if share < 0.0 => change(share),
        share => percent(share),
    }
}

/// A WAF or another ratio near 1; `-` where there is none.
pub fn ratio(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), |v| format!("{v:.3}"))
}

/// A time in a unit that suits it: `612 us`, `4.80 s`, `8.33 days`.
pub fn time(seconds: f64) -> String {
    let (unit, name) = time_unit(seconds);
    let value = seconds / unit;
    let digits = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    format!("{value:.digits$} {name}")
}

/// The largest unit of time that is not longer, in seconds, and its name.
pub(crate) fn time_unit(seconds: f64) -> (f64, &'static str) {
    const UNITS: [(f64, &str); 6] =
        [(86_400.0, "days"), (3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"), (1e-6, "us")];
    // What would be short of two days is better said in hours.
    let fits = |(unit, name): &(f64, &str)| seconds >= if *name == "days" { 2.0 * unit } else { *unit };
    UNITS.into_iter().find(fits).unwrap_or(UNITS[5])
}

/// A number with three digits and the suffix that suits it. Suffixes are apart by `base`.
pub(crate) fn scaled(value: f64, base: f64, suffixes: &[&str]) -> String {
    let (mut value, mut index) = (value, 0);
    // 999.6 would print as "1000": the next suffix begins where rounding does.
    while value >= base - 0.5 && index + 1 < suffixes.len() {
        value /= base;
        index += 1;
    }
    match (index, value) {
        (0, v) => format!("{v:.0}{}", suffixes[0]),
        (_, v) if v < 9.995 => format!("{v:.2}{}", suffixes[index]),
        (_, v) if v < 99.95 => format!("{v:.1}{}", suffixes[index]),
        (_, v) => format!("{v:.0}{}", suffixes[index]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts() {
        let cases = [
            (0, "0"),
            (999, "999"),
            (1_000, "1.00 k"),
            (12_345, "12.3 k"),
            (999_400, "999 k"),
            (999_600, "1.00 M"),
            (9_996_000, "10.0 M"),
            (u64::MAX, "18.4 E"),
        ];
        cases.iter().for_each(|&(n, text)| assert_eq!(count(n), text));
        assert_eq!([0, 1, 2].map(|n| counted(n, "context")), ["0 contexts", "1 context", "2 contexts"]);
    }

    #[test]
    fn times_have_a_unit_that_suits_them() {
        let cases = [
            (0.0, "0.00 us"),
            (0.0006, "600 us"),
            (4.8, "4.80 s"),
            (90.0, "1.50 min"),
            (5400.0, "1.50 h"),
            (129_600.0, "36.0 h"),
            (719_964.0, "8.33 days"),
        ];
        cases.iter().for_each(|&(seconds, text)| assert_eq!(time(seconds), text));
    }

    #[test]
    fn sizes() {
        assert_eq!(bytes(4096), "4.00 KiB");
        assert_eq!(page_bytes(1 << 18), "1.00 GiB");
        assert_eq!(page_bytes(u64::MAX), "64.0 ZiB", "more than 2^64 bytes");
    }

    #[test]
    fn shares_do_not_claim_all_or_nothing() {
        let cases = [
            (0.0, "0 %"),
            (0.0000001, "< 0.01 %"),
            (0.0023, "0.23 %"),
            (0.125, "12.5 %"),
            (0.99999, "> 99.9 %"),
            (1.0, "100 %"),
        ];
        cases.iter().for_each(|&(share, text)| assert_eq!(percent(share), text));
        let changes = [-0.0000001, 0.0, 0.0023, -0.125, -0.9999].map(change);
        assert_eq!(changes, ["-0.00 %", "+0.00 %", "+0.23 %", "-12.5 %", "-100.0 %"]);
        let savings = [-0.0000001, 0.0, 0.00002, 0.00007, -0.00007, 0.0023, -0.125].map(saving);
        assert_eq!(savings, ["0 %", "0 %", "0 %", "< 0.01 %", "-0.01 %", "0.23 %", "-12.5 %"]);
        assert_eq!(ratio(None), "-");
        assert_eq!(ratio(Some(1.23456)), "1.235");
    }
}
