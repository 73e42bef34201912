//! What is printed: nothing from a file acts on the terminal, no number fills it, and what is wrong with the scale of data or
//! with the start is said as such.

use crate::common;

use common::{Done, Place};

/// A table whose names and classes would clear the screen, go back and change the colour.
const HOSTILE: &str = "a\u{1b}[31m,\"b\nb\u{202e}\",y\u{7}\n1,2,\u{1b}[2Jx\n2,1,1\n3,5,\u{1b}[2Jx\n4,1,1\n5,4,\u{1b}[2Jx\n\
                       6,2,1\n7,1,\u{1b}[2Jx\n8,3,1\n9,1,\u{1b}[2Jx\n10,7,1\n";

/// Whether a text has something that is not to be seen but to be done.
fn acts(text: &str) -> bool {
    text.chars().any(|c| (c.is_control() && c != '\n') || c == '\u{202e}')
}

#[test]
fn names_from_files_do_not_act_on_the_terminal() {
    let place = Place::new();
    place.write("d\u{1b}[5m.csv", HOSTILE);
    let fit = |out: &str| {
        let mut command =
            place.command("fit logistic --algorithm pgd --learn mean --no-intercept --steps 30 --data");
        command.args(["d\u{1b}[5m.csv", "--out", out]);
        Done::of(&mut command)
    };
    let done = fit("r\u{1b}[1m");
    done.ok();
    assert!(done.out.contains("a\\u{1b}[31m") && done.out.contains("r\\u{1b}[1m"), "{}", done.out);
    assert!(done.err.contains("'\\u{1b}[2Jx' is 0"), "{}", done.err);
    assert!(!acts(&done.out) && !acts(&done.err), "{:?}{:?}", done.out, done.err);
    // Refusals name what is there, in one line.
    let done = fit("r\u{1b}[1m");
    let sentence = done.refused(&["r\\u{1b}[1m is not empty"]);
    assert!(!acts(&sentence));
    for (words, said) in [
        (vec!["fit", "logistic", "--data", "none\u{1b}[2J\nof these.csv"], "none\\u{1b}[2J\\nof these.csv"),
        (vec!["fit", "logistic", "--data", "d\u{1b}[5m.csv", "--target", "\u{9b}2J"], "\\u{9b}2J"),
        (vec!["fit", "logi\u{1b}[2Jstic"], "logi\\u{1b}[2Jstic"),
        (vec!["fit", "logistic", "--algorithm", "p\u{1b}[2Jgd"], "there is no algorithm"),
        (vec!["fit", "logistic", "--no\u{1b}[2Jthing"], "unexpected argument"),
        (vec!["report", "no\u{7}where"], "no\\u{7}where"),
    ] {
        let mut command = place.command("");
        let sentence = Done::of(command.args(&words)).refused(&[said]);
        assert!(!acts(&sentence), "{sentence:?}");
    }
    place.write("c.toml", "version = 2\nmodel = \"\\u001b[2J\"\n");
    let sentence = place.motes("fit --config c.toml").refused(&["\\u{1b}[2J"]);
    assert!(!acts(&sentence));
    place.write("c.toml", "version = 2\nmodel = \"hierarchical\"\n[run]\n\"\\u001b[2J\\n\" = 1\n");
    let sentence = place.motes("fit --config c.toml").refused(&["\\u{1b}[2J"]);
    assert!(!acts(&sentence));
    // The page shows the same; predictions for other programs are left as they are.
    let page = std::fs::read_to_string(place.path("r\u{1b}[1m").join("report.html")).unwrap();
    assert!(!acts(&page) && page.contains("\\u{1b}[31m"));
    let mut command = place.command("predict");
    let done = Done::of(command.args(["r\u{1b}[1m", "--data", "d\u{1b}[5m.csv"]));
    assert!(done.ok().out.contains("\u{1b}[2Jx"));
    // On a terminal they are not.
    let script = "script -qec \"$motes predict r* --data d*.csv\" /dev/null";
    if place.shell("command -v script").code == Some(0) {
        let done = place.shell(script);
        assert!(done.ok().out.contains("\\u{1b}[2Jx"), "{:?}", done.out);
        assert!(!acts(&done.out.replace('\r', "")), "{:?}", done.out);
    }
}

