//! WAF over how full the drive is, and over the number of streams.

use super::chart::Chart;
use super::{Curve, Figure, Material};
use crate::csv;
use crate::human::ratio;

/// WAF over the share of the flash that holds live data when the drive is fullest.
pub fn over_utilisation(material: &Material) -> Figure {
    let curves = material.by_utilisation;
    Figure {
        title: "Write amplification over how full the drive is",
        note: format!(
            "The same writes on drives with more or less flash. x: live data over all flash, when the drive was \
             fullest. {}",
            begins(curves)
        ),
        svg: chart(curves, "live data over flash", |x| format!("{:.0} %", x * 100.0)),
        csv: numbers(curves, "utilisation"),
    }
}

/// Where streams begin to save 5 %: the first curve is without, the second with streams.
fn begins(curves: &[Curve]) -> String {
    let [without, with, ..] = curves else { return String::new() };
    let pairs = without.points.iter().filter_map(|(x, now)| {
        let with = with.points.iter().find(|(other, _)| other == x)?;
        Some((*x, 1.0 - with.1 / now))
    });
    let pairs: Vec<(f64, f64)> = pairs.collect();
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    match (pairs.iter().find(|(_, saved)| *saved >= 0.05), pairs.last()) {
        (Some((x, _)), _) => format!("Streams begin to save 5 % of the flash at {}.", percent(*x)),
        (None, Some((x, _))) => format!("Streams save less than 5 % of the flash up to {}.", percent(*x)),
        (None, None) => String::new(),
    }
}

/// WAF over the number of streams, S0 included.
pub fn over_streams(material: &Material) -> Figure {
    let curves = material.by_streams;
    Figure {
        title: "Write amplification over the number of streams",
        note: "S0 included. More streams keep more superblocks open, which takes from the spare flash."
            .to_owned(),
        svg: chart(curves, "streams", |x| format!("{x:.0}")),
        csv: numbers(curves, "streams"),
    }
}

fn chart(curves: &[Curve], x_label: &str, x_text: fn(f64) -> String) -> String {
    let lines = curves.to_vec();
    let y_text = |waf| ratio(Some(waf));
    Chart { title: "WAF", x_label, x_text, y_text, y_from: 1.0, y_least: 0.01, dots: true, lines }.draw()
}

fn numbers(curves: &[Curve], x: &str) -> String {
    let rows = curves.iter().flat_map(|curve| {
        curve.points.iter().map(|(x, waf)| [curve.name.clone(), x.to_string(), waf.to_string()])
    });
    csv::table(&["line", x, "waf"], rows)
}
