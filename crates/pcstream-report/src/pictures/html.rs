//! The report: one HTML file without anything from a network. Readable without JavaScript, which adds sorting and
//! filtering of the table and zooming of flame graphs.
//!
//! Everything that a traced program can name is escaped.

use std::fmt::Write;

use pcstream_replay::LaneResult;
use pcstream_ssd::GcDestination;
use pcstream_trace::Context;
use pcstream_trace::paths::file_name;

use super::svg::{STYLE, escaped};
use super::{FIGURES, Figure, Material, Source, curves, trace_name};
use crate::call_paths::call_paths;
use crate::contexts::called;
use crate::csv;
use crate::drive::{column_head, reference, result_in_words};
use crate::folded::thread;
use crate::human::{bytes, counted, page_bytes, percent, ratio, time};
use crate::schemes::{contexts_that_wrote, coverage, destinations, grid, less, loss_lines, victims};
use crate::symbols::Names;
use crate::verdict::Matters;
use crate::{ContextRow, VERSION, Verdict};

/// Contexts in the table, and bytes of their rows: they bound the size of the file. Names may have 4096 bytes each.
const CONTEXTS: usize = 2000;
const TABLE_BYTES: usize = 8 << 20;

/// Contexts on paper, as `page.css` has it: two or three pages.
const ON_PAPER: usize = 60;

/// Pictures whose few numbers are nowhere else in the page.
const WITH_NUMBERS: [&str; 2] = ["waf-over-utilisation", "waf-over-streams"];

/// The whole page.
pub fn page(material: &Material) -> String {
    let simulation = material.simulation;
    let title =
        trace_name(simulation).map_or("pcstream report".to_owned(), |name| format!("pcstream: {name}"));
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
         script-src 'unsafe-inline'\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{}</title>\n<style>\n{STYLE}{}</style></head>\n<body>\n",
        escaped(&title),
        include_str!("page.css"),
    );
    _ = writeln!(out, "<h1>{}</h1>", escaped(&title));
    out += &origin(material);
    let mut judged = Verdict::of(simulation);
    if matches!(judged.matters, Matters::No | Matters::Little) {
        judged.sentences.extend(material.by_utilisation.and_then(curves::on_fuller_drives));
    }
    out += &verdict(&judged);
    for line in loss_lines(simulation) {
        _ = writeln!(out, "<p class=\"loss\">{}</p>", escaped(line.trim_start_matches("losses").trim()));
    }
    out += &scheme_table(material);
    let has_clock = material.lanes().iter().any(|lane| lane.timing.is_some());
    for entry in FIGURES.iter().filter(|entry| has_clock || entry.source != Source::Clock) {
        let drawn = (entry.draw)(material);
        if !drawn.is_left_out() {
            out += &figure(entry.name, &drawn);
        }
    }
    out += &contexts(material.rows, &material.lanes()[simulation.recommended()]);
    out += &settings_list(&settings(material));
    _ = write!(out, "<script>\n{}</script>\n</body></html>\n", include_str!("page.js"));
    out
}

fn origin(material: &Material) -> String {
    let (simulation, totals) = (material.simulation, material.simulation.writers.totals());
    let paths = simulation.path_shares().text().map_or(String::new(), |paths| format!("; {paths}"));
    format!(
        "<p class=\"dim\">{} written and {} discarded by {} in {}, {}; \
         {}{paths}.</p>\n",
        page_bytes(totals.host_pages),
        page_bytes(totals.discarded_pages + totals.zeroed_pages),
        counted(contexts_that_wrote(simulation.writers), "context"),
        counted(totals.events, "event"),
        time(simulation.traced_ns() as f64 / 1e9),
        coverage(simulation),
    )
}

fn verdict(verdict: &Verdict) -> String {
    let class = verdict.matters.name();
    let Some((conclusion, others)) = verdict.sentences.split_first() else { return String::new() };
    let item = |sentence: &String| format!("<li>{}</li>\n", escaped(sentence));
    let others = match others {
        [] => String::new(),
        others => format!("<ul>\n{}</ul>\n", others.iter().map(item).collect::<String>()),
    };
    format!("<div class=\"verdict {class}\">\n<p>{}</p>\n{others}</div>\n", escaped(conclusion))
}

