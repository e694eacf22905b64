//! Rules files for write buffers (docs/write-buffers.md describes them for users).
//!
//! Parsing checks all that can be known without the binary; unknown keys are errors.

use serde::Deserialize;

use super::register;
use crate::wire::{BufferKind, BufferRule, Limit};

/// Registers that arguments come in (System V ABI, x86-64).
const MAX_ARGUMENT: u32 = 6;
/// Sizes of pages that databases have.
const PAGE_BYTES: std::ops::RangeInclusive<u32> = Limit::MIN_BUFFER_BYTES.0..=Limit::MAX_BUFFER_BYTES.0;

/// A rules file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    /// Paths, with `*` for anything within a name, or names in PATH.
    #[serde(deserialize_with = "one_or_more")]
    pub program: Vec<String>,
    /// Size of the buffer's pages.
    pub page_bytes: u32,
    /// Functions that make a page dirty.
    pub dirty: Vec<Rule>,
    /// Functions that copy a page, and the thread's next write is the copy.
    #[serde(default)]
    pub copied: Vec<Rule>,
}

/// A function, or a static probe, and the page it is about.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Name in the symbol table.
    pub function: Option<String>,
    /// `provider:name` of a static probe (the notes of systemtap's `sys/sdt.h` and of `pcstream.h`).
    pub probe: Option<String>,
    /// Which page.
    pub page: Page,
    /// What the function counts pages in that were clean. It is probed where it does, once for each time that a page becomes
    /// dirty, and at its beginning if that place cannot be found.
    pub counts: Option<Counter>,
    /// Does not replace the path of a rule that is not weak while that waits for its write.
    #[serde(default)]
    pub weak: bool,
    /// Left out where the program does not have it.
    #[serde(default)]
    pub optional: bool,
}

/// A number in memory.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counter {
    /// A variable ...
    pub variable: String,
    /// ... and, if it is a structure, the number's place in it.
    #[serde(default)]
    pub at: u32,
}

/// How an argument says which page is meant.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Page {
    /// The argument (from 1) that is the page's number ...
    pub number: Option<u32>,
    /// ... counted from here ...
    pub from: Option<i32>,
    /// ... in the pool that this variable points to.
    pub pool: Option<String>,
    /// The argument that is an address ...
    pub address: Option<u32>,
    /// ... of the page or, if there are offsets, of where to follow pointers at them.
    #[serde(default)]
    pub follow: Vec<i32>,
}

impl Rule {
    /// What to call it.
    pub fn name(&self) -> &str {
        self.function.as_deref().or(self.probe.as_deref()).unwrap_or_default()
    }

    /// The rule for the BPF program; the place of a pool's variable is left to be filled in.
    pub fn compile(&self, kind: BufferKind, page_bytes: u32) -> BufferRule {
        let argument = self.page.number.or(self.page.address);
        let mut rule = BufferRule {
            kind: kind.0,
            rank: if self.weak { 1 } else { 2 },
            page_bytes,
            argument: argument.and_then(register::of_argument).and_then(register::code).unwrap_or_default(),
            numbered: self.page.number.is_some().into(),
            from: self.page.from.unwrap_or_default(),
            offsets: self.page.follow.len() as u32,
            ..BufferRule::default()
        };
        rule.offset[..self.page.follow.len()].copy_from_slice(&self.page.follow);
        rule
    }

    fn check(&self) -> Result<(), String> {
        if self.function.is_some() == self.probe.is_some() {
            return Err("a rule names either a `function` or a `probe`".into());
        }
        let problem = |problem: &str| Err(format!("rule for {:?}: {problem}", self.name()));
        if self.counts.is_some() && self.function.is_none() {
            return problem("`counts` belongs to `function`: a probe has one place");
        }
        if self.probe.as_ref().is_some_and(|name| name.split(':').count() != 2) {
            return problem("a probe is written `provider:name`");
        }
        let page = &self.page;
        match (page.number, page.address) {
            (Some(_), None) if page.pool.is_none() => {
                return problem("`number` needs `pool`: the variable that points to the pages");
            }
            (Some(_), None) if !page.follow.is_empty() => {
                return problem("`follow` belongs to `address`, not to `number`");
            }
            (None, Some(_)) if page.pool.is_some() || page.from.is_some() => {
                return problem("`pool` and `from` belong to `number`, not to `address`");
            }
            (Some(_), None) | (None, Some(_)) => {}
            _ => {
                return problem(
                    "`page` names either the argument that is its `number` or that is an `address`",
                );
            }
        }
        let argument = page.number.or(page.address).unwrap_or_default();
        if !(1..=MAX_ARGUMENT).contains(&argument) {
            return problem(&format!("argument {argument} is not between 1 and {MAX_ARGUMENT}"));
        }
        let most = BufferRule::default().offset.len();
        if page.follow.len() > most {
            return problem(&format!(
                "{} pointers to follow, of which {most} are possible",
                page.follow.len()
            ));
        }
        Ok(())
    }
}

