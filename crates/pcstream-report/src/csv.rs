//! Comma-separated values (RFC 4180): one line of names, then one line per row. Characters that would not be seen for
//! what they are, as in file names, are escaped.

use crate::escape::visible;

/// A table as text.
pub fn table<R>(head: &[&str], rows: impl IntoIterator<Item = R>) -> String
where
    R: IntoIterator<Item = String>,
{
    let mut out = head.join(",");
    out.push('\n');
    for row in rows {
        let fields: Vec<String> = row.into_iter().map(|field| quoted(&field)).collect();
        out += &fields.join(",");
        out.push('\n');
    }
    out
}

/// A field in quotes where it needs them.
fn quoted(field: &str) -> String {
    let field = visible(field);
    if field.contains([',', '"']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.into_owned()
    }
}

/// A number, or nothing.
pub fn option<T: std::fmt::Display>(value: Option<T>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

#[cfg(test)]
mod tests {
    #[test]
    fn fields_are_quoted_where_they_must_be() {
        let rows = [["a,b".to_owned(), "say \"x\"".to_owned()], ["1".to_owned(), String::new()]];
        assert_eq!(super::table(&["x", "y"], rows), "x,y\n\"a,b\",\"say \"\"x\"\"\"\n1,\n");
        assert_eq!(super::table(&["x"], [["\x1b[31m,\n".to_owned()]]), "x\n\"\\x1b[31m,\\n\"\n");
    }
}
