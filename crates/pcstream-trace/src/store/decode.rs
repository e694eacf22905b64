//! Arrow columns to rows. A file may lack columns that came later, and have others too.

use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Int32Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, PrimitiveArray, RecordBatch, StringArray};
use arrow_buffer::ScalarBuffer;
use arrow_schema::{DataType, SchemaRef};

use super::check::EventCheck;
use super::encode::{names, u32s};
use super::error::{EventFault, TraceError};
use super::limits::{TableBudget, check_frames};
use super::schema::{Absent, CONTEXTS, EVENTS, FILES, TableSpec};
use crate::event::{Event, Kind, Life, Op, WriteHint};
use crate::ids::{ContextId, FileId, Lba, Signature};
use crate::tables::{Context, File, Frame, Unwind};

/// The type that the decoder asks Parquet for: event names stay numbers into a dictionary, so that
/// no string is built for an event.
pub(super) fn decoded_type(table: &TableSpec, column: &str, stored: &DataType) -> DataType {
    let is_name = table.name == EVENTS.name && ["op", "kind", "hint"].contains(&column);
    if is_name && *stored == DataType::Utf8 {
        DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
    } else {
        stored.clone()
    }
}

/// Where the columns of a table are in a file that may have others too.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    path: Arc<Path>,
    /// Of each column its index in the file; none: an older table that lacks it.
    at: Vec<Option<usize>>,
}

impl Layout {
    /// Finds the columns of `table` in the schema of a file, and compares their types.
    pub fn find(table: &TableSpec, schema: &SchemaRef, path: &Path) -> Result<Layout, TraceError> {
        let mut at = Vec::new();
        for column in table.columns {
            let error = |found: String| TraceError::Schema {
                path: path.to_owned(),
                column: column.name,
                found,
                expected: column.kind.to_owned(),
            };
            let Some((index, field)) = schema.fields().find(column.name) else {
                if column.absent.is_none() {
                    return Err(error("nothing".to_owned()));
                }
                at.push(None);
                continue;
            };
            let expected = column.data_type();
            if !same_type(field.data_type(), &expected) {
                return Err(error(field.data_type().to_string()));
            }
            at.push(Some(index));
        }
        Ok(Layout { path: path.into(), at })
    }

    /// Indexes of the columns that the file has, in the table's order.
    pub fn indexes(&self) -> impl Iterator<Item = usize> {
        self.at.iter().copied().flatten()
    }

    /// The same columns in a record batch that holds only them, in the file's order.
    pub fn projected(&self) -> Layout {
        let rank = |index: usize| self.indexes().filter(|&other| other < index).count();
        Layout { path: self.path.clone(), at: self.at.iter().map(|index| index.map(rank)).collect() }
    }

    /// The columns of a record batch of `table`, in the table's order.
    pub fn columns(&self, table: &TableSpec, batch: &RecordBatch) -> Vec<ArrayRef> {
        (0..table.columns.len()).map(|index| self.column(table, batch, index)).collect()
    }

    fn column(&self, table: &TableSpec, batch: &RecordBatch, index: usize) -> ArrayRef {
        match (self.at[index], table.columns[index].absent) {
            (Some(at), _) => batch.column(at).clone(),
            (None, Some(Absent::Name(name))) => {
                names(std::iter::repeat_n(0, batch.num_rows()), std::iter::once(name))
            }
            (None, _) => u32s(std::iter::repeat_n(0, batch.num_rows())),
        }
    }
}

/// Whether a stored column can be read as the expected type: names of list elements and the mark
/// "may be null" are free, nulls themselves are refused when they occur.
fn same_type(found: &DataType, expected: &DataType) -> bool {
    match (found, expected) {
        (DataType::List(f), DataType::List(e)) => same_type(f.data_type(), e.data_type()),
        (DataType::Struct(f), DataType::Struct(e)) => {
            f.len() == e.len()
                && f.iter()
                    .zip(e)
                    .all(|(f, e)| f.name() == e.name() && same_type(f.data_type(), e.data_type()))
        }
        (DataType::Dictionary(_, value), e) => same_type(value, e),
        _ => found == expected,
    }
}

/// Refuses nulls; rows count from `first_row`.
fn no_nulls(array: &dyn Array, what: &str, path: &Path, first_row: u64) -> Result<(), TraceError> {
    if array.null_count() == 0 {
        return Ok(());
    }
    let place = format!("rows {first_row} to {}", first_row + array.len() as u64);
    let problem = format!("column {what} has {} nulls, expected none", array.null_count());
    Err(TraceError::corrupt(path, place, problem))
}

/// The numbers of a column.
fn numbers<T: ArrowPrimitiveType>(
    layout: &Layout,
    batch: &RecordBatch,
    table: &TableSpec,
    index: usize,
    first_row: u64,
) -> Result<ScalarBuffer<T::Native>, TraceError> {
    let array = layout.column(table, batch, index);
    no_nulls(&array, table.columns[index].name, &layout.path, first_row)?;
    let typed: &PrimitiveArray<T> =
        array.as_primitive_opt().ok_or_else(|| mismatch(&layout.path, table, index, array.data_type()))?;
    Ok(typed.values().clone())
}

