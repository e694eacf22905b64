//! A sheet of results: typed columns, a row per run, as Parquet, CSV or JSON.
//!
//! Every column may lack values: null in Parquet and JSON, nothing in CSV. JSON is a list of objects with the columns'
//! names as keys. The same sheet always makes the same bytes.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use arrow_array::{ArrayRef, BooleanArray, Float64Array, RecordBatch, StringArray, UInt64Array};
use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::ArrowWriter;
use serde_json::{Map, Value};

use crate::whole_file::is_stdout;

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// UTF-8.
    Text,
    /// Whole numbers.
    Whole,
    /// Numbers with a fraction.
    Real,
    /// Yes or no.
    Flag,
}

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// None.
    Null,
    /// A text.
    Text(String),
    /// A whole number.
    Whole(u64),
    /// A finite number.
    Real(f64),
    /// Yes or no.
    Flag(bool),
}

impl Cell {
    /// A number, or none where it does not exist.
    pub fn real(value: Option<f64>) -> Cell {
        value.filter(|v| v.is_finite()).map_or(Cell::Null, Cell::Real)
    }

    /// As JSON.
    pub fn to_json(&self) -> Value {
        match self {
            Cell::Null => Value::Null,
            Cell::Text(text) => text.as_str().into(),
            Cell::Whole(number) => (*number).into(),
            Cell::Real(number) => (*number).into(),
            Cell::Flag(flag) => (*flag).into(),
        }
    }

    /// From JSON, if the value can be in a column of this type.
    pub fn from_json(value: &Value, kind: Type) -> Option<Cell> {
        match (kind, value) {
            (_, Value::Null) => Some(Cell::Null),
            (Type::Text, Value::String(text)) => Some(Cell::Text(text.clone())),
            (Type::Whole, number) => number.as_u64().map(Cell::Whole),
            (Type::Real, number) => number.as_f64().map(Cell::Real),
            (Type::Flag, flag) => flag.as_bool().map(Cell::Flag),
            _ => None,
        }
    }
}

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Parquet,
    Csv,
    Json,
}

impl Format {
    /// By the end of the file's name; CSV on stdout.
    pub fn of(path: &Path) -> anyhow::Result<Format> {
        if is_stdout(path) {
            return Ok(Format::Csv);
        }
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("parquet") => Ok(Format::Parquet),
            Some("csv") => Ok(Format::Csv),
            Some("json") => Ok(Format::Json),
            _ => Err(anyhow!(
                "--output {}: expected a name that ends in .parquet, .csv or .json, or '-' for CSV on stdout",
                path.display()
            )),
        }
    }
}

/// Columns and rows.
#[derive(Clone, Debug)]
pub struct Sheet {
    /// Name and type, in order.
    pub columns: Vec<(String, Type)>,
    /// A cell for each column.
    pub rows: Vec<Vec<Cell>>,
}

impl Sheet {
    /// The bytes of a file.
    pub fn file(&self, format: Format) -> anyhow::Result<Vec<u8>> {
        match format {
            Format::Csv => Ok(self.csv().into_bytes()),
            Format::Json => self.json(),
            Format::Parquet => self.parquet().context("cannot make Parquet of the results"),
        }
    }

    fn csv(&self) -> String {
        let head: Vec<&str> = self.columns.iter().map(|(name, _)| name.as_str()).collect();
        let text = |cell: &Cell| match cell {
            Cell::Null => String::new(),
            Cell::Text(text) => text.clone(),
            Cell::Whole(number) => number.to_string(),
            Cell::Real(number) => number.to_string(),
            Cell::Flag(flag) => flag.to_string(),
        };
        pcstream_report::csv::table(
            &head,
            self.rows.iter().map(|row| row.iter().map(text).collect::<Vec<_>>()),
        )
    }

    fn json(&self) -> anyhow::Result<Vec<u8>> {
        let object = |row: &Vec<Cell>| {
            let pairs = self.columns.iter().zip(row);
            Value::Object(
                pairs.map(|((name, _), cell)| (name.clone(), cell.to_json())).collect::<Map<_, _>>(),
            )
        };
        let rows: Vec<Value> = self.rows.iter().map(object).collect();
        let mut text = serde_json::to_string_pretty(&rows).context("cannot make JSON of the results")?;
        text.push('\n');
        Ok(pcstream_report::escape::json(text).into_bytes())
    }

    fn parquet(&self) -> anyhow::Result<Vec<u8>> {
        let field = |(name, kind): &(String, Type)| {
            let kind = match kind {
                Type::Text => DataType::Utf8,
                Type::Whole => DataType::UInt64,
                Type::Real => DataType::Float64,
                Type::Flag => DataType::Boolean,
            };
            Field::new(name, kind, true)
        };
        let schema = Arc::new(Schema::new(self.columns.iter().map(field).collect::<Vec<_>>()));
        let arrays = (0..self.columns.len()).map(|index| self.array(index)).collect();
        let batch = RecordBatch::try_new(schema.clone(), arrays)?;
        let mut bytes = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut bytes, schema, None)?;
        writer.write(&batch)?;
        writer.close()?;
        Ok(bytes)
    }

    fn array(&self, index: usize) -> ArrayRef {
        let cells = self.rows.iter().map(|row| &row[index]);
        match self.columns[index].1 {
            Type::Text => Arc::new(StringArray::from_iter(cells.map(|cell| match cell {
                Cell::Text(text) => Some(text.as_str()),
                _ => None,
            }))),
            Type::Whole => Arc::new(UInt64Array::from_iter(cells.map(|cell| match cell {
                Cell::Whole(number) => Some(*number),
                _ => None,
            }))),
            Type::Real => Arc::new(Float64Array::from_iter(cells.map(|cell| match cell {
                Cell::Real(number) => Some(*number),
                _ => None,
            }))),
            Type::Flag => Arc::new(BooleanArray::from_iter(cells.map(|cell| match cell {
                Cell::Flag(flag) => Some(*flag),
                _ => None,
            }))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_come_back_from_json_as_they_were() {
        let cells = [
            (Type::Text, Cell::Text("a,\"b\"".into())),
            (Type::Whole, Cell::Whole(u64::MAX)),
            (Type::Real, Cell::Real(0.1 + 0.2)),
            (Type::Real, Cell::Real(1.0)),
            (Type::Whole, Cell::Null),
        ];
        for (kind, cell) in cells {
            let text = serde_json::to_string(&cell.to_json()).unwrap();
            assert_eq!(Cell::from_json(&serde_json::from_str(&text).unwrap(), kind), Some(cell));
        }
        assert_eq!(Cell::from_json(&Value::from("x"), Type::Whole), None);
        assert_eq!(Cell::real(Some(f64::NAN)), Cell::Null);
    }

    #[test]
    fn formats_go_by_the_name() {
        assert_eq!(Format::of(Path::new("a/b.parquet")).unwrap(), Format::Parquet);
        assert!(
            Format::of(Path::new("a/b.txt")).unwrap_err().to_string().contains(".parquet, .csv or .json")
        );
        assert!(Format::of(Path::new("csv")).is_err());
        assert_eq!(Format::of(Path::new("-")).unwrap(), Format::Csv);
    }
}
