//! Medians, and how far values are spread.

/// The greater of the two in the middle, of an even number.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The 95 % confidence interval of the median, by the sign test with its normal approximation: it holds for any
/// distribution. Of fewer than six values, the least and the greatest.
pub fn around_the_median(sorted: &[f64]) -> (f64, f64) {
    let values = sorted.len() as f64;
    let below = ((values - 1.0 - 1.96 * values.sqrt()) / 2.0).max(0.0) as usize;
    (sorted[below], sorted[sorted.len() - 1 - below])
}

/// Nanoseconds of short runs.
pub struct Spread {
    least: f64,
    first_20th: f64,
    first_quarter: f64,
    median: f64,
    mean: f64,
}

impl Spread {
    /// Of values in any order.
    pub fn of(mut ns: Vec<f64>) -> Self {
        ns.sort_by(f64::total_cmp);
        let at = |part: usize| ns[ns.len() / part];
        let mean = ns.iter().sum::<f64>() / ns.len() as f64;
        Self { least: ns[0], first_20th: at(20), first_quarter: at(4), median: at(2), mean }
    }

    /// The differences of the same ranks.
    pub fn less(&self, other: &Self) -> Self {
        Self {
            least: self.least - other.least,
            first_20th: self.first_20th - other.first_20th,
            first_quarter: self.first_quarter - other.first_quarter,
            median: self.median - other.median,
            mean: self.mean - other.mean,
        }
    }

    /// A line.
    pub fn print(&self, name: &str) {
        let Self { least, first_20th, first_quarter, median, mean } = self;
        println!(
            "  {name:13} least {least:.0}, 5 % {first_20th:.0}, quartile {first_quarter:.0}, median {median:.0}, mean {mean:.0}"
        );
    }
}
