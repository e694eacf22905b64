//! The counters of a capture by name: what was lost, and what it cost.

use std::cell::Cell;
use std::collections::BTreeMap;

use crate::join::JoinCounts;
use crate::session::Session;
use crate::wire::Counter;

/// What a capture lost beside its records: names, and its end.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lacking {
    /// Modules whose files could not be opened.
    pub(crate) modules_not_opened: u64,
    /// ... or not be kept open.
    pub(crate) modules_not_kept: u64,
    /// ... or were overwritten.
    pub(crate) modules_changed: u64,
    /// Modules and frames that a limit left without names.
    pub(crate) names_over_limit: u64,
    /// Contexts that came after names were looked up.
    pub(crate) names_late: u64,
    /// Looking names up was.
    pub(crate) names_abandoned: bool,
    /// Not all that was written has reached the device.
    pub(crate) sync_abandoned: bool,
    /// The scratch file system was full.
    pub(crate) scratch_full: bool,
}

/// Losses by name. The names are part of the trace format.
pub(crate) fn losses(session: &Session<'_>, counts: &JoinCounts, lacking: &Lacking) -> BTreeMap<String, u64> {
    losses_of(|counter| session.counter(counter).ok(), session.missed().ok(), counts, lacking)
}

/// A count that cannot be read counts itself.
fn losses_of(
    of: impl Fn(Counter) -> Option<u64>,
    missed: Option<u64>,
    counts: &JoinCounts,
    lacking: &Lacking,
) -> BTreeMap<String, u64> {
    let unread = Cell::new(0);
    let read = |count: Option<u64>| {
        unread.set(unread.get() + u64::from(count.is_none()));
        count.unwrap_or(0)
    };
    let (of, missed) = (|counter| read(of(counter)), read(missed));
    let mut losses = BTreeMap::from([
        ("ring_buffer_requests", of(Counter::LOST_IO_RECORDS)),
        ("ring_buffer_names", of(Counter::LOST_TABLE_RECORDS)),
        ("ring_buffer_contexts", of(Counter::LOST_CONTEXT_RECORDS)),
        ("context_table", of(Counter::LOST_CONTEXTS) + counts.contexts_over_limit),
        ("long_requests", of(Counter::LOST_LONG_REQUESTS)),
        ("task_storage", of(Counter::LOST_TASK_STORAGE)),
        ("postponed_captures", of(Counter::LOST_PENDING)),
        ("runtime_paths_merged", of(Counter::LOST_RUNTIME_PATHS)),
        ("runtime_paths_rejected", counts.rejected + of(Counter::LOST_RUNTIME_NAMES)),
        ("runtime_mappings", of(Counter::LOST_RUNTIME_MAPPINGS)),
        ("buffer_pages_displaced", of(Counter::LOST_BUFFER_PAGES)),
        ("mappings_dropped", of(Counter::DROPPED_MAPPINGS)),
        ("stacks_not_shipped", of(Counter::UNSHIPPED_STACKS)),
        ("missed_events", missed),
        ("unresolved_contexts", counts.unresolved_contexts),
        ("unresolved_files", counts.unresolved_files),
        ("modules_over_limit", counts.modules_over_limit),
        ("rules_given_up", counts.rules_given_up),
        ("modules_not_opened", lacking.modules_not_opened),
        ("modules_not_kept", lacking.modules_not_kept),
        ("modules_changed", lacking.modules_changed),
        ("names_over_limit", lacking.names_over_limit),
        ("names_late", lacking.names_late),
        ("names_abandoned", lacking.names_abandoned.into()),
        ("sync_abandoned", lacking.sync_abandoned.into()),
        ("scratch_full", lacking.scratch_full.into()),
    ]);
    losses.insert("counters_unread", unread.get());
    losses.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
}

/// What a capture cost, and how its questions were answered.
pub(crate) fn statistics(session: &Session<'_>, counts: &JoinCounts) -> BTreeMap<String, u64> {
    let costs = session.costs().into_iter().filter(|(_, runs, _)| *runs > 0);
    let costs =
        costs.flat_map(|(name, runs, ns)| [(format!("{name}_runs"), runs), (format!("{name}_ns"), ns)]);
    statistics_of(|counter| session.counter(counter).unwrap_or(0), counts).into_iter().chain(costs).collect()
}

