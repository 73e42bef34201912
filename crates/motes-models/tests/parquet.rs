//! Tables in Parquet files, as pandas and polars write them, beside the same in CSV: `make test-parquet`.

use motes_models::data::{Table, read_table};

fn cells(table: &Table) -> Vec<Vec<Option<String>>> {
    let cell = |i, j| table.cell(i, j).map(|cell| cell.parse::<f64>().map_or(cell.into(), |v| v.to_string()));
    (0..table.rows()).map(|i| (0..table.names().len()).map(|j| cell(i, j)).collect()).collect()
}

#[test]
fn they_hold_what_their_csv_holds() {
    let plain = read_table(include_bytes!("tables/both.csv"), "both.csv").unwrap();
    for (bytes, compressed) in [
        (&include_bytes!("tables/pandas.parquet")[..], "snappy"),
        (&include_bytes!("tables/polars.parquet")[..], "zstd"),
    ] {
        let table = read_table(bytes, "a.parquet").unwrap();
        assert_eq!(table.names(), plain.names(), "{compressed}");
        assert_eq!(cells(&table), cells(&plain), "{compressed}");
        let index = compressed == "snappy";
        assert_eq!(table.notes().iter().any(|note| note.contains("the index that pandas wrote")), index);
    }
}

#[test]
fn what_is_no_table_is_refused() {
    let nested = read_table(include_bytes!("tables/nested.parquet"), "a.parquet").unwrap_err();
    assert!(nested.to_string().starts_with("a.parquet: column 'x' holds lists or records; leave it out"));
    let whole = include_bytes!("tables/polars.parquet");
    for end in (4..whole.len()).step_by(7) {
        let refused = read_table(&whole[..end], "a.parquet").unwrap_err().to_string();
        assert!(refused.starts_with("a.parquet cannot be read as Parquet: "), "{refused}");
    }
}