fn scheme_table(material: &Material) -> String {
    let lanes = material.lanes();
    let reference = reference(lanes);
    let drives = destinations(lanes);
    let head = |drive: &GcDestination| column_head(*drive).join(" ");
    let above = |drive| format!("<th class=\"n\" colspan=\"3\" scope=\"colgroup\">{}</th>", head(drive));
    let below = "<th class=\"n\">WAF</th><th class=\"n\">steady</th><th class=\"n\">less flash</th>";
    let mut out = format!(
        "<section><h2>Schemes</h2><div class=\"wide\"><table aria-label=\"schemes\">\n<thead>\
         <tr><td></td>{}</tr><tr><th>scheme</th>{}</tr></thead><tbody>\n",
        drives.iter().map(above).collect::<String>(),
        below.repeat(drives.len())
    );
    for row in grid(lanes) {
        _ = write!(out, "<tr><td>{}</td>", escaped(row.scheme));
        for drive in &drives {
            let lane = row.on(*drive);
            let less = lane.zip(reference).map_or(String::new(), |(lane, reference)| less(lane, reference));
            _ = write!(
                out,
                "<td class=\"n\" data-l=\"{}: WAF\">{}</td><td class=\"n long\" data-l=\"steady\">{}</td>\
                 <td class=\"n\" data-l=\"less flash\">{less}</td>",
                head(drive),
                ratio(lane.and_then(|l| l.waf())),
                lane.map_or(String::new(), steady),
            );
        }
        out += "</tr>\n";
    }
    out + "</tbody></table></div></section>\n"
}

/// WAF of the steady part, or of what is taken for it.
fn steady(lane: &LaneResult) -> String {
    let doubt = if lane.steady.is_none() && lane.waf().is_some() { ", not steady" } else { "" };
    format!("{}{doubt}", ratio(lane.steady_waf()))
}

fn figure(name: &str, figure: &Figure) -> String {
    let picture = if figure.svg.is_empty() {
        "<p class=\"dim\">There is nothing to show here.</p>".to_owned()
    } else {
        format!(
            "<div class=\"wide picture\">{}</div>\n<div class=\"narrow\">{}</div>",
            figure.svg, figure.narrow
        )
    };
    let (title, note) = (figure.title, escaped(&figure.note));
    let numbers = if WITH_NUMBERS.contains(&name) { numbers(title, &figure.csv) } else { String::new() };
    format!(
        "<section id=\"{name}\"><h2>{title}</h2><p class=\"dim\">{note}</p>\n{picture}{numbers}</section>\n"
    )
}

/// The numbers of a picture as a table to be opened. They have no quotes.
fn numbers(title: &str, csv: &str) -> String {
    let mut lines = csv.lines().map(|line| line.split(','));
    let names: Vec<&str> = lines.next().into_iter().flatten().collect();
    let heads: String = names.iter().map(|name| format!("<th>{}</th>", escaped(name))).collect();
    let cell = |(name, value): (&&str, &str)| {
        let short =
            value.parse::<f64>().ok().filter(|_| value.contains('.')).map(|number| format!("{number:.3}"));
        let value = short.unwrap_or_else(|| value.to_owned());
        format!("<td data-l=\"{}\">{}</td>", escaped(name), escaped(&value))
    };
    let row = |line| format!("<tr>{}</tr>\n", names.iter().zip(line).map(cell).collect::<String>());
    format!(
        "<details><summary>numbers</summary><table class=\"numbers\" aria-label=\"{title}\">\n\
         <thead><tr>{heads}</tr></thead><tbody>\n{}</tbody></table></details>\n",
        lines.map(row).collect::<String>()
    )
}

/// Contexts with their streams in a result.
fn contexts(rows: &[ContextRow], lane: &LaneResult) -> String {
    let mut out = format!(
        "<section><h2>Contexts</h2><p class=\"dim\">Who wrote what, heaviest first. Lifetime: what the host wrote \
         until half of the pages that died were dead. Stream: the one that got most of its pages, of {}.</p>\n<p class=\"script\"><input type=\"search\" id=\"filter\" \
         placeholder=\"filter\" aria-label=\"filter contexts\"> <output id=\"found\"></output></p>\n\
         <div class=\"wide\"><table id=\"contexts\" aria-label=\"contexts\">\n\
         <thead><tr><th>context</th><th class=\"n\">written</th><th class=\"n\">share</th>\
         <th class=\"n\">lifetime</th><th class=\"n\">alive</th><th>stream</th><th>program</th><th>file</th>\
         <th>call path</th></tr></thead><tbody>\n",
        result_in_words(lane)
    );
    let shown = &rows[..rows.len().min(CONTEXTS)];
    let known: Vec<&Context> = shown.iter().filter_map(|row| row.context).collect();
    let mut lines = call_paths(&known, Names::Short).into_iter();
    let (first, mut count) = (out.len(), 0);
    for row in shown {
        let line = row.context.and_then(|_| lines.next()).unwrap_or_default();
        let text = context(row, &line);
        if out.len() - first + text.len() > TABLE_BYTES {
            break;
        }
        out += &text;
        count += 1;
    }
    out += "</tbody></table></div>\n";
    if rows.len() > count {
        let rest: u64 = rows[count..].iter().map(|row| row.writer.pages()).sum();
        _ = writeln!(out, "<p>{} more contexts wrote {}.</p>", rows.len() - count, page_bytes(rest));
    }
    if count > ON_PAPER {
        _ = writeln!(
            out,
            "<p class=\"paper\">Paper has the first {ON_PAPER} of {count} rows; the file has them all.</p>"
        );
    }
    out + "</section>\n"
}

