//! File systems as a capture sees them: scratch ones, their layout on the device, the extents of files.
//!
//! `scratch` makes, fills, mounts and removes a file system on a device of its own. `layout` says what kind
//! of page lies at an address: data, journal, inodes, bitmaps. `extents` asks the kernel where a file lies
//! (FIEMAP) and what each page of a file system is used for (GETFSMAP). `layout` uses both others, `scratch` uses
//! `extents`.
//!
//! Linux only. Scratch file systems and layouts of mounted ones need root; neither clang nor BPF is needed.

pub mod extents;
pub mod layout;
pub mod scratch;