#[test]
fn backquotes_from_elsewhere_are_no_flags() {
    let place = Place::new();
    place.write(
        "`seed`.csv",
        "`lab`,`steps=3`,`y`\n1,2,`lab`\n2,1,b\n3,5,`lab`\n4,1,b\n5,4,`lab`\n6,2,b\n7,1,`lab`\n8,3,b\n9,1,b\n",
    );
    place.write("`c`.csv", "`lab`,y\n1,a\n1,b\n1,a\n1,b\n1,a\n1,b\n");
    place.write("bad.csv", "`lab`,y\n`seed`,a\n1,b\n");
    let run = |words: &[&str]| Done::of(place.command("").args(words));
    let done = run(&["fit", "logistic", "--data", "`seed`.csv", "--seed", "3", "--out", "`out`"]);
    assert!(done.ok().err.contains("`y`: '`lab`' is 0 and 'b' is 1"), "{}", done.err);
    let cases: [(&[&str], &str); 15] = [
        (&["fit", "logistic", "--data", "`seed`.csv", "--out", "`out`"], "`out` is not empty"),
        (&["fit", "logistic", "--data", "`none`.csv"], "the data `none`.csv: "),
        (
            &["fit", "logistic", "--data", "`seed`.csv", "--target", "`dim`"],
            "no column '`dim`' as --target asks",
        ),
        (
            &["fit", "logistic", "--data", "`seed`.csv", "--target", "`lab`"],
            "`seed`.csv, column '`lab`': there are 9 classes",
        ),
        (&["fit", "logistic", "--data", "`c`.csv"], "no column varies in the rows to train on"),
        (&["fit", "logistic", "--data", "bad.csv"], "column '`lab`': '`seed`' is not a number"),
        (&["fit", "hierarchical", "--data", "bad.csv"], "column 'y': 'a' is not a number"),
        (&["fit", "`seed`"], "there is no model '`seed`'"),
        (&["fit", "logistic", "--algorithm", "`seed`"], "there is no algorithm '`seed`'"),
        (&["fit", "logistic", "--grow", "`seed`"], "growth '`seed`' is not"),
        (&["fit", "logistic", "--step-size", "`auto`"], "'`auto`' is neither a number nor auto"),
        (&["fit", "logistic", "--init-theta", "`seed`"], "`seed`: No such file"),
        (&["fit", "logistic", "--`seed`"], "'--`seed`'"),
        (&["report", "`seed`"], "`seed` is not a run directory"),
        (&["predict", "`out`", "--data", "bad.csv"], "column '`steps=3`'"),
    ];
    for (words, said) in cases {
        run(words).refused(&[said]);
    }
    for (config, said) in [
        ("model = \"`seed`\"\n", "there is no model '`seed`'"),
        ("model = \"logistic\"\n[run]\n\"`seed`\" = 1\n", "there is no setting '`seed`'"),
        ("model = \"logistic\"\n[run]\nsteps = \"`seed`\"\n", "\"`seed`\" is not a whole number"),
    ] {
        place.write("c.toml", format!("version = 2\n{config}"));
        place.motes("fit --config c.toml").refused(&[said]);
    }
    place.write("`out`/summary.json", "{\"schema\": 2}");
    // The parser's own backquotes are no flags either.
    run(&["predict", "`out`", "--data", "`seed`.csv"])
        .refused(&["`out`/summary.json cannot be understood (missing field `"]);
}

#[test]
fn a_class_is_written_as_it_is() {
    let place = Place::new();
    place.write("d.csv", "a,y\n1,=1+1\n2,=1+1\n3,=1+1\n4,b\n5,=1+1\n6,b\n7,=1+1\n8,b\n9,b\n10,b\n");
    place.bare("fit logistic --algorithm pgd --learn mean --data d.csv --steps 30 --out run");
    let done = place.motes("predict run --data d.csv");
    let classes: Vec<&str> = done.ok().out.lines().skip(1).map(|l| l.split(',').nth(1).unwrap()).collect();
    assert!(classes.iter().all(|c| ["=1+1", "b"].contains(c)) && classes.contains(&"=1+1"), "{classes:?}");
    assert!(place.motes("predict --help").ok().out.contains("spreadsheet"));
}

