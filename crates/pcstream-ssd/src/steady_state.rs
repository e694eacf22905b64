//! Where a measurement may begin: a detector of the steady state of the WAF, and how sure the WAF after it is.
//!
//! The rule follows SNIA's Solid State Storage Performance Test Specification (steady state over a window of
//! five rounds): the measured value of no round differs from another by more than 20 % of the average
//! (range), and the best line through the five changes by no more than 10 % of the average over the window
//! (slope). The value here is the WAF of a round, and a round is a number of host pages that the caller
//! chooses; as many pages as the device has is a good choice, since a round must be long against the life of
//! a page to be worth anything.
//!
//! The confidence interval allows for rounds that resemble the one before. With r, their correlation at a distance of one
//! round, n rounds say as much as n (1 - r) / (1 + r) independent ones. A negative r is taken as 0.
//!
//! Known weaknesses: r of few rounds comes out too small. So the interval of a WAF that drifts slowly is too narrow until
//! some 20 rounds are steady. The first round is allowed, in which a prefilled device still holds its data in order.

/// Rounds in the window.
const WINDOW: usize = 5;
/// Largest range of the window, relative to its average.
const RANGE: f64 = 0.20;
/// Largest change of the best line over the window, relative to the average.
const SLOPE: f64 = 0.10;

/// The steady part of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Steady {
    /// First round of the first window that is steady; the measurement begins with it.
    pub first_round: usize,
    /// Rounds from there to the end.
    pub rounds: usize,
    /// Average WAF of these rounds.
    pub waf: f64,
    /// Half the width of its 95 % confidence interval (Student's t over rounds, which may be correlated).
    #[cfg_attr(feature = "serde", serde(rename = "half_width_95"))]
    pub half_width: f64,
}

/// The steady part of rounds with these WAFs; `None` while no window is steady: the run was too short, or the workload changes.
pub fn detect(wafs: &[f64]) -> Option<Steady> {
    let first_round = wafs.windows(WINDOW).position(is_steady)?;
    let steady = &wafs[first_round..];
    let (n, waf) = (steady.len(), mean(steady));
    let variance = steady.iter().map(|w| (w - waf).powi(2)).sum::<f64>() / (n - 1) as f64;
    let r = correlation(steady, waf).max(0.0);
    let independent = n as f64 * (1.0 - r) / (1.0 + r);
    // As many degrees of freedom as that leaves, rounded down so that too little is not taken for enough.
    let degrees = (independent as usize).saturating_sub(1).max(1);
    let half_width = student_t_975(degrees) * (variance / independent).sqrt();
    Some(Steady { first_round, rounds: n, waf, half_width })
}

