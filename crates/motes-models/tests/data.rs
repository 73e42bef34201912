//! Reading, splitting and standardising data: known answers, every refusal, and bytes of any kind.

use motes_models::data::{
    Classification, DataError, Moments, Table, classification, classification_like, column, features,
    read_file, read_file_of, read_table, sha256, train_test_split, wisconsin,
};
use proptest::prelude::*;

fn read(text: &str) -> Result<Table, DataError> {
    read_table(text.as_bytes(), "data.csv")
}

fn classify(text: &str, target: Option<&str>, drop: &[&str]) -> Result<Classification, DataError> {
    let drop: Vec<String> = drop.iter().map(|d| d.to_string()).collect();
    classification(&read(text)?, target, &drop)
}

#[track_caller]
fn refused(result: Result<impl std::fmt::Debug, DataError>, sentence: &str) {
    assert_eq!(result.expect_err("must be refused").to_string(), sentence);
}

fn embedded() -> Classification {
    let table = read_table(wisconsin::BYTES, wisconsin::NAME).unwrap();
    let drop: Vec<String> = wisconsin::DROP.iter().map(|d| d.to_string()).collect();
    classification(&table, None, &drop).unwrap()
}

#[test]
fn embedded_data() {
    let data = embedded();
    assert_eq!((data.rows(), data.rows_dropped), (683, 16));
    assert_eq!(data.feature_names.len(), 9);
    assert_eq!(data.classes, ["benign", "malignant"]);
    assert_eq!(data.labels.iter().filter(|l| **l == 1).count(), 239);
    let moments = Moments::of(&data.features, &data.feature_names).unwrap();
    // NumPy's mean(0) and std(0).
    let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-14 * b, "{a} {b}");
    close(moments.mean[0], 4.44216691068814);
    close(moments.mean[8], 1.603221083455344);
    close(moments.std[0], 2.8186955834309235);
    close(moments.std[5], 3.641188645187717);
    assert_eq!(sha256(wisconsin::BYTES), "fcba6af0b4b6822db77111e06d623fba1b3d5fea06e7a65b31f7e88b4f6e163c");
}

#[test]
fn split_is_that_of_scikit_learn() {
    let split = train_test_split(10, 0.2, 0).unwrap();
    assert_eq!((split.test, split.train), (vec![2, 8], vec![4, 9, 1, 6, 7, 3, 0, 5]));
    let split = train_test_split(10, 0.33, 42).unwrap();
    assert_eq!((split.test, split.train), (vec![8, 1, 5, 0], vec![7, 2, 9, 4, 3, 6]));
    // (n, fraction, seed), sizes, first of test, last of train, and sum of i * train[i].
    let known = [
        ((683, 0.2, 0), (546, 137), [113, 378, 303, 504], [359, 192, 629, 559], 50_409_700),
        ((1000, 0.25, u32::MAX), (750, 250), [94, 405, 819, 632], [71, 12, 290, 419], 140_508_903),
        ((5000, 0.1, 7), (4500, 500), [3406, 757, 3624, 4544], [2550, 537, 1220, 4271], 25_237_104_769),
    ];
    for ((n, fraction, seed), sizes, first, last, checksum) in known {
        let split = train_test_split(n, fraction, seed).unwrap();
        assert_eq!((split.train.len(), split.test.len()), sizes);
        assert_eq!(split.test[..4], first);
        assert_eq!(split.train[sizes.0 - 4..], last);
        assert_eq!(split.train.iter().enumerate().map(|(i, r)| i * r).sum::<usize>(), checksum);
    }
    assert_eq!(train_test_split(3, 0.0, 1).unwrap().train, [0, 1, 2]);
    refused(
        train_test_split(3, 1.0, 1),
        "`test-fraction=1` is not a fraction; choose a number from 0 up to, but not including, 1",
    );
    refused(
        train_test_split(2, 0.9, 1),
        "`test-fraction=0.9` leaves none of 2 rows to train on; choose a smaller fraction or give more rows",
    );
    assert!(train_test_split(3, f64::NAN, 1).is_err());
}

#[test]
fn accepts_marks_line_ends_quotes_and_blanks() {
    let text = "\u{feff}\"a\",\"b, c\",class\r\n 1 ,\"2\",no\r\n\r\n+3e0,-.5,\"y\"\"es\"\r\n";
    let data = classify(text, None, &[]).unwrap();
    assert_eq!(data.features, [1.0, 2.0, 3.0, -0.5]);
    assert_eq!(data.feature_names, ["a", "b, c"]);
    assert_eq!((data.classes, data.labels), (vec!["no".into(), "y\"es".into()], vec![0, 1]));
}

