//! The trace on disk: a directory of Parquet tables and `meta.json`, specified in
//! docs/trace-format.md.
//!
//! Idea: a trace is written into `NAME.partial` beside its target and renamed when it is finished,
//! so a directory under its own name is whole. Until then each table is a chain of small, complete
//! Parquet files ("segments"), because Parquet without its footer cannot be read: a recorder that
//! is killed loses only what it wrote since its last flush. Finishing copies the segments' encoded
//! row groups into one file per table without decoding them.
//!
//! Invariants: every event passes the same checks before it is stored and after it is loaded;
//! tables are flushed before the events that refer to them; nothing is deleted that is not a trace;
//! others who may write beside the trace cannot make its writer follow, write or remove what is theirs or
//! anybody's (`dir`).
//!
//! Known weaknesses: a partial trace survives the death of its process, but not necessarily a power
//! failure (segments are not synced; a torn one ends the readable part); a trace is not encrypted
//! or signed, its checksums detect damage, not malice.

pub mod arrow;
mod chain;
mod check;
mod decode;
mod dir;
mod encode;
mod error;
mod files;
mod limits;
mod load;
mod merge;
mod reader;
mod schema;
mod table;
mod writer;

pub use error::{EventFault, TraceError};
pub use files::{is_in_trace, partial_path};
pub use merge::{Merged, UNFINISHED};
pub use reader::{Batches, TraceReader};
pub use schema::{Absent, ColumnSpec, TableSpec, tables as table_specs};
pub use writer::{Summary, TraceWriter};

/// Name of the file that holds `Meta`.
pub const META_FILE: &str = "meta.json";

/// Appended to a trace's path while it is being written.
pub const PARTIAL_SUFFIX: &str = ".partial";

/// Rows in a row group of events.parquet, and in an event segment. Large enough that encodings and
/// DuckDB's parallel scan work well, small enough that rewriting an open segment on every flush
/// costs a capture about 1 % of a core.
pub const EVENTS_PER_ROW_GROUP: usize = 128 * 1024;
