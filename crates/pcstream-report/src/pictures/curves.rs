//! WAF over how full the drive is, and over the number of streams.

use pcstream_ssd::GcDestination;

use super::axis::Quantity;
use super::chart::{Chart, Line};
use super::look::{Look, keys};
use super::{Curve, Figure, Material, Sweep, Window};
use crate::csv;
use crate::drive::in_words;

/// WAF over the share of the flash that holds live data when the drive is fullest.
pub fn over_utilisation(material: &Material) -> Figure {
    let title = "Write amplification over how full the drive is";
    let Some(sweep) = material.by_utilisation else { return Figure::left_out(title) };
    let sentences = [
        Some("The same writes on drives with more or less flash. x: live data over all flash, when the drive was fullest.".to_owned()),
        begins(&sweep.curves).map(|sentence| sentence.replacen("on", "On", 1)),
    ];
    let chart = chart(title, sweep, "live data over flash", Quantity::Share);
    Figure {
        title,
        note: sentences.into_iter().flatten().chain(remarks(sweep)).collect::<Vec<_>>().join(" "),
        svg: chart.draw(Window::Wide),
        narrow: chart.draw(Window::Narrow),
        csv: numbers(sweep, "utilisation"),
    }
}

/// For a verdict that streams save little: from how full a drive on they save more.
pub fn on_fuller_drives(sweep: &Sweep) -> Option<String> {
    Some(format!("By how full the flash is (curve below): {}", begins(&sweep.curves)?))
}

/// Where streams of the host begin to save 5 % of what a drive with internal streams programs without them.
fn begins(curves: &[Curve]) -> Option<String> {
    let on = GcDestination::Internal;
    let of = |scheme: &str| curves.iter().find(|curve| curve.scheme == scheme && curve.drive == on);
    let (without, with) = (of("baseline")?, of("pcstream")?);
    let pairs = without.points.iter().filter_map(|(x, now)| {
        let with = with.points.iter().find(|(other, _)| other == x)?;
        Some((*x, 1.0 - with.1 / now))
    });
    let pairs: Vec<(f64, f64)> = pairs.collect();
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    let drive = in_words(on);
    let of_baseline = "of what baseline programs on the same drive";
    let enough: Vec<f64> = pairs.iter().filter(|(_, saved)| *saved >= 0.05).map(|(x, _)| *x).collect();
    let until_the_end = pairs.iter().rev().take_while(|(_, saved)| *saved >= 0.05).count();
    let end = percent(pairs.last()?.0);
    let where_ = match enough[..] {
        [] => return Some(format!("on {drive}, pcstream saves less than 5 % {of_baseline}, up to {end}.")),
        [first, ..] if until_the_end == enough.len() => format!("from {} on", percent(first)),
        [only] => format!("at {} alone", percent(only)),
        [first, .., last] => format!("at some points from {} to {} alone", percent(first), percent(last)),
    };
    Some(format!("on {drive}, pcstream saves 5 % {of_baseline} {where_}."))
}

/// Why lines end early, if any does.
fn left_out(sweep: &Sweep) -> Option<String> {
    let points = crate::human::counted(sweep.left_out, "point");
    let verb = if sweep.left_out == 1 { "is" } else { "are" };
    (sweep.left_out > 0).then(|| {
        format!(
            "{points} {verb} left out, so lines may end early: there the open superblocks of all streams leave no room \
             for garbage collection."
        )
    })
}

/// What is to be known of a sweep.
fn remarks(sweep: &Sweep) -> impl Iterator<Item = String> {
    left_out(sweep).into_iter().chain(sweep.remarks.iter().cloned())
}

/// WAF over the number of streams, S0 included.
pub fn over_streams(material: &Material) -> Figure {
    let title = "Write amplification over the number of streams";
    let Some(sweep) = material.by_streams else { return Figure::left_out(title) };
    let note = "S0 included: with one stream, a drive does what it does alone. More streams keep more superblocks \
                open, which takes from the spare flash.";
    let sentences = std::iter::once(note.to_owned()).chain(remarks(sweep));
    let chart = chart(title, sweep, "streams", Quantity::Number);
    Figure {
        title,
        note: sentences.collect::<Vec<_>>().join(" "),
        svg: chart.draw(Window::Wide),
        narrow: chart.draw(Window::Narrow),
        csv: numbers(sweep, "streams"),
    }
}

/// A line of a curve.
pub fn line(curve: &Curve) -> Line {
    Line {
        name: format!("{} on {}", curve.scheme, in_words(curve.drive)),
        look: Look::of(&curve.scheme, curve.drive),
        points: curve.points.clone(),
    }
}

fn chart<'a>(title: &'a str, sweep: &Sweep, x_label: &'a str, x: Quantity) -> Chart<'a> {
    let curves = &sweep.curves;
    Chart {
        title,
        x_label,
        x,
        y: Quantity::Waf,
        y_from: 1.0,
        y_least: 0.01,
        dots: true,
        lines: curves.iter().map(line).collect(),
        keys: keys(curves.iter().map(|curve| (curve.scheme.as_str(), curve.drive))),
    }
}

fn numbers(sweep: &Sweep, x: &str) -> String {
    let rows = sweep.curves.iter().flat_map(|curve| {
        let (scheme, drive) = (&curve.scheme, curve.drive.to_string());
        curve
            .points
            .iter()
            .map(move |(x, waf)| [scheme.clone(), drive.clone(), x.to_string(), waf.to_string()])
    });
    csv::table(&["scheme", "gc_destination", x, "waf"], rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a drive saves without streams of the host is not theirs.
    #[test]
    fn the_threshold_is_that_of_one_drive() {
        let curve = |scheme: &str, drive, wafs: [f64; 3]| Curve {
            scheme: scheme.to_owned(),
            drive,
            points: [0.5, 0.7, 0.8].into_iter().zip(wafs).collect(),
        };
        let curves = |with: [f64; 3]| {
            [
                curve("baseline", GcDestination::Own, [1.2, 1.5, 2.0]),
                curve("baseline", GcDestination::Internal, [1.0, 1.2, 1.5]),
                curve("pcstream", GcDestination::Internal, with),
            ]
        };
        let said = begins(&curves([1.0, 1.19, 1.4])).expect("both are there");
        assert!(said.ends_with("on the same drive from 80 % on."), "{said}");
        let said = begins(&curves([1.0, 1.19, 1.49])).expect("both are there");
        assert!(said.contains("less than 5 %") && said.ends_with("up to 80 %."), "{said}");
        let said = begins(&curves([1.0, 1.10, 1.49])).expect("both are there");
        assert!(said.ends_with("at 70 % alone."), "{said}");
        assert_eq!(begins(&curves([1.0; 3])[..1]), None);
        let sweep = Sweep { curves: curves([1.0, 1.19, 1.4]).to_vec(), ..Sweep::default() };
        let said = on_fuller_drives(&sweep).expect("both are there");
        assert!(said.starts_with("By how full the flash is (curve below): on an SSD"), "{said}");
    }

    #[test]
    fn why_lines_end_early_is_said() {
        let said = |left_out| super::left_out(&Sweep { left_out, ..Sweep::default() });
        assert_eq!(said(0), None);
        assert!(said(1).is_some_and(|said| said.starts_with("1 point is left out")));
        assert!(said(3).is_some_and(|said| said.starts_with("3 points are left out")));
    }
}
