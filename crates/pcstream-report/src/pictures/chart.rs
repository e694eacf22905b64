//! Lines over a linear axis, with ticks at round numbers and a legend below.

use super::svg::Svg;
use super::{COLOURS, Curve};
use crate::human::page_bytes;

/// Size of charts, and of the margins around the plot.
pub const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 78.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 44.0;
/// Height of a line of the legend.
const LEGEND_LINE: f64 = 18.0;

/// A chart of lines.
pub struct Chart<'a> {
    /// For readers who cannot see it.
    pub title: &'a str,
    /// What x is.
    pub x_label: &'a str,
    /// How values of x and y are written.
    pub x_text: fn(f64) -> String,
    /// How values of y are written.
    pub y_text: fn(f64) -> String,
    /// Lowest y; the highest is that of the data.
    pub y_from: f64,
    /// The axis is at least as long, so that noise does not look like mountains.
    pub y_least: f64,
    /// Dots at the points: for few of them.
    pub dots: bool,
    /// The lines, x ascending.
    pub lines: Vec<Curve>,
}

impl<'a> Chart<'a> {
    /// Pages per second over seconds.
    pub fn of_rates(title: &'a str, x_label: &'a str, lines: Vec<Curve>) -> Chart<'a> {
        Chart {
            title,
            x_label,
            x_text: |seconds| format!("{seconds:.3}").trim_end_matches('0').trim_end_matches('.').to_owned(),
            y_text: |pages| format!("{}/s", page_bytes(pages as u64)),
            y_from: 0.0,
            y_least: 1.0,
            dots: false,
            lines,
        }
    }

    /// The picture; empty without points.
    pub fn draw(&self) -> String {
        let points = || self.lines.iter().flat_map(|line| line.points.iter().copied());
        if points().next().is_none() {
            return String::new();
        }
        let range = |of: fn((f64, f64)) -> f64| {
            points().map(of).fold((f64::MAX, f64::MIN), |(low, high), v| (low.min(v), high.max(v)))
        };
        let (x_low, x_high) = range(|(x, _)| x);
        let (_, y_high) = range(|(_, y)| y);
        let y_ticks = ticks(self.y_from, y_high.max(self.y_from + self.y_least), 5);
        let y_high = y_ticks.last().copied().unwrap_or(y_high).max(y_high);
        let x_span = if x_high > x_low { x_high - x_low } else { 1.0 };
        let y_span = y_high - self.y_from;
        let x_at = |x: f64| LEFT + (x - x_low) / x_span * (WIDTH - LEFT - RIGHT);
        let y_at = |y: f64| HEIGHT - BOTTOM - (y - self.y_from) / y_span * (HEIGHT - TOP - BOTTOM);
        let mut svg = Svg::new(WIDTH, HEIGHT + LEGEND_LINE * self.legend_lines(), self.title);
        for tick in y_ticks {
            svg.line("axis", &[(LEFT, y_at(tick)), (WIDTH - RIGHT, y_at(tick))]);
            svg.text("dim end", LEFT - 6.0, y_at(tick) + 4.0, &(self.y_text)(tick));
        }
        for tick in ticks(x_low, x_high, 6).into_iter().filter(|tick| (x_low..=x_high).contains(tick)) {
            svg.text("dim mid", x_at(tick), HEIGHT - BOTTOM + 16.0, &(self.x_text)(tick));
        }
        svg.text("dim mid", (LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 8.0, self.x_label);
        for (index, line) in self.lines.iter().enumerate() {
            let class = format!("line l{}", index % COLOURS);
            let at: Vec<(f64, f64)> = line.points.iter().map(|&(x, y)| (x_at(x), y_at(y))).collect();
            svg.line(&class, &at);
            for ((x, y), (value_x, value_y)) in at.into_iter().zip(&line.points).filter(|_| self.dots) {
                let tip =
                    format!("{}: {} at {}", line.name, (self.y_text)(*value_y), (self.x_text)(*value_x));
                svg.dot(&format!("f{}", index % COLOURS), x, y, &tip);
            }
        }
        self.legend(&mut svg);
        svg.finish()
    }

    fn legend_lines(&self) -> f64 {
        self.lines.len().div_ceil(2) as f64
    }

    fn legend(&self, svg: &mut Svg) {
        for (index, line) in self.lines.iter().enumerate() {
            let x = LEFT + (index % 2) as f64 * (WIDTH - LEFT) / 2.0;
            let y = HEIGHT + 4.0 + (index / 2) as f64 * LEGEND_LINE;
            svg.key(&format!("f{}", index % COLOURS), x, y, &line.name);
        }
    }
}

/// Round numbers from at most `low` to at least `high`, about `wanted` of them.
pub fn ticks(low: f64, high: f64, wanted: usize) -> Vec<f64> {
    let rough = (high - low).max(1e-9) / wanted as f64;
    let power = 10f64.powf(rough.log10().floor());
    let step =
        [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().map(|m| m * power).find(|s| *s >= rough).unwrap_or(power);
    let first = (low / step).floor();
    let last = (high / step - 1e-9).ceil();
    (0..=(last - first) as usize).map(|i| (first + i as f64) * step).collect()
}

#[cfg(test)]
mod tests {
    use super::ticks;

    #[test]
    fn ticks_are_round_and_cover_the_range() {
        assert_eq!(ticks(0.0, 10.0, 5), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        let fine = ticks(1.0, 1.007, 5);
        assert!(fine[0] <= 1.0 && *fine.last().unwrap() >= 1.007 - 1e-9 && fine.len() <= 8, "{fine:?}");
        assert!(ticks(3.0, 3.0, 5).len() < 10);
    }
}
