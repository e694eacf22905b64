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

/// A line on the nanoseconds of short runs. `scripts/kernels` reads the least.
pub fn print_spread(mut ns: Vec<f64>) {
    ns.sort_by(f64::total_cmp);
    let at = |part: usize| ns[ns.len() / part];
    let mean = ns.iter().sum::<f64>() / ns.len() as f64;
    println!(
        "  least {:.0}, 5 % {:.0}, quartile {:.0}, median {:.0}, mean {mean:.0}",
        ns[0],
        at(20),
        at(4),
        at(2)
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_the_extremes_of_few_values_and_narrows_with_more() {
        let interval = |count: u32| around_the_median(&(0..count).map(f64::from).collect::<Vec<_>>());
        assert_eq!(interval(1), (0.0, 0.0));
        assert_eq!(interval(5), (0.0, 4.0));
        // Tables of the sign test have the 22nd and the 39th of 60.
        assert_eq!(interval(60), (21.0, 38.0));
        assert_eq!(median(vec![3.0, 1.0, 4.0, 2.0]), 3.0);
    }
}