fn statistics_of(of: impl Fn(Counter) -> u64, counts: &JoinCounts) -> BTreeMap<String, u64> {
    [
        ("path_cache_hits", of(Counter::PATH_CACHE_HITS)),
        ("captures_by_runtime", of(Counter::RUNTIME_PATHS)),
        ("captures_full", of(Counter::FULL_CAPTURES)),
        ("stacks_unreadable", of(Counter::STACK_UNREADABLE)),
        ("stacks_shipped", of(Counter::SHIPPED_STACKS)),
        ("paths_cut", of(Counter::CUT_PATHS)),
        ("stacks_short", of(Counter::SHORT_STACKS)),
        ("mappings_read", of(Counter::ENUMERATIONS)),
        ("mappings_locked", of(Counter::LOCKED_MAPPINGS)),
        ("io_uring_worker_pages", of(Counter::URING_WORKERS)),
        ("io_uring_submitter_unknown", of(Counter::URING_UNKNOWN)),
        ("buffer_pages_marked", of(Counter::BUFFER_MARKS)),
        ("buffer_writes", of(Counter::BUFFER_WRITES)),
        ("stream_answers", of(Counter::STREAM_ANSWERS)),
        ("buffers_not_placed", of(Counter::BUFFERS_UNPLACED)),
        ("write_hints_refused", of(Counter::REFUSED_HINTS)),
        ("pages_without_context", of(Counter::UNTAGGED_PAGES)),
        ("writes_looked_at_in_part", of(Counter::LONG_WRITES)),
        ("signatures_shared", counts.collisions),
        ("pages_of_others", counts.others_pages),
        ("pages_of_swap", counts.swap_pages),
        ("uncovered_bytes", counts.uncovered_bytes),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_string(), value))
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A counter is a loss where the header calls it so, a statistic elsewhere, and has one name: a mapping that was dropped, too.
    #[test]
    fn every_counter_is_what_the_header_calls_it() {
        let counted = |number: u32| {
            let of = |counter: Counter| if counter.0 == number { 7 } else { 0 };
            let counts = JoinCounts::default();
            let losses = losses_of(|counter| Some(of(counter)), Some(0), &counts, &Lacking::default());
            [losses, statistics_of(of, &counts)]
                .map(|named| named.into_iter().filter(|(_, count)| *count > 0).collect::<Vec<_>>())
        };
        for number in 0..Counter::COUNTERS.0 {
            let lost = number < Counter::COUNTER_FIRST_STATISTIC.0;
            let lengths = counted(number).map(|named| named.len());
            assert_eq!(
                lengths,
                [usize::from(lost), usize::from(!lost)],
                "losses and statistics with counter {number}"
            );
        }
        assert_eq!(counted(Counter::DROPPED_MAPPINGS.0)[0], [("mappings_dropped".to_owned(), 7)]);
    }

    #[test]
    fn what_cannot_be_read_is_no_zero() {
        let of = |counter| (counter != Counter::LOST_CONTEXTS).then_some(7);
        let counts = JoinCounts { contexts_over_limit: 5, ..JoinCounts::default() };
        let losses = losses_of(of, None, &counts, &Lacking::default());
        assert_eq!((losses["counters_unread"], losses["context_table"], losses["missed_events"]), (2, 5, 0));
        let all_read = losses_of(|_| Some(7), Some(1), &counts, &Lacking::default());
        assert_eq!(all_read["counters_unread"], 0);
    }

    #[test]
    fn the_document_names_every_count() {
        let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/trace-format.md");
        let document = std::fs::read_to_string(document).expect("docs/trace-format.md");
        let counts = JoinCounts::default();
        for (heading, named) in [
            ("Losses", losses_of(|_| Some(0), Some(0), &counts, &Lacking::default())),
            ("Statistics", statistics_of(|_| 0, &counts)),
        ] {
            let section = document.split_once(&format!("\n### {heading}\n")).expect(heading).1;
            let section = section.split("\n### ").next().unwrap_or_default();
            // What a row counts is not its name.
            let cells: String =
                section.lines().filter_map(|line| line.strip_prefix("| ")?.split('|').next()).collect();
            let missing: Vec<_> = named.keys().filter(|name| !cells.contains(&format!("`{name}`"))).collect();
            assert!(missing.is_empty(), "docs/trace-format.md, table of {heading}: {missing:?}");
        }
    }
}
