//! Bad input: one sentence on stderr, exit code 2, and nothing is written.

use crate::common;

use std::time::{Duration, Instant};

use common::{Done, Place, by_pgd};

/// Refusals of a whole `fit hierarchical --out run ...`, with what the sentence must contain.
fn all_refused(cases: &[(&str, &[&str])]) {
    let place = Place::new();
    for (flags, pieces) in cases {
        // What the default finds by itself is another's to refuse.
        let idle = ["--step", "--burn-in", "--grow", "--preconditioner", "--adjust", "--warm-start"];
        let named = idle.iter().any(|flag| flags.contains(flag)) || flags.contains("--joint-update");
        let flags = if named { by_pgd(flags) } else { flags.to_string() };
        place.refuses(&format!("fit hierarchical --out run {flags}"), pieces);
        place.refuses(&format!("fit hierarchical {flags}"), pieces);
    }
}

#[test]
fn numbers_without_meaning() {
    all_refused(&[
        ("--particles 0", &["--particles 0", "at least 1"]),
        ("--steps 0", &["--steps 0", "at least 1"]),
        ("--step-size 0", &["--step-size 0", "not a positive number"]),
        ("--step-size -0.1", &["--step-size -0.1", "not a positive number"]),
        ("--step-size nan", &["--step-size NaN", "not a positive number"]),
        ("--step-size inf", &["--step-size inf", "not a positive number"]),
        ("--step-size -inf", &["--step-size -inf", "not a positive number"]),
        ("--step-size small", &["'small'", "--step-size", "auto"]),
        ("--particles -3", &["'-3'", "--particles"]),
        ("--particles 2.5", &["'2.5'", "--particles"]),
        ("--particles many", &["'many'", "--particles"]),
        ("--steps 1.5e0", &["'1.5e0'", "--steps"]),
        ("--steps 99999999999999999999999", &["--steps"]),
        ("--seed -1", &["'-1'", "--seed"]),
        ("--dim 0", &["--dim 0", "at least 1"]),
        ("--true-theta inf", &["--true-theta inf", "not finite"]),
        ("--init-theta nan", &["--init-theta NaN", "not finite"]),
        ("--init-particles inf", &["'inf'", "--init-particles"]),
        ("--burn-in 10 --steps 10", &["--burn-in 10", "10 steps", "smaller burn-in"]),
        ("--burn-in 11 --steps 10", &["--burn-in 11"]),
        ("--trace-every 0", &["--trace-every 0", "1 or more"]),
        ("--checkpoint-every 0", &["--checkpoint-every 0", "1 or more"]),
        ("--threads 0", &["--threads 0", "1 or more"]),
        ("--threads 1000000000", &["--threads 1000000000", "1024"]),
        ("--threads -1", &["'-1'", "--threads"]),
        ("--step-decay 0.6", &["'0.6'", "0.6,100"]),
        ("--step-decay 0.6,0", &["'0.6,0'"]),
        ("--step-decay nan,3", &["'nan,3'"]),
        ("--step-decay -1,3", &["'-1"]),
        ("--precision f16", &["'f16'", "f32, f64"]),
    ]);
}

#[test]
fn unknown_words() {
    all_refused(&[
        ("--algorithm pdg", &["no algorithm 'pdg'", "did you mean pgd?", "soul"]),
        ("--algorithm marginal_mh", &["did you mean marginal-mh?"]),
        ("--algorithm xyzzy", &["no algorithm 'xyzzy'", "choose one of auto, pgd"]),
        ("--preconditioner adma", &["did you mean adam?"]),
        ("--joint-update pnq", &["did you mean pqn?"]),
        ("--algoritm pgd", &["'--algoritm'", "did you mean --algorithm?"]),
        ("--partciles 5", &["'--partciles'", "did you mean --particles?"]),
        ("--frobnicate", &["'--frobnicate'", "see motes fit hierarchical --help"]),
        ("--init-particles piror", &["'piror'", "did you mean prior?"]),
        ("--step-size atuo", &["'atuo'", "did you mean auto?"]),
        ("--precision F32", &["'F32'", "did you mean f32?"]),
        ("-z", &["'-z'"]),
        ("surplus", &["'surplus'"]),
        ("--steps", &["--steps"]),
        ("--steps 3 --steps 4", &["--steps", "multiple times"]),
        ("--adjust=perhaps", &["'perhaps'", "--adjust"]),
    ]);
    let place = Place::new();
    place.refuses("fit hierarchicall --out run", &["no model 'hierarchicall'", "did you mean hierarchical?"]);
    place.refuses("fit --out run", &["hierarchical"]);
    // The value of a flag that there is not is no model.
    for call in ["fit --dat x.csv logistic", "fit --dat logistic", "fit logistic --dat x.csv"] {
        place.refuses(call, &["'--dat'", "did you mean --data?"]);
    }
    place.refuses("fit --dat x.csv", &["'--dat'", "did you mean --data?"]);
    place.refuses("fit --quiet hierarchicall", &["did you mean hierarchical?"]);
    place.refuses("resume a --frobnicate", &["see motes resume --help"]);
    place.refuses("fti --frobnicate", &["'fti'"]);
    place.refuses("fti hierarchical", &["'fti'"]);
    place.refuses("resume", &["<DIR>"]);
    place.refuses("completions tcsh", &["'tcsh'", "bash", "zsh"]);
    place.refuses("check-model hierarchicall", &["did you mean hierarchical?"]);
}

