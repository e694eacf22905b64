//! Names that others chose, made safe to print: file names, thread names, command lines.
//!
//! Control characters (C0, DEL, C1) move the cursor or change colours, marks of writing direction and line separators
//! make a line look other than it is, and characters that are shown as nothing make different names look the same. They
//! are shown as `\n`, `\x1b`, `\u{202e}` in text, and as `\u202e` in JSON.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Whether a character would not be seen for what it is: besides control characters and separators of lines, all that are
/// shown as nothing (Unicode's `Default_Ignorable_Code_Point`, and the annotations from U+FFF9 on).
pub(crate) fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Text in which every character is seen.
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\n' => out += "\\n",
            '\r' => out += "\\r",
            '\t' => out += "\\t",
            c if is_hidden(c) && c.is_ascii() => _ = write!(out, "\\x{:02x}", c as u32),
            c if is_hidden(c) => _ = write!(out, "\\u{{{:x}}}", c as u32),
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// At most `most` characters of a text in which every character is seen; what was cut off is said.
pub fn visible_start(text: &str, most: usize) -> String {
    let whole = visible(text);
    match whole.char_indices().nth(most) {
        None => whole.into_owned(),
        Some((end, _)) => format!("{} ... ({} characters in all)", &whole[..end], whole.chars().count()),
    }
}

/// At most `most` characters of a text in which every character is seen, with `~` where something was cut off.
pub fn visible_part(text: &str, most: usize) -> String {
    crate::layout::clipped(&visible(text), most)
}

/// JSON in which the characters that the JSON encoder leaves as they are (it escapes C0) are escaped, too. They occur
/// in strings only.
pub fn json(text: String) -> String {
    let is_left = |c: char| is_hidden(c) && !c.is_ascii() || c == '\u{7f}';
    if !text.chars().any(is_left) {
        return text;
    }
    let mut out = String::with_capacity(text.len() + 64);
    for c in text.chars() {
        if is_left(c) {
            c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| _ = write!(out, "\\u{unit:04x}"));
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_not_be_seen_is_escaped() {
        assert!(matches!(visible("/var/lib/\u{e4}.sst"), Cow::Borrowed(_)));
        assert_eq!(
            visible("a\r\n\tb\x1b[2J\x7f\u{9b}\u{202e}c\u{2069}"),
            "a\\r\\n\\tb\\x1b[2J\\x7f\\u{9b}\\u{202e}c\\u{2069}"
        );
        assert_eq!(visible("zero\u{200b}width\u{e0041}"), "zero\\u{200b}width\\u{e0041}");
        assert_eq!(visible_start("abc", 3), "abc");
        assert_eq!(visible_start("ab\ncd", 4), "ab\\n ... (6 characters in all)");
    }

    #[test]
    fn json_says_the_same_in_ascii() {
        let name = "a\u{9b}\u{202e}\u{7f}\u{e4}\n\u{e0041}";
        let escaped = json(serde_json::to_string(name).unwrap());
        assert_eq!(escaped, "\"a\\u009b\\u202e\\u007f\u{e4}\\n\\udb40\\udc41\"");
        assert_eq!(serde_json::from_str::<String>(&escaped).unwrap(), name);
    }
}
