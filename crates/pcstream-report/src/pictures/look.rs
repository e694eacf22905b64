//! How results look: a colour and a marker for each scheme, a stroke for each kind of drive, the same in every picture.

use pcstream_ssd::GcDestination;

use super::COLOURS;
use super::svg::Svg;
use crate::drive::in_words;
use crate::layout::Layout;

/// Schemes that are simulated by default: their colours differ. The others follow in the order of the registry.
pub const FIRST: [&str; 4] = ["baseline", "pcstream", "pcstream-plus", "oracle"];

/// Markers as paths from their middle: circle, square, two triangles, diamond, plus, and cross. There is one less than
/// there are colours, so that two schemes of one colour have different markers.
const MARKERS: [&str; COLOURS - 1] = [
    "m-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0 -7 0z",
    "m-3 -3h6v6h-6z",
    "m0 -4l4 7h-8z",
    "m0 -4.5l4.5 4.5l-4.5 4.5l-4.5 -4.5z",
    "m0 4l4 -7h-8z",
    "m-1 -4h2v3h3v2h-3v3h-2v-3h-3v-2h3z",
    "m0 -1.4l2.4 -2.4l1.4 1.4l-2.4 2.4l2.4 2.4l-1.4 1.4l-2.4 -2.4l-2.4 2.4l-1.4 -1.4l2.4 -2.4l-2.4 -2.4l1.4 -1.4z",
];

/// Width of the sample in a legend.
const SAMPLE: f64 = 26.0;

/// In the order of their colours and markers.
fn schemes() -> impl Iterator<Item = &'static str> {
    FIRST.into_iter().chain(pcstream_placement::names().filter(|name| !FIRST.contains(name)))
}

/// How a line or a bar is drawn.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// Place of the scheme, which gives colour and marker; none: grey, without a marker.
    scheme: Option<usize>,
    /// Whose stroke it has; none: a plain one.
    drive: Option<GcDestination>,
    /// For what is copied, beside what is written.
    thin: bool,
}

impl Look {
    /// Of what is no scheme's.
    pub const NEUTRAL: Look = Look { scheme: None, drive: None, thin: false };

    /// Of a scheme on whatever drive. Schemes of other libraries have a look by their names, too.
    pub fn of_scheme(name: &str) -> Look {
        let known = schemes().position(|scheme| scheme == name);
        let sum = || name.bytes().map(usize::from).sum();
        Look { scheme: Some(known.unwrap_or_else(sum)), ..Look::NEUTRAL }
    }

    /// Of whatever scheme on a drive.
    pub fn of_drive(drive: GcDestination) -> Look {
        Look { drive: Some(drive), ..Look::NEUTRAL }
    }

    /// Of a scheme on a drive.
    pub fn of(scheme: &str, drive: GcDestination) -> Look {
        Look { drive: Some(drive), ..Look::of_scheme(scheme) }
    }

    /// The same, thin.
    pub fn thin(self) -> Look {
        Look { thin: true, ..self }
    }

    fn colour(self) -> String {
        self.scheme.map_or_else(|| "m".to_owned(), |scheme| (scheme % COLOURS).to_string())
    }

    fn stroke(self) -> &'static str {
        self.drive.map_or("", GcDestination::name)
    }

    /// Classes of its lines.
    pub fn line(self) -> String {
        let thin = if self.thin { " thin" } else { "" };
        format!("line l{}{thin} {}", self.colour(), self.stroke()).trim_end().to_owned()
    }

    /// Classes of its bars.
    pub fn bar(self) -> String {
        format!("f{0} l{0} {1}", self.colour(), self.stroke()).trim_end().to_owned()
    }

    /// Every how many points a line has a marker, so that there are some eight, and at which it begins: lines that run
    /// together have theirs at different places.
    pub fn marked(self, points: usize) -> (usize, usize) {
        let every = (points / 8).max(1);
        (every, self.scheme.unwrap_or(0) % every)
    }

    /// Its marker, if it has one.
    pub fn marker(self, svg: &mut Svg, x: f64, y: f64, tip: &str) {
        if let Some(scheme) = self.scheme {
            svg.marker(&format!("f{}", self.colour()), x, y, MARKERS[scheme % MARKERS.len()], tip);
        }
    }
}

/// An entry of a legend.
pub struct Key {
    pub look: Look,
    pub text: String,
}

/// The schemes of some results, and the kinds of drive in the words of reports.
pub fn keys<'a>(results: impl Iterator<Item = (&'a str, GcDestination)> + Clone) -> Vec<Key> {
    let mut schemes: Vec<&str> = Vec::new();
    for (scheme, _) in results.clone() {
        if !schemes.contains(&scheme) {
            schemes.push(scheme);
        }
    }
    let scheme = |name: &&str| Key { look: Look::of_scheme(name), text: (*name).to_owned() };
    schemes.iter().map(scheme).chain(drive_keys(results.map(|(_, drive)| drive))).collect()
}

