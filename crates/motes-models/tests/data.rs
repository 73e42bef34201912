//! Reading, splitting and standardising data: known answers, every refusal, and bytes of any kind.

use motes_models::data::{
    Classification, Coding, DataError, Features, LabelledRows, Moments, Reference, Table, Unknown, Values,
    classification, column, features, labelled, labelled_like, read_file, read_file_of, read_table, sha256,
    train_test_split, wisconsin,
};
use proptest::prelude::*;

fn read(text: &str) -> Result<Table, DataError> {
    read_table(text.as_bytes(), "data.csv")
}

fn classify(text: &str, target: Option<&str>, drop: &[&str]) -> Result<Classification, DataError> {
    let drop: Vec<String> = drop.iter().map(|d| d.to_string()).collect();
    classification(&read(text)?, target, &drop)
}

fn labelled_rows(text: &str) -> Result<LabelledRows, DataError> {
    labelled(&read(text)?, None, &[], &[], 2)
}

/// The coding of all rows.
fn coding(rows: &LabelledRows, references: &[Reference]) -> Result<(Coding, Vec<String>), DataError> {
    let mut notes = Vec::new();
    Ok((Coding::learn(&rows.frame, &rows.rows, references, false, &mut notes)?, notes))
}

/// The features of new rows.
fn predicted(table: &Table, coding: &Coding, unknown: Unknown) -> Result<Features, DataError> {
    features(table, coding, unknown, &mut Vec::new())
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
        "data.csv, column 'y': there are 4 classes ('10', '2', '3', 'a'); use the model multinomial for more than two, or choose another column with `target`",
    );
    refused(
        of(["1", "0", "inf", "1"]),
        "data.csv, line 4, column 'y': 'inf' is not a class; correct it, or write ? if it is missing",
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
        "data.csv, line 4: the row has 1 value where the header names 2 columns; check its separators and quotes",
    );
    refused(
        read("a,b,a\n1,2,3\n"),
        "data.csv, line 1: columns 1 and 3 are both named 'a'; rename one of them",
    );
    refused(
        read("yes,1,0,0\nno,2,3,1\n"),
        "data.csv, line 1: columns 3 and 4 are both named '0'; begin the file with a header line that names the columns, or rename one of them",
    );
    refused(
        read("a,,b\n1,2,3\n"),
        "data.csv, line 1, column 2: the column has no name; name every column in the header line",
    );
    #[cfg(not(feature = "parquet"))]
    refused(
        read_table(b"PAR1\x15\0", "data.csv"),
        "data.csv is a Parquet file; build Motes with the cargo feature parquet, or write it as CSV: pandas.read_parquet(...).to_csv(..., index=False)",
    );
    for (bytes, said) in [
        (&b"PK\x03\x04.."[..], "data.csv is a zip archive, as spreadsheets are; save the sheet as CSV"),
        (b"\xff\xfea", "data.csv begins like UTF-16 text but is not; save it as UTF-8"),
        (b"a,b\n1,\0\n", "data.csv is not text; give a CSV file"),
    ] {
        refused(read_table(bytes, "data.csv"), said);
    }
    refused(
        classify("age,y\r\n1,0\r\n\r\nabc,1\r\n", None, &[]),
        "data.csv, line 4, column 'age': 'abc' is not a number; correct it or leave the column out with `drop=age`",
    );
    for word in ["inf", "-Infinity", "1e999"] {
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
        classify("x,class\n1,a\n2,b\n3,a\n", None, &[]),
        "data.csv has no feature columns besides the target 'class' ('x' only numbers or names the rows); add some or drop fewer",
    );
    refused(
        column(&read(text).unwrap(), Some("x"), &mut Vec::new()),
        "data.csv has no column 'x' as `target` asks for; the columns are 'age', 'class'",
    );
    let mut notes = Vec::new();
    assert_eq!(column(&read("y\n1\n?\n2\n").unwrap(), None, &mut notes), Ok(vec![1.0, 2.0]));
    assert_eq!(notes, ["data.csv: 1 row with missing values was dropped (1 in 'y')"]);
}

