//! Means of repetitions with 95 % confidence intervals, and whether two of them differ by more than noise.

use pcstream_ssd::steady_state::student_t_975;
use serde::Serialize;

/// A mean of repetitions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Mean {
    /// The mean.
    pub mean: f64,
    /// Half the width of its 95 % interval; null for a single repetition.
    pub half_width_95: Option<f64>,
    /// The least of them.
    pub least: f64,
    /// The greatest of them.
    pub greatest: f64,
    /// Repetitions.
    pub repetitions: usize,
}

/// The mean of `values`, of which there is at least one.
pub fn mean(values: &[f64]) -> Mean {
    let (mean, variance) = mean_and_variance(values);
    let n = values.len();
    let half_width = variance.map(|variance| t95((n - 1) as f64) * (variance / n as f64).sqrt());
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let greatest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    Mean { mean, half_width_95: half_width, least, greatest, repetitions: n }
}

/// Whether the means of two samples differ at the 5 % level (Welch's test); `None` where one has a single value, so
/// that noise is not known.
pub fn differ(a: &[f64], b: &[f64]) -> Option<bool> {
    let ((mean_a, variance_a), (mean_b, variance_b)) = (mean_and_variance(a), mean_and_variance(b));
    let (of_a, of_b) = (variance_a? / a.len() as f64, variance_b? / b.len() as f64);
    let error = (of_a + of_b).sqrt();
    if error == 0.0 {
        return Some(mean_a != mean_b);
    }
    let freedom =
        (of_a + of_b).powi(2) / (of_a.powi(2) / (a.len() - 1) as f64 + of_b.powi(2) / (b.len() - 1) as f64);
    Some((mean_a - mean_b).abs() > t95(freedom) * error)
}

/// Mean, and variance of a sample of two or more.
fn mean_and_variance(values: &[f64]) -> (f64, Option<f64>) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, (values.len() > 1).then(|| squares / (n - 1.0)))
}

/// The next lower whole number of degrees: a little too careful.
fn t95(freedom: f64) -> f64 {
    student_t_975(freedom.max(1.0) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_students() {
        let m = mean(&[10.0, 12.0, 14.0]);
        assert_eq!((m.mean, m.least, m.greatest), (12.0, 10.0, 14.0));
        // sd 2, n 3: 4.303 x 2 / sqrt 3.
        assert!((m.half_width_95.unwrap() - 4.968_676).abs() < 1e-3);
        assert_eq!(mean(&[5.0]).half_width_95, None);
    }

    #[test]
    fn noise_differs_from_change() {
        assert_eq!(differ(&[1.0], &[2.0, 2.1]), None);
        assert_eq!(differ(&[1.0, 1.1, 0.9], &[1.05, 0.95, 1.1]), Some(false));
        assert_eq!(differ(&[1.0, 1.01, 0.99], &[2.0, 2.01, 1.99]), Some(true));
        assert_eq!(differ(&[1.0, 1.0], &[1.0, 1.0]), Some(false));
        assert_eq!(differ(&[1.0, 1.0], &[1.5, 1.5]), Some(true));
    }
}
