//! A Parquet file as the text of a table: from there on it goes the way of every other one.

use bytes::Bytes;
use motes::sentence::foreign;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;

use super::DataError;
use super::reading::room_for;

/// What Parquet files begin with.
pub(super) const MAGIC: &[u8] = b"PAR1";
/// How pandas begins the name of an index that has none.
const INDEX: &str = "__index_level_";

/// The rows as CSV, with a header.
pub(super) fn as_csv(bytes: &[u8], name: &str, notes: &mut Vec<String>) -> Result<Vec<u8>, DataError> {
    let refused = |problem: String| {
        let problem = foreign(&problem);
        DataError(format!("{name} cannot be read as Parquet: {problem}; write it anew, or as CSV"))
    };
    let reader =
        SerializedFileReader::new(Bytes::copy_from_slice(bytes)).map_err(|e| refused(e.to_string()))?;
    let about = reader.metadata().file_metadata();
    let columns = about.schema_descr().root_schema().get_fields();
    let cells = about.num_rows().max(0) as u128 * columns.len() as u128;
    room_for(40 * cells, name, &format!("{cells} cells"), "give a smaller file")?;
    if let Some(nested) = columns.iter().find(|column| column.is_group()) {
        return Err(DataError(format!(
            "{name}: column '{}' holds lists or records; leave it out, or give it a column for each value",
            foreign(nested.name())
        )));
    }
    let mut out = csv::Writer::from_writer(Vec::new());
    let write = |e: csv::Error| refused(e.to_string());
    let is_index = |column: &str| column.starts_with(INDEX);
    let header: Vec<&str> = columns.iter().map(|c| c.name()).filter(|column| !is_index(column)).collect();
    if header.len() < columns.len() {
        notes.push(format!("{name}: the index that pandas wrote is left out"));
    }
    out.write_record(header).map_err(write)?;
    for row in reader.get_row_iter(None).map_err(|e| refused(e.to_string()))? {
        let row = row.map_err(|e| refused(e.to_string()))?;
        for (column, field) in row.get_column_iter().filter(|(column, _)| !is_index(column)) {
            out.write_field(cell(field).ok_or_else(|| {
                DataError(format!(
                    "{name}: column '{}' holds bytes that are no text; leave it out",
                    foreign(column)
                ))
            })?)
            .map_err(write)?;
        }
        out.write_record(None::<&[u8]>).map_err(write)?;
    }
    out.into_inner().map_err(|e| refused(e.to_string()))
}

/// A value as it stands in a table; nothing where there is none to write.
fn cell(field: &Field) -> Option<String> {
    Some(match field {
        Field::Null => String::new(),
        Field::Bool(value) => value.to_string(),
        Field::Byte(value) => value.to_string(),
        Field::Short(value) => value.to_string(),
        Field::Int(value) => value.to_string(),
        Field::Long(value) => value.to_string(),
        Field::UByte(value) => value.to_string(),
        Field::UShort(value) => value.to_string(),
        Field::UInt(value) => value.to_string(),
        Field::ULong(value) => value.to_string(),
        Field::Float16(value) => value.to_string(),
        Field::Float(value) => value.to_string(),
        Field::Double(value) => value.to_string(),
        Field::Str(text) => text.clone(),
        Field::Bytes(bytes) => std::str::from_utf8(bytes.data()).ok()?.into(),
        // Dates, times and decimals, as the crate writes them; what they are is left to the table.
        other => other.to_string(),
    })
}