#[test]
fn combinations_that_do_not_go_together() {
    all_refused(&[
        ("--algorithm em --particles 5", &["em", "--particles", "leave it out"]),
        ("--algorithm em --step-size 0.1", &["em", "--step-size", "leave it out"]),
        ("--algorithm em --step-decay 0.6,10", &["em", "--step-decay", "leave it out"]),
        ("--algorithm em --adjust", &["em", "--adjust", "leave it out"]),
        ("--algorithm em --preconditioner adam", &["em", "--preconditioner", "leave it out"]),
        ("--algorithm em --init-particles 1", &["em", "--init-particles", "leave it out"]),
        ("--algorithm em --grow 5:50", &["em", "--grow"]),
        ("--algorithm em --warm-start 1x5", &["em", "--warm-start"]),
        ("--algorithm em --keep-clouds 5", &["em", "--keep-clouds", "leave it out"]),
        ("--algorithm soul --adjust", &["--adjust", "soul", "pgd, ipla, pqn and pmgd"]),
        ("--algorithm marginal-mh --adjust", &["--adjust", "marginal-mh"]),
        ("--algorithm joint-mh --adjust", &["--adjust", "joint-mh"]),
        ("--algorithm pmgd --init-theta 1", &["pmgd", "--init-theta", "--init-particles"]),
        ("--algorithm pmgd --init-theta 0", &["pmgd", "--init-theta", "--init-particles"]),
        ("--algorithm marginal-mh --init-theta 1", &["marginal-mh", "--init-theta"]),
        ("--algorithm pqn --preconditioner adam", &["--preconditioner adam", "pqn", "pgd, soul or abp"]),
        ("--algorithm pmgd --preconditioner diagonal", &["--preconditioner diagonal", "pmgd"]),
        ("--algorithm joint-mh --preconditioner adam", &["--preconditioner adam", "none or diagonal"]),
        ("--grow 5:3", &["--grow 5:3", "--particles 10"]),
        ("--grow 5:20,8:15", &["'5:20,8:15'", "rising"]),
        ("--grow 5:20,4:30", &["'5:20,4:30'", "rising"]),
        ("--grow 5", &["'5'", "100:50,200:500"]),
        ("--grow 0:20", &["step 0", "--particles"]),
        ("--warm-start 2x5", &["'2x5'", "pmgd:1x400"]),
        ("--warm-start 1x0", &["'1x0'"]),
        ("--warm-start em:1x5", &["a warm start cannot run em", "choose pgd, ipla, kiplmc"]),
        ("--warm-start joint-mh:1x5", &["a warm start cannot run joint-mh"]),
        ("--warm-start pgdd:1x5", &["did you mean pgd?"]),
        ("--target y", &["--target", "--data"]),
    ]);
}