#[test]
fn no_number_fills_the_screen() {
    let place = Place::new();
    place.write("y.csv", "y\n1e90\n-3e90\n2e90\n");
    let done = place.motes("fit hierarchical --algorithm pgd --data y.csv --steps 200 --out run");
    let longest = |text: &str| text.split(|c: char| !c.is_ascii_digit()).map(str::len).max().unwrap_or(0);
    assert!(done.ok().out.contains("e89") && longest(&done.out) < 16, "{}", done.out);
    let done = place
        .motes("fit hierarchical --algorithm pgd --data y.csv --init-particles 1e99 --steps 200 --step-size 1e-300 --out s");
    assert!(longest(&done.ok().out) < 16 && longest(&done.err) < 16, "{}{}", done.out, done.err);
    let done = place.motes("compare hierarchical --data y.csv --algorithms pgd,em --steps 200 --out c");
    assert!(done.ok().out.contains("e7") && longest(&done.out) < 16, "{}", done.out);
    place.write("x.csv", "a,y\n1e150,0\n2,1\n3e150,0\n4,1\n5,0\n");
    for words in
        ["fit bnn --no-standardize --data x.csv", "fit hierarchical --algorithm pgd --step-size -1e300"]
    {
        let sentence = place.motes(words).refused(&["e"]);
        assert!(longest(&sentence) < 16, "{sentence}");
    }
}

#[test]
fn columns_without_a_scale_are_to_be_rescaled() {
    let place = Place::new();
    let table = |exponent: i32| {
        let row = |i: i32| format!("{}e{exponent},{},{}\n", (i * 7) % 11 - 5, i % 3, u8::from(i % 4 < 2));
        format!("a,b,y\n{}", (0..40).map(row).collect::<String>())
    };
    for exponent in [20, 60, 150] {
        place.write("d.csv", table(exponent));
        for rest in ["", " --algorithm pgd --step-size 0.01", " --precision f32"] {
            place.refuses(
                &format!("fit logistic --data d.csv --no-standardize{rest}"),
                &["column 'a' reaches 5e", "rescale it or leave --no-standardize out"],
            );
        }
        place.bare(&format!("fit logistic --algorithm pgd --data d.csv --steps 20 --out run{exponent}"));
    }
    place.write("d.csv", table(6));
    let done = place.motes("fit logistic --algorithm pgd --data d.csv --no-standardize --steps 20 --out run");
    assert!(done.ok().err.contains("column 'a' reaches 5e6, so steps will be very small"), "{}", done.err);
}

#[test]
fn a_wild_start_is_to_blame_itself() {
    let place = Place::new();
    let small = "--classes 4,9 --subsample 60 --hidden 4 --particles 5 --steps 20 --quiet --no-report";
    let cases = [
        (format!("fit bnn {small} --init-theta 30"), "--init-theta 30"),
        (format!("fit bnn {small} --init-theta=-60"), "--init-theta -60"),
        (
            "fit logistic --algorithm pgd --steps 20 --quiet --no-report --init-theta 1e200".into(),
            "--init-theta 1e200",
        ),
        (
            "fit logistic --algorithm pgd --steps 20 --quiet --no-report --init-particles 1e120".into(),
            "--init-particles 1e120",
        ),
    ];
    for (i, (words, start)) in cases.iter().enumerate() {
        let sentence = place.motes(&format!("{words} --out run{i}")).refused(&[
            "diverged at step",
            start,
            "from the model's own start it does not; begin closer to that, or leave it out",
        ]);
        assert!(!sentence.contains("--step-size"), "{sentence}");
    }
    // Where the step is too large for any start, it is said so.
    let words = "fit logistic --algorithm pgd --steps 400 --quiet --no-report --init-theta 2 --step-size 1e6 --out run";
    place.motes(words).refused(&["diverged at step", "try --step-size"]);
}

#[test]
fn generated_data_are_known_by_what_generates_them() {
    let place = Place::new();
    place.bare("fit hierarchical --algorithm pgd --steps 5 --out run");
    // The same on every machine, whatever the last bits of its logarithms.
    let digest = "b420b05f73145cc527feec25e05d15cdebbca8ed66e6a18acd523bef9ae63022";
    assert!(place.text("run/config.toml").contains(digest), "{}", place.text("run/config.toml"));
    place.bare("fit --config run/config.toml --out again");
    place.bare("resume run --steps 9");
    place.bare("fit --config run/config.toml --data-seed 1 --out other");
    assert!(!place.text("other/config.toml").contains(digest));
}
