//! Links between the Markdown files of the repository lead somewhere: relative paths to files that are there, anchors to
//! headings. And every page of the documentation is in its table of contents. Addresses of other hosts are not looked at.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use crate::{Faults, Source};

/// The table of contents of the documentation site.
const CONTENTS: &str = "docs/SUMMARY.md";

pub fn check(root: &Path, sources: &[Source], faults: &mut Faults) {
    let pages: Vec<&Source> = sources.iter().filter(|source| source.extension() == "md").collect();
    for page in &pages {
        for target in targets(&page.text) {
            if let Some(fault) = fault(root, &pages, page, &target) {
                faults.insert((fault.into(), format!("{}: {target}", page.path)), 1);
            }
        }
    }
    let contents = pages.iter().find(|page| page.path == CONTENTS);
    let listed: BTreeSet<String> = contents
        .map(|page| targets(&page.text).iter().filter_map(|target| resolve(&page.path, target)).collect())
        .unwrap_or_default();
    for page in pages.iter().filter(|page| page.path.starts_with("docs/") && page.path != CONTENTS) {
        if !listed.contains(&page.path) {
            faults.insert(("not-in-contents".into(), page.path.clone()), 1);
        }
    }
}

fn fault(root: &Path, pages: &[&Source], page: &Source, target: &str) -> Option<&'static str> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
    let Some(path) = (if path.is_empty() { Some(page.path.clone()) } else { resolve(&page.path, path) })
    else {
        return Some("link-out-of-the-repository");
    };
    if !root.join(&path).exists() {
        return Some("dead-link");
    }
    let to = pages.iter().find(|other| other.path == path);
    match (anchor, to) {
        (Some(anchor), Some(to)) => (!anchors(&to.text).contains(anchor)).then_some("dead-anchor"),
        // Lines of sources, as GitHub counts them, go stale unseen.
        (Some(_), None) => Some("anchor-in-no-page"),
        (None, _) => None,
    }
}

/// A relative path as one from the root; none if it leads out of the repository.
fn resolve(from: &str, target: &str) -> Option<String> {
    let target = target.split('#').next().unwrap_or_default();
    let mut path = PathBuf::from(from);
    path.pop();
    for component in Path::new(target).components() {
        match component {
            Component::ParentDir => {
                if !path.pop() {
                    return None;
                }
            }
            Component::Normal(name) => path.push(name),
            Component::CurDir => {}
            _ => return None,
        }
    }
    path.to_str().map(str::to_owned)
}

/// The text without code: blocks between fences, and what stands in backquotes.
fn prose(text: &str) -> String {
    let (mut out, mut fenced) = (String::new(), false);
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced && !line.starts_with("    ") {
            out.push_str(line);
        }
        out.push('\n');
    }
    let mut plain = String::new();
    for (at, part) in out.split('`').enumerate() {
        plain.push_str(if at % 2 == 0 { part } else { "code" });
    }
    plain
}

/// Where links lead: `[text](target)`, also over a line's end.
fn targets(text: &str) -> Vec<String> {
    let prose = prose(text);
    let after = prose.split("](").skip(1);
    let found = after.filter_map(|rest| rest.split_once(')')).map(|(target, _)| target.trim());
    found.filter(|target| !target.is_empty()).map(str::to_owned).collect()
}

/// Anchors of headings, as GitHub and mdbook make them: small letters, digits, `-` and `_`; blanks become `-`; a second
/// heading with the same words gets `-1`.
fn anchors(text: &str) -> BTreeSet<String> {
    let (mut found, mut fenced) = (BTreeSet::new(), false);
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        let hashes = line.len() - line.trim_start_matches('#').len();
        if fenced || !(1..=6).contains(&hashes) || !line[hashes..].starts_with(' ') {
            continue;
        }
        let kept = |c: char| match c {
            ' ' => Some('-'),
            c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
            _ => None,
        };
        let heading = line[hashes..].trim();
        // Of a link, its words.
        let parts = heading.split("](");
        let words: String = parts
            .enumerate()
            .map(
                |(at, part)| if at == 0 { part } else { part.split_once(')').map_or(part, |(_, rest)| rest) },
            )
            .collect();
        let name: String = words.to_lowercase().chars().filter_map(kept).collect();
        let repeated = (1..).map(|n| format!("{name}-{n}")).find(|name| !found.contains(name));
        let name = if found.contains(&name) { repeated.unwrap_or_default() } else { name };
        found.insert(name);
    }
    found
}

#[test]
fn dead_links_are_found() {
    let page = |path: &str, text: &str| Source { path: path.into(), text: text.into() };
    let sources = [
        page("docs/SUMMARY.md", "[a](a.md)\n"),
        page(
            "docs/a.md",
            "# The `A` page\n## Two words\n## Two words\n[self](#the-a-page), [b](b.md#b), [no](none.md),\n[no](b.md#none) [out](../../x.md) [ok](#two-words-1) [net](https://x.org/#y)\n`[code](none.md)`\n```\n# no heading\n[code](none.md)\n```\n[over a\nline](b.md#no-heading) [source](../Cargo.toml#L3) [up](../README.md)",
        ),
        page("docs/b.md", "# B\n"),
    ];
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join("docs")).unwrap();
    for file in ["docs/a.md", "docs/b.md", "Cargo.toml", "README.md", "docs/SUMMARY.md"] {
        std::fs::write(root.path().join(file), "").unwrap();
    }
    let mut faults = Faults::new();
    check(root.path(), &sources, &mut faults);
    let found: Vec<String> = faults.keys().map(|(rule, place)| format!("{rule} {place}")).collect();
    assert_eq!(
        found,
        [
            "anchor-in-no-page docs/a.md: ../Cargo.toml#L3",
            "dead-anchor docs/a.md: b.md#no-heading",
            "dead-anchor docs/a.md: b.md#none",
            "dead-link docs/a.md: none.md",
            "link-out-of-the-repository docs/a.md: ../../x.md",
            "not-in-contents docs/b.md",
        ]
    );
}