#[test]
fn data_that_cannot_be_used() {
    let place = Place::new();
    place.refuses("fit hierarchical --data none.csv --out run", &["none.csv", "check the path"]);
    place.refuses("fit hierarchical --data . --out run", &["cannot read the data"]);
    for (content, pieces) in [
        ("", &["d.csv is empty", "header"][..]),
        ("\n\n", &["d.csv is empty"]),
        ("y\n", &["header but no rows"]),
        ("1.5\n2\n3\n", &["line 1", "all numbers", "header"]),
        ("y\n1\nfive\n", &["line 3", "'y'", "'five' is not a number"]),
        ("y\n1\n-inf\n", &["line 3", "'-inf' is not a finite number"]),
        ("y\n1\n1e999\n", &["line 3", "'1e999' is not a finite number"]),
        ("a,y\n1,2\n3\n", &["line 3", "1 value where", "2 columns"]),
        ("y,y\n1,2\n", &["both named 'y'"]),
        ("y\n?\nNA\n", &["every row", "misses a value"]),
        ("\u{feff}y\n1\nx\n", &["line 3", "'y'"]),
    ] {
        place.write("d.csv", content);
        place.refuses("fit hierarchical --data d.csv --out run", pieces);
    }
    for bytes in [&b"y\n\xff\xfe\n"[..], b"\xff\xfey\0\n\0", b"\0\0\0\0\0"] {
        place.write("d.csv", bytes);
        place.refuses("fit hierarchical --data d.csv --out run", &["d.csv"]);
    }
    place.write("d.csv", "alpha,beta\n1,2\n");
    place.refuses("fit hierarchical --data d.csv --target bta --out run", &["'bta'", "did you mean 'beta'?"]);
    place.refuses("fit hierarchical --data d.csv --target zz --out run", &["'zz'", "'alpha', 'beta'"]);
    for flag in ["--dim 5", "--true-theta 2", "--data-seed 1"] {
        place.refuses(&format!("fit hierarchical --data d.csv {flag} --out run"), &["generated data"]);
    }
}

#[test]
fn a_plan_that_cannot_fit_into_memory_is_refused_at_once() {
    let place = Place::new();
    let huge = "18446744073709551615";
    for (flags, pieces) in [
        (
            "--dim 10000000 --particles 10000000 --algorithm pgd".to_string(),
            &["10000000 particles x 10000000 coordinates x 8 bytes = 727.6 TiB", "are available; use fewer"]
                [..],
        ),
        (
            "--dim 10000000 --particles 10000000".to_string(),
            &[
                "4 x 10000000 particles x 10000000 coordinates x 8 bytes = 2.8 PiB",
                "are available; use fewer",
            ],
        ),
        (format!("--dim {huge}"), &["18446744073709551615 coordinates", "EiB"]),
        (format!("--particles {huge}"), &["18446744073709551615 particles", "EiB"]),
        (format!("--particles {huge} --dim {huge}"), &["EiB"]),
        (
            format!("--particles {huge} --dim {huge} --algorithm joint-mh"),
            &["2 x 18446744073709551615", "EiB"],
        ),
        (format!("--algorithm pgd --particles 3 --grow 4:{huge}"), &["18446744073709551615 particles"]),
        (format!("--dim {huge} --algorithm em"), &["EiB"]),
        ("--dim 1000000000000 --precision f32".to_string(), &["x 4 bytes", "TiB"]),
    ] {
        let began = Instant::now();
        place.refuses(&format!("fit hierarchical --out run {flags}"), pieces);
        assert!(began.elapsed() < Duration::from_secs(5));
    }
    place.refuses(&format!("check-model hierarchical --dim {huge}"), &["EiB"]);
}