#[test]
fn later_files_use_the_names_and_classes_of_the_training_file() {
    let training = labelled_rows("a,b,y\n1,2,no\n3,4,yes\n").unwrap();
    let (coding, _) = coding(&training, &[]).unwrap();
    let like = |table: &Table| labelled_like(table, &coding, &training.target, &training.classes);
    let table = read("y,b,extra,a\nyes,20,x,10\nyes,?,x,10\n").unwrap();
    let other = like(&table).unwrap();
    let (rows, _) = other.coded(&coding, &[0], Unknown::Refuse).unwrap();
    assert_eq!((rows.features, rows.labels, other.rows_dropped()), (vec![10.0, 20.0], vec![1], 1));
    let alone = predicted(&table, &coding, Unknown::Refuse).unwrap();
    assert_eq!((alone.features, alone.rows), (vec![10.0, 20.0], vec![0]));
    refused(
        like(&read("a,b,y\n1,2,maybe\n").unwrap()),
        "data.csv, line 2, column 'y': 'maybe' is not a class of the training data; use one of 'no', 'yes'",
    );
    refused(
        predicted(
            &read("age,weight\n1,2\n").unwrap(),
            &Coding::of_numbers(&["wieght".into()]),
            Unknown::Refuse,
        ),
        "data.csv has no column 'wieght' as the fitted model asks for; did you mean 'weight'?",
    );
}

#[test]
fn words_become_categories() {
    let text = "size,colour,y\n1,red,0\n2,blue,1\n3,red,1\n4,green,0\n";
    let training = labelled_rows(text).unwrap();
    let (plain, notes) = coding(&training, &[]).unwrap();
    assert_eq!(plain.names(), ["size", "colour=green", "colour=red"]);
    assert_eq!(notes, ["column 'colour' is a category of 3 levels, each against 'blue'"]);
    let (rows, _) = training.coded(&plain, &[0, 1, 2, 3], Unknown::Refuse).unwrap();
    assert_eq!(rows.features, [1., 0., 1., 2., 0., 0., 3., 0., 1., 4., 1., 0.]);
    let columns = ["size".to_string(), "colour".to_string()];
    let red = Reference::parse("colour=red", &columns).unwrap();
    assert_eq!(coding(&training, &[red]).unwrap().0.names(), ["size", "colour=blue", "colour=green"]);
    refused(
        coding(&training, &[Reference::parse("colour=rot", &columns).unwrap()]).map(|c| c.1),
        "column 'colour' has no level 'rot' in the rows to train on, as `reference` asks for; its levels are 'blue', 'green', 'red'",
    );
    refused(
        Reference::parse("color=red", &columns),
        "there is no column 'color' as `reference` asks for; did you mean 'colour'?",
    );
    refused(Reference::parse("colour", &columns), "`reference=colour` names no level; write COLUMN=LEVEL");
    // New rows with a word that nobody has seen.
    let table = read("colour,size\nred,1\npink,2\n").unwrap();
    refused(
        predicted(&table, &plain, Unknown::Refuse),
        "data.csv holds words that the training rows did not: 'pink' in column 'colour'; column 'colour' had 'blue', 'green', 'red': correct them, or count them as the reference level with `unknown=reference`",
    );
    assert_eq!(predicted(&table, &plain, Unknown::Reference).unwrap().features, [1., 0., 1., 2., 0., 0.]);
    let left = predicted(&table, &plain, Unknown::LeaveOut).unwrap();
    assert_eq!((left.features, left.rows), (vec![1., 0., 1.], vec![0]));
    // Levels that are numbers are sorted as such, and stay words in a file that has no other ones.
    let mixed = "n,y\n10,0\n9,1\n3+,1\n10,0\n9,1\n3+,1\n";
    let rows = labelled_rows(mixed).unwrap();
    assert_eq!(coding(&rows, &[]).unwrap().0.names(), ["n=3+", "n=9"]);
    let again = predicted(&read("n\n9\n10\n").unwrap(), &coding(&rows, &[]).unwrap().0, Unknown::Refuse);
    assert_eq!(again.unwrap().features, [0., 1., 0., 0.]);
    let numbers = labelled(&read("n,y\n10,0\n9,1\n9,0\n").unwrap(), None, &[], &["n".into()], 2).unwrap();
    assert_eq!(coding(&numbers, &[]).unwrap().0.names(), ["n=10"]);
}