/// Further rounds until [`detect`] finds a steady state, if their WAF is that of the last round: at most a window; 0 if it
/// has found one.
pub fn rounds_missing(wafs: &[f64]) -> usize {
    let mut wafs = wafs.to_vec();
    let known = wafs.len();
    while detect(&wafs).is_none() {
        wafs.push(wafs.last().copied().unwrap_or(1.0));
    }
    wafs.len() - known
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Of each value with the next, about their mean; less than 1. Equal values have none.
fn correlation(values: &[f64], mean: f64) -> f64 {
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let products: f64 = values.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum();
    if squares > 0.0 { products / squares } else { 0.0 }
}

fn is_steady(window: &[f64]) -> bool {
    let average = mean(window);
    let (low, high) = window.iter().fold((f64::MAX, f64::MIN), |(l, h), &w| (l.min(w), h.max(w)));
    let middle = (window.len() - 1) as f64 / 2.0;
    let (mut covariance, mut variance) = (0.0, 0.0);
    for (round, waf) in window.iter().enumerate() {
        let x = round as f64 - middle;
        covariance += x * (waf - average);
        variance += x * x;
    }
    let change = covariance / variance * (window.len() - 1) as f64;
    high - low <= RANGE * average && change.abs() <= SLOPE * average
}

/// 97.5 % point of Student's t for one degree of freedom or more; beyond 30 it is 2.0, which is 2 % off at most.
pub fn student_t_975(degrees: usize) -> f64 {
    const TABLE: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
        2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048,
        2.045, 2.042,
    ];
    TABLE.get(degrees.wrapping_sub(1)).copied().unwrap_or(2.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analytic;
    use crate::settings::{DeviceSettings, GcDestination, Spare};
    use crate::{LogicalPage, Ssd, StreamId};

    #[test]
    fn a_rise_is_not_steady_and_what_follows_is() {
        assert_eq!(detect(&[2.0, 2.0, 2.0, 2.0]), None, "four rounds are too few");
        assert_eq!(detect(&[1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 2.2]), None);
        let steady = detect(&[1.0, 1.5, 2.0, 3.0, 3.0, 3.1, 2.9, 3.0, 3.0]).unwrap();
        assert_eq!((steady.first_round, steady.rounds), (3, 6));
        assert!((steady.waf - 3.0).abs() < 1e-9);
        // Deviations 0, 0, .1, -.1, 0, 0: s = sqrt(.02/5), times 2.571 / sqrt(6).
        assert!((steady.half_width - 2.571 * (0.004f64 / 6.0).sqrt()).abs() < 1e-6);
    }

    /// Five at most, fewer if the last rounds resemble each other already.
    #[test]
    fn rounds_are_missing_until_five_resemble_the_last() {
        for (wafs, missing) in [
            (&[][..], 5),
            (&[2.0, 2.0], 3),
            (&[1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 2.2], 3),
            (&[1.0, 1.5, 2.0, 3.0], 4),
            (&[1.0, 1.5, 3.0, 3.0, 3.1, 2.9], 1),
            (&[1.0, 3.0, 3.0, 3.1, 2.9, 3.0], 0),
        ] {
            assert_eq!(rounds_missing(wafs), missing, "{wafs:?}");
        }
    }

    /// Deviations of .05 with a correlation of 1/2: six rounds say as much as two, which leave one degree of freedom.
    #[test]
    fn rounds_that_resemble_each_other_leave_fewer_degrees_of_freedom() {
        let steady = detect(&[3.0, 3.0, 3.0, 3.1, 3.1, 3.1]).unwrap();
        assert_eq!(steady.rounds, 6);
        assert!((steady.half_width - 12.706 * (0.003f64 / 2.0).sqrt()).abs() < 1e-6, "{steady:?}");
    }

    #[test]
    fn a_slope_within_the_range_is_not_steady() {
        assert_eq!(detect(&[2.0, 2.06, 2.12, 2.18, 2.24]), None);
        assert!(detect(&[2.0, 2.01, 2.02, 2.03, 2.04]).is_some());
        assert_eq!(detect(&[2.0, 2.5, 2.0, 2.5, 2.0]), None, "range");
    }

    /// A WAF that falls slowly towards 5.28, as that of 99 % of the writes to 10 % of the pages.
    #[test]
    fn the_interval_of_a_slow_drift_holds_where_it_goes() {
        for rounds in [24, 32, 48, 96] {
            let wafs: Vec<f64> =
                (0..rounds).map(|round| 5.28 + 0.3 * (-f64::from(round) / 8.0).exp()).collect();
            let steady = detect(&wafs).unwrap();
            let n = wafs.len() as f64;
            let variance = wafs.iter().map(|w| (w - steady.waf).powi(2)).sum::<f64>() / (n - 1.0);
            let of_independent_rounds = 2.0 * (variance / n).sqrt();
            let error = steady.waf - 5.28;
            println!("{rounds} rounds: {error:.3} off, {:.3} allowed", steady.half_width);
            assert!(error > of_independent_rounds && error < steady.half_width, "{steady:?}");
        }
    }

    /// The interval of a simulated device contains the closed form.
    #[test]
    fn the_interval_of_a_real_run_holds_the_closed_form() {
        let settings = DeviceSettings {
            logical_pages: 800 * 64,
            spare: Spare::Superblocks(1001),
            superblock_pages: 64,
            streams: 1,
            gc_destination: GcDestination::Own,
            ..DeviceSettings::default()
        };
        let mut ssd = Ssd::new(&settings).unwrap();
        ssd.prefill(LogicalPage(0), settings.logical_pages).unwrap();
        let (mut wafs, mut gc_pages) = (Vec::new(), 0);
        let mut random = 1u64;
        for i in 1..=20 * settings.logical_pages {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let page = (u128::from(random) * u128::from(settings.logical_pages)) >> 64;
            ssd.write(LogicalPage(page as u64), 1, StreamId(0)).unwrap();
            if i % settings.logical_pages == 0 {
                let copied =
                    ssd.counters().gc_pages - std::mem::replace(&mut gc_pages, ssd.counters().gc_pages);
                wafs.push(1.0 + copied as f64 / settings.logical_pages as f64);
            }
        }
        let steady = detect(&wafs).expect("uniform traffic becomes steady");
        assert!((1..6).contains(&steady.first_round), "{steady:?}");
        let expected = analytic::greedy(1.25, 64);
        assert!((steady.waf - expected).abs() < steady.half_width + 0.01, "{steady:?}, {expected}");
        assert!(steady.half_width < 0.05, "{steady:?}");
    }
}
