//! What an unknown name may have been meant for.

/// Up to three candidates that `name` may have been meant for: those it is a part of, then those within
/// a few edits (one, and one more per five characters); each by the number of edits.
pub fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    // Longer than any name can be; the edit distance is quadratic.
    if name.len() > 64 {
        return Vec::new();
    }
    let name = name.to_ascii_lowercase();
    let close = 1 + name.chars().count() / 5;
    let mut scored: Vec<(bool, usize, &str)> = candidates
        .filter_map(|candidate| {
            let part = name.len() >= 2 && candidate.contains(name.as_str());
            let edits = strsim::levenshtein(&name, candidate);
            (part || edits <= close).then_some((!part, edits, candidate))
        })
        .collect();
    scored.sort_by_key(|&(edited, edits, _)| (edited, edits));
    scored.into_iter().take(3).map(|(_, _, candidate)| candidate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_go_before_misspellings_and_the_shorter_before_the_longer() {
        let names = ["pcstream-plus", "autostream-mq", "pcstream", "stram", "greedy"];
        let near = |name| nearest(name, names.into_iter());
        assert_eq!(near("stream"), ["pcstream", "pcstream-plus", "autostream-mq"]);
        assert_eq!(near("streem"), ["stram"]);
        assert_eq!(near("GREDY"), ["greedy"]);
        assert_eq!(near("greedy-or-not"), [""; 0]);
    }
}