#[test]
fn what_cannot_be_used_is_named_in_one_message() {
    let mut text = "when,name,age,kind,y\n".to_string();
    for i in 0..40 {
        let age = if i == 7 { "forty".into() } else { (20 + i).to_string() };
        text += &format!("2020-01-{:02},n{i},{age},{},{}\n", i + 1, ["a", "b"][i % 2], i % 2);
    }
    refused(
        labelled_rows(&text),
        "data.csv: column 'when' has 40 different words in 40 rows, as dates do, column 'name' has 40 different words in 40 rows, as names or ids do, line 9, column 'age': 'forty' is not a number; correct them or leave the columns out with `drop=when,name,age`",
    );
    let drop = ["when", "name", "age"].map(String::from);
    assert!(labelled(&read(&text).unwrap(), None, &drop, &[], 2).is_ok());
}

#[test]
fn commas_between_thousands_are_no_decimal_commas() {
    refused(
        labelled_rows("a,y\n\"1,234\",0\n950,1\n\"12,345\",1\n"),
        "data.csv, line 2, column 'a': '1,234' has a comma which may be a decimal comma or stand between thousands: write a point or no comma; correct it or leave the column out with `drop=a`",
    );
    refused(
        labelled_rows("a;y\n1,234,567;0\n950;1\n12,345;1\n"),
        "data.csv, line 2, column 'a': '1,234,567' has a comma between thousands: write no commas; correct it or leave the column out with `drop=a`",
    );
    // No number begins with a 0 and a comma after it, unless its decimals follow; and semicolons come with decimal commas.
    for text in ["a,y\n\"1,234\",0\n\"0,500\",1\n", "a;y\n1,234;0\n2,500;1\n"] {
        let rows = labelled_rows(text).unwrap();
        assert!(
            rows.notes.contains(&"data.csv: decimal commas in column 'a'".to_string()),
            "{:?}",
            rows.notes
        );
    }
    refused(
        read("a\n1,2,3\n"),
        "data.csv, line 2: the row has 3 values where the header names 1 column; check its separators and quotes",
    );
}

#[test]
fn threads_share_the_columns_of_large_tables() {
    let (rows, columns) = (12_001, 5);
    let value = |row: usize, column: usize| (row * (column + 3) % 1009) as f64 / 8.0;
    let mut text = String::from("a,b,c,d,e,y\n");
    for row in 0..rows {
        (0..columns).for_each(|column| text += &format!("{},", value(row, column)));
        text += ["no\n", "yes\n"][row % 2];
    }
    let table = read_table(text.as_bytes(), "data.csv").unwrap();
    let all = labelled(&table, None, &[], &[], 2).unwrap();
    for (i, column) in all.frame.columns.iter().enumerate() {
        let expected: Vec<f64> = (0..rows).map(|row| value(row, i)).collect();
        assert_eq!(
            (column.name.as_str(), &column.values),
            (["a", "b", "c", "d", "e"][i], &Values::Numbers(expected))
        );
    }
}

