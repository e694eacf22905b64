//! What an unknown name may have been meant for.

/// Up to three candidates that `name` may have been meant for: those it is a part of, or within a
/// few edits (one, and one more per five characters); best first.
pub(crate) fn nearest(name: &str, candidates: impl Iterator<Item = &'static str>) -> Vec<&'static str> {
    // Longer than any name can be; the edit distance is quadratic.
    if name.len() > 64 {
        return Vec::new();
    }
    let name = name.to_ascii_lowercase();
    let close = 1 + name.chars().count() / 5;
    let mut scored: Vec<(usize, &'static str)> = candidates
        .filter_map(|c| {
            let edits = edit_distance(&name, c);
            let part = name.len() >= 2 && c.contains(name.as_str());
            (edits <= close || part).then_some((if part { 0 } else { edits }, c))
        })
        .collect();
    scored.sort_by_key(|&(edits, _)| edits);
    scored.into_iter().take(3).map(|(_, c)| c).collect()
}

/// Levenshtein distance in characters.
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &cb) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(ca != cb);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edit_distances_by_hand() {
        assert_eq!(edit_distance("", "abc"), 3);
        assert_eq!(edit_distance("kitten", "sitting"), 3);
        assert_eq!(edit_distance("flaw", "lawn"), 2);
        assert_eq!(edit_distance("same", "same"), 0);
    }
}