/// A row; `line` tells its call path from others.
fn context(row: &ContextRow, line: &str) -> String {
    let writer = &row.writer;
    let life = writer.lifetimes.quartiles().map(|q| q.p50);
    let alive = writer.alive_pages() as f64 / writer.pages().max(1) as f64;
    let (signature, program, path) = match row.who() {
        Err(name) => (name.to_owned(), String::new(), String::new()),
        Ok(context) => {
            let program = context.program();
            let thread = thread(context).map_or(String::new(), |thread| format!(" ({thread})"));
            (
                context.signature.to_string(),
                format!("{}{}", escaped(program), escaped(&thread)),
                path(context, &called(context, line)),
            )
        }
    };
    let file = row.files.first().map_or("", |(path, _)| path.as_str());
    format!(
        "<tr><td>{signature}</td><td class=\"n\" data-v=\"{}\">{}</td><td class=\"n\" data-v=\"{}\">{}</td>\
         <td class=\"n\" data-v=\"{}\">{}</td><td class=\"n\" data-v=\"{alive}\">{}</td><td>{}</td><td>{program}</td>\
         <td title=\"{}\">{}</td><td class=\"path\">{path}</td></tr>\n",
        writer.pages(),
        page_bytes(writer.pages()),
        row.share,
        percent(row.share),
        csv::option(life),
        life.map_or("-".to_owned(), page_bytes),
        percent(alive),
        row.stream.map_or("-".to_owned(), |stream| format!("S{}", stream.0)),
        escaped(file),
        escaped(file_name(file)),
    )
}

/// The whole path, behind its line.
fn path(context: &Context, line: &str) -> String {
    if context.frames.is_empty() {
        return escaped(line);
    }
    let whole = |frame: &pcstream_trace::Frame| {
        let symbol = if frame.symbol.is_empty() { "(no symbol)" } else { &frame.symbol };
        let place = format!("{}+{:#x}", file_name(&frame.module), frame.offset);
        format!("<li>{} <span class=\"dim\">{}</span></li>", escaped(symbol), escaped(&place))
    };
    let frames: String = context.frames.iter().map(whole).collect();
    format!("<details><summary>{}</summary><ol>{frames}</ol></details>", escaped(line))
}

fn settings_list(settings: &[(String, String)]) -> String {
    let row =
        |(name, value): &(String, String)| format!("<dt>{}</dt><dd>{}</dd>\n", escaped(name), escaped(value));
    let rows: String = settings.iter().map(row).collect();
    format!("<section><h2>Settings and losses</h2><dl>\n{rows}</dl></section>\n")
}

/// What a report says at its end about the drive and the trace.
fn settings(material: &Material) -> Vec<(String, String)> {
    let lane = &material.lanes()[0];
    let geometry = &lane.geometry;
    let about = &material.simulation.about;
    let pair = |name: &str, value: String| (name.to_owned(), value);
    let mut out = vec![
        pair("pcstream", format!("{VERSION}, seed {}", about.seed)),
        pair("trace", format!("{}, id {}", about.trace.path, about.trace.id)),
        pair("command", about.trace.command.join(" ")),
        pair("logical capacity", page_bytes(geometry.logical_pages())),
        pair("flash", page_bytes(geometry.physical_pages())),
        pair("spare factor", percent(geometry.spare_factor())),
        pair("superblock", page_bytes(u64::from(geometry.superblock_pages()))),
        pair("streams", geometry.streams().to_string()),
        pair("victims", victims(material.lanes())),
        pair("prefilled", page_bytes(lane.prefill_pages)),
        pair("live at the end", bytes(lane.live_pages.saturating_mul(pcstream_trace::PAGE_BYTES))),
        pair("device", about.origin().unwrap_or_else(|| "flags and defaults".to_owned())),
    ];
    out.extend(about.trace.losses.iter().map(|(cause, n)| pair(&format!("lost: {cause}"), n.to_string())));
    out
}
