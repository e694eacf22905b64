//! What events refer to: program contexts and files. Both tables only grow, and an entry is in its
//! table before the first event that refers to it.

use crate::ids::{ContextId, FileId, Signature};
use crate::paths::file_name;

/// Longest text of an entry, in bytes. Paths end at 4 KiB; names of C++ functions may be longer.
pub const MAX_STRING_BYTES: u64 = 64 << 10;

/// The label of [`Context::others`].
const OTHERS: &str = "others";

/// How a context's call path was obtained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Unwind {
    /// No stack was readable; the context is the executable and the entry into the kernel.
    #[default]
    None = 0,
    /// A walk along frame pointers.
    FramePointer = 1,
    /// The restricted scan of the stack (FAST'19, section 3.2).
    Scan = 2,
    /// Not a call path: a class of a generator, or a tag of an imported trace.
    Label = 3,
    /// A walk along the call-frame rules of the modules (`.eh_frame`; Go: `.gopclntab`): the true path.
    Exact = 4,
    /// Reported by a language runtime (the Java agent), in the program's own language.
    Runtime = 5,
    /// As `Exact`, but the walk stopped before the outermost frame: at the limit of return addresses, at code without
    /// rules, or where the stack could not be read. The frames there are are true.
    Cut = 6,
}

crate::named!(Unwind:
    None = "none", FramePointer = "fp", Scan = "scan", Label = "label", Exact = "exact",
    Runtime = "runtime", Cut = "cut"
);

/// One return address of a call path, relative to its module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// Path of the mapped file; `[anon]` for executable memory without one.
    pub module: String,
    /// Build id in hexadecimal; empty when the module has none.
    pub build_id: String,
    /// Offset in the file.
    pub offset: u64,
    /// Demangled function name; empty when the code is stripped.
    pub symbol: String,
}

/// A program context: a call path that writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Context {
    /// Index in the contexts table, from 1.
    pub id: ContextId,
    /// Identity across runs.
    pub signature: Signature,
    /// Path of the executable, or the label of a generated class.
    pub executable: String,
    /// Thread name when the context was first seen.
    pub comm: String,
    /// Entry into the kernel: `write`, `pwrite64`, `page fault`, `io_uring`, …
    pub entry: String,
    /// How the frames were obtained.
    pub unwind: Unwind,
    /// The instruction itself, then return addresses, innermost first.
    pub frames: Vec<Frame>,
}

impl Context {
    /// A context that is not a call path: a class of a generator or a tag of an imported trace. Its
    /// signature is XXH3-64 of `label:` and the label.
    pub fn label(id: ContextId, label: &str) -> Context {
        let signature = twox_hash::XxHash3_64::oneshot(format!("label:{label}").as_bytes());
        Context {
            id,
            signature: Signature(signature),
            executable: label.to_owned(),
            unwind: Unwind::Label,
            ..Context::default()
        }
    }

    /// What it takes in memory, in bytes.
    pub fn bytes(&self) -> usize {
        let texts = [&self.executable, &self.comm, &self.entry].map(String::len).iter().sum::<usize>();
        let frame = |f: &Frame| size_of::<Frame>() + f.module.len() + f.build_id.len() + f.symbol.len();
        size_of::<Context>() + texts + self.frames.iter().map(frame).sum::<usize>()
    }

    /// The program's name without its directories. A label is no path: `kworker/u8:2` is all of a name.
    pub fn program(&self) -> &str {
        match self.unwind {
            Unwind::Label => &self.executable,
            _ => file_name(&self.executable),
        }
    }

    /// The context of all writers but those that an attached capture follows.
    pub fn others(id: ContextId) -> Context {
        Context::label(id, OTHERS)
    }

    /// Whether it is [`Context::others`].
    pub fn is_others(&self) -> bool {
        self.unwind == Unwind::Label && self.executable == OTHERS
    }
}

/// A file whose contents were written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct File {
    /// Index in the files table, from 1.
    pub id: FileId,
    /// Inode number.
    pub inode: u64,
    /// Inode generation: inode numbers are used again after a file is deleted.
    pub generation: u32,
    /// Path below the mount point, beginning with `/`, when the file was first written. Empty when
    /// the file had no name.
    pub path: String,
}

impl File {
    /// What it takes in memory, in bytes.
    pub fn bytes(&self) -> usize {
        size_of::<File>() + self.path.len()
    }
}

/// The tables of a trace as known so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tables {
    contexts: Vec<Context>,
    files: Vec<File>,
}

impl Tables {
    /// Adds a context. Its id must be the next free one: `contexts().len() + 1`.
    pub fn push_context(&mut self, context: Context) {
        assert_eq!(context.id.0 as usize, self.contexts.len() + 1, "context ids are dense");
        self.contexts.push(context);
    }

    /// Adds a file. Its id must be the next free one: `files().len() + 1`.
    pub fn push_file(&mut self, file: File) {
        assert_eq!(file.id.0 as usize, self.files.len() + 1, "file ids are dense");
        self.files.push(file);
    }

    /// The context with this id; `None` for `ContextId::NONE` and unknown ids.
    pub fn context(&self, id: ContextId) -> Option<&Context> {
        self.contexts.get((id.0 as usize).wrapping_sub(1))
    }

    /// The file with this id; `None` for `FileId::NONE` and unknown ids.
    pub fn file(&self, id: FileId) -> Option<&File> {
        self.files.get((id.0 as usize).wrapping_sub(1))
    }

    /// All contexts, by id.
    pub fn contexts(&self) -> &[Context] {
        &self.contexts
    }

    /// All files, by id.
    pub fn files(&self) -> &[File] {
        &self.files
    }
}

/// A piece of a trace: entries new to the tables, then events that may refer to them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Contexts not seen before, in id order.
    pub contexts: Vec<Context>,
    /// Files not seen before, in id order.
    pub files: Vec<File>,
    /// Events in order of time.
    pub events: Vec<crate::event::Event>,
}

impl Tables {
    /// Takes over the entries that a batch introduces.
    pub fn absorb(&mut self, batch: &Batch) {
        batch.contexts.iter().cloned().for_each(|c| self.push_context(c));
        batch.files.iter().cloned().for_each(|f| self.push_file(f));
    }
}
