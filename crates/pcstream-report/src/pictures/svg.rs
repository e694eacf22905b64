//! The few elements of SVG that the pictures need. Coordinates are in user units, written with one decimal.

use std::fmt::Write;

use super::Figure;
use crate::escape::visible;

/// The style of pictures, which the HTML report has once and each picture alone has inside.
pub const STYLE: &str = include_str!("style.css");

/// A picture on its way.
pub struct Svg {
    width: f64,
    height: f64,
    title: String,
    body: String,
}

impl Svg {
    /// An empty picture.
    pub fn new(width: f64, height: f64, title: &str) -> Svg {
        Svg { width, height, title: title.to_owned(), body: String::new() }
    }

    /// How wide it is.
    pub fn width(&self) -> f64 {
        self.width
    }

    /// A filled rectangle; `tip` is shown under the pointer, if it is not empty.
    pub fn rect(&mut self, class: &str, [x, y, width, height]: [f64; 4], tip: &str) {
        let tip = if tip.is_empty() { String::new() } else { format!("<title>{}</title>", escaped(tip)) };
        _ = writeln!(
            self.body,
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\">{tip}</rect>",
            width.max(0.0),
            height.max(0.0)
        );
    }

    /// As `rect`, with an opacity from 0 to 1.
    pub fn shade(&mut self, class: &str, [x, y, width, height]: [f64; 4], opacity: f64) {
        _ = writeln!(
            self.body,
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" \
             opacity=\"{opacity:.2}\"/>"
        );
    }

    /// A box of a flame graph: its place, its shade, its place as shares of the width, its label and its tip.
    pub fn flame_box(
        &mut self,
        class: &str,
        [x, y, width, height]: [f64; 4],
        shade: f64,
        (from, share): (f64, f64),
        (label, tip): (&str, &str),
    ) {
        let (label, tip) = (escaped(label), escaped(tip));
        _ = writeln!(
            self.body,
            "<g class=\"box\" data-x=\"{from:.6}\" data-w=\"{share:.6}\"><title>{tip}</title><rect class=\"{class}\" \
             x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{height:.1}\" opacity=\"{shade:.2}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\">{label}</text></g>",
            (width - 0.5).max(0.3),
            x + 3.0,
            y + 13.0,
        );
    }

    /// An entry of a legend of colours: a colour, and what it stands for.
    pub fn key(&mut self, class: &str, x: f64, y: f64, text: &str) {
        self.rect(class, [x, y, 10.0, 10.0], "");
        self.text("", x + 16.0, y + 9.5, text);
    }

    /// A line through points.
    pub fn line(&mut self, class: &str, points: &[(f64, f64)]) {
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        _ = writeln!(self.body, "<polyline class=\"{class}\" points=\"{}\"/>", points.join(" "));
    }

    /// A filled shape around a point: `path` is data of an SVG path that begins there; `tip` as for `rect`.
    pub fn marker(&mut self, class: &str, x: f64, y: f64, path: &str, tip: &str) {
        let tip = if tip.is_empty() { String::new() } else { format!("<title>{}</title>", escaped(tip)) };
        _ = writeln!(self.body, "<path class=\"{class}\" d=\"M{x:.1} {y:.1}{path}\">{tip}</path>");
    }

    /// Text; classes `end` and `mid` say which part of it is at `x`.
    pub fn text(&mut self, class: &str, x: f64, y: f64, text: &str) {
        _ = writeln!(self.body, "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", escaped(text));
    }

    /// Horizontal strokes of a height: `path` is data of an SVG path.
    pub fn strokes(&mut self, class: &str, height: f64, path: &str) {
        _ = writeln!(self.body, "<path class=\"cells {class}\" stroke-width=\"{height:.2}\" d=\"{path}\"/>");
    }

    /// The whole element.
    pub fn finish(self) -> String {
        let (width, height) = (self.width, self.height);
        format!(
            "<svg class=\"figure\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
             width=\"{width:.0}\" height=\"{height:.0}\" role=\"img\" aria-label=\"{}\">\n{}</svg>\n",
            escaped(&self.title),
            self.body
        )
    }
}

/// Height of the heading of a picture alone.
const HEADING: f64 = 48.0;

/// A picture as a file of its own: with its style, a background, its title, and what it is of.
pub fn standalone(figure: &Figure, of: &str) -> String {
    let svg = &figure.svg;
    let value = |name: &str| svg.split(&format!(" {name}=\"")).nth(1)?.split('"').next()?.parse().ok();
    let (width, height) = (value("width").unwrap_or(0.0), value("height").unwrap_or(0.0) + HEADING);
    format!(
        "<svg class=\"figure\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\">\n<style>\n{STYLE}</style>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"var(--bg)\"/>\n\
         <text class=\"title\" x=\"8\" y=\"20\">{}</text>\n<text class=\"dim\" x=\"8\" y=\"38\">{}</text>\n\
         {}</svg>\n",
        escaped(figure.title),
        escaped(of),
        svg.replacen("<svg ", &format!("<svg y=\"{HEADING}\" "), 1),
    )
}

/// Text between tags or in an attribute, in which every character is seen.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in visible(text).chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_end_an_element() {
        assert_eq!(
            escaped("<a b=\"c\">&'\u{1b}\u{202e}\u{61c}"),
            "&lt;a b=&quot;c&quot;&gt;&amp;&#39;\\x1b\\u{202e}\\u{61c}"
        );
    }

    #[test]
    fn a_picture_alone_brings_its_style_and_says_what_it_is_of() {
        let mut svg = Svg::new(10.0, 20.0, "x");
        svg.text("dim", 1.0, 2.0, "a<b");
        let figure = Figure { title: "t", svg: svg.finish(), ..Figure::left_out("") };
        let text = standalone(&figure, "x.pctrace");
        assert!(text.starts_with("<svg ") && text.contains("<style>") && text.contains("a&lt;b"));
        assert!(
            text.contains("viewBox=\"0 0 10 68\"")
                && text.contains(">t</text>")
                && text.contains(">x.pctrace<")
        );
        assert!(text.trim_end().ends_with("</svg>"));
    }
}
