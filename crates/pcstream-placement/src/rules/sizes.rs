//! Sizes of files that a rule is about: `16M..64M`, from the first to less than the second, in bytes with an optional suffix
//! K, M, G or T (powers of 1024; `MiB` is `M`). Either end may be left out.

/// From a number of bytes to less than another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sizes {
    from: u64,
    /// `None`: without end.
    below: Option<u64>,
}

impl Sizes {
    pub fn parse(text: &str) -> Option<Sizes> {
        let (from, below) = text.split_once("..")?;
        if from.is_empty() && below.is_empty() {
            return None;
        }
        let from = if from.is_empty() { 0 } else { bytes(from)? };
        let below = if below.is_empty() { None } else { Some(bytes(below)?) };
        below.is_none_or(|below| from < below).then_some(Sizes { from, below })
    }

    pub fn hold(self, size: u64) -> bool {
        self.from <= size && self.below.is_none_or(|below| size < below)
    }

    /// Its ends.
    pub fn steps(self) -> impl Iterator<Item = u64> {
        [Some(self.from).filter(|&from| from > 0), self.below].into_iter().flatten()
    }
}

fn bytes(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let suffix = text[digits..].to_ascii_uppercase();
    let shift = match suffix.strip_suffix("IB").unwrap_or(&suffix) {
        "" if suffix.is_empty() => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return None,
    };
    text[..digits].parse::<u64>().ok()?.checked_mul(1 << shift)
}
