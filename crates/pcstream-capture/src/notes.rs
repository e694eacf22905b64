//! What the user should know of a capture besides its results, in sentences.

use pcstream_fs::scratch::FsKind;
use pcstream_trace::{Context, PAGE_BYTES};

use crate::buffers::Probe;
use crate::join::JoinCounts;
use crate::modules::Lack;
use crate::session::{Session, SessionError};
use crate::wire::{BufferKind, Counter};

/// Names modules without which call paths have no names: each by its path, as `name` shows it. A sentence for each reason.
pub(crate) fn lack(lacking: &[(&str, Lack)], name: fn(&str) -> String) -> Vec<String> {
    const NAMED: usize = 3;
    let reasons = [
        (
            Lack::NotOpened,
            "it was removed, or lies where only its process could see it, and that has ended, or on a file system that a user \
             mounted (FUSE, or in a user namespace)",
        ),
        (Lack::NotKept, "too many are open; raise the limit of open files (ulimit -n)"),
        (
            Lack::Changed,
            "it was overwritten after it had run; replace programs by renaming, as `install` does",
        ),
    ];
    let sentence = |(lack, why): (Lack, &str)| {
        let paths = || lacking.iter().filter(|(_, reason)| *reason == lack).map(|(path, _)| *path);
        let names: Vec<_> = paths().take(NAMED).map(name).collect();
        let more = match paths().count().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        (!names.is_empty()).then(|| {
            format!(
                "call paths through {}{more} have no names and may be merged, for the file could not be read: {why}",
                names.join(", ")
            )
        })
    };
    reasons.into_iter().filter_map(sentence).collect()
}

/// Names modules whose tables are larger than is read, in the same way.
pub(crate) fn limit(short_of: &[String], without: u64, name: fn(&str) -> String) -> Option<String> {
    let (first, more) = (short_of.first(), short_of.len().saturating_sub(1));
    let of = match (first, more) {
        (None, _) if without == 0 => return None,
        (None, _) => format!("{without} frames"),
        (Some(first), 0) => format!("functions of {}", name(first)),
        (Some(first), more) => format!("functions of {} and of {more} more files", name(first)),
    };
    Some(format!("{of} may have no names: looking them up takes more work or memory than it may"))
}

/// What of the file system is not in the trace: a journal on another device, late metadata of a mounted XFS.
pub(crate) fn of_place(journal_is_elsewhere: bool, is_mounted_xfs: bool) -> Vec<String> {
    [journal(journal_is_elsewhere), late_metadata(is_mounted_xfs)].into_iter().flatten().collect()
}

fn journal(is_elsewhere: bool) -> Option<String> {
    is_elsewhere.then(|| "the journal is on a device of its own: its writes are not in the trace".into())
}

/// Processes that are named.
const NAMED_PROCESSES: usize = 5;

/// Names what a command left running on a file system that was there before.
pub(crate) fn left_running(processes: &[(u32, String)]) -> Vec<String> {
    let note = |(pid, name): &(u32, String)| {
        format!(
            "{name} (pid {pid}), which the command left running, goes on; what it writes from now on is not captured: attach \
             to it with --pid {pid}"
        )
    };
    let mut notes: Vec<String> = processes.iter().take(NAMED_PROCESSES).map(note).collect();
    if let Some(more) = processes.len().checked_sub(NAMED_PROCESSES).filter(|more| *more > 0) {
        notes.push(format!("{more} more processes go on that the command left running"));
    }
    notes
}

/// What was written by whom that nothing more is known of.
pub(crate) fn of_counts(counts: &JoinCounts) -> Vec<String> {
    [others(counts), swap(counts), parts_of_pages(counts)].into_iter().flatten().collect()
}

/// What an attached capture does not tell apart.
fn others(counts: &JoinCounts) -> Option<String> {
    let (others, all) = (counts.others_pages, counts.data_pages);
    (others > 0).then(|| {
        let share = others as f64 / all.max(1) as f64;
        format!(
            "{:.1} % of the file data was written by others; their pages have the context 'others'",
            share * 100.0
        )
    })
}

/// Memory that the kernel swaps out to a file on the file system belongs to nobody's write.
fn swap(counts: &JoinCounts) -> Option<String> {
    let (swap, all) = (counts.swap_pages, counts.written_pages);
    (swap > 0).then(|| {
        format!(
            "{:.1} % of what was written is memory that was swapped out to a file of this file system; it counts as metadata \
             (other)",
            100.0 * swap as f64 / all.max(1) as f64
        )
    })
}

/// Logs of 512-byte blocks, such as that of XFS, are written by parts of pages.
fn parts_of_pages(counts: &JoinCounts) -> Option<String> {
    const WORTH_A_WORD: f64 = 0.1;
    let share = counts.uncovered_bytes as f64 / (counts.written_pages * PAGE_BYTES).max(1) as f64;
    (share > WORTH_A_WORD).then(|| {
        format!(
            "writes of parts of pages of 4 KiB count as whole pages: the device was given {:.1} % of what is reported as \
             written",
            100.0 * (1.0 - share)
        )
    })
}

