//! The columns of the three tables: the one place where names and types are written down for the
//! encoder, the decoder and the test that compares them with docs/trace-format.md.
//!
//! Columns hold no nulls. All but those that a later version added are required. Strings are plain UTF-8 to every reader; repeated ones cost
//! little because Parquet dictionary-encodes them.
//!
//! Encodings were chosen by size on a trace shaped like a key-value store's (benches/store.rs), zstd
//! 3, bytes per event: time_ns delta 2.34, dictionary 4.47, byte-stream-split 2.40; lba delta 2.22,
//! byte-stream-split 1.98, plain 2.04 (but on uniform addresses delta is within 6 % of the entropy);
//! file plain 0.70, dictionary 1.20, delta 1.37; file_page delta 0.85, dictionary 0.71 (but 4 and
//! more on files with many pages); context dictionary 0.23, plain 0.51. Byte-stream-split integers
//! are unknown to readers from before 2024. zstd 9 gains 3 % for twice the time.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};
use parquet::schema::types::ColumnPath;

use super::EVENTS_PER_ROW_GROUP;

/// How a column is encoded before compression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coding {
    /// Differences, bit-packed: for numbers that rise or lie close together.
    Delta,
    /// Indexes into the row group's distinct values: for values that repeat.
    Dictionary,
    /// As it is: for values that alternate, where zstd finds repeats better than an index shows them.
    Plain,
}

/// One column, as documented.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnSpec {
    /// Its name.
    pub name: &'static str,
    /// Its type: `u64`, `u32`, `string` or `list<struct{...}>`.
    pub kind: &'static str,
    /// What stands for it in tables that were written before it was; none: every table has it.
    pub absent: Option<Absent>,
    coding: Coding,
}

/// What a column that a table lacks is read as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absent {
    /// This name in every row.
    Name(&'static str),
    /// 0 in every row.
    Zero,
}

/// One table, as documented.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSpec {
    /// Its name; the file is `NAME.parquet`.
    pub name: &'static str,
    /// Its columns, in order.
    pub columns: &'static [ColumnSpec],
    /// Rows in a row group, and in a segment of a partial trace.
    pub row_group: usize,
}

const fn column(name: &'static str, kind: &'static str, coding: Coding) -> ColumnSpec {
    ColumnSpec { name, kind, absent: None, coding }
}

const fn optional(name: &'static str, kind: &'static str, absent: Absent) -> ColumnSpec {
    ColumnSpec { name, kind, absent: Some(absent), coding: Coding::Dictionary }
}

/// Type of `contexts.frames`.
const FRAMES: &str = "list<struct{module: string, build_id: string, offset: u64, symbol: string}>";

pub(super) const EVENTS: TableSpec = TableSpec {
    name: "events",
    columns: &[
        column("time_ns", "u64", Coding::Delta),
        column("op", "string", Coding::Dictionary),
        column("lba", "u64", Coding::Delta),
        column("pages", "u32", Coding::Dictionary),
        column("context", "u32", Coding::Dictionary),
        column("file", "u32", Coding::Plain),
        column("file_page", "u64", Coding::Delta),
        column("kind", "string", Coding::Dictionary),
        optional("hint", "string", Absent::Name("not_set")),
        optional("write_stream", "u32", Absent::Zero),
    ],
    row_group: EVENTS_PER_ROW_GROUP,
};

pub(super) const CONTEXTS: TableSpec = TableSpec {
    name: "contexts",
    columns: &[
        column("context", "u32", Coding::Delta),
        column("signature", "u64", Coding::Dictionary),
        column("executable", "string", Coding::Dictionary),
        column("comm", "string", Coding::Dictionary),
        column("entry", "string", Coding::Dictionary),
        column("unwind", "string", Coding::Dictionary),
        column("frames", FRAMES, Coding::Dictionary),
    ],
    row_group: 8 * 1024,
};

pub(super) const FILES: TableSpec = TableSpec {
    name: "files",
    columns: &[
        column("file", "u32", Coding::Delta),
        column("inode", "u64", Coding::Delta),
        column("generation", "u32", Coding::Dictionary),
        column("path", "string", Coding::Dictionary),
    ],
    row_group: 64 * 1024,
};

/// The tables of a trace.
pub fn tables() -> [&'static TableSpec; 3] {
    [&EVENTS, &CONTEXTS, &FILES]
}

/// Fields of a frame.
pub(super) fn frame_fields() -> Fields {
    Fields::from(vec![
        Field::new("module", DataType::Utf8, false),
        Field::new("build_id", DataType::Utf8, false),
        Field::new("offset", DataType::UInt64, false),
        Field::new("symbol", DataType::Utf8, false),
    ])
}

/// The list element that holds a frame. `element` is the name that the Parquet format prescribes.
pub(super) fn frame_element() -> Arc<Field> {
    Arc::new(Field::new("element", DataType::Struct(frame_fields()), false))
}

impl ColumnSpec {
    /// The Arrow type.
    pub(super) fn data_type(&self) -> DataType {
        match self.kind {
            "u64" => DataType::UInt64,
            "u32" => DataType::UInt32,
            "string" => DataType::Utf8,
            FRAMES => DataType::List(frame_element()),
            other => unreachable!("column {} has the unknown type {other}", self.name),
        }
    }
}

impl TableSpec {
    /// The Arrow schema.
    pub(super) fn schema(&self) -> SchemaRef {
        let fields: Vec<Field> =
            self.columns.iter().map(|c| Field::new(c.name, c.data_type(), false)).collect();
        Arc::new(Schema::new(fields))
    }

    /// How the table is written.
    pub(super) fn properties(&self) -> WriterProperties {
        let level = ZstdLevel::try_new(3).expect("3 is a zstd level");
        let properties = WriterProperties::builder()
            .set_created_by(concat!("pcstream ", env!("CARGO_PKG_VERSION")).to_owned())
            .set_compression(Compression::ZSTD(level))
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_offset_index_disabled(true)
            .set_max_row_group_row_count(Some(self.row_group))
            .set_data_page_row_count_limit(self.row_group);
        let coded = |properties: WriterPropertiesBuilder, column: &ColumnSpec| match column.coding {
            Coding::Dictionary => properties,
            Coding::Plain => properties
                .set_column_dictionary_enabled(ColumnPath::from(column.name), false)
                .set_column_encoding(ColumnPath::from(column.name), Encoding::PLAIN),
            Coding::Delta => properties
                .set_column_dictionary_enabled(ColumnPath::from(column.name), false)
                .set_column_encoding(ColumnPath::from(column.name), Encoding::DELTA_BINARY_PACKED),
        };
        self.columns.iter().fold(properties, coded).build()
    }
}
