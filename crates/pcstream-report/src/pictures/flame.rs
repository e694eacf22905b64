//! Flame graphs of call paths, the outermost function on top: width by pages written, or by pages that garbage
//! collection copied.
//!
//! Boxes narrower than a two-thousandth of the picture are drawn as one, grey, which bounds its size. Every box carries its place
//! (`data-x`, `data-w`, as shares of the width) for the script of the report, which zooms.

use std::collections::BTreeMap;

use super::svg::Svg;
use super::{Figure, Material, Window};
use crate::ContextRow;
use crate::csv;
use crate::folded::stack;
use crate::functions::Functions;
use crate::human::{counted, page_bytes, percent};
use crate::layout::clipped;
use crate::symbols::Names;

/// Height of a row of boxes.
const ROW: f64 = 18.0;
/// Narrowest box, as a share of the width.
const NARROWEST: f64 = 0.0005;
/// Width of a character.
const CHARACTER: f64 = 7.2;

/// A function with all that it calls.
#[derive(Default)]
struct Node {
    pages: u64,
    callees: BTreeMap<String, Node>,
}

impl Node {
    fn add(&mut self, path: &[String], pages: u64) {
        self.pages += pages;
        if let Some((first, rest)) = path.split_first() {
            self.callees.entry(first.clone()).or_default().add(rest, pages);
        }
    }

    fn depth(&self) -> usize {
        1 + self.callees.values().map(Node::depth).max().unwrap_or(0)
    }
}

/// By pages written.
pub fn written(material: &Material) -> Figure {
    let paths = paths(material.rows, |row| row.writer.pages());
    let root = tree(&paths);
    let draw = |window| draw(&root, "f0", "call paths by pages written", window);
    Figure {
        title: "Call paths by what they wrote",
        note: "Width: pages written; callers above callees, the entry into the kernel at the bottom of each path. Grey: \
               calls too narrow to be seen."
            .to_owned(),
        svg: draw(Window::Wide),
        narrow: draw(Window::Narrow),
        csv: numbers(&paths),
    }
}

/// By pages copied.
pub fn copied(material: &Material) -> Figure {
    let copies = material.survey().copies_by_context();
    let mut paths = paths(material.rows, |row| {
        let id = row.context.map_or(0, |context| context.id.0 as usize);
        copies.get(id).copied().unwrap_or(0)
    });
    paths.push((vec!["(data from before the trace)".to_owned()], material.survey().copies_of_prefill()));
    let root = tree(&paths);
    let draw = |window| draw(&root, "f3", "call paths by pages copied", window);
    Figure {
        title: "Call paths by what garbage collection copied of them",
        note: "Width: pages that garbage collection copied on a drive without streams, by who wrote them. Wide here and \
               narrow above: data that lives longer than what lies beside it. Grey: calls too narrow to be seen."
            .to_owned(),
        svg: draw(Window::Wide),
        narrow: draw(Window::Narrow),
        csv: numbers(&paths),
    }
}

/// Names of every path, outermost first, and the pages that count for it.
fn paths(rows: &[ContextRow], pages: impl Fn(&ContextRow) -> u64) -> Vec<(Vec<String>, u64)> {
    let functions = Functions::of(rows.iter().filter_map(|row| row.context), Names::Short);
    rows.iter().map(|row| (stack(row.who(), &functions), pages(row))).collect()
}

fn tree(paths: &Vec<(Vec<String>, u64)>) -> Node {
    let mut root = Node::default();
    for (path, pages) in paths {
        root.add(path, *pages);
    }
    root
}

/// The picture; empty if nothing was written.
fn draw(root: &Node, class: &str, title: &str, window: Window) -> String {
    if root.pages == 0 {
        return String::new();
    }
    let mut svg = Svg::new(window.pick(1000.0, window.width()), ROW * root.depth() as f64 + 2.0, title);
    boxes(&mut svg, root, "all", class, (0.0, 0), root.pages);
    svg.finish()
}

fn boxes(svg: &mut Svg, node: &Node, name: &str, class: &str, (x, depth): (f64, usize), total: u64) {
    let width = node.pages as f64 / total as f64;
    if width < NARROWEST {
        return;
    }
    let tip = format!("{name}: {}, {}", page_bytes(node.pages), percent(width));
    let label = match (width * svg.width() / CHARACTER) as usize {
        0..=3 => String::new(),
        characters => clipped(name, characters - 1),
    };
    // Neighbours differ a little, always in the same way.
    let shade = 0.35 + (name.bytes().map(u32::from).sum::<u32>() % 8) as f64 * 0.05;
    let place = [x * svg.width(), depth as f64 * ROW, width * svg.width(), ROW - 1.0];
    svg.flame_box(class, place, shade, (x, width), (&label, &tip));
    let share = |callee: &Node| callee.pages as f64 / total as f64;
    let (wide, narrow): (Vec<_>, Vec<_>) =
        node.callees.iter().partition(|(_, callee)| share(callee) >= NARROWEST);
    let mut from = x;
    for (name, callee) in wide {
        boxes(svg, callee, name, class, (from, depth + 1), total);
        from += share(callee);
    }
    let rest = Node { pages: narrow.iter().map(|(_, callee)| callee.pages).sum(), ..Node::default() };
    if !narrow.is_empty() {
        let name = format!("({})", counted(narrow.len() as u64, "narrow call"));
        boxes(svg, &rest, &name, "fo", (from, depth + 1), total);
    }
}

/// Pages by path, most first. Contexts that differ only in what names do not show are one path.
fn numbers(paths: &[(Vec<String>, u64)]) -> String {
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for (path, pages) in paths.iter().filter(|(_, pages)| *pages > 0) {
        *sums.entry(path.join(";")).or_default() += pages;
    }
    let mut rows: Vec<_> = sums.into_iter().collect();
    rows.sort_by_key(|(_, pages)| std::cmp::Reverse(*pages));
    csv::table(&["path", "pages"], rows.into_iter().map(|(path, pages)| [path, pages.to_string()]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_is_as_wide_as_what_it_and_its_callees_wrote() {
        let path = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let root = tree(&vec![(path(&["db", "flush"]), 30), (path(&["db", "log"]), 10), (path(&["cc"]), 60)]);
        assert_eq!(
            (root.pages, root.callees["db"].pages, root.callees["db"].callees["log"].pages),
            (100, 40, 10)
        );
        let svg = draw(&root, "f0", "x", Window::Wide);
        assert!(svg.contains("data-w=\"0.400000\"") && svg.contains("db: 160 KiB, 40.0 %"), "{svg}");
        assert!(draw(&Node::default(), "f0", "x", Window::Wide).is_empty());
    }

    #[test]
    fn narrow_boxes_are_one() {
        let mut paths: Vec<_> = (0..3000).map(|at| (vec!["db".to_owned(), format!("f{at}")], 1)).collect();
        paths.push((vec!["db".to_owned(), "f".to_owned()], 3000));
        let svg = draw(&tree(&paths), "f0", "x", Window::Wide);
        assert!(svg.contains("(3.00 k narrow calls): 11.7 MiB, 50.0 %"), "{svg}");
        assert_eq!(svg.matches("<g class=\"box\"").count(), 4, "all, db, f and the rest: {svg}");
    }

    #[test]
    fn equal_paths_are_one_row() {
        let path = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let paths = [(path(&["db", "log"]), 10), (path(&["cc"]), 60), (path(&["db", "log"]), 55)];
        assert_eq!(numbers(&paths), "path,pages\ndb;log,65\ncc,60\n");
    }
}
