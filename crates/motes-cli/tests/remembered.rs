//! What a run remembers of its data: a damaged summary.json is refused, and never leads to other probabilities.

use crate::common;

use common::{Place, summary};
use serde_json::{Value, json};

const TABLE: &str = "a,b,y\n1,2,0\n2,1,1\n3,5,0\n4,1,1\n5,4,0\n6,2,1\n7,1,0\n8,3,1\n9,2,0\n10,4,1\n";
const AGAIN: &str = "`motes resume` the run, which writes it again";

/// Predicts with summaries that are changed at one place each.
fn refused(place: &Place, run: &str, changes: &[(&str, Value, &str)]) {
    let whole = summary(&place.path(run));
    let good = place.text(&format!("{run}/summary.json"));
    let predict = format!("predict {run} --data table.csv");
    let before = place.motes(&predict).ok().out.clone();
    assert_eq!(before.lines().count(), 11, "{before}");
    for (at, value, said) in changes {
        let mut damaged = whole.clone();
        *damaged.pointer_mut(at).unwrap_or_else(|| panic!("{at} is not there")) = value.clone();
        assert_ne!(damaged, whole, "{at}");
        place.write(&format!("{run}/summary.json"), damaged.to_string());
        place.motes(&predict).refused(&[&format!("{run}/summary.json"), said]);
    }
    // The advice is good.
    place.bare(&format!("resume {run}"));
    assert_eq!(place.motes(&predict).ok().out, before);
    let timeless = |text: &str| {
        let mut json: Value = serde_json::from_str(text).unwrap();
        json.as_object_mut().unwrap().remove("time");
        json
    };
    assert_eq!(timeless(&place.text(&format!("{run}/summary.json"))), timeless(&good));
}

#[test]
fn a_regression_that_contradicts_itself_does_not_predict() {
    let place = Place::in_memory();
    place.write("table.csv", TABLE);
    place.bare("fit logistic --algorithm pgd --data table.csv --steps 50 --out run");
    let changes = [
        ("/data/classes", json!(["0"]), "data.classes has 1 entries and 2 are expected"),
        ("/data/classes", json!([]), "data.classes has 0 entries"),
        ("/data/classes", json!(["0", "1", "2"]), "data.classes has 3 entries"),
        ("/data/features", json!(["a"]), "data.columns and data.features disagree"),
        ("/data/columns", json!([{"name": "a"}]), "data.columns and data.features disagree"),
        (
            "/data/columns",
            json!([{"name": "a"}, {"name": "b", "levels": []}]),
            "\"b\" without two different levels",
        ),
        ("/data/features", json!([]), AGAIN),
        ("/data/features", json!(["a", "a"]), "data.features has \"a\" twice"),
        ("/data/features", json!(["b", "a"]), "data.columns and data.features disagree"),
        ("/data/inputs", json!(3), "data.inputs is 3"),
        ("/data/inputs", json!(u64::MAX), "data.inputs is 18446744073709551615"),
        ("/data/inputs", json!(-1), AGAIN),
        ("/data/moments/mean", json!([5.5]), "data.moments.mean has 1 entries"),
        ("/data/moments/std", json!([2.0, 1.0, 1.0]), "data.moments.std has 3 entries"),
        ("/data/moments/std", json!([2.0, -1.0]), "-1e0, which is not a standard deviation"),
        ("/data/moments/std", json!([2.0, null]), AGAIN),
        ("/data/intercept", json!(false), "data describes particles of 2 coordinates and d_x is 3"),
        ("/data/model", json!("bnn"), "data.model is \"bnn\" and the run is one of logistic"),
        ("/data", json!([]), AGAIN),
        ("/data", Value::Null, "does not say how to prepare new rows"),
        ("/model", json!("bnn"), "data.model is \"logistic\" and the run is one of bnn"),
        ("/model", json!("probit"), "does not say how to prepare new rows"),
        ("/d_x", json!(4), AGAIN),
    ];
    refused(&place, "run", &changes);
}

#[test]
fn a_network_that_contradicts_itself_does_not_predict() {
    let place = Place::in_memory();
    place.write("table.csv", TABLE);
    place.bare("fit bnn --data table.csv --hidden 3 --particles 4 --steps 10 --out run");
    let changes = [
        ("/data/classes", json!(["0"]), "data.classes has 1 entries and 2 to 256 are expected"),
        ("/data/hidden", json!(0), "data.hidden is 0, which describes no network"),
        ("/data/hidden", json!(4), "data describes particles of 16 coordinates and d_x is 12"),
        ("/data/hidden", json!(u64::MAX), "data.hidden is 18446744073709551615"),
        ("/data/inputs", json!(u64::MAX), "data.inputs is 18446744073709551615"),
        ("/data/features", json!(["a", "b", "c"]), "data.columns and data.features disagree"),
        ("/data/moments/std", json!([1.0]), "data.moments.std has 1 entries"),
    ];
    refused(&place, "run", &changes);
}
