//! Records of call paths become contexts, named by their signatures.

use pcstream_trace::{Context, ContextId, Frame, Signature, Unwind};

use super::{Joiner, MAX_CONTEXTS, MAX_KEYS};
use crate::runtime::{self, RuntimeFrame};
use crate::signature;
use crate::syscalls;
use crate::unwind::Path;
use crate::wire::{ContextRecord, RuntimeRecord, StackRecord, UnwindMode};

impl Joiner {
    pub(super) fn context(&mut self, record: &ContextRecord) {
        let path = Path {
            unwind: match UnwindMode(record.unwind) {
                UnwindMode::UNWIND_FP => Unwind::FramePointer,
                UnwindMode::UNWIND_SCAN => Unwind::Scan,
                UnwindMode::UNWIND_EXACT => Unwind::Exact,
                UnwindMode::UNWIND_RUNTIME => Unwind::Runtime,
                UnwindMode::UNWIND_CUT => Unwind::Cut,
                _ => Unwind::None,
            },
            frames: record.path().iter().map(|frame| (frame.module, frame.offset)).collect(),
        };
        self.enter_context(record, &path);
    }

    /// A stack becomes the context that its record names; the BPF program will name the same path otherwise.
    pub(super) fn stack(&mut self, record: &StackRecord) {
        let path = self.unwinder.path(record, &self.modules, &self.limits);
        self.enter_context(&record.context, &path);
    }

    /// Names precede the context that they belong to.
    pub(super) fn runtime_path(&mut self, record: &RuntimeRecord) {
        match runtime::frames(record) {
            Some(frames) => drop(self.runtime.entry(record.signature).or_insert(frames)),
            None => self.counts.rejected += 1,
        }
    }

    fn frames_of(&self, path: &Path) -> Vec<Frame> {
        if let (Unwind::Runtime, [(_, signature)]) = (path.unwind, &path.frames[..]) {
            return self.runtime.get(signature).into_iter().flatten().map(runtime_frame).collect();
        }
        let frame = |&(module, offset): &(u64, u64)| Frame {
            module: self.modules.path(module).to_string(),
            build_id: self.modules.get(module).map_or_else(String::new, |m| m.build_id.clone()),
            offset,
            symbol: String::new(),
        };
        path.frames.iter().map(frame).collect()
    }

    /// Whether a context can be kept, or is.
    fn has_room(&self, key: u64, signature: Signature) -> bool {
        let for_key = self.context_ids.len() < MAX_KEYS || self.context_ids.contains_key(&key);
        let for_context = self.contexts.len() < self.most_contexts && self.context_bytes_left > 0;
        for_key && (for_context || self.by_signature.contains_key(&signature))
    }

    fn enter_context(&mut self, record: &ContextRecord, path: &Path) {
        let ContextRecord { key, executable, entry, .. } = *record;
        let identities =
            || path.frames.iter().map(|&(module, offset)| (self.modules.identity(module), offset));
        let program = self.modules.identity(executable);
        let signature = signature::of_context(self.order, program, entry, identities());
        let check = signature::check_of_context(program, entry, identities());
        if !self.has_room(key, signature) {
            self.counts.contexts_over_limit += 1;
            return;
        }
        let next = ContextId(self.contexts.len() as u32 + 1);
        // Several keys may have one signature: the same binary at two places, a path first seen as a stack.
        let (id, its_check) = *self.by_signature.entry(signature).or_insert((next, check));
        if check != its_check && self.collided.len() < MAX_CONTEXTS && self.collided.insert(check) {
            self.counts.collisions += 1;
        }
        if self.context_ids.insert(key, id) != Some(id) {
            self.keys.push((key, id));
        }
        self.programs.contexts.entry(executable).or_insert(id);
        if id != next {
            return;
        }
        let modules: Vec<u64> = match path.unwind {
            Unwind::Runtime => Vec::new(),
            _ => path.frames.iter().map(|frame| frame.0).collect(),
        };
        modules.iter().chain([&executable]).for_each(|&key| self.modules.mark_used(key));
        self.modules_of.push(modules);
        let context = Context {
            id,
            signature,
            executable: self.modules.path(executable).to_string(),
            comm: text_of(&record.comm),
            entry: syscalls::entry_name(entry),
            unwind: path.unwind,
            frames: self.frames_of(path),
        };
        self.context_bytes_left = self.context_bytes_left.saturating_sub(context.bytes());
        self.contexts.push(context.clone());
        self.batch.contexts.push(context);
    }
}

/// A frame of a language runtime: its module is the method, after `java:`, and its offset the bytecode index.
fn runtime_frame(frame: &RuntimeFrame) -> Frame {
    let name = format!("{}.{}", frame.class, frame.method);
    Frame {
        module: format!("java:{name}"),
        build_id: String::new(),
        offset: frame.bytecode_index.cast_unsigned(),
        symbol: name,
    }
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.split(|&byte| byte == 0).next().unwrap_or_default()).into_owned()
}
