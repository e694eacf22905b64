//! Lines over linear axes, with a legend below.

use super::Window;
use super::axis::Quantity;
use super::look::{Key, Legend, Look};
use super::svg::Svg;

/// Height of charts, and the margins around the plot.
const HEIGHT: f64 = 276.0;
const LEFT: f64 = 78.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 44.0;

/// A line of a chart.
pub struct Line {
    /// For tips.
    pub name: String,
    /// How it is drawn.
    pub look: Look,
    /// x and y, x ascending.
    pub points: Vec<(f64, f64)>,
}

/// A chart of lines.
pub struct Chart<'a> {
    /// For readers who cannot see it.
    pub title: &'a str,
    /// What x is.
    pub x_label: &'a str,
    /// What values of x are.
    pub x: Quantity,
    /// What values of y are.
    pub y: Quantity,
    /// Lowest y; the highest is that of the data.
    pub y_from: f64,
    /// The axis is at least as long, so that noise does not look like mountains.
    pub y_least: f64,
    /// A marker at every point: for few of them.
    pub dots: bool,
    /// The lines.
    pub lines: Vec<Line>,
    /// The legend.
    pub keys: Vec<Key>,
}

impl<'a> Chart<'a> {
    /// Pages per second over seconds.
    pub fn of_rates(title: &'a str, x_label: &'a str, lines: Vec<Line>, keys: Vec<Key>) -> Chart<'a> {
        Chart {
            title,
            x_label,
            x: Quantity::Time,
            y: Quantity::Rate,
            y_from: 0.0,
            y_least: 1.0,
            dots: false,
            lines,
            keys,
        }
    }

    /// Round values of x; where these are plain numbers, those of the points.
    fn x_ticks(&self, low: f64, high: f64, wanted: usize) -> Vec<(f64, String)> {
        if self.x == Quantity::Number {
            let mut values: Vec<f64> =
                self.lines.iter().flat_map(|line| &line.points).map(|(x, _)| *x).collect();
            values.sort_by(f64::total_cmp);
            values.dedup();
            return values.into_iter().map(|value| (value, self.x.text(value))).collect();
        }
        let ticks = self.x.ticks(low, high, wanted).into_iter();
        ticks.filter(|(tick, _)| (low..=high).contains(tick)).collect()
    }

    /// The picture; empty without points.
    pub fn draw(&self, window: Window) -> String {
        let width = window.width();
        let points = || self.lines.iter().flat_map(|line| line.points.iter().copied());
        if points().next().is_none() {
            return String::new();
        }
        let range = |of: fn((f64, f64)) -> f64| {
            points().map(of).fold((f64::MAX, f64::MIN), |(low, high), v| (low.min(v), high.max(v)))
        };
        let (x_low, x_high) = range(|(x, _)| x);
        let (_, y_high) = range(|(_, y)| y);
        let y_ticks = self.y.ticks(self.y_from, y_high.max(self.y_from + self.y_least), 5);
        let y_high = y_ticks.last().map_or(y_high, |(tick, _)| tick.max(y_high));
        let x_span = if x_high > x_low { x_high - x_low } else { 1.0 };
        let y_span = y_high - self.y_from;
        let x_at = |x: f64| LEFT + (x - x_low) / x_span * (width - LEFT - RIGHT);
        let y_at = |y: f64| HEIGHT - BOTTOM - (y - self.y_from) / y_span * (HEIGHT - TOP - BOTTOM);
        let legend = Legend::new(&self.keys, window.legend_left(LEFT), width);
        let mut svg = Svg::new(width, HEIGHT + legend.height() + 4.0, self.title);
        svg.text("dim", 8.0, 14.0, self.y.name());
        for (tick, text) in y_ticks {
            svg.line("axis", &[(LEFT, y_at(tick)), (width - RIGHT, y_at(tick))]);
            svg.text("dim end", LEFT - 6.0, y_at(tick) + 4.0, &text);
        }
        for (tick, text) in self.x_ticks(x_low, x_high, window.pick(6, 4)) {
            svg.text("dim mid", x_at(tick), HEIGHT - BOTTOM + 16.0, &text);
        }
        svg.text("dim mid", (LEFT + width - RIGHT) / 2.0, HEIGHT - 8.0, self.x_label);
        for line in &self.lines {
            let at: Vec<(f64, f64)> = line.points.iter().map(|&(x, y)| (x_at(x), y_at(y))).collect();
            svg.line(&line.look.line(), &at);
            let (every, first) = if self.dots { (1, 0) } else { line.look.marked(at.len()) };
            for ((x, y), (value_x, value_y)) in at.iter().zip(&line.points).skip(first).step_by(every) {
                let tip = format!("{}: {} at {}", line.name, self.y.text(*value_y), self.x.text(*value_x));
                line.look.marker(&mut svg, *x, *y, &tip);
            }
        }
        legend.draw(&mut svg, HEIGHT, false);
        svg.finish()
    }
}
