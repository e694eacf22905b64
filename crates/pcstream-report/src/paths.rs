//! How the call paths of written file data were read. That a page has a context does not say that its path is exact, or
//! whole.
//!
//! Units: pages of kind `data`; shares of all of them, from 0 to 1. What is left to 1 has no context.
//!
//! Weakness: frame pointers and scans do not show whether a path is whole, so only exact ones count as cut. Traces of
//! pcstream 0.1 before this distinction have cut paths as exact ones.

use pcstream_trace::{Context, Unwind};
use serde::Serialize;

use crate::human::percent;

/// Shares of the written file data by how its call path was read. All are 0 if none was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct PathShares {
    /// Along call-frame tables, to the outermost frame.
    pub exact: f64,
    /// Along call-frame tables, but not to the outermost frame.
    pub cut: f64,
    /// Along frame pointers.
    pub fp: f64,
    /// By the restricted scan of the stack.
    pub scan: f64,
    /// By a language runtime (the Java agent).
    pub runtime: f64,
    /// No call path: a class of a generator, a tag of an imported trace.
    pub label: f64,
    /// No stack could be read: the program and the entry into the kernel; or others' writes.
    pub none: f64,
}

impl PathShares {
    /// Of pages by context; `None` stands for those without one.
    pub fn of<'a>(pages: impl IntoIterator<Item = (Option<&'a Context>, u64)>) -> PathShares {
        let (mut all, mut shares) = (0, PathShares::default());
        for (context, pages) in pages {
            all += pages;
            if let Some(context) = context {
                *shares.of_way(context.unwind) += pages as f64;
            }
        }
        for way in Unwind::ALL {
            *shares.of_way(way) /= (all as f64).max(1.0);
        }
        shares
    }

    fn of_way(&mut self, way: Unwind) -> &mut f64 {
        match way {
            Unwind::Exact => &mut self.exact,
            Unwind::Cut => &mut self.cut,
            Unwind::FramePointer => &mut self.fp,
            Unwind::Scan => &mut self.scan,
            Unwind::Runtime => &mut self.runtime,
            Unwind::Label => &mut self.label,
            Unwind::None => &mut self.none,
        }
    }

    /// Whether a program was captured, so that there may be call paths.
    pub fn has_paths(&self) -> bool {
        let PathShares { exact, cut, fp, scan, runtime, label: _, none } = self;
        [exact, cut, fp, scan, runtime, none].into_iter().any(|share| *share > 0.0)
    }

    /// By a path that can be trusted as far as it goes: neither scanned nor missing.
    pub fn trusted(&self) -> f64 {
        self.exact + self.cut + self.fp + self.runtime
    }

    /// In words; `None` if no program was captured, so that there are no call paths. Paths that are cut are exact as far as
    /// they go.
    pub fn text(&self) -> Option<String> {
        let exact = match self.cut > 0.0 {
            true => format!("exact ({} cut before the outermost frame)", percent(self.cut)),
            false => "exact".to_owned(),
        };
        let ways = [
            (exact.as_str(), self.exact + self.cut),
            ("by frame pointers", self.fp),
            ("scanned", self.scan),
            ("by a language runtime", self.runtime),
            ("labels", self.label),
            ("program and entry only", self.none),
        ];
        let there = ways.iter().filter(|(_, share)| *share > 0.0);
        let words: Vec<_> = there.map(|(name, share)| format!("{} {name}", percent(*share))).collect();
        self.has_paths().then(|| format!("its call paths: {}", words.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_has_its_share_and_the_rest_has_no_context() {
        let contexts = Unwind::ALL.map(|unwind| Context { unwind, ..Context::default() });
        // 1, 2, 4, ... 64 pages, and one without a context: 128 in all.
        let known = contexts.iter().enumerate().map(|(index, context)| (Some(context), 1 << index));
        let shares = PathShares::of(known.chain([(None, 1)]));
        let share = |way: Unwind| {
            let index = Unwind::ALL.iter().position(|other| *other == way).expect("it is one");
            f64::from(1 << index) / 128.0
        };
        assert_eq!(
            shares,
            PathShares {
                exact: share(Unwind::Exact),
                cut: share(Unwind::Cut),
                fp: share(Unwind::FramePointer),
                scan: share(Unwind::Scan),
                runtime: share(Unwind::Runtime),
                label: share(Unwind::Label),
                none: share(Unwind::None),
            }
        );
        assert_eq!(shares.trusted(), shares.exact + shares.cut + shares.fp + shares.runtime);
        let text = shares.text().expect("there are call paths");
        assert!(text.contains(" % exact (50.0 % cut before the outermost frame), "), "{text}");
        assert_eq!(PathShares::of([]).text(), None);
        let labels = Context { unwind: Unwind::Label, ..Context::default() };
        assert_eq!(PathShares::of([(Some(&labels), 7)]).text(), None, "generated classes have no call paths");
    }
}