/// Kinds of drive that occur.
pub fn drive_keys(drives: impl Iterator<Item = GcDestination> + Clone) -> Vec<Key> {
    let occurs = |drive: &GcDestination| drives.clone().any(|other| other == *drive);
    let key = |drive| Key { look: Look::of_drive(drive), text: format!("on {}", in_words(drive)) };
    GcDestination::ALL.into_iter().filter(occurs).map(key).collect()
}

/// Entries in columns that hold the longest; texts have 6.5 units for a character.
pub struct Legend {
    lines: Vec<Vec<Entry>>,
}

/// A text of a legend at its place; without a look, it goes on with what stands above.
struct Entry {
    x: f64,
    look: Option<Look>,
    text: String,
}

impl Legend {
    /// Height of a line.
    pub const LINE: f64 = 18.0;

    /// From `left` to `right`: entries side by side in columns of one width; kinds of drive, and what is long, on lines of
    /// their own, as many as each needs.
    pub fn new(keys: &[Key], left: f64, right: f64) -> Legend {
        let needs = |key: &Key| SAMPLE + 20.0 + 6.5 * key.text.chars().count() as f64;
        let is_drive = |look: Look| look.scheme.is_none() && look.drive.is_some();
        let is_short = |key: &&Key| needs(key) <= (right - left) / 2.0 && !is_drive(key.look);
        let (short, long): (Vec<&Key>, Vec<&Key>) = keys.iter().partition(is_short);
        let column = short.iter().map(|key| needs(key)).fold(1.0, f64::max);
        let in_line = ((right - left) / column).floor().clamp(1.0, 5.0) as usize;
        let place = |(at, key): (usize, &&Key)| Entry {
            x: left + column * at as f64,
            look: Some(key.look),
            text: key.text.clone(),
        };
        let mut lines: Vec<Vec<Entry>> =
            short.chunks(in_line).map(|chunk| chunk.iter().enumerate().map(place).collect()).collect();
        let layout = Layout { width: Some(((right - left - SAMPLE - 6.0) / 6.5) as usize), ..Layout::PLAIN };
        for key in long {
            let parts = layout.wrap(&key.text, 0).into_iter().enumerate();
            lines.extend(
                parts.map(|(at, text)| vec![Entry { x: left, look: (at == 0).then_some(key.look), text }]),
            );
        }
        Legend { lines }
    }

    /// Its height.
    pub fn height(&self) -> f64 {
        Self::LINE * self.lines.len() as f64
    }

    /// Draws it: a sample of a line, or of a bar, before each text.
    pub fn draw(&self, svg: &mut Svg, top: f64, bars: bool) {
        for (line, entries) in self.lines.iter().enumerate() {
            let y = top + Self::LINE * line as f64 + Self::LINE / 2.0;
            for Entry { x, look, text } in entries {
                match look {
                    Some(look) if bars => svg.rect(&look.bar(), [*x, y - 5.0, SAMPLE, 10.0], ""),
                    Some(look) => {
                        svg.line(&look.line(), &[(*x, y), (x + SAMPLE, y)]);
                        look.marker(svg, x + SAMPLE / 2.0, y, "");
                    }
                    None => {}
                }
                svg.text("", x + SAMPLE + 6.0, y + 4.0, text);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn schemes_look_different_and_the_same_on_every_drive() {
        let colour_and_marker = |name: &str| {
            let look = Look::of(name, GcDestination::Own);
            (look.colour(), look.scheme.map(|scheme| scheme % MARKERS.len()))
        };
        let looks: BTreeSet<_> = schemes().map(colour_and_marker).collect();
        assert_eq!(
            (looks.len(), schemes().count()),
            (schemes().count(), pcstream_placement::names().count())
        );
        let line = |drive| Look::of("pcstream", drive).line();
        assert_eq!(GcDestination::ALL.map(line), ["line l1 own", "line l1 internal", "line l1 shared"]);
        assert_eq!(Look::of_scheme("somebody's").line(), Look::of_scheme("somebody's").line());
    }

    #[test]
    fn kinds_of_drive_have_lines_of_their_own() {
        let drives = [GcDestination::Own, GcDestination::Internal];
        let results = ["baseline", "pcstream", "oracle"].map(|scheme| drives.map(|drive| (scheme, drive)));
        let keys = keys(results.into_iter().flatten());
        let legend = Legend::new(&keys, 78.0, 744.0);
        let lines: Vec<usize> = legend.lines.iter().map(Vec::len).collect();
        assert_eq!(lines, [3, 1, 1]);
        let narrow = Legend::new(&keys, 8.0, 380.0);
        let lines: Vec<usize> = narrow.lines.iter().map(Vec::len).collect();
        assert_eq!(lines, [3, 1, 1, 1], "the name of a drive goes on in a second line");
        assert!(narrow.lines[3][0].look.is_none());
    }
}
