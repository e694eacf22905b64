//! A trace as Arrow tables, for programs that work on columns.
//!
//! Idea: the columns of events are those that the Parquet decoder made, handed on without a copy after the same checks as
//! events get. Contexts and files are held as rows, and become columns here.
//!
//! Invariant: columns have the order and types of docs/trace-format.md on every trace; `op` and `kind` are dictionaries.

use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow_schema::{ArrowError, Field, Schema, SchemaRef};

use super::decode::decoded_type;
use super::encode::Row;
use super::error::TraceError;
use super::reader::{Batches, TraceReader};
use super::schema::EVENTS;

/// Names and types of the columns of events.
pub fn events_schema() -> SchemaRef {
    let field = |column: &super::ColumnSpec| {
        Field::new(column.name, decoded_type(&EVENTS, column.name, &column.data_type()), false)
    };
    Arc::new(Schema::new(EVENTS.columns.iter().map(field).collect::<Vec<_>>()))
}

/// The events of a trace, some thousand a batch, read while they are asked for. An error of the trace is an
/// `ArrowError::ExternalError`, and ends them.
pub fn events(trace: &TraceReader) -> impl RecordBatchReader + Send + use<> {
    let schema = events_schema();
    let columns = EventColumns { batches: Some(trace.batches()), schema: schema.clone() };
    RecordBatchIterator::new(columns, schema)
}

/// The contexts of a trace.
pub fn contexts(trace: &TraceReader) -> RecordBatch {
    Row::encode(trace.contexts())
}

/// The files of a trace.
pub fn files(trace: &TraceReader) -> RecordBatch {
    Row::encode(trace.files())
}

struct EventColumns {
    /// None behind the end, or an error.
    batches: Option<Batches>,
    schema: SchemaRef,
}

impl EventColumns {
    fn next_columns(&mut self) -> Result<Option<RecordBatch>, TraceError> {
        let Some(batches) = &mut self.batches else { return Ok(None) };
        loop {
            match batches.next_checked()? {
                None => return Ok(None),
                Some((_, None)) => {}
                Some((batch, Some((layout, columns)))) => {
                    let columns = layout.columns(&EVENTS, &columns.slice(0, batch.events.len()));
                    let batch = RecordBatch::try_new(self.schema.clone(), columns);
                    return Ok(Some(batch.expect("the columns have been checked against the schema")));
                }
            }
        }
    }
}

impl Iterator for EventColumns {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.next_columns().map_err(|error| ArrowError::ExternalError(Box::new(error)));
        let next = next.transpose();
        if !matches!(next, Some(Ok(_))) {
            self.batches = None;
        }
        next
    }
}
