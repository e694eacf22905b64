//! From an access count to a level, the part in which AutoStream's public readings differ most.
//!
//! Levels are found by comparing with precomputed bounds, not by a logarithm of the platform's
//! maths library, so that results are the same everywhere.

use crate::error::{SchemeError, check};
use crate::parameter::Value;

/// Base of the logarithm that turns a count into a level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LogBase {
    /// 2: the project's default.
    Two,
    /// e: SepBIT's Java simulator.
    E,
    /// 10: BlueDBM's driver.
    Ten,
    /// Any other base above 1.
    Other(f64),
}

impl LogBase {
    fn value(self) -> f64 {
        match self {
            LogBase::Two => 2.0,
            LogBase::E => std::f64::consts::E,
            LogBase::Ten => 10.0,
            LogBase::Other(base) => base,
        }
    }
}

/// How a count becomes a level, 0 the coldest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LevelRule {
    /// floor(log count); counts below 1 are level 0.
    Floor(LogBase),
    /// The smallest i with 2^(i+1) >= count (the ftrace-based AutoStream).
    CeilTwo,
}

impl Default for LevelRule {
    fn default() -> Self {
        LevelRule::Floor(LogBase::Two)
    }
}

/// `floor-2`, `floor-e`, `floor-10`, `floor-` and any other base, or `ceil-2`.
impl Value for LevelRule {
    fn read(text: &str) -> Result<Self, String> {
        let base = text.strip_prefix("floor-").map(|base| match base {
            "2" => Some(LogBase::Two),
            "e" => Some(LogBase::E),
            "10" => Some(LogBase::Ten),
            other => other.parse().ok().map(LogBase::Other),
        });
        match (text, base) {
            ("ceil-2", _) => Ok(LevelRule::CeilTwo),
            (_, Some(Some(base))) => Ok(LevelRule::Floor(base)),
            _ => Err("floor-BASE with a base above 1 (2, e, 10, 1.5), or ceil-2".into()),
        }
    }

    fn show(&self) -> String {
        match self {
            LevelRule::CeilTwo => "ceil-2".to_owned(),
            LevelRule::Floor(LogBase::E) => "floor-e".to_owned(),
            LevelRule::Floor(base) => format!("floor-{}", base.value()),
        }
    }
}

/// The counts at which the level rises.
#[derive(Clone, Debug)]
pub(crate) struct Levels {
    /// `bounds[i]` is the smallest count of level i+1 (or, if `above`, what it must exceed).
    bounds: Vec<f64>,
    above: bool,
}

impl Levels {
    /// `levels` levels, at least one.
    pub(crate) fn new(
        rule: LevelRule,
        levels: u8,
        scheme: &'static str,
        parameter: &'static str,
    ) -> Result<Levels, SchemeError> {
        let (base, first, above) = match rule {
            LevelRule::Floor(base) => (base.value(), base.value(), false),
            LevelRule::CeilTwo => (2.0, 2.0, true),
        };
        check(base > 1.0 && base.is_finite(), scheme, parameter, base, "a finite base above 1")?;
        let bounds = std::iter::successors(Some(first), |b| Some(b * base))
            .take(usize::from(levels.max(1)) - 1)
            .collect();
        Ok(Levels { bounds, above })
    }

    /// The level of a count, capped at the highest.
    #[inline]
    pub(crate) fn of(&self, count: f64) -> u8 {
        let reached = |bound: f64| if self.above { count > bound } else { count >= bound };
        let mut level = 0;
        while level < self.bounds.len() && reached(self.bounds[level]) {
            level += 1;
        }
        level as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn levels(rule: LevelRule, counts: &[f64]) -> Vec<u8> {
        let levels = Levels::new(rule, 4, "test", "level").expect("valid");
        counts.iter().map(|&c| levels.of(c)).collect()
    }

    #[test]
    fn levels_by_hand() {
        let counts = [0.3, 1.0, 1.9, 2.0, 2.5, 3.0, 4.0, 7.9, 8.0, 9.0, 20.0, 21.0, 99.0, 100.0, 1e9];
        assert_eq!(
            levels(LevelRule::Floor(LogBase::Two), &counts),
            [0, 0, 0, 1, 1, 1, 2, 2, 3, 3, 3, 3, 3, 3, 3]
        );
        // e = 2.718, e^2 = 7.389, e^3 = 20.0855
        assert_eq!(
            levels(LevelRule::Floor(LogBase::E), &counts),
            [0, 0, 0, 0, 0, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3]
        );
        assert_eq!(
            levels(LevelRule::Floor(LogBase::Ten), &counts),
            [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 2, 3]
        );
        // 2^(i+1) >= count: up to 2 -> 0, up to 4 -> 1, up to 8 -> 2, above -> 3
        assert_eq!(levels(LevelRule::CeilTwo, &counts), [0, 0, 0, 0, 1, 1, 1, 2, 2, 3, 3, 3, 3, 3, 3]);
    }

    #[test]
    fn one_level_holds_everything_and_bad_bases_are_refused() {
        assert_eq!(Levels::new(LevelRule::default(), 1, "t", "p").expect("valid").of(1e300), 0);
        assert_eq!(Levels::new(LevelRule::default(), 255, "t", "p").expect("valid").of(f64::MAX), 254);
        for base in [1.0, 0.5, -2.0, f64::NAN, f64::INFINITY] {
            assert!(Levels::new(LevelRule::Floor(LogBase::Other(base)), 4, "t", "p").is_err(), "{base}");
        }
    }
}