#[test]
fn configs_that_cannot_be_used() {
    let place = Place::new();
    let good = "version = 2\nmodel = \"hierarchical\"\n[run]\nalgorithm = \"pgd\"\nsteps = 5\n";
    let run = |line: &str| format!("version = 2\nmodel = \"hierarchical\"\n[run]\n{line}\n");
    let own = |line: &str| format!("version = 2\nmodel = \"hierarchical\"\n[hierarchical]\n{line}\n");
    let lines: [(&str, &[&str]); 18] = [
        ("partciles = 4", &["c.toml: line 4: ", "'partciles'", "did you mean particles?"]),
        (
            "seed = 3\nsteps = \"many\"",
            &["c.toml: line 5: steps: \"many\" is not a whole number of 0 or more"],
        ),
        ("steps = []", &["line 4: steps: [] is not a whole number"]),
        ("adjust = \"yes\"", &["line 4: adjust: \"yes\" is not true or false"]),
        ("precision = \"F32\"", &["line 4", "did you mean f32?"]),
        ("init-particles = \"piror\"", &["line 4", "did you mean prior?"]),
        ("step-size = \"atuo\"", &["line 4", "did you mean auto?"]),
        ("init-theta = \"start.txt\"", &["\"start.txt\" is not a number or a list of numbers"]),
        ("init-theta = [true]", &["[true] is not a number or a list of numbers"]),
        ("xyzzyxyzzy = 4", &["'xyzzyxyzzy'", "remove it"]),
        ("threads = 4", &["'threads'"]),
        ("particles = \"ten\"", &["particles", "\"ten\""]),
        ("particles = -1", &["particles", "-1"]),
        ("steps = 2.5", &["steps", "2.5"]),
        ("adjust = 1", &["adjust"]),
        ("algorithm = \"pdg\"", &["did you mean pgd?"]),
        ("grow = \"5:3,4:2\"", &["grow", "rising"]),
        ("algorithm = \"pgd\"\nstep-size = nan", &["--step-size NaN"]),
    ];
    for (line, pieces) in lines {
        place.write("c.toml", run(line));
        let said = place.refuses("fit --config c.toml --out run", pieces);
        for rust in ["usize", "u64", "invalid type", "NumberOr", "untagged"] {
            assert!(!said.contains(rust), "{said}");
        }
    }
    for (content, pieces) in [
        (run("step-size = \"often\""), &["step-size"][..]),
        (run("dim = 3"), &["'dim'", "[run]", "[hierarchical]"]),
        (own("steps = 3"), &["'steps'", "[hierarchical]", "[run]"]),
        (own("dmi = 3"), &["'dmi'", "did you mean dim?"]),
        (own("prior-variance = 3"), &["--prior-variance", "belongs to the model logistic"]),
        (own("dim = \"many\""), &["c.toml: line 4: dim: \"many\" is not a whole number"]),
        (own("target = 5"), &["target: 5 is not a text in quotes"]),
    ] {
        place.write("c.toml", content);
        place.refuses("fit --config c.toml --out run", pieces);
    }
    for (content, pieces) in [
        (
            "version = 3\nmodel = \"hierarchical\"\nbrand-new = true\n",
            &["format version 3", "newer motes"][..],
        ),
        ("version = 1\nmodel = \"hierarchical\"\nsteps = 5\n", &["format version 1", "write a new one"]),
        ("model = \"hierarchical\"\n", &["version = 2"]),
        ("version = \"one\"\n", &["version = 2"]),
        ("version = -1\n", &["version = 2"]),
        ("", &["version = 2"]),
        ("version = 2\n", &["hierarchical"]),
        ("version = 2\nmodel = \"hierarchica\"\n", &["did you mean hierarchical?"]),
        (
            "version = 2\nmodel = \"logistik\"\n[logistic]\nintercept = true\n",
            &["line 2: there is no model 'logistik'", "did you mean logistic?"],
        ),
        ("version = 2\nmodel = \"mine\"\n", &["no model 'mine'", "Python"]),
        ("version = 2\nmodl = \"hierarchical\"\n", &["line 2: ", "'modl'", "did you mean model?"]),
        (
            "version = 2\nmodel = \"hierarchical\"\n[hierarchial]\ndim = 4\n",
            &["line 3: ", "'hierarchial'", "did you mean hierarchical?"],
        ),
        ("version = 2\nmodel = \"hierarchical\"\nsteps = 4\n", &["line 3: ", "'steps'", "[run]"]),
        ("version = 2\nmodel = \"hierarchical\"\n[rnu]\nsteps = 4\n", &["'rnu'", "did you mean run?"]),
        ("version = 2\nmodel = \"hierarchical\"\nrun = 4\n", &["run is not a table"]),
        ("version = 2\nversion = 2\n", &["line 2", "duplicate key"]),
        ("version = 2\nthis is no TOML\n", &["line 2"]),
        ("{\"version\": 2}", &["line 1"]),
        ("version = 2\nmodel = \"hierarchical\"\ndata-sha256 = \"00\"\n", &["SHA-256"]),
    ] {
        place.write("c.toml", content);
        place.refuses("fit --config c.toml --out run", pieces);
    }
    place.write("c.toml", b"version = 2\n# \xff\xfe\n");
    place.refuses("fit --config c.toml --out run", &["c.toml is not a text file"]);
    place.write("c.toml", format!("version = 2\nx = {}", "[".repeat(200_000)));
    place.refuses("fit --config c.toml --out run", &["c.toml"]);
    place.refuses("fit --config none.toml --out run", &["none.toml", "check the path"]);
    place.refuses("fit --config . --out run", &["cannot read the config"]);
    place.write("c.toml", good);
    place.refuses("fit logistic --config c.toml --out run", &["the config is for the model hierarchical"]);
    place.quietly("fit --config c.toml --out run");
    // A number where a flag takes a number, whole or not.
    place.write(
        "c.toml",
        format!("{good}step-size = 1\ninit-theta = -1\ninit-particles = 0\n[hierarchical]\ntrue-theta = 2\n"),
    );
    place.quietly("fit --config c.toml --out whole");
}

