//! How wide text may be, and lines that fit.

use unicode_width::UnicodeWidthStr as _;

use crate::symbols::Names;

/// How results are laid out as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Columns of the terminal. Without one, tables may have any length, and prose has 100 columns.
    pub width: Option<usize>,
    /// More of every result.
    pub details: bool,
    /// How functions are named. Full names make lines of any length.
    pub names: Names,
}

/// Columns of prose where there is no terminal.
const PROSE: usize = 100;

impl Layout {
    /// For a file or a pipe: tables of any length, prose of 100 columns, no details.
    pub const PLAIN: Layout = Layout { width: None, details: false, names: Names::Short };

    /// Breaks a line of prose between words so that it fits, also into a pipe; later lines begin with `indent` blanks. Words longer than a
    /// line stay whole.
    pub fn wrap(&self, line: &str, indent: usize) -> Vec<String> {
        let width = self.width.unwrap_or(PROSE);
        let mut lines: Vec<String> = Vec::new();
        let mut current = String::new();
        for (at, word) in words(line).enumerate() {
            let fits = columns_of(&current) + 1 + columns_of(word) <= width;
            if !current.trim().is_empty() && !fits {
                lines.push(std::mem::replace(&mut current, " ".repeat(indent)));
            } else if at > 0 {
                current.push(' ');
            }
            current.push_str(word);
        }
        lines.push(current.trim_end().to_owned());
        lines
    }

    /// Text with its lines broken where a terminal is narrower; what comes after a break begins with `indent` blanks. Without
    /// a terminal lines stay as they are.
    pub fn fit(&self, text: &str, indent: usize) -> String {
        if self.width.is_none() {
            return text.to_owned();
        }
        text.lines().flat_map(|line| self.wrap(line, indent)).map(|line| line + "\n").collect()
    }

    /// A line cut to the width, with `~` where something was cut off.
    pub fn cut(&self, line: &str) -> String {
        self.width.map_or_else(|| line.to_owned(), |width| clipped(line, width))
    }
}

/// The words of a line. A number and its `%` are one: broken between them, neither can be found by a search.
fn words(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(line);
    std::iter::from_fn(move || {
        let text = rest?;
        let mut blanks = text.match_indices(' ').map(|(at, _)| at);
        let end = blanks.find(|at| !text[at + 1..].starts_with('%'));
        let (word, after) = end.map_or((text, None), |end| (&text[..end], Some(&text[end + 1..])));
        rest = after;
        Some(word)
    })
}

/// Columns of a terminal that text takes: characters of East Asia, and emoji, take two.
pub fn columns_of(text: &str) -> usize {
    text.width()
}

/// Text with blanks behind it, so that it takes so many columns of a terminal.
pub fn padded(text: &str, columns: usize) -> String {
    text.to_owned() + &" ".repeat(columns.saturating_sub(columns_of(text)))
}

/// Text of at most `most` columns of a terminal, with `~` where something was cut off. It has no more than four characters
/// for each column: marks above letters have no width of their own.
pub fn clipped(text: &str, most: usize) -> String {
    let characters = 4 * most;
    if columns_of(text) <= most && text.chars().nth(characters).is_none() {
        return text.to_owned();
    }
    let ends = text.char_indices().map(|(at, c)| at + c.len_utf8()).take(characters);
    let end = ends.take_while(|end| columns_of(&text[..*end]) < most).last().unwrap_or(0);
    format!("{}~", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words() {
        let layout = Layout { width: Some(12), ..Layout::PLAIN };
        assert_eq!(layout.wrap("one two three four", 2), ["one two", "  three four"]);
        assert_eq!(layout.wrap("averyverylongword x", 2), ["averyverylongword", "  x"]);
        assert_eq!(layout.wrap("", 2), [""]);
        assert_eq!(Layout::PLAIN.wrap("one two three four", 2), ["one two three four"]);
        assert_eq!(layout.wrap("it saves 6.7 %, or 8 %", 0), ["it saves", "6.7 %, or", "8 %"]);
    }

    #[test]
    fn texts_fit_a_terminal_alone() {
        let text = "one two three\n  four five six\n";
        assert_eq!(Layout::PLAIN.fit(text, 4), text);
        let narrow = Layout { width: Some(11), ..Layout::PLAIN };
        assert_eq!(narrow.fit(text, 4), "one two\n    three\n  four five\n    six\n");
    }

    #[test]
    fn clipping_counts_columns() {
        assert_eq!(clipped("abc", 3), "abc");
        assert_eq!(clipped("\u{e4}bcd", 3), "\u{e4}b~");
        assert_eq!(clipped("\u{6587}\u{4ef6}x", 5), "\u{6587}\u{4ef6}x");
        assert_eq!(clipped("\u{6587}\u{4ef6}x", 4), "\u{6587}~", "two columns each");
        assert_eq!(clipped("e\u{301}ab", 2), "e\u{301}~", "an accent has no width");
        assert_eq!(clipped(&"\u{301}".repeat(99), 2).chars().count(), 9);
        assert_eq!(clipped("ab", 0), "~");
        assert_eq!([padded("\u{6587}", 3), padded("abc", 2)], ["\u{6587} ", "abc"]);
    }
}