#[test]
fn files_are_read_as_programs_write_them() {
    let expected = labelled_rows("a,b,y\n1.5,x,0\n2.5,z,1\n3,x,1\n").unwrap();
    let same = |bytes: &[u8], notes: &[&str]| {
        let table = read_table(bytes, "data.csv").unwrap();
        let rows = labelled(&table, None, &[], &[], 2).unwrap();
        assert_eq!((&rows.frame, &rows.labels), (&expected.frame, &expected.labels));
        assert_eq!(rows.notes, notes);
    };
    let plain = "a,b,y\n1.5,x,0\n2.5,z,1\n3,x,1\n";
    same(plain.as_bytes(), &[]);
    let semicolons = "data.csv: the columns are separated by ';'";
    same(b"a;b;y\n1,5;x;0\n2,5;z;1\n3;x;1\n", &[semicolons, "data.csv: decimal commas in column 'a'"]);
    same(b"a,b,y\n\"1,5\",x,0\n\"2,5\",z,1\n3,x,1\n", &["data.csv: decimal commas in column 'a'"]);
    same(plain.replace(',', ";").as_bytes(), &[semicolons]);
    same(plain.replace(',', "\t").as_bytes(), &["data.csv: the columns are separated by tabs"]);
    let index = "data.csv: the first column has no name and was left out, as an index";
    same(b"\"\",\"a\",\"b\",\"y\"\n\"1\",1.5,\"x\",0\n\"2\",2.5,\"z\",1\n\"3\",3,\"x\",1\n", &[index]);
    same(b"a,b,y\nu,1.5,x,0\nv,2.5,z,1\nw,3,x,1\n", &[index]);
    let counts = "data.csv: column 'Unnamed: 0' counts the rows and was left out";
    same(b"Unnamed: 0,a,b,y\n0,1.5,x,0\n1,2.5,z,1\n2,3,x,1\n", &[counts]);
    let names = "data.csv: column 'rownames' names the rows and was left out";
    same(b"rownames,a,b,y\nMiss Allen,1.5,x,0\nMr Brown,2.5,z,1\nMrs Brown,3,x,1\n", &[names]);
    same(b"a,b,y\r1.5,x,0\r2.5,z,1\r\r3,x,1\r", &[]);
    let missing = "data.csv: 2 rows with missing values were dropped (1 in 'a', 1 in 'b')";
    let holes = labelled_rows("a,b,y\n1.5,x,0\nNULL,x,0\n2.5,z,1\n3,x,1\n7,N/A,1\n").unwrap();
    assert_eq!((holes.rows, holes.notes), (vec![0, 2, 3], vec![missing.to_string()]));
    let wide = |unit: fn(u16) -> [u8; 2]| {
        "\u{feff}a,b,y\n1.5,x,0\n2.5,z,1\n3,x,1\n".encode_utf16().flat_map(unit).collect::<Vec<u8>>()
    };
    same(&wide(u16::to_le_bytes), &[]);
    same(&wide(u16::to_be_bytes), &[]);
    let table = read_table(b"caf\xe9,y\n1,0\n2,1\n", "data.csv").unwrap();
    assert_eq!(table.names()[0], "caf\u{e9}");
    assert_eq!(table.notes(), ["data.csv is not UTF-8, so it is read as Latin-1"]);
    refused(
        labelled_rows("5,red,0\n6,blue,1\n7,red,0\n"),
        "data.csv, line 1: the first row looks like all others ('5', 'red', '0'); begin the file with a header line that names the columns",
    );
    let constant = labelled_rows("a,b,c,y\n1,2,w,0\n3,2,w,1\n").unwrap();
    let (coding, notes) = coding(&constant, &[]).unwrap();
    assert_eq!(
        (coding.names(), notes),
        (vec!["a".into()], vec!["columns 'b', 'c' are constant and were left out".into()])
    );
    assert!(matches!(constant.frame.columns[2].values, Values::Words(_)));
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
    let notes = &mut Vec::new();
    let _ = column(&table, None, notes).map_err(sentence);
    let _ = column(&table, Some(&first), notes).map_err(sentence);
    let _ = predicted(&table, &Coding::of_numbers(std::slice::from_ref(&first)), Unknown::Refuse)
        .map_err(sentence);
    for drop in [vec![], vec![first]] {
        match classification(&table, None, &drop) {
            Ok(data) => {
                let _ = Moments::of(&data.features, &data.feature_names).map_err(sentence);
            }
            Err(e) => sentence(e),
        }
        // What is read like a file is that file, unless a column is left out as constant: rows in which it alone is missing
        // are then kept, and may have classes of their own.
        if let Ok(all) = labelled(&table, None, &drop, &[], 2)
            && let Ok((coding, _)) = coding(&all, &[])
            && coding.columns.iter().all(|column| !column.constant)
        {
            let rows: Vec<usize> = (0..all.rows.len()).collect();
            let again = labelled_like(&table, &coding, &all.target, &all.classes).unwrap();
            assert_eq!(
                again.coded(&coding, &rows, Unknown::Refuse),
                all.coded(&coding, &rows, Unknown::Refuse)
            );
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
