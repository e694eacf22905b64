//! Aligned columns without borders.

use comfy_table::{CellAlignment, Table, presets};

use crate::escape::visible;
use crate::layout::{Layout, columns_of as width_of};

/// Blanks between columns.
const GAP: usize = 2;

/// Which side of a column the text keeps to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// A column of a table that is made column by column.
#[derive(Clone, Debug)]
pub struct Column {
    side: Side,
    /// The heading, then one for each row.
    cells: Vec<String>,
}

impl Column {
    /// A column with one cell for each row. The heading may have several lines.
    pub fn new(side: Side, head: impl Into<String>, cells: impl Iterator<Item = String>) -> Column {
        Column { side, cells: std::iter::once(head.into()).chain(cells).collect() }
    }

    /// As printed, in columns of a terminal.
    fn width(&self) -> usize {
        let (head, cells) = self.cells.split_first().expect("it has a heading");
        let cells = cells.iter().map(|cell| width_of(&visible(cell)));
        head.lines().map(width_of).chain(cells).max().unwrap_or(0)
    }
}

/// A column of a table of rows: its side, its heading, and what makes the cell of a row.
pub type ColumnOf<'a, R> = (Side, &'a str, &'a dyn Fn(&R) -> String);

/// A table of rows.
pub fn table<R>(rows: &[R], columns: &[ColumnOf<'_, R>]) -> Vec<String> {
    side_by_side(&columns_of(rows, columns))
}

/// The columns of a table of rows.
pub fn columns_of<R>(rows: &[R], columns: &[ColumnOf<'_, R>]) -> Vec<Column> {
    let column = |(side, head, cell): &ColumnOf<'_, R>| Column::new(*side, *head, rows.iter().map(cell));
    columns.iter().map(column).collect()
}

/// A table of columns of equal length, no wider than a terminal: columns for which there is no room stand below the
/// others, each time behind the first `keys` columns.
pub fn within(table: &[Column], keys: usize, layout: Layout) -> Vec<String> {
    groups_within(table, keys, 1, layout)
}

/// The same of columns that belong together, so many each: they stand in one line.
pub fn groups_within(table: &[Column], keys: usize, together: usize, layout: Layout) -> Vec<String> {
    let Some(width) = layout.width else { return side_by_side(table) };
    let (keys, mut others) = table.split_at(keys.min(table.len()));
    let mut lines = Vec::new();
    while !others.is_empty() {
        let mut end: usize = keys.iter().map(|column| column.width() + GAP).sum();
        let fits = |group: &&[Column]| {
            end += group.iter().map(|column| column.width() + GAP).sum::<usize>();
            end - GAP <= width
        };
        let groups = others.chunks(together).take_while(fits).count().max(1);
        let (here, below) = others.split_at(others.len().min(groups * together));
        if !lines.is_empty() {
            lines.push(String::new());
        }
        lines.extend(side_by_side(&[keys, here].concat()));
        others = below;
    }
    lines
}

/// A table of columns of equal length, whose headings have one line. Where a terminal has too little room, rows take several
/// lines: each has the columns that fit, and begins with blanks if it is not the first. `least` is enough for the last column.
pub fn in_lines(table: &[Column], least: usize, layout: Layout) -> Vec<String> {
    let Some(width) = layout.width else { return side_by_side(table) };
    let (mut rest, mut parts) = (table, Vec::new());
    while !rest.is_empty() {
        let indent = if parts.is_empty() { 0 } else { GAP };
        let mut end = indent;
        let fits = |(left, column): &(usize, &Column)| {
            let most = if *left == 1 { least } else { usize::MAX };
            end += column.width().min(most) + GAP;
            end - GAP <= width
        };
        let left = (1..=rest.len()).rev();
        let (here, below) = rest.split_at(left.zip(rest).take_while(fits).count().max(1));
        parts.push(side_by_side(here).into_iter().map(|line| " ".repeat(indent) + &line).collect::<Vec<_>>());
        rest = below;
    }
    let rows = parts.first().map_or(0, Vec::len);
    let lines = (0..rows).flat_map(|row| parts.iter().map(move |part| part[row].trim_end().to_owned()));
    lines.filter(|line| !line.is_empty()).collect()
}

/// A table of columns of equal length.
pub fn side_by_side(table: &[Column]) -> Vec<String> {
    let heights = table.iter().map(|column| column.cells.len());
    let row = |at: usize| table.iter().map(|column| column.cells[at].clone()).collect();
    let rows: Vec<Vec<String>> = (0..heights.min().unwrap_or(0)).map(row).collect();
    let sides: Vec<Side> = table.iter().map(|column| column.side).collect();
    columns(&rows, &sides)
}

/// Columns with two spaces between them; the last left-aligned column is not padded. The first row is the heading, whose
/// cells may have several lines. In the others, what would break a line is escaped.
fn columns(rows: &[Vec<String>], sides: &[Side]) -> Vec<String> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let Some((heading, rows)) = rows.split_first() else { return Vec::new() };
    table.add_row(heading);
    for row in rows {
        table.add_row(row.iter().map(|cell| visible(cell)));
    }
    for (column, side) in table.column_iter_mut().zip(sides) {
        column.set_padding((0, GAP as u16));
        column.set_cell_alignment(match side {
            Side::Left => CellAlignment::Left,
            Side::Right => CellAlignment::Right,
        });
    }
    table.lines().map(|line| line.trim_end().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_break_the_table() {
        let rows = [["name", "WAF"], ["a\nb\r\x1b[31m", "1.5"]].map(|r| r.map(str::to_owned).to_vec());
        assert_eq!(
            columns(&rows, &[Side::Left, Side::Right]),
            ["name            WAF", "a\\nb\\r\\x1b[31m  1.5"]
        );
    }

    #[test]
    fn columns_line_up() {
        let rows =
            [["name", "WAF"], ["baseline", "1.5"], ["x", "10.25"]].map(|r| r.map(str::to_owned).to_vec());
        assert_eq!(
            columns(&rows, &[Side::Left, Side::Right]),
            ["name        WAF", "baseline    1.5", "x         10.25"]
        );
    }

    #[test]
    fn columns_without_room_stand_below() {
        let column =
            |head: &str, cell: &str| Column::new(Side::Right, head, std::iter::once(cell.to_owned()));
        let table = [column("who", "db"), column("a", "1"), column("bbb", "2"), column("c", "3")];
        let within = |width| within(&table, 1, Layout { width: Some(width), ..Layout::PLAIN });
        assert_eq!(within(14), ["who  a  bbb  c", " db  1    2  3"]);
        assert_eq!(within(11), ["who  a  bbb", " db  1    2", "", "who  c", " db  3"]);
        let one_each = ["who  a", " db  1", "", "who  bbb", " db    2", "", "who  c", " db  3"];
        assert_eq!(within(1), one_each, "a column is never cut");
        let pairs = groups_within(&table[1..], 1, 2, Layout { width: Some(8), ..Layout::PLAIN });
        assert_eq!(pairs, ["a  bbb  c", "1    2  3"], "a pair is never parted");
    }

    #[test]
    fn rows_without_room_take_several_lines() {
        let column = |head: &str, cells: [&str; 2]| {
            Column::new(Side::Left, head, cells.map(str::to_owned).into_iter())
        };
        let wide = "\u{6587}\u{4ef6}.db";
        let table =
            [column("id", ["1", "2"]), column("file", [wide, "b"]), column("path", ["write < f", ""])];
        let within = |width| in_lines(&table, 7, Layout { width: Some(width), ..Layout::PLAIN });
        let beside = ["id  file     path", "1   \u{6587}\u{4ef6}.db  write < f", "2   b"];
        assert_eq!(in_lines(&table, 7, Layout::PLAIN), beside);
        assert_eq!(within(20), beside, "the last one can be cut");
        let below = ["id  file", "  path", "1   \u{6587}\u{4ef6}.db", "  write < f", "2   b"];
        assert_eq!(within(19), below);
        let one_each = ["id", "  file", "  path", "1", "  \u{6587}\u{4ef6}.db", "  write < f", "2", "  b"];
        assert_eq!(within(8), one_each);
    }

    #[test]
    fn columns_stand_side_by_side() {
        let column =
            |side, head, cells: [&str; 2]| Column::new(side, head, cells.map(str::to_owned).into_iter());
        let table = [
            column(Side::Left, "\nname", ["baseline", "x"]),
            column(Side::Right, "the\nWAF", ["1.5", "10.25"]),
        ];
        assert_eq!(
            side_by_side(&table),
            ["            the", "name        WAF", "baseline    1.5", "x         10.25"]
        );
    }
}
