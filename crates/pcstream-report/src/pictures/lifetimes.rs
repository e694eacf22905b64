//! How long the data of each context lives: one row per context, lifetimes on a logarithmic scale.

use super::svg::Svg;
use super::{Figure, LABEL, Material, Window};
use crate::ContextRow;
use crate::call_paths::row_label;
use crate::csv;
use crate::human::{counted, page_bytes, percent};

/// Contexts in the picture; the numbers are those of all.
const SHOWN: usize = 20;
const ROW: f64 = 20.0;
const RIGHT: f64 = 34.0;

/// Shades by power of two, and the quartiles on top.
pub fn figure(material: &Material) -> Figure {
    let named = material.rows.iter().zip(material.names());
    let all: Vec<_> = named.filter(|(row, _)| row.writer.lifetimes.ended_pages() > 0).collect();
    let (rows, more) = all.split_at(all.len().min(SHOWN));
    let powers: Vec<Vec<u64>> = all.iter().map(|(row, _)| row.writer.lifetimes.by_power_of_two()).collect();
    let head = ["context", "from_pages", "pages"];
    let numbers = all.iter().zip(&powers).flat_map(|((_, name), powers)| {
        let row =
            |(power, pages): (usize, &u64)| [name.clone(), (1u64 << power).to_string(), pages.to_string()];
        powers.iter().enumerate().map(row)
    });
    Figure {
        title: "How long data lives, by context",
        note: format!(
            "One row for each of the heaviest contexts. Stronger: more pages died at that age; orange: median and \
             quartiles. Data that is still alive at the end is left out. Contexts whose rows look alike belong \
             in one stream.{}",
            left_out(more)
        ),
        svg: draw(rows, &powers, Window::Wide),
        narrow: draw(rows, &powers, Window::Narrow),
        csv: csv::table(&head, numbers),
    }
}

/// The picture; empty without rows. In a narrow window, names stand above what they name.
fn draw(rows: &[(&ContextRow, String)], powers: &[Vec<u64>], window: Window) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let (width, left, names) = (window.width(), window.pick(330.0, 30.0), window.pick(0.0, 18.0));
    let last = powers[..rows.len()].iter().map(Vec::len).max().unwrap_or(1).max(1);
    let x_at = |power: f64| left + power / last as f64 * (width - left - RIGHT);
    let bottom = 8.0 + (ROW + names) * rows.len() as f64;
    let mut svg = Svg::new(width, bottom + 42.0, "lifetimes by context");
    for (index, ((row, name), powers)) in rows.iter().zip(powers).enumerate() {
        let y = 8.0 + (ROW + names) * index as f64 + names;
        let (class, x, line) = window.pick(("end", left - 8.0, y + 13.0), ("", 0.0, y - 4.0));
        svg.text(class, x, line, &row_label(row, name, LABEL));
        let most = powers.iter().copied().max().unwrap_or(1).max(1) as f64;
        for (power, pages) in powers.iter().enumerate().filter(|(_, pages)| **pages > 0) {
            let x = x_at(power as f64);
            let opacity = (*pages as f64 / most).max(0.06);
            svg.shade("f0", [x, y, x_at(power as f64 + 1.0) - x - 1.0, ROW - 4.0], opacity);
        }
        if let Some(q) = row.writer.lifetimes.quartiles() {
            let at = |pages: u64| x_at((pages.max(1) as f64).log2());
            svg.rect("f1", [at(q.p25), y + 6.0, at(q.p75) - at(q.p25), 4.0], "");
            svg.rect("f1", [at(q.p50) - 1.5, y + 1.0, 3.0, ROW - 6.0], &page_bytes(q.p50));
        }
    }
    for power in (0..=last).step_by(window.pick(4, 8)) {
        let x = x_at(power as f64);
        svg.line("axis", &[(x, 4.0), (x, bottom)]);
        svg.text("dim mid", x, bottom + 14.0, &page_bytes(1 << power));
    }
    svg.text("dim mid", (left + width) / 2.0, bottom + 32.0, "written by the host until the data died");
    svg.finish()
}

/// How many contexts have no row, and what they wrote.
fn left_out(more: &[(&ContextRow, String)]) -> String {
    let share: f64 = more.iter().map(|(row, _)| row.share).sum();
    let contexts = counted(more.len() as u64, "more context");
    if more.is_empty() {
        String::new()
    } else {
        format!(" {contexts} with {} of the writes are left out.", percent(share))
    }
}
