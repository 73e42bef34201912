//! Runs of models with groups: their files, names, batches and checkpoints, through the real binary.

use crate::common;

use std::fs::File;

use common::Place;

fn shape(place: &Place, name: &str) -> Vec<usize> {
    let file = File::open(place.path("r/posterior.npz")).unwrap();
    motes::npz::read_npz(file, name).unwrap().shape
}

#[test]
fn files_know_groups_and_their_names() {
    let place = Place::new();
    place.bare("fit hierarchical --algorithm pgd --dim 12 --particles 5 --steps 60 --out r");
    assert_eq!((shape(&place, "particles"), shape(&place, "mean")), (vec![5, 12], vec![12]));
    let summary = common::summary(&place.path("r"));
    assert_eq!((&summary["groups"], &summary["d_x"]), (&12.into(), &1.into()));
    assert_eq!(summary["posterior"]["names"][11], "x[11]");
    assert_eq!(summary["posterior"]["groups"].as_array().unwrap().len(), 12);
    // In the archive particle n stands before particle n + 1 with all its groups, as the means say.
    let read = |name: &str| {
        let file = File::open(place.path("r/posterior.npz")).unwrap();
        motes::npz::read_npz(file, name).unwrap().values
    };
    let (clouds, mean) = (read("clouds"), read("mean"));
    let rows = clouds.len() / 12;
    for (i, mean) in mean.iter().enumerate() {
        let of_kept = clouds.iter().skip(i).step_by(12).sum::<f64>() / rows as f64;
        assert!((of_kept - mean).abs() < 1e-9, "x[{i}]: {of_kept} {mean}");
    }
    let one = Place::new();
    one.bare("fit hierarchical --algorithm pgd --dim 12 --groups 1 --particles 5 --steps 60 --out r");
    let summary = common::summary(&one.path("r"));
    assert_eq!((&summary["groups"], &summary["d_x"]), (&1.into(), &12.into()));
    assert!(summary["posterior"]["groups"].is_null());
    place.refuses("fit hierarchical --groups 3", &["--groups 3", "leave it out"]);
}

/// Killed or stopped anywhere, a run on batches of groups, adjusted and not, goes on with the same bytes.
#[test]
fn batches_of_groups_resume_exactly() {
    for options in ["--adjust", "--preconditioner adam", "--algorithm abp", "--algorithm short-run"] {
        let place = Place::in_memory();
        let options = common::by_pgd(options);
        let run = format!("fit hierarchical --dim 30 --batch 7 --particles 4 --step-size 0.01 {options}");
        place.bare(&format!("{run} --steps 50 --burn-in 10 --out whole"));
        place.bare(&format!("{run} --steps 23 --burn-in 10 --out part"));
        place.bare("resume part --steps 50");
        common::same_bits(&place.path("whole"), &place.path("part"));
    }
}

#[test]
fn what_groups_cannot_do_is_refused() {
    let place = Place::new();
    place.refuses("fit hierarchical --algorithm pgd --dim 5 --batch 6", &["--batch 6", "5 groups"]);
    place.refuses("fit hierarchical --algorithm pmgd --batch 6", &["pmgd needs all data", "--batch"]);
    place.refuses("fit hierarchical --algorithm vae", &["an inference network", "--algorithm pgd"]);
    place.refuses("fit hierarchical --algorithm pgd --transitions 3", &["--transitions", "pgd"]);
    place.refuses("fit hierarchical --algorithm abp --transitions 0", &["--transitions 0"]);
}
