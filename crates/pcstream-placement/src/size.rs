//! Sizes and counts as people write them. Flags, configuration files and rules share this.
//!
//! Units: bytes, or whatever is counted. Numbers are read exactly, without floating point.

/// A number with an optional suffix: K, M, G or T for powers of 1024, as `4K`, `1.5G`, `8GiB`; KB, MB, GB or TB
/// for powers of 1000, as drives are sold: `480GB`, `3.84TB`.
///
/// Errors: what was expected, in words for the user.
pub fn size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number = Decimal::parse(digits).zip(unit(&text[digits.len()..]));
    let (number, factor) = number.ok_or_else(|| {
        "expected a number with an optional K, M, G or T (powers of 1024) or KB, MB, GB or TB (of 1000), such as 512M"
            .to_owned()
    })?;
    match number.times(factor) {
        Product::Whole(value) => Ok(value),
        Product::TooLarge => Err("expected less than 16 EiB".to_owned()),
        Product::Broken if factor == 1 || text.ends_with(['b', 'B']) => {
            Err("expected a whole number".to_owned())
        }
        Product::Broken => Err(format!("expected a whole number; as drives are sold, {text}B")),
    }
}

/// What a suffix stands for; None if it is not one.
fn unit(suffix: &str) -> Option<u64> {
    let suffix = suffix.to_ascii_uppercase();
    let (base, letter) = match suffix.strip_suffix("IB") {
        Some(letter) => (1024u64, letter),
        None => suffix.strip_suffix('B').map_or((1024, &suffix[..]), |letter| (1000, letter)),
    };
    let exponent = match letter {
        "" if suffix.is_empty() => 0,
        "K" => 1,
        "M" => 2,
        "G" => 3,
        "T" => 4,
        _ => return None,
    };
    Some(base.pow(exponent))
}

/// A number as it is written: `digits` divided by `divisor`, a power of ten.
struct Decimal {
    digits: u128,
    divisor: u128,
}

enum Product {
    Whole(u64),
    /// It is no whole number.
    Broken,
    TooLarge,
}

impl Decimal {
    /// Digits, with a point before, between or after them.
    fn parse(text: &str) -> Option<Decimal> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let digits = format!("{whole}{fraction}");
        // `parse` takes a sign.
        if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let divisor = 10u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
        Some(Decimal { digits: digits.parse().ok()?, divisor })
    }

    fn times(&self, factor: u64) -> Product {
        match self.digits.checked_mul(factor.into()) {
            None => Product::TooLarge,
            Some(product) if !product.is_multiple_of(self.divisor) => Product::Broken,
            Some(product) => u64::try_from(product / self.divisor).map_or(Product::TooLarge, Product::Whole),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        let good = [
            ("0", 0),
            ("1", 1),
            ("4096", 4096),
            ("4k", 4096),
            ("4K", 4096),
            ("4KiB", 4096),
            ("1.5G", 3 << 29),
            ("16T", 16 << 40),
            ("0.5M", 1 << 19),
            ("4KB", 4000),
            ("480gb", 480_000_000_000),
            ("3.84TB", 3_840_000_000_000),
        ];
        good.iter().for_each(|&(text, value)| assert_eq!(size(text), Ok(value), "{text}"));
        let bad = [
            "",
            "K",
            "-1",
            "1Q",
            "1 K",
            "1.5",
            "1e3K",
            "0.3K",
            "infT",
            "nanK",
            "iB",
            "5iB",
            "5B",
            ".",
            "0.0001KB",
            "99999999999T",
            "18446744073709551616",
            "1.2.3M",
            "\u{e4}",
            "1\u{e4}",
        ];
        bad.iter().for_each(|text| assert!(size(text).is_err(), "{text}"));
        assert!(size("3.84T").unwrap_err().ends_with("as drives are sold, 3.84TB"));
        assert!(size("99999999999999999999999999999999999T").unwrap_err().contains("16 EiB"));
    }
}