#[test]
fn missing_values_drop_rows_only_where_used() {
    let text = "id,a,b,y\n,1,2,0\n7,?,2,1\n8,NA,2,1\n9,4,,1\n9,5,6,1\n9,5,6,?\n";
    let data = classify(text, None, &["id"]).unwrap();
    assert_eq!((data.features, data.rows_dropped), (vec![1.0, 2.0, 5.0, 6.0], 4));
    refused(
        classify("a,b,y\n?,1,0\n?,2,1\n", None, &[]),
        "every row of data.csv misses a value, most often in column 'a'; fill some in or leave the column out with `drop=a`",
    );
    refused(
        classify("a,y\n1,?\n", None, &[]),
        "every row of data.csv misses a value, most often in column 'y'; fill some in or choose another with `target`",
    );
}

#[test]
fn classes_are_sorted_as_numbers_or_text() {
    let of = |labels: [&str; 4]| {
        let rows: String = labels.iter().map(|l| format!("1,{l}\n")).collect();
        classify(&format!("a,y\n{rows}"), None, &[]).map(|c| (c.classes, c.labels))
    };
    assert_eq!(of(["10", "9", "9.0", "1e1"]).unwrap(), (vec!["9".into(), "10".into()], vec![1, 0, 0, 1]));
    assert_eq!(of(["b", "a", "a", "b"]).unwrap(), (vec!["a".into(), "b".into()], vec![1, 0, 0, 1]));
    assert_eq!(of(["10", "9x", "9x", "10"]).unwrap().0, ["10", "9x"]);
    refused(
        of(["a", "a", "a", "a"]),
        "data.csv, column 'y': the only class is 'a'; choose a column of two classes with `target` or add rows of another class",
    );
    refused(
        of(["3", "a", "2", "10"]),
        "data.csv, column 'y': there are 4 classes ('10', '2', '3', 'a'); choose a column of two classes with `target` or keep the rows of two classes only",
    );
    refused(
        of(["1", "0", "NaN", "1"]),
        "data.csv, line 4, column 'y': 'NaN' is not a class; correct it, or write ? if it is missing",
    );
}

#[test]
fn refusals_name_the_place_and_the_remedy() {
    refused(read(""), "data.csv is empty; give a CSV file with a header line and a row per sample");
    refused(read("\n\r\n"), "data.csv is empty; give a CSV file with a header line and a row per sample");
    refused(read("a,b\n"), "data.csv has a header but no rows; add a row per sample");
    refused(
        read("1,2.5\n3,4\n"),
        "data.csv, line 1: the first row is all numbers ('1', '2.5'); begin the file with a header line that names the columns",
    );
    refused(
        read("a,b\n1,2\n\n3\n"),
        "data.csv, line 4: the row has 1 values where the header names 2 columns; check its commas and quotes",
    );
    refused(
        read("a,b,a\n1,2,3\n"),
        "data.csv, line 1: columns 1 and 3 are both named 'a'; rename one of them",
    );
    refused(
        read(",b\n1,2\n"),
        "data.csv, line 1, column 1: the column has no name; name every column in the header line (pandas: index=False)",
    );
    refused(
        read("a;b\n1;2\n"),
        "data.csv, line 1: the columns seem to be separated by ';'; separate them by commas",
    );
    refused(
        read_table(b"a,b\n1,\xff2\n", "data.csv"),
        "data.csv, line 2, column 'b': '\u{fffd}2' is not UTF-8; save the file as UTF-8",
    );
    refused(read_table(b"\xff\xfea\0", "data.csv"), "data.csv is UTF-16 text; save it as UTF-8");
    refused(
        classify("age,y\r\n1,0\r\n\r\nabc,1\r\n", None, &[]),
        "data.csv, line 4, column 'age': 'abc' is not a number; correct it or leave the column out with `drop=age`",
    );
    for word in ["nan", "-NaN", "inf", "-Infinity", "1e999"] {
        refused(
            classify(&format!("age,y\n\"{word}\",1\n"), None, &[]),
            &format!(
                "data.csv, line 2, column 'age': '{word}' is not a finite number; correct it, or write ? if it is missing, or leave the column out with `drop=age`"
            ),
        );
    }
    let text = "age,class\n1,0\n2,1\n";
    refused(
        classify(text, Some("clas"), &[]),
        "data.csv has no column 'clas' as `target` asks for; did you mean 'class'?",
    );
    refused(
        classify(text, None, &["weight"]),
        "data.csv has no column 'weight' as `drop` asks for; the columns are 'age', 'class'",
    );
    refused(
        classify(text, None, &["class"]),
        "`drop=class` leaves out the target column; choose another target with `target` or keep it",
    );
    refused(
        classify(text, None, &["age"]),
        "data.csv has no feature columns besides the target 'class'; add some or drop fewer",
    );
    refused(
        column(&read(text).unwrap(), Some("x")),
        "data.csv has no column 'x' as `target` asks for; the columns are 'age', 'class'",
    );
    assert_eq!(column(&read("y\n1\n?\n2\n").unwrap(), None), Ok((vec![1.0, 2.0], 1)));
}

