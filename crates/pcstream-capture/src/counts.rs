//! The counters of a capture by name: what was lost, and what it cost.

use std::collections::BTreeMap;

use crate::join::JoinCounts;
use crate::session::Session;
use crate::wire::Counter;

/// Losses by name. The names are part of the trace format.
pub(crate) fn losses(session: &Session<'_>, counts: &JoinCounts) -> BTreeMap<String, u64> {
    losses_of(|counter| session.counter(counter), session.missed(), counts)
}

fn losses_of(of: impl Fn(Counter) -> u64, missed: u64, counts: &JoinCounts) -> BTreeMap<String, u64> {
    [
        ("ring_buffer_requests", of(Counter::LOST_IO_RECORDS)),
        ("ring_buffer_names", of(Counter::LOST_TABLE_RECORDS)),
        ("context_table", of(Counter::LOST_CONTEXTS)),
        ("long_requests", of(Counter::LOST_LONG_REQUESTS)),
        ("task_storage", of(Counter::LOST_TASK_STORAGE)),
        ("postponed_captures", of(Counter::LOST_PENDING)),
        ("runtime_paths_merged", of(Counter::LOST_RUNTIME_PATHS)),
        ("runtime_mappings", of(Counter::LOST_RUNTIME_MAPPINGS)),
        ("mappings_dropped", of(Counter::DROPPED_MAPPINGS)),
        ("stacks_not_shipped", of(Counter::UNSHIPPED_STACKS)),
        ("missed_events", missed),
        ("unresolved_contexts", counts.unresolved_contexts),
        ("unresolved_files", counts.unresolved_files),
        ("modules_over_limit", counts.modules_over_limit),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_string(), value))
    .collect()
}

/// What a capture cost, and how its questions were answered.
pub(crate) fn statistics(session: &Session<'_>, counts: &JoinCounts) -> BTreeMap<String, u64> {
    [
        ("path_cache_hits", Counter::PATH_CACHE_HITS),
        ("captures_by_runtime", Counter::RUNTIME_PATHS),
        ("captures_full", Counter::FULL_CAPTURES),
        ("stacks_unreadable", Counter::STACK_UNREADABLE),
        ("stacks_shipped", Counter::SHIPPED_STACKS),
        ("paths_cut", Counter::CUT_PATHS),
        ("stacks_short", Counter::SHORT_STACKS),
        ("mappings_read", Counter::ENUMERATIONS),
        ("mappings_locked", Counter::LOCKED_MAPPINGS),
        ("io_uring_worker_pages", Counter::URING_WORKERS),
        ("io_uring_submitter_unknown", Counter::URING_UNKNOWN),
        ("buffer_pages_marked", Counter::BUFFER_MARKS),
        ("buffer_writes", Counter::BUFFER_WRITES),
        ("stream_answers", Counter::STREAM_ANSWERS),
        ("buffers_not_placed", Counter::BUFFERS_UNPLACED),
        ("write_hints_refused", Counter::REFUSED_HINTS),
        ("folios_without_context", Counter::UNTAGGED_FOLIOS),
    ]
    .into_iter()
    .map(|(name, counter)| (name.to_string(), session.counter(counter)))
    .chain([
        ("signatures_shared".to_string(), counts.collisions),
        ("runtime_paths_rejected".to_string(), counts.rejected),
        ("pages_of_others".to_string(), counts.others_pages),
    ])
    .chain(
        session
            .costs()
            .into_iter()
            .filter(|(_, runs, _)| *runs > 0)
            .flat_map(|(name, runs, ns)| [(format!("{name}_runs"), runs), (format!("{name}_ns"), ns)]),
    )
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A counter that is no loss by the header is none here, and each that is has a name: a mapping that was dropped, too.
    #[test]
    fn losses_are_the_counters_that_the_header_calls_so() {
        let lost = |counted: u32| {
            let of = |counter: Counter| if counter.0 == counted { 7 } else { 0 };
            let losses = losses_of(of, 0, &JoinCounts::default());
            losses.into_iter().filter(|(_, count)| *count > 0).collect::<Vec<_>>()
        };
        for counter in 0..Counter::COUNTERS.0 {
            let expected = usize::from(counter < Counter::COUNTER_FIRST_STATISTIC.0);
            assert_eq!(lost(counter).len(), expected, "counter {counter}");
        }
        assert_eq!(lost(Counter::DROPPED_MAPPINGS.0), [("mappings_dropped".to_owned(), 7)]);
    }
}