#[test]
fn resume_of_what_is_no_run() {
    let place = Place::new();
    place.refuses("resume none", &["none is not a run directory", "motes fit"]);
    std::fs::create_dir(place.path("empty")).unwrap();
    place.refuses("resume empty", &["empty is not a run directory"]);
    place.write("file", "x");
    place.refuses("resume file", &["file is not a run directory"]);
    place.quietly("fit hierarchical --algorithm pgd --steps 20 --out run");
    place.refuses("resume run --steps 19", &["--steps 19", "20", "larger"]);
    place.refuses("resume run --steps 0", &["--steps 0"]);
    place.quietly("resume run --steps 20");
    place.write("run/config.toml", "version = 2");
    place.refuses("resume run", &["model"]);
    // What a model of somebody's own leaves.
    place.write("run/config.toml", "version = 2\nmodel = \"own\"\n\n[run]\nsteps = 20\n");
    place.refuses("resume run", &["run: there is no model 'own'", "in Python"]);
}

#[test]
fn checkpoints_are_told_of_where_there_are_any() {
    let place = Place::new();
    let far = "fit hierarchical --algorithm pgd --step-size 5 --steps 2000 --quiet --no-report";
    let none = place.motes(&format!("{far} --out none")).refused(&["diverged", "try --step-size"]);
    assert!(!none.contains("checkpoint"), "{none}");
    place
        .motes(&format!("{far} --checkpoint-every 1 --out some"))
        .refused(&["(earlier checkpoints are kept)"]);
}

#[test]
fn a_start_that_was_chosen_stays_with_another_algorithm() {
    let place = Place::new();
    place.bare("fit hierarchical --algorithm pgd --init-theta 3 --steps 20 --preconditioner adam --out pgd");
    for (algorithm, kept) in [("ipla", true), ("soul", true), ("pmgd", false)] {
        place.bare(&format!("fit --config pgd/config.toml --algorithm {algorithm} --out {algorithm}"));
        let config = place.text(&format!("{algorithm}/config.toml"));
        assert_eq!(config.contains("init-theta = 3"), kept, "{algorithm}: {config}");
        assert!(!config.contains("adam\""), "{algorithm}: {config}");
    }
}

#[test]
fn a_directory_in_use_is_left_alone() {
    let place = Place::new();
    std::fs::create_dir(place.path("full")).unwrap();
    place.write("full/notes.txt", "mine");
    place.write("file", "mine");
    place.refuses("fit hierarchical --out full", &["full is not empty", "motes resume"]);
    place.refuses("fit hierarchical --algorithm marginal-mh --out full", &["full is not empty"]);
    place.refuses("fit hierarchical --out .", &["not empty"]);
    place.refuses("fit hierarchical --out file", &["file"]);
    place.refuses("fit hierarchical --out file/below", &["file/below"]);
    let mut command = place.command("fit hierarchical --out");
    let before = place.tree();
    Done::of(command.arg("")).refused(&["--out <DIR>"]);
    assert_eq!(before, place.tree());
    // An empty one, or a new one several levels down, is taken.
    std::fs::create_dir(place.path("empty")).unwrap();
    place.quietly("fit hierarchical --algorithm pgd --steps 5 --out empty");
    place.quietly("fit hierarchical --algorithm pgd --steps 5 --out a/b/c");
    place.quietly("fit hierarchical --algorithm pgd --steps 5 --out empty/../d/");
}

#[cfg(unix)]
#[test]
fn names_that_are_not_utf8() {
    use std::os::unix::ffi::OsStrExt;
    let place = Place::new();
    let odd = std::ffi::OsStr::from_bytes(b"odd-\xff.csv");
    std::fs::write(place.path("").join(odd), "y\n1\n2\n").unwrap();
    let mut command = place.command("fit hierarchical --algorithm pgd --steps 5 --out run --data");
    Done::of(command.arg(odd)).refused(&["not UTF-8", "rename it"]);
    assert!(!place.path("run").exists());
    let mut command = place.command("fit hierarchical --algorithm pgd --steps 5 --quiet --out");
    Done::of(command.arg(std::ffi::OsStr::from_bytes(b"run-\xff"))).ok();
    Done::of(place.command("resume --steps 9 --quiet").arg(std::ffi::OsStr::from_bytes(b"run-\xff"))).ok();
    let mut command = place.command("fit");
    Done::of(command.arg(odd)).refused(&[]);
}