/// The strings of a column.
fn text(
    layout: &Layout,
    batch: &RecordBatch,
    table: &TableSpec,
    index: usize,
    first_row: u64,
) -> Result<StringArray, TraceError> {
    let array = layout.column(table, batch, index);
    no_nulls(&array, table.columns[index].name, &layout.path, first_row)?;
    let strings = array.as_string_opt().cloned();
    strings.ok_or_else(|| mismatch(&layout.path, table, index, array.data_type()))
}

fn mismatch(path: &Path, table: &TableSpec, index: usize, found: &DataType) -> TraceError {
    TraceError::Schema {
        path: path.to_owned(),
        column: table.columns[index].name,
        found: found.to_string(),
        expected: table.columns[index].kind.to_owned(),
    }
}

/// A column of names: what each dictionary entry stands for, and the entry of each row.
struct Named<T> {
    meanings: Vec<Option<T>>,
    values: StringArray,
    keys: ScalarBuffer<i32>,
}

impl<T: Copy> Named<T> {
    fn find(
        layout: &Layout,
        batch: &RecordBatch,
        index: usize,
        first_row: u64,
        meaning: impl Fn(&str) -> Option<T>,
    ) -> Result<Named<T>, TraceError> {
        let array = layout.column(&EVENTS, batch, index);
        no_nulls(&array, EVENTS.columns[index].name, &layout.path, first_row)?;
        let dictionary = array.as_dictionary_opt::<Int32Type>();
        let values = dictionary.and_then(|d| d.values().as_string_opt::<i32>());
        let (Some(dictionary), Some(values)) = (dictionary, values) else {
            return Err(mismatch(&layout.path, &EVENTS, index, array.data_type()));
        };
        let meanings =
            (0..values.len()).map(|i| if values.is_null(i) { None } else { meaning(values.value(i)) });
        let meanings = meanings.collect();
        Ok(Named { meanings, values: values.clone(), keys: dictionary.keys().values().clone() })
    }

    #[inline]
    fn get(&self, row: usize) -> Option<T> {
        self.meanings.get(self.keys[row] as usize).copied().flatten()
    }

    /// The unknown name of a row.
    fn unknown(&self, row: usize) -> String {
        let key = self.keys[row] as usize;
        if key < self.values.len() && self.values.is_valid(key) {
            self.values.value(key).to_owned()
        } else {
            format!("dictionary entry {key}")
        }
    }
}

/// Appends the events of a record batch whose first row is event `first_row` of the trace.
pub(super) fn decode_events(
    layout: &Layout,
    batch: &RecordBatch,
    first_row: u64,
    check: &mut EventCheck,
    events: &mut Vec<Event>,
) -> Result<(), TraceError> {
    let u64s = |index| numbers::<UInt64Type>(layout, batch, &EVENTS, index, first_row);
    let u32s = |index| numbers::<UInt32Type>(layout, batch, &EVENTS, index, first_row);
    let rows = batch.num_rows();
    let (times, lbas, file_pages) = (u64s(0)?, u64s(2)?, u64s(6)?);
    let (pages, contexts, files, streams) = (u32s(3)?, u32s(4)?, u32s(5)?, u32s(9)?);
    // Slices of one known length let the compiler drop the bounds checks of the loop below.
    let (times, lbas, file_pages) = (&times[..rows], &lbas[..rows], &file_pages[..rows]);
    let (pages, contexts, files, streams) =
        (&pages[..rows], &contexts[..rows], &files[..rows], &streams[..rows]);
    let ops = Named::find(layout, batch, 1, first_row, Op::from_name)?;
    let kinds = Named::find(layout, batch, 7, first_row, Kind::from_name)?;
    let lives = Named::find(layout, batch, 8, first_row, Life::from_name)?;
    let fault = |row: usize, fault: EventFault| TraceError::Event {
        path: layout.path.to_path_buf(),
        row: first_row + row as u64,
        fault,
    };
    events.reserve(rows);
    for row in 0..rows {
        let Some(op) = ops.get(row) else { return Err(fault(row, EventFault::Op(ops.unknown(row)))) };
        let Some(kind) = kinds.get(row) else { return Err(fault(row, EventFault::Kind(kinds.unknown(row)))) };
        let Some(life) = lives.get(row) else { return Err(fault(row, EventFault::Hint(lives.unknown(row)))) };
        let Ok(stream) = u8::try_from(streams[row]) else {
            return Err(fault(row, EventFault::WriteStream(streams[row])));
        };
        let event = Event {
            time_ns: times[row],
            lba: Lba(lbas[row]),
            pages: pages[row],
            context: ContextId(contexts[row]),
            file: FileId(files[row]),
            file_page: file_pages[row],
            op,
            kind,
            hint: WriteHint { life, stream },
        };
        check.check(&event).map_err(|f| fault(row, f))?;
        events.push(event);
    }
    Ok(())
}

