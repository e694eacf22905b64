//! Axes: ticks at round numbers, all in one unit.

use pcstream_trace::PAGE_BYTES;

use crate::human::{page_bytes, ratio, time, time_unit};

/// What an axis counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// A few numbers as they are: charts name each.
    Number,
    /// A WAF. There is none below 1, so its axis begins where it is said to, and not at a round number below.
    Waf,
    /// A share, shown in percent.
    Share,
    /// Pages, shown in bytes.
    Pages,
    /// Pages per second, shown in bytes.
    Rate,
    /// Seconds, shown in a unit that suits them.
    Time,
}

impl Quantity {
    /// What stands above an axis of it; nothing where that depends.
    pub fn name(self) -> &'static str {
        match self {
            Quantity::Waf => "WAF: flash pages for each page written",
            Quantity::Rate => "written or copied in a second",
            Quantity::Number | Quantity::Share | Quantity::Pages | Quantity::Time => "",
        }
    }

    /// A value with three digits, for a tip.
    pub fn text(self, value: f64) -> String {
        match self {
            Quantity::Number => number(value, 3).trim_end_matches('0').trim_end_matches('.').to_owned(),
            Quantity::Waf => ratio(Some(value)),
            Quantity::Share => format!("{:.1} %", value * 100.0),
            Quantity::Pages => page_bytes(value as u64),
            Quantity::Rate => format!("{}/s", page_bytes(value as u64)),
            Quantity::Time => time(value),
        }
    }

    /// The unit of an axis up to `high`, in values, and what is written behind its numbers.
    fn unit(self, high: f64) -> (f64, String) {
        const BYTES: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
        let suffix = match self {
            Quantity::Number | Quantity::Waf => return (1.0, String::new()),
            Quantity::Share => return (0.01, " %".to_owned()),
            Quantity::Time => {
                let (unit, name) = time_unit(high);
                return (unit, format!(" {name}"));
            }
            Quantity::Pages => "",
            Quantity::Rate => "/s",
        };
        let bytes = high * PAGE_BYTES as f64;
        let power = (bytes.max(1.0).log2() / 10.0).floor().min((BYTES.len() - 1) as f64);
        (1024f64.powf(power) / PAGE_BYTES as f64, format!(" {}{suffix}", BYTES[power as usize]))
    }

    /// Round numbers from at most `low` (of a WAF: from `low`) to at least `high`, about `wanted` of them, with their texts.
    pub fn ticks(self, low: f64, high: f64, wanted: usize) -> Vec<(f64, String)> {
        let (unit, suffix) = self.unit(high);
        let (low, high) = (low / unit, high / unit);
        let rough = (high - low).max(1e-9) / wanted as f64;
        let power = 10f64.powf(rough.log10().floor());
        let steps = [1.0, 2.0, 2.5, 5.0, 10.0].map(|step| step * power);
        let step = steps.into_iter().find(|step| *step >= rough).unwrap_or(power);
        let digits = (0..9).find(|digits| is_whole(step * 10f64.powi(*digits as i32))).unwrap_or(9);
        let (first, last) = ((low / step + 1e-9).floor(), (high / step - 1e-9).ceil());
        let tick = |at: usize| {
            let value = (first + at as f64) * step;
            let value = if self == Quantity::Waf { value.max(low) } else { value };
            (value * unit, format!("{}{suffix}", number(value, digits)))
        };
        (0..=(last - first).max(0.0) as usize).map(tick).collect()
    }
}

fn is_whole(value: f64) -> bool {
    (value - value.round()).abs() < 1e-6
}

fn number(value: f64, digits: usize) -> String {
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(quantity: Quantity, low: f64, high: f64) -> String {
        let ticks = quantity.ticks(low, high, 5);
        ticks.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn ticks_are_round_and_cover_the_range() {
        let values = |low, high| {
            let ticks = Quantity::Number.ticks(low, high, 5);
            ticks.into_iter().map(|(value, _)| value).collect::<Vec<_>>()
        };
        assert_eq!(values(0.0, 10.0), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        let fine = values(1.0, 1.007);
        assert!(fine[0] <= 1.0 && *fine.last().unwrap() >= 1.007 - 1e-9 && fine.len() <= 8, "{fine:?}");
        assert!(values(3.0, 3.0).len() < 10);
    }

    #[test]
    fn an_axis_has_one_unit() {
        const MIB: f64 = 256.0;
        assert_eq!(texts(Quantity::Pages, 0.0, 1587.2 * MIB), "0.0 GiB, 0.5 GiB, 1.0 GiB, 1.5 GiB, 2.0 GiB");
        assert_eq!(texts(Quantity::Pages, 0.0, 128.0 * MIB), "0 MiB, 50 MiB, 100 MiB, 150 MiB");
        assert_eq!(texts(Quantity::Rate, 0.0, 2.0), "0 KiB/s, 2 KiB/s, 4 KiB/s, 6 KiB/s, 8 KiB/s");
        assert_eq!(texts(Quantity::Share, 0.48, 0.59), "47.5 %, 50.0 %, 52.5 %, 55.0 %, 57.5 %, 60.0 %");
        assert_eq!(texts(Quantity::Waf, 1.0, 1.01), "1.0000, 1.0025, 1.0050, 1.0075, 1.0100");
        assert_eq!(texts(Quantity::Waf, 1.0, 7.9), "1, 2, 4, 6, 8", "none below the plot");
        assert_eq!(texts(Quantity::Time, 0.0, 0.0006), "0 us, 200 us, 400 us, 600 us");
        assert_eq!(texts(Quantity::Time, 0.0, 719_964.0), "0 days, 2 days, 4 days, 6 days, 8 days, 10 days");
        assert_eq!(Quantity::Number.text(12.5), "12.5");
        assert_eq!(Quantity::Number.text(120.0), "120");
    }
}
