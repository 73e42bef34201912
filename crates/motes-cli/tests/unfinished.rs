//! Files in the making: they touch nobody's own, and what a kill leaves of them is in nobody's way.
#![cfg(unix)]

use crate::common;

use std::fs;
use std::os::unix::fs::symlink;

use common::{Place, same_bits, tidy};

#[test]
fn no_file_or_link_of_somebodys_is_overwritten() {
    let place = Place::new();
    let table = "a,y\n1,0\n2,1\n3,0\n4,1\n5,0\n6,1\n";
    place.write("table.csv", table);
    place.write("mine", "precious");
    place.write("a.csv.tmp", "precious");
    for link in ["b.csv.tmp", "page.html.tmp"] {
        symlink("mine", place.path(link)).unwrap();
    }
    place.bare("fit logistic --algorithm pgd --data table.csv --steps 5 --test-fraction 0 --out run");
    for link in ["report.html.tmp", "config.toml.tmp", "summary.json.tmp", "posterior.npz.tmp"] {
        symlink("../mine", place.path("run").join(link)).unwrap();
    }
    place.motes("predict run --data table.csv --output a.csv").ok();
    place.motes("predict run --data table.csv --output b.csv").ok();
    place.motes("report run --output page.html").ok();
    place.motes("report run").ok();
    place.motes("resume run --steps 10").ok();
    assert_eq!(place.text("a.csv.tmp"), "precious");
    assert_eq!(place.text("mine"), "precious");
    for link in ["b.csv.tmp", "page.html.tmp", "run/report.html.tmp", "run/summary.json.tmp"] {
        assert!(fs::symlink_metadata(place.path(link)).unwrap().is_symlink(), "{link}");
    }
    let hidden = fs::read_dir(place.path("")).unwrap().flatten();
    assert!(hidden.into_iter().all(|e| !e.file_name().to_string_lossy().starts_with('.')));
}

#[test]
fn what_a_kill_leaves_is_swept_away_by_whoever_goes_on() {
    let place = Place::new();
    let compare = "compare hierarchical --algorithms pgd,em --steps 20";
    place.quietly(&format!("{compare} --out whole"));
    place.quietly(&format!("{compare} --out cut"));
    fs::remove_file(place.path("cut/pgd/summary.json")).unwrap();
    for name in [
        "cut/.report.html.Ab12Cd34.motes.tmp",
        "cut/pgd/.summary.json.Ab12Cd34.motes.tmp",
        "cut/pgd/.posterior.npz.0000zzzz.motes.tmp",
        "cut/pgd/checkpoint/.00000000000000000020.motes.Ab12Cd34.motes.tmp",
    ] {
        place.write(name, "half");
    }
    place.quietly(&format!("{compare} --out cut"));
    tidy(&place.path("cut"));
    same_bits(&place.path("whole/pgd"), &place.path("cut/pgd"));
    // Anything else in the way is somebody's own.
    place.write("cut/.notes.tmp", "mine");
    place.refuses(&format!("{compare} --out cut"), &["cut/.notes.tmp is not empty and is left as it is"]);
}
