//! What separates the cells of a line, and what quotes mean in it: those of RFC 4180, around a whole cell, and two for each
//! within. Other quotes are characters as any.

use std::borrow::Cow;

use super::super::cells::BadLine;

/// Separators in the order in which they are tried.
pub(super) const SEPARATORS: [Separator; 4] =
    [Separator::At('\t'), Separator::At(';'), Separator::At(','), Separator::Blanks];

/// What stands between two cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Separator {
    /// One character.
    At(char),
    /// Any white space.
    Blanks,
}

impl Separator {
    /// The cells of a line, without white space and quotes around them.
    pub(super) fn split(self, line: &str) -> Result<Vec<Cow<'_, str>>, BadLine> {
        let line = if self == Separator::Blanks { line.trim() } else { line };
        let (mut cells, mut rest) = (Vec::new(), Some(line));
        while let Some(text) = rest {
            let (cell, behind) = self.first(text)?;
            cells.push(cell);
            rest = behind;
        }
        Ok(cells)
    }

    /// The first cell, and what comes behind the separator at its end.
    fn first(self, text: &str) -> Result<(Cow<'_, str>, Option<&str>), BadLine> {
        let ends = |c: char| match self {
            Separator::At(separator) => c == separator,
            Separator::Blanks => c.is_ascii_whitespace(),
        };
        let is_around = |c: char| c.is_whitespace() && (self == Separator::Blanks || !ends(c));
        let text = text.trim_start_matches(is_around);
        let Some(quoted) = text.strip_prefix('"') else {
            let (cell, behind) =
                text.split_once(ends).map_or((text, None), |(cell, rest)| (cell, Some(rest)));
            return Ok((cell.trim_end().into(), behind));
        };
        let end =
            closing_quote(quoted).ok_or_else(|| BadLine::column("line", text, "a second quote for each"))?;
        let (cell, rest) = (&quoted[..end], &quoted[end + 1..]);
        let cell = if cell.contains('"') { cell.replace("\"\"", "\"").into() } else { cell.into() };
        let next = rest.trim_start_matches(|c: char| c.is_whitespace() && !ends(c));
        match next.strip_prefix(ends) {
            Some(behind) => Ok((cell, Some(behind))),
            None if next.is_empty() => Ok((cell, None)),
            None => {
                let expected = "quotes around a whole cell, and two for each quote within";
                Err(BadLine::column("line", text, expected))
            }
        }
    }

    /// In the plural, for messages.
    pub(super) fn in_words(self) -> &'static str {
        match self {
            Separator::At('\t') => "tabs",
            Separator::At(';') => "semicolons",
            Separator::At(_) => "commas",
            Separator::Blanks => "blanks",
        }
    }
}

/// Where the quotes end that were opened before `text`: two quotes stand for one.
fn closing_quote(text: &str) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + text[from..].find('"')?;
        if !text[at + 1..].starts_with('"') {
            return Some(at);
        }
        from = at + 2;
    }
}