/// What a capture on a mounted XFS cannot have.
fn late_metadata(is_mounted_xfs: bool) -> Option<String> {
    is_mounted_xfs.then(|| {
        "XFS writes inodes and directories some time after their changes, which are in its log: those of the end of this \
         capture are missing, and some of before are in it"
            .into()
    })
}

/// For whom it matters: the user of a Java program.
fn runtime(session: &Session<'_>, contexts: &[Context]) -> Option<String> {
    let why = session.runtime_unavailable()?;
    let of_java = |context: &Context| context.executable.ends_with("/java");
    contexts.iter().any(of_java).then(|| format!("call paths of the Java agent were not captured: {why}"))
}

/// What its counters say.
pub(crate) fn of_session(
    session: &Session<'_>,
    probes: &[Probe],
    counts: &JoinCounts,
    contexts: &[Context],
    name: fn(&str) -> String,
) -> Vec<String> {
    let unmarked = unmarked(session, probes, counts, name);
    let said = [runtime(session, contexts), refused_hints(session), unmarked];
    said.into_iter().flatten().collect()
}

/// Where the beginnings of writes are not seen.
pub(crate) fn unseen_writes(fs: FsKind, watched: Result<(), SessionError>) -> Option<String> {
    let error = watched.err()?;
    if fs == FsKind::F2fs {
        return Some(format!(
            "data that F2FS moves to clean a segment is credited to who needs room, for the kernel does not say when it \
             cleans: {error}"
        ));
    }
    Some(format!(
        "all pages of a folio of the page cache are credited to who made it dirty first, for the kernel does not say which \
         pages a write is about: {error}"
    ))
}

/// Probes of write buffers that saw nothing, as where the server runs another file than the one that was probed, or whose pages
/// were not seen when they were written.
fn unmarked(
    session: &Session<'_>,
    probes: &[Probe],
    counts: &JoinCounts,
    name: fn(&str) -> String,
) -> Option<String> {
    let is_asked = probes.iter().any(|probe| probe.rule.kind == BufferKind::BUFFER_STREAM.0);
    let binary = &probes.iter().find(|probe| probe.rule.kind == BufferKind::BUFFER_DIRTY.0)?.binary;
    if is_asked || counts.data_pages == 0 {
        return None;
    }
    let binary = name(&binary.display().to_string());
    let counted = |counter| session.counter(counter).ok();
    match (counted(Counter::BUFFER_MARKS)?, counted(Counter::BUFFER_WRITES)?) {
        (0, _) => Some(format!(
            "no page of a write buffer became dirty in {binary} (--write-buffers): if what writes is another file, as in a \
             container, attach to it with --pid, or name the file in a rules file"
        )),
        (marks, 0) => Some(format!(
            "{marks} pages of a write buffer became dirty in {binary} (--write-buffers), but no write came from it. If none of \
             them was written before the end, record longer, or over a checkpoint. If they were written, they have the call \
             path of their write: writev and buffered io_uring are not joined to a buffer, and a rules file of your own may \
             have the wrong place of the page in memory"
        )),
        _ => None,
    }
}

/// Hints that a program set, and that its pages do not have.
fn refused_hints(session: &Session<'_>) -> Option<String> {
    let refused = session.counter(Counter::REFUSED_HINTS).ok()?;
    (refused > 0).then(|| {
        format!(
            "the kernel refused {refused} write hint{} of the programs (F_SET_RW_HINT), so the pages of those files \
             carry none; a program that passes 4 bytes instead of 8 has this, as RocksDB 7 does",
            if refused == 1 { "" } else { "s" }
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_have_the_names_that_they_are_given() {
        let hidden = |_: &str| "hidden".to_owned();
        let path = "/home/anna/bin/db";
        let said = |name| {
            let limits = [vec![path.to_owned()], vec![path.to_owned(); 2]]
                .map(|of| limit(&of, 0, name).expect("a note"));
            [&lack(&[(path, Lack::NotOpened)], name), &limits[..]].concat()
        };
        assert_eq!(said(str::to_owned).len(), 3);
        assert!(said(str::to_owned).iter().all(|note| note.contains(path)), "{:?}", said(str::to_owned));
        assert!(said(hidden).iter().all(|note| note.contains("hidden") && !note.contains("anna")));
    }

    #[test]
    fn each_reason_has_its_own_modules() {
        let lacking = [
            ("a", Lack::NotOpened),
            ("b", Lack::NotKept),
            ("c", Lack::NotOpened),
            ("d", Lack::NotOpened),
            ("e", Lack::NotOpened),
        ];
        let said = lack(&lacking, str::to_owned);
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said[0].contains(" a, c, d and 1 more ") && said[0].contains("it was removed"), "{said:?}");
        assert!(said[1].contains(" b have no names") && said[1].contains("ulimit -n"), "{said:?}");
    }
}