/// Ids of a table are 1, 2, 3, ...
fn check_id(path: &Path, column: &str, row: u64, found: u32) -> Result<(), TraceError> {
    if u64::from(found) == row + 1 {
        return Ok(());
    }
    let problem = format!("{column} {found}, expected {}: ids are dense and ascending", row + 1);
    Err(TraceError::Table { path: path.to_owned(), row, problem })
}

fn excessive(layout: &Layout, row: u64, problem: String) -> TraceError {
    TraceError::Excessive { path: layout.path.to_path_buf(), place: format!("row {row}"), problem }
}

/// Appends the contexts of a record batch.
pub(super) fn decode_contexts(
    layout: &Layout,
    batch: &RecordBatch,
    budget: &mut TableBudget,
    contexts: &mut Vec<Context>,
) -> Result<(), TraceError> {
    let first_row = contexts.len() as u64;
    let ids = numbers::<UInt32Type>(layout, batch, &CONTEXTS, 0, first_row)?;
    let signatures = numbers::<UInt64Type>(layout, batch, &CONTEXTS, 1, first_row)?;
    let texts = |index| text(layout, batch, &CONTEXTS, index, first_row);
    let (executables, comms, entries, unwinds) = (texts(2)?, texts(3)?, texts(4)?, texts(5)?);
    let lists = layout.column(&CONTEXTS, batch, 6);
    no_nulls(&lists, "frames", &layout.path, first_row)?;
    let lists =
        lists.as_list_opt::<i32>().ok_or_else(|| mismatch(&layout.path, &CONTEXTS, 6, lists.data_type()))?;
    for i in 0..batch.num_rows() {
        let row = first_row + i as u64;
        check_id(&layout.path, "context", row, ids[i])?;
        let name = unwinds.value(i);
        let unwind = Unwind::from_name(name).ok_or_else(|| {
            let names = Unwind::ALL.map(Unwind::name).join(", ");
            let problem = format!("unwind {name:?}, expected one of {names}");
            TraceError::Table { path: layout.path.to_path_buf(), row, problem }
        })?;
        let context = Context {
            id: ContextId(ids[i]),
            signature: Signature(signatures[i]),
            executable: executables.value(i).to_owned(),
            comm: comms.value(i).to_owned(),
            entry: entries.value(i).to_owned(),
            unwind,
            frames: decode_frames(layout, &lists.value(i), row)?,
        };
        budget.take(context.bytes()).map_err(|problem| excessive(layout, row, problem))?;
        contexts.push(context);
    }
    Ok(())
}

/// The frames of one context.
fn decode_frames(layout: &Layout, list: &ArrayRef, row: u64) -> Result<Vec<Frame>, TraceError> {
    let wrong = || mismatch(&layout.path, &CONTEXTS, 6, list.data_type());
    no_nulls(list, "frames", &layout.path, row)?;
    check_frames(list.len()).map_err(|problem| TraceError::Table {
        path: layout.path.to_path_buf(),
        row,
        problem,
    })?;
    let frames = list.as_struct_opt().ok_or_else(wrong)?;
    for column in frames.columns() {
        no_nulls(column, "frames", &layout.path, row)?;
    }
    let text = |i: usize| frames.column(i).as_string_opt::<i32>().ok_or_else(wrong);
    let (modules, build_ids, symbols) = (text(0)?, text(1)?, text(3)?);
    let offsets = frames.column(2).as_primitive_opt::<UInt64Type>().ok_or_else(wrong)?;
    let frame = |i| Frame {
        module: modules.value(i).to_owned(),
        build_id: build_ids.value(i).to_owned(),
        offset: offsets.value(i),
        symbol: symbols.value(i).to_owned(),
    };
    Ok((0..frames.len()).map(frame).collect())
}

/// Appends the files of a record batch.
pub(super) fn decode_files(
    layout: &Layout,
    batch: &RecordBatch,
    budget: &mut TableBudget,
    files: &mut Vec<File>,
) -> Result<(), TraceError> {
    let first_row = files.len() as u64;
    let u32s = |index| numbers::<UInt32Type>(layout, batch, &FILES, index, first_row);
    let (ids, generations) = (u32s(0)?, u32s(2)?);
    let inodes = numbers::<UInt64Type>(layout, batch, &FILES, 1, first_row)?;
    let paths = text(layout, batch, &FILES, 3, first_row)?;
    for i in 0..batch.num_rows() {
        check_id(&layout.path, "file", first_row + i as u64, ids[i])?;
        let file = File {
            id: FileId(ids[i]),
            inode: inodes[i],
            generation: generations[i],
            path: paths.value(i).to_owned(),
        };
        let row = first_row + i as u64;
        budget.take(file.bytes()).map_err(|problem| excessive(layout, row, problem))?;
        files.push(file);
    }
    Ok(())
}