/// Reads a rules file. The error says where.
pub fn parse(text: &str) -> Result<Rules, String> {
    let rules: Rules = toml::from_str(text).map_err(|error| error.to_string())?;
    if !PAGE_BYTES.contains(&rules.page_bytes) {
        let (least, most) = (PAGE_BYTES.start(), PAGE_BYTES.end());
        return Err(format!("page_bytes = {} is not between {least} and {most}", rules.page_bytes));
    }
    if rules.dirty.is_empty() || rules.program.is_empty() {
        return Err("a rules file names a `program` and at least one function in `[[dirty]]`".into());
    }
    rules.dirty.iter().chain(&rules.copied).try_for_each(Rule::check)?;
    if let Some(rule) = rules.copied.iter().find(|rule| rule.counts.is_some()) {
        return Err(format!(
            "rule for {:?}: `counts` belongs to [[dirty]]: every copy is written",
            rule.name()
        ));
    }
    Ok(rules)
}

fn one_or_more<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "a text or a list of texts")]
    enum OneOrMore {
        One(String),
        More(Vec<String>),
    }
    Ok(match OneOrMore::deserialize(from)? {
        OneOrMore::One(one) => vec![one],
        OneOrMore::More(more) => more,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "program = 'db'\npage_bytes = 4096\n[[dirty]]\nfunction = 'f'\npage = { address = 2, follow = [8, -16] }";

    #[test]
    fn a_rule_becomes_what_the_kernel_side_reads() {
        let rules = parse(GOOD).expect("it is good");
        assert_eq!(rules.program, ["db"]);
        let rule = rules.dirty[0].compile(BufferKind::BUFFER_DIRTY, rules.page_bytes);
        assert_eq!((rule.argument, rule.offsets, rule.offset, rule.rank), (14, 2, [8, -16, 0, 0], 2));
        assert_eq!((rule.numbered, rule.page_bytes), (0, 4096));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_a_reason() {
        for (from, to, reason) in [
            ("page_bytes = 4096", "page_bytes = 1", "page_bytes = 1 is not between 512"),
            ("page_bytes = 4096", "page_size = 4096", "unknown field `page_size`"),
            ("function = 'f'", "", "either a `function` or a `probe`"),
            ("function = 'f'", "function = 'f'\nprobe = 'a:b'", "either a `function` or a `probe`"),
            ("function = 'f'", "probe = 'ab'", "provider:name"),
            ("address = 2", "address = 7", "argument 7 is not between 1 and 6"),
            ("address = 2", "address = -2", "line 5"),
            ("address = 2", "number = 2", "`number` needs `pool`"),
            (
                "address = 2, follow = [8, -16]",
                "number = 2, pool = 'p', follow = [1]",
                "belongs to `address`",
            ),
            ("follow", "pool = 'p', follow", "belong to `number`"),
            ("[8, -16]", "[1, 2, 3, 4, 5]", "5 pointers to follow, of which 4"),
            ("page = { address = 2, follow = [8, -16] }", "page = {}", "either the argument"),
            ("[[dirty]]", "dirty = []\n[[copied]]", "at least one function"),
            (
                "function = 'f'",
                "probe = 'a:b'\ncounts = { variable = 'v' }",
                "`counts` belongs to `function`",
            ),
            (
                "[[dirty]]",
                "[[copied]]\nfunction = 'g'\ncounts = { variable = 'v' }\npage = { address = 1 }\n[[dirty]]",
                "`counts` belongs to [[dirty]]",
            ),
            ("program = 'db'", "program = 7", "a text or a list of texts"),
        ] {
            let text = GOOD.replace(from, to);
            let problem = parse(&text).expect_err(&text);
            assert!(problem.contains(reason), "{text}\n{problem}");
        }
    }
}