#[test]
fn later_files_use_the_names_and_classes_of_the_training_file() {
    let training = classify("a,b,y\n1,2,no\n3,4,yes\n", None, &[]).unwrap();
    let table = read("y,b,extra,a\nyes,20,x,10\nyes,?,x,10\n").unwrap();
    let other = classification_like(&table, &training).unwrap();
    assert_eq!((other.features, other.labels, other.rows_dropped), (vec![10.0, 20.0], vec![1], 1));
    let alone = features(&table, &training.feature_names).unwrap();
    assert_eq!((alone.features, alone.rows), (vec![10.0, 20.0], vec![0]));
    refused(
        classification_like(&read("a,b,y\n1,2,maybe\n").unwrap(), &training),
        "data.csv, line 2, column 'y': 'maybe' is not a class of the training data; use one of 'no', 'yes'",
    );
    refused(
        features(&read("age,weight\n1,2\n").unwrap(), &["wieght".into()]),
        "data.csv has no column 'wieght' as the fitted model asks for; did you mean 'weight'?",
    );
}

#[test]
fn moments_survive_scales_and_offsets() {
    let plain = [1.0, 2.0, 4.0, 8.0, 9.0];
    let names = ["v".to_string()];
    let mut expected = plain.to_vec();
    Moments::of(&plain, &names).unwrap().apply(&mut expected);
    assert!((expected.iter().map(|v| v * v).sum::<f64>() / 5.0 - 1.0).abs() < 1e-15);
    for (scale, offset, error) in
        [(1e6, 0.0, 1e-14), (1.0, 1e9, 1e-7), (1e-300, 0.0, 1e-14), (1e300, 0.0, 1e-14)]
    {
        let mut values = plain.map(|v| scale * v + offset);
        Moments::of(&values, &names).unwrap().apply(&mut values);
        for (v, e) in values.iter().zip(&expected) {
            assert!((v - e).abs() < error, "{scale} {offset}: {v} {e}");
        }
    }
    refused(
        Moments::of(&[0.1; 3], &names),
        "column 'v' is constant, so it cannot be standardised; leave it out with `drop=v` or take features as they are with `no-standardize`",
    );
    refused(
        Moments::of(&[f64::MAX, f64::MIN], &names),
        "column 'v' spans more than numbers can hold; rescale it or leave it out with `drop=v`",
    );
}

/// Everything one can do with a file; errors must be single lines.
fn use_everything(bytes: &[u8]) {
    let sentence = |e: DataError| assert!(!e.to_string().contains('\n'), "{e}");
    let table = match read_table(bytes, "data.csv") {
        Ok(table) => table,
        Err(e) => return sentence(e),
    };
    let first = table.names()[0].clone();
    let _ = column(&table, None).map_err(sentence);
    let _ = column(&table, Some(&first)).map_err(sentence);
    let _ = features(&table, std::slice::from_ref(&first)).map_err(sentence);
    for drop in [vec![], vec![first]] {
        match classification(&table, None, &drop) {
            Ok(data) => {
                let _ = Moments::of(&data.features, &data.feature_names).map_err(sentence);
                assert_eq!(classification_like(&table, &data).as_ref(), Ok(&data));
            }
            Err(e) => sentence(e),
        }
    }
}

#[test]
fn files_that_cannot_be_read_are_named_with_what_to_do() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    std::fs::write(at("f.csv"), "a\n1\n").unwrap();
    assert_eq!(read_file(&at("f.csv"), "the data").unwrap(), b"a\n1\n");
    assert_eq!(read_file_of(&at("f.csv"), "", 4, "").unwrap(), b"a\n1\n");
    let shown = place.path().to_string_lossy();
    refused(
        read_file_of(&at("f.csv"), "the config", 3, "give a shorter one"),
        &format!("cannot read the config {shown}/f.csv: it is longer than 3 bytes; give a shorter one"),
    );
    refused(
        read_file(place.path(), "the data"),
        &format!("cannot read the data {shown}: it is a directory; give a file"),
    );
    refused(
        read_file(&at("none"), ""),
        &format!("cannot read {shown}/none: No such file or directory (os error 2); check the path"),
    );
    refused(
        read_file("/dev/null".as_ref(), "the labels"),
        "cannot read the labels /dev/null: it is a device; give a file or a pipe",
    );
}

proptest! {
    #[test]
    fn no_bytes_cause_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        use_everything(&bytes);
    }

    #[test]
    fn no_text_causes_a_panic(text in "(\u{feff})?[a-c,\"\r\n?. 0-9NAeinf-]{0,120}") {
        use_everything(text.as_bytes());
    }

    #[test]
    fn no_table_causes_a_panic(
        rows in prop::collection::vec(prop::collection::vec("[01]|-?[0-9.]{1,4}|1e[0-9]{1,3}|\\?|NA||nan|\"[a,\n]?\"|[ab]", 3), 1..12),
    ) {
        let rows: String = rows.iter().map(|row| row.join(",") + "\n").collect();
        use_everything(format!("a,b,c\n{rows}").as_bytes());
    }
}
