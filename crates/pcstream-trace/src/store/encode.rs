//! Rows to Arrow columns.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, DictionaryArray, Int32Array, ListArray, RecordBatch, StringArray, StructArray,
    UInt32Array, UInt64Array,
};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{Field, Schema};

use super::load::Load;
use super::schema::{CONTEXTS, EVENTS, FILES, TableSpec, frame_element, frame_fields};
use crate::event::{Event, Kind, Life, Op};
use crate::tables::{Context, File};

/// Something that is a row of a table.
pub(super) trait Row: Sized {
    /// Its table.
    const TABLE: &'static TableSpec;

    /// What it takes of the limits of a row group. Numbers take nothing.
    fn load(&self) -> Load {
        Load::default()
    }

    /// What it takes in a table that stays in memory; 0 if its table does not.
    fn bytes_kept(&self) -> u64 {
        0
    }

    /// The columns of some rows, in the table's order.
    fn columns(rows: &[Self]) -> Vec<ArrayRef>;

    /// Some rows as a record batch whose types are those that the encoder takes.
    fn encode(rows: &[Self]) -> RecordBatch {
        let columns = Self::columns(rows);
        let fields: Vec<Field> = Self::TABLE
            .columns
            .iter()
            .zip(&columns)
            .map(|(c, array)| Field::new(c.name, array.data_type().clone(), false))
            .collect();
        RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
            .expect("columns have equal lengths and the schema was made from them")
    }
}

fn strings<'a>(values: impl Iterator<Item = &'a str>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(values))
}

pub(super) fn u64s(values: impl Iterator<Item = u64>) -> ArrayRef {
    Arc::new(UInt64Array::from_iter_values(values))
}

pub(super) fn u32s(values: impl Iterator<Item = u32>) -> ArrayRef {
    Arc::new(UInt32Array::from_iter_values(values))
}

/// Numbers that stand for names, as a dictionary column.
pub(super) fn names<'a>(
    numbers: impl Iterator<Item = i32>,
    names: impl Iterator<Item = &'a str>,
) -> ArrayRef {
    let keys = Int32Array::from_iter_values(numbers);
    let values = StringArray::from_iter_values(names);
    Arc::new(DictionaryArray::new(keys, Arc::new(values)))
}

impl Row for Event {
    const TABLE: &'static TableSpec = &EVENTS;

    fn columns(rows: &[Event]) -> Vec<ArrayRef> {
        vec![
            u64s(rows.iter().map(|e| e.time_ns)),
            names(rows.iter().map(|e| e.op as i32), Op::ALL.iter().map(|op| op.name())),
            u64s(rows.iter().map(|e| e.lba.0)),
            u32s(rows.iter().map(|e| e.pages)),
            u32s(rows.iter().map(|e| e.context.0)),
            u32s(rows.iter().map(|e| e.file.0)),
            u64s(rows.iter().map(|e| e.file_page)),
            names(rows.iter().map(|e| e.kind as i32), Kind::ALL.iter().map(|kind| kind.name())),
            names(rows.iter().map(|e| e.hint.life as i32), Life::ALL.iter().map(|life| life.name())),
            u32s(rows.iter().map(|e| u32::from(e.hint.stream))),
        ]
    }
}

impl Row for Context {
    const TABLE: &'static TableSpec = &CONTEXTS;

    fn load(&self) -> Load {
        Load::of_context(self)
    }

    fn bytes_kept(&self) -> u64 {
        self.bytes() as u64
    }

    fn columns(rows: &[Context]) -> Vec<ArrayRef> {
        let frames = || rows.iter().flat_map(|c| &c.frames);
        let columns = vec![
            strings(frames().map(|f| f.module.as_str())),
            strings(frames().map(|f| f.build_id.as_str())),
            u64s(frames().map(|f| f.offset)),
            strings(frames().map(|f| f.symbol.as_str())),
        ];
        let frames = StructArray::new(frame_fields(), columns, None);
        let offsets = OffsetBuffer::from_lengths(rows.iter().map(|c| c.frames.len()));
        vec![
            u32s(rows.iter().map(|c| c.id.0)),
            u64s(rows.iter().map(|c| c.signature.0)),
            strings(rows.iter().map(|c| c.executable.as_str())),
            strings(rows.iter().map(|c| c.comm.as_str())),
            strings(rows.iter().map(|c| c.entry.as_str())),
            strings(rows.iter().map(|c| c.unwind.name())),
            Arc::new(ListArray::new(frame_element(), offsets, Arc::new(frames), None)),
        ]
    }
}

impl Row for File {
    const TABLE: &'static TableSpec = &FILES;

    fn load(&self) -> Load {
        Load::of(1, std::iter::once(&self.path))
    }

    fn bytes_kept(&self) -> u64 {
        self.bytes() as u64
    }

    fn columns(rows: &[File]) -> Vec<ArrayRef> {
        vec![
            u32s(rows.iter().map(|f| f.id.0)),
            u64s(rows.iter().map(|f| f.inode)),
            u32s(rows.iter().map(|f| f.generation)),
            strings(rows.iter().map(|f| f.path.as_str())),
        ]
    }
}
