//! How placing stands, and what came of it, as plain data.

use std::collections::BTreeMap;

use pcstream_trace::{ContextId, Life, Signature};
use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::hint::HintUse;
use crate::learner::Learner;
use crate::sink::{Outcome, Sink, StreamUse};

/// How placing stands: counts only, so that it can be asked for at any time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Standing {
    /// How often all contexts were given streams together.
    pub clusterings: u64,
    /// What became of requests, by write stream; empty unless the sink gives them one.
    pub streams: Vec<StreamUse>,
    /// File data by the hint that its requests carried; empty unless the sink gives hints.
    pub hints: Vec<HintUse>,
    /// What was counted.
    pub statistics: BTreeMap<String, u64>,
    /// What was lost, by cause.
    pub losses: BTreeMap<String, u64>,
}

impl Standing {
    /// Of everything so far.
    pub fn of(learner: &Learner, sink: &dyn Sink) -> Standing {
        let owned = |(name, value): (&'static str, u64)| (name.to_owned(), value);
        let files = learner.files();
        // Only hints go by file.
        let unfollowed =
            sink.gives_hints().then(|| ("pages_of_files_not_followed", learner.unfollowed_pages()));
        let of_files = [
            ("files_forgotten", files.forgotten()),
            ("file_contexts_not_counted", files.contexts_not_counted()),
        ];
        Standing {
            clusterings: learner.decisions().clusterings(),
            streams: sink.uses(),
            hints: if sink.gives_hints() { learner.hint_uses() } else { Vec::new() },
            statistics: learner.facts().into_iter().chain(sink.facts()).chain(of_files).map(owned).collect(),
            losses: sink.losses().into_iter().chain(unfollowed).map(owned).collect(),
        }
    }
}

/// What came of placing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// The sink.
    pub sink: String,
    /// The scheme.
    pub scheme: String,
    /// Pages written while it placed.
    pub written_pages: u64,
    /// Of these, pages without a context: metadata, and what was lost.
    pub pages_without_context: u64,
    /// Contexts, the heaviest writer first.
    pub contexts: Vec<ContextSummary>,
    /// Files that were followed to the end, in the order of their first write.
    pub files: Vec<FileSummary>,
    /// How placing stood at the end.
    #[serde(flatten)]
    pub standing: Standing,
}

/// A context.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ContextSummary {
    /// Its id in the capture.
    #[serde(skip)]
    pub id: ContextId,
    /// Signature, 16 hexadecimal digits.
    #[serde(serialize_with = "as_text")]
    pub signature: Signature,
    /// Path of the executable.
    pub executable: String,
    /// Thread name when it was first seen.
    pub comm: String,
    /// Entry into the kernel.
    pub entry: String,
    /// Names of functions, innermost first; filled in by whoever knows them.
    pub call_path: String,
    /// Pages that it wrote.
    pub pages: u64,
    /// Expected lifetime; null where none of its data has died.
    pub lifetime_pages: Option<u64>,
    /// Lifetimes that went into it.
    pub samples: u32,
    /// Stream of the scheme; 0 is the default. The device's number is one more, or none for the default.
    pub stream: u8,
    /// Hint of its files; null where nothing is known.
    pub hint: Option<&'static str>,
    /// The file of which it wrote the most pages.
    pub file: Option<String>,
    /// Files of which it wrote more than any other context.
    pub files: u64,
    /// Of these, files that have its hint or another by this sink.
    pub files_hinted: u64,
}

/// A file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileSummary {
    /// Path below the mount point; empty if it had none.
    pub path: String,
    /// Inode number.
    pub inode: u64,
    /// Signature of the context that wrote the most of it; null if that has none.
    pub context: Option<String>,
    /// What was decided; null where nothing is known.
    pub hint: Option<&'static str>,
    /// What came of it: `set`, `of-program`, `gone`, `refused`, or `not-said`.
    pub outcome: &'static str,
}

fn as_text<S: serde::Serializer>(signature: &Signature, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(signature)
}

fn outcome_name(outcome: Option<Outcome>) -> &'static str {
    match outcome {
        Some(Outcome::Set) => "set",
        Some(Outcome::OfProgram) => "of-program",
        Some(Outcome::Gone) => "gone",
        Some(Outcome::Refused(_)) => "refused",
        Some(Outcome::NotSaid) | None => "not-said",
    }
}

/// Files of a context.
#[derive(Clone, Default)]
struct Tally {
    files: u64,
    hinted: u64,
    /// The one with the most pages.
    main: Option<(u64, String)>,
}

impl Summary {
    /// Of everything so far, with how placing stands.
    pub fn of(sink: &str, scheme: &str, learner: &Learner, standing: Standing) -> Summary {
        let mut tallies: FxHashMap<ContextId, Tally> = FxHashMap::default();
        let mut files = Vec::new();
        let signatures: Vec<Signature> =
            learner.contexts().map(|learned| learned.context.signature).collect();
        for followed in learner.files().all() {
            let (context, pages) = followed.main_writer();
            let tally = tallies.entry(context).or_default();
            tally.files += 1;
            tally.hinted += u64::from(followed.outcome == Some(Outcome::Set));
            if tally.main.as_ref().is_none_or(|(most, _)| pages > *most) {
                tally.main = Some((pages, followed.file.path.clone()));
            }
            let signature = signatures.get((context.0 as usize).wrapping_sub(1));
            files.push(FileSummary {
                path: followed.file.path.clone(),
                inode: followed.file.inode,
                context: signature.map(Signature::to_string),
                hint: followed.hint.map(Life::kernel_name),
                outcome: outcome_name(followed.outcome),
            });
        }
        let mut contexts: Vec<ContextSummary> =
            learner.contexts().map(|l| context_row(l, &tallies)).collect();
        contexts.sort_by_key(|context| std::cmp::Reverse(context.pages));
        Summary {
            sink: sink.to_owned(),
            scheme: scheme.to_owned(),
            written_pages: learner.written_pages(),
            pages_without_context: learner.pages_of(ContextId::NONE),
            contexts,
            files,
            standing,
        }
    }

    /// Everything that was lost.
    pub fn lost(&self) -> u64 {
        self.standing.losses.values().sum()
    }
}

fn context_row(
    learned: crate::learner::Learned<'_>,
    tallies: &FxHashMap<ContextId, Tally>,
) -> ContextSummary {
    let context = learned.context;
    let tally = tallies.get(&context.id).cloned().unwrap_or_default();
    ContextSummary {
        id: context.id,
        signature: context.signature,
        executable: context.executable.clone(),
        comm: context.comm.clone(),
        entry: context.entry.clone(),
        call_path: String::new(),
        pages: learned.pages,
        lifetime_pages: learned.decision.lifetime_pages,
        samples: learned.decision.samples,
        stream: learned.decision.stream.0,
        hint: learned.decision.hint.map(Life::kernel_name),
        file: tally.main.map(|(_, path)| path),
        files: tally.files,
        files_hinted: tally.hinted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sinks::none::Nothing;
    use crate::testing::{are_documented, scheme};

    /// Those of the scheme are in the document of schemes.
    #[test]
    fn the_document_names_every_count() {
        let learner = Learner::new(scheme("pcstream")).expect("it places by context");
        let of_scheme: Vec<&str> = learner.facts().iter().map(|(name, _)| *name).collect();
        let standing = Standing::of(&learner, &Nothing);
        let own = standing.statistics.keys().map(String::as_str);
        are_documented("Statistics of place", own.filter(|name| !of_scheme.contains(name)));
    }
}
