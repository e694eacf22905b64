//! Advice for people.

use super::gains::{Advice, Gain};
use crate::Layout;
use crate::drive::is_worth;
use crate::escape::visible;
use crate::human::{percent, ratio};

/// The least share of the flash whose saving is listed, with what gains little.
const LEAST_LISTED: f64 = 0.001;

impl Advice {
    /// For people.
    pub fn text(&self, layout: Layout) -> String {
        text(self, layout)
    }
}

fn text(advice: &Advice, layout: Layout) -> String {
    let mut lines = vec![
        format!("WAF now: {} (baseline on a drive without streams)", ratio(advice.baseline_waf)),
        String::new(),
    ];
    let changes = advice.changes.iter().filter(|_| advice.copies);
    let (worth, rest): (Vec<&Gain>, Vec<&Gain>) =
        changes.partition(|change| is_worth(change.flash_saved, change.flash_saved_on_same_drive));
    let mut shown: Option<&Vec<String>> = None;
    for (number, change) in worth.iter().enumerate() {
        let gain = percent(change.flash_saved.unwrap_or(0.0));
        let head = format!(
            "{}. {gain} less flash (WAF {}): {}, on {}",
            number + 1,
            ratio(change.waf),
            change.change,
            change.drive
        );
        lines.extend(layout.wrap(&head, 3));
        if change.flash_saved_on_same_drive != change.flash_saved {
            let on_same = percent(change.flash_saved_on_same_drive.unwrap_or(0.0));
            let split =
                format!("   {on_same} against that drive without this change; the rest is the drive's own");
            lines.extend(layout.wrap(&split, 3));
        }
        lines.extend(layout.wrap(&format!("   whose code: {}", change.whose_code), 3));
        if shown == Some(&change.steps) && !change.steps.is_empty() {
            lines.push("   the same classes as above".to_owned());
        } else {
            lines.extend(
                change.steps.iter().flat_map(|step| layout.wrap(&format!("   {}", visible(step)), 7)),
            );
            shown = if change.steps.is_empty() { shown } else { Some(&change.steps) };
        }
        lines.push(String::new());
    }
    if advice.copies && worth.is_empty() {
        lines.push("No change gains 1 % of the flash.".to_owned());
    }
    for change in rest.iter().filter(|change| change.flash_saved >= Some(LEAST_LISTED)) {
        let gain = ratio(change.waf);
        let alone = if is_worth(change.flash_saved, None) { "; that drive alone does as much" } else { "" };
        let line = format!("Gains little: {}, on {} (WAF {gain}{alone})", change.change, change.drive);
        lines.extend(layout.wrap(&line, 3));
    }
    lines.extend(advice.remarks.iter().flat_map(|remark| layout.wrap(&visible(remark), 0)));
    lines.join("\n") + "\n"
}
