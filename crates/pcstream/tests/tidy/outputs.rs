//! Commands of a how-to can be run one after the other: no two make the same trace, because the second would be refused.

use std::collections::BTreeSet;

use crate::{Faults, Source};

/// Pages of commands to be run. Others show forms of commands, too.
const PAGES: &str = "docs/howto/";

pub fn check(sources: &[Source], faults: &mut Faults) {
    for page in sources.iter().filter(|source| source.path.starts_with(PAGES)) {
        for trace in made_twice(&page.text) {
            faults.insert(("trace-made-twice".into(), format!("{}: {trace}", page.path)), 1);
        }
    }
}

fn made_twice(text: &str) -> BTreeSet<&str> {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let outputs = words.windows(2).filter(|pair| pair[0] == "-o" && pair[1].ends_with(".pctrace"));
    let mut made = BTreeSet::new();
    outputs.map(|pair| pair[1]).filter(|trace| !made.insert(*trace)).collect()
}

#[test]
fn a_trace_that_is_made_twice_is_found() {
    let text =
        "$ pcstream record -o a.pctrace x\n$ pcstream record -o b.pctrace x\n$ pcstream import -o \\\n";
    assert!(made_twice(text).is_empty());
    assert_eq!(made_twice(&format!("{text}$ pcstream record -o a.pctrace y")), ["a.pctrace"].into());
}
