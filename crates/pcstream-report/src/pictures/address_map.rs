//! Where each context writes, over the run (FAST'19, Fig. 1).

use std::collections::HashMap;
use std::fmt::Write;

use pcstream_replay::survey::{MAP_COLUMNS, MAP_ROWS};
use pcstream_trace::{ContextId, PAGE_BYTES};

use super::axis::Quantity;
use super::svg::Svg;
use super::{COLOURS, Figure, LABEL, Material, Window};
use crate::call_paths::row_label;
use crate::csv;
use crate::human::{counted, percent};

const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 28.0;
const HEIGHT: f64 = 320.0;

/// Cells in the colour of the context that wrote most there.
pub fn figure(material: &Material) -> Figure {
    Figure {
        title: "Who writes where, and when",
        note: "Each cell has the colour of the context that wrote most of it. Several colours in one region mean that \
               addresses do not tell lifetimes apart, but call paths do (FAST'19, Fig. 1)."
            .to_owned(),
        svg: map(material, Window::Wide),
        narrow: map(material, Window::Narrow),
        csv: numbers(material),
    }
}

/// The picture; empty if nothing was written.
fn map(material: &Material, window: Window) -> String {
    let width = window.width();
    let colours: HashMap<ContextId, String> = coloured(material).map(|(id, _, class)| (id, class)).collect();
    let colour = |context: ContextId| match context {
        ContextId::NONE => "m",
        context => colours.get(&context).map_or("o", String::as_str),
    };
    let (cell_width, cell_height) = ((width - LEFT - RIGHT) / MAP_COLUMNS as f64, HEIGHT / MAP_ROWS as f64);
    let mut paths: HashMap<String, String> = HashMap::new();
    for row in 0..MAP_ROWS {
        let cells: Vec<Option<&str>> =
            (0..MAP_COLUMNS).map(|column| material.survey().context_at(column, row).map(colour)).collect();
        // Address 0 is at the bottom.
        let y = TOP + HEIGHT - (row as f64 + 0.5) * cell_height;
        let mut column = 0;
        for run in cells.chunk_by(|a, b| a == b) {
            if let Some(colour) = run[0] {
                let path = paths.entry(colour.to_owned()).or_default();
                let x = LEFT + column as f64 * cell_width;
                _ = write!(path, "M{x:.2} {y:.2}h{:.2}", run.len() as f64 * cell_width);
            }
            column += run.len();
        }
    }
    if paths.is_empty() {
        return String::new();
    }
    let keys = keys(material, |class| paths.contains_key(class));
    let bottom = TOP + HEIGHT;
    let (columns, keys_left) = (window.pick(2, 1), window.legend_left(LEFT));
    let mut svg = Svg::new(
        width,
        bottom + 44.0 + 18.0 * keys.len().div_ceil(columns) as f64,
        "who writes where, and when",
    );
    svg.rect("", [0.0; 4], "");
    let mut sorted: Vec<_> = paths.iter().collect();
    sorted.sort();
    for (colour, path) in sorted {
        svg.strokes(&format!("l{colour}"), cell_height, path);
    }
    svg.line("axis", &[(LEFT, TOP), (LEFT, bottom), (width - RIGHT, bottom)]);
    axes(&mut svg, extent(material), bottom, window);
    svg.text("dim", 8.0, 14.0, "address");
    svg.text("dim mid", (LEFT + width) / 2.0, bottom + 34.0, "written by the host");
    for (index, (class, name)) in keys.iter().enumerate() {
        let x = keys_left + (index % columns) as f64 * (width - LEFT) / 2.0;
        let y = bottom + 44.0 + (index / columns) as f64 * 18.0;
        svg.key(&format!("f{class}"), x, y, name);
    }
    svg.finish()
}

/// The contexts that have colours: their rows' places and their classes.
fn coloured<'a>(material: &'a Material) -> impl Iterator<Item = (ContextId, usize, String)> + 'a {
    let known = material.rows.iter().enumerate().filter_map(|(at, row)| Some((row.context?.id, at)));
    known.take(COLOURS).enumerate().map(|(colour, (id, at))| (id, at, colour.to_string()))
}

/// Classes with what they stand for, of those that occur.
fn keys(material: &Material, occurs: impl Fn(&str) -> bool) -> Vec<(String, String)> {
    let names = material.names();
    let label = |at: usize| row_label(&material.rows[at], &names[at], LABEL);
    let mut keys: Vec<_> = coloured(material).map(|(_, at, class)| (class, label(at))).collect();
    let known = material.rows.iter().filter(|row| row.context.is_some());
    let others: Vec<f64> = known.skip(COLOURS).map(|row| row.share).collect();
    let share = percent(others.iter().sum());
    keys.push((
        "o".to_owned(),
        format!("{}, {share} of the writes", counted(others.len() as u64, "other context")),
    ));
    let unknown = material.rows.iter().position(|row| row.context.is_none());
    keys.extend(unknown.map(|at| ("m".to_owned(), names[at].clone())));
    keys.retain(|(class, _)| occurs(class));
    keys
}

/// Pages written, and pages of the address space.
fn extent(material: &Material) -> (u64, u64) {
    (material.simulation.writers.totals().host_pages, material.lanes()[0].geometry.address_pages())
}

fn axes(svg: &mut Svg, (written, addresses): (u64, u64), bottom: f64, window: Window) {
    let ticks = |pages: u64, wanted: usize| {
        let ticks = Quantity::Pages.ticks(0.0, pages as f64, wanted).into_iter();
        let share = move |(tick, text): (f64, String)| (tick / pages.max(1) as f64, text);
        ticks.map(share).filter(|(share, _)| *share <= 1.0)
    };
    for (share, text) in ticks(addresses, 5) {
        svg.text("dim end", LEFT - 6.0, bottom - HEIGHT * share + 4.0, &text);
    }
    for (share, text) in ticks(written, window.pick(5, 4)) {
        let class = if share > 0.96 { "dim end" } else { "dim mid" };
        svg.text(class, LEFT + (svg.width() - LEFT - RIGHT) * share, bottom + 16.0, &text);
    }
}

/// Cells by where they begin.
fn numbers(material: &Material) -> String {
    let (total, addresses) = extent(material);
    let begins = |part: usize, parts: usize, pages: u64| {
        let pages = (u128::from(pages) * part as u128).div_ceil(parts as u128) as u64;
        (pages * PAGE_BYTES).to_string()
    };
    let contexts = material.rows.iter().filter_map(|row| row.context);
    let signatures: HashMap<ContextId, String> =
        contexts.map(|context| (context.id, context.signature.to_string())).collect();
    let cells = (0..MAP_COLUMNS).flat_map(|column| (0..MAP_ROWS).map(move |row| (column, row)));
    let written = cells.filter_map(|(column, row)| {
        let context = material.survey().context_at(column, row)?;
        Some([
            begins(column, MAP_COLUMNS, total),
            begins(row, MAP_ROWS, addresses),
            signatures.get(&context).cloned().unwrap_or_default(),
        ])
    });
    csv::table(&["written_bytes", "address_bytes", "signature"], written)
}
