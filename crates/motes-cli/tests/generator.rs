//! The generator network on the real command line, at sizes that take seconds.

use crate::common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::time::{Duration, Instant};

use common::{Done, Place, gzip, idx, number, same_bits, summary, tidy};

const TINY: &str = "fit generator --images 64 --particles 1 --epochs 1 --batch 32";

/// The width and the height of a PNG file.
fn png_size(path: &Path) -> (u32, u32) {
    let bytes = fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.to_string_lossy()));
    assert_eq!(&bytes[1..4], b"PNG", "{}", path.to_string_lossy());
    let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    (number(16), number(20))
}

/// The size of a grid of so many columns and rows.
fn grid(columns: u32, rows: u32) -> (u32, u32) {
    (68 * columns + 4, 68 * rows + 4)
}

/// Expects an array of floats of this shape, all within [-1, 1].
#[track_caller]
fn images(path: &Path, shape: &[usize]) -> Vec<f64> {
    let array = motes::npz::parse_npy(&fs::read(path).unwrap()).unwrap();
    assert_eq!(array.shape, shape);
    assert!(array.values.iter().all(|v| v.abs() <= 1.0));
    array.values
}

/// A trace whose last loss is another.
fn with_loss(trace: &str, loss: &str) -> String {
    let column = trace.lines().next().unwrap().split(',').position(|name| name == "loss").unwrap();
    let last = trace.lines().count() - 1;
    let row = |(i, line): (usize, &str)| {
        let mut cells: Vec<&str> = line.split(',').collect();
        if i == last {
            cells[column] = loss;
        }
        cells.join(",") + "\n"
    };
    trace.lines().enumerate().map(row).collect()
}

#[test]
fn a_training_leaves_its_files_and_the_tasks_use_them() {
    let place = Place::new();
    let done = place.motes(&format!("{TINY} --out run"));
    done.ok();
    assert!(done.err.contains("64 images of 1 x 32 x 32 pixels"), "{}", done.err);
    assert!(done.out.contains("  loss      ") && done.out.contains("2 steps"), "{}", done.out);
    let run = place.path("run");
    tidy(&run);
    assert_eq!(place.text("run/trace.csv").lines().count(), 4);
    let json = summary(&run);
    assert!(number(&json["scalars"]["loss"]) > 0.0);
    assert_ne!(json["diagnostics"]["verdict"], "ok", "two steps say nothing");
    let page = place.text("run/report.html");
    assert!(page.contains("data:image/png;base64,") && page.contains("Loss along the run"));
    assert!(!page.contains("verdict good"));
    assert!(page.contains("data-log data-name=\"loss\""));
    place.motes("report run").ok();
    assert_eq!(place.text("run/report.html"), page);
    // Whatever a loss became, the page is made at once, and shows what can be shown.
    let trace = place.text("run/trace.csv");
    for (loss, shown) in [
        ("inf", 1),
        ("-inf", 1),
        ("NaN", 1),
        ("1e300", 2),
        ("-1e308", 2),
        ("1e999", 1),
        ("1e-320", 2),
        ("0", 2),
        ("", 1),
    ] {
        place.write("run/trace.csv", with_loss(&trace, loss));
        let begun = Instant::now();
        place.motes("report run").ok();
        assert!(begun.elapsed() < Duration::from_secs(20), "{loss}: {:?}", begun.elapsed());
        let page = place.text("run/report.html");
        let drawn = page.split("\"loss\":{\"dk\":[").nth(1).and_then(|rest| rest.split(']').next());
        let points = drawn.map(|points| points.split(',').count());
        assert_eq!(points, Some(shown), "{loss}");
        assert!(page.len() < 1 << 20 && !page.contains("null,null"), "{loss}");
    }
    place.write("run/trace.csv", trace);
    assert_eq!(png_size(&run.join("pictures/samples.png")), grid(16, 4));
    assert_eq!(png_size(&run.join("pictures/reconstructions.png")), grid(16, 8));

    let done = place.motes("inpaint run --count 3 --steps 5");
    done.ok();
    assert!(done.out.contains("3 images: MSE"), "{}", done.out);
    assert_eq!(png_size(&run.join("inpaint.png")), grid(3, 3));
    images(&run.join("inpaint.npy"), &[3, 1, 32, 32]);
    let json: serde_json::Value = serde_json::from_str(&place.text("run/inpaint.json")).unwrap();
    assert!(number(&json["mse"]) > 0.0 && number(&json["mse_hole"]) > 0.0);
    for from in ["prior", "gaussian", "labels"] {
        place.motes(&format!("synthesize run --from {from} --count 20")).ok();
        assert_eq!(png_size(&run.join(format!("synthesize-{from}.png"))), grid(16, 2));
        images(&run.join(format!("synthesize-{from}.npy")), &[20, 1, 32, 32]);
    }
    place.motes("synthesize run --from mixture --components 2 --count 5 --output elsewhere").ok();
    let a = images(&place.path("elsewhere/synthesize-mixture.npy"), &[5, 1, 32, 32]);
    place.motes("synthesize run --from mixture --components 2 --count 5 --seed 1 --output elsewhere").ok();
    assert_ne!(a, images(&place.path("elsewhere/synthesize-mixture.npy"), &[5, 1, 32, 32]));
    place.motes("interpolate run --from 3 --to 5 --count 6").ok();
    assert_eq!(png_size(&run.join("interpolate.png")), grid(8, 1));
    images(&run.join("interpolate.npy"), &[6, 1, 32, 32]);
    let done = place.motes("reconstruct run --count 10");
    assert!(done.ok().out.contains("10 images: MSE"), "{}", done.out);
    assert_eq!(png_size(&run.join("reconstruct.png")), grid(10, 2));
    images(&run.join("reconstruct.npy"), &[10, 1, 32, 32]);

    // The same again from its config, and more steps than before.
    place.motes("fit --config run/config.toml --out again --quiet").ok();
    same_bits(&run, &place.path("again"));
    place.motes("resume again --steps 4 --quiet").ok();
    place
        .motes(&format!("{} --steps 4 --burn-in 1 --out longer --quiet", TINY.replace("--epochs 1", "")))
        .ok();
    same_bits(&place.path("longer"), &place.path("again"));
}

#[test]
fn all_algorithms_train_and_threads_change_no_bit() {
    let place = Place::new();
    for algorithm in ["pgd --particles 2", "abp --transitions 2", "short-run --transitions 2", "vae"] {
        let name = algorithm.split(' ').next().unwrap();
        let fit = format!(
            "fit generator --images 20 --batch 8 --steps 3 --algorithm {algorithm} --quiet --no-report"
        );
        place.motes(&format!("{fit} --threads 1 --out {name}1")).ok();
        place.motes(&format!("{fit} --threads 3 --out {name}3")).ok();
        same_bits(&place.path(&format!("{name}1")), &place.path(&format!("{name}3")));
    }
}

#[test]
fn folders_of_images_are_read_once_and_then_from_the_cache() {
    let place = Place::new();
    place.bare(&format!("{TINY} --out grey"));
    fs::create_dir_all(place.path("faces/img_align")).unwrap();
    for i in 0..6 {
        let from = if i % 2 == 0 { "samples" } else { "reconstructions" };
        let to = place.path(&format!("faces/img_align/{i}.png"));
        fs::copy(place.path(&format!("grey/pictures/{from}.png")), to).unwrap();
    }
    place.write("faces/list.txt", "not an image");
    let fit = |words: &str| {
        let mut command =
            place.command(&format!("fit generator --particles 2 --batch 3 --quiet --no-report {words}"));
        command.env("XDG_CACHE_HOME", place.path("cache"));
        Done::of(&mut command)
    };
    fit("--data faces --steps 2 --out first").ok();
    assert_eq!(fs::read_dir(place.path("cache/motes")).unwrap().count(), 1);
    let config = place.text("first/config.toml");
    assert!(config.contains("channels = 3") && config.contains("images = 6"), "{config}");
    fit("--data faces --steps 2 --out second").ok();
    same_bits(&place.path("first"), &place.path("second"));
    // A damaged cache is made again; a file that is no image is named.
    let cache = fs::read_dir(place.path("cache/motes")).unwrap().next().unwrap().unwrap().path();
    fs::write(&cache, "MOTESIM1 nonsense").unwrap();
    fit("--data faces --steps 2 --out third").ok();
    same_bits(&place.path("first"), &place.path("third"));
    place.write("faces/img_align/9.jpg", "no JPEG");
    fit("--data faces --steps 2 --out bad").refused(&["9.jpg", "cannot be decoded", "replace or remove it"]);
    // Held-out images of the same folder are what is inpainted.
    fs::remove_file(place.path("faces/img_align/9.jpg")).unwrap();
    fit("--data faces --images 4 --steps 2 --out part").ok();
    place.motes("inpaint part --count 9 --steps 2 --mask 0,0,32,16").ok();
    assert_eq!(png_size(&place.path("part/inpaint.png")), grid(2, 3));
    images(&place.path("part/inpaint.npy"), &[2, 3, 32, 32]);
    place.refuses("inpaint first --count 1", &["all images of", "name others with --images"]);
    place.refuses("synthesize part --from labels", &["no labels", "--labels"]);
}

#[test]
fn what_cannot_be_done_is_refused_in_a_sentence() {
    let place = Place::in_memory();
    for (words, pieces) in [
        ("--images 0", &["0 images", "10000", "--images from 1"][..]),
        ("--images 99999999", &["99999999", "10000"]),
        ("--algorithm adp", &["adp", "abp"]),
        ("--algorithm soul", &["soul", "abp"]),
        ("--transitions 3", &["--transitions", "pgd"]),
        ("--precision f64", &["single precision", "--precision"]),
        ("--batch 0", &["--batch 0"]),
        ("--step-size -1", &["--step-size -1", "positive"]),
        ("--lambda nan", &["--lambda NaN"]),
        ("--theta-rate 1 --lambda 1", &["--theta-rate", "--lambda"]),
        ("--epochs 1 --steps 1", &["--epochs", "--steps"]),
        ("--channels 2", &["--channels 2", "3"]),
        ("--images 65 --particles 1 --batch 32", &["single one", "--batch"]),
        ("--data nowhere", &["nowhere", "check the path"]),
        ("--particles 100000000000", &["particles x", "bytes", "are available", "fewer particles"]),
        ("--threads 0", &["--threads 0"]),
        ("--sigma 1e200", &["--sigma 1", "within", "0.01"]),
        ("--sigma 1e-12", &["--sigma 0.000000000001", "within"]),
        ("--theta-rate -1", &["--theta-rate -1", "positive"]),
        ("--images 1 --particles 1", &["a single image", "two or more"]),
        ("--labels nowhere", &["nowhere", "check the path"]),
        ("--batchnorm three-pass", &["three-pass", "two-pass"]),
        ("--algorithm vae --batchnorm one-pass", &["one-pass", "vae"]),
    ] {
        place.refuses(&format!("fit generator {words} --out run"), pieces);
    }
    place.write("text.txt", "hello");
    place.refuses("fit generator --data text.txt --out run", &["text.txt", "neither an IDX file"]);
    fs::create_dir(place.path("empty")).unwrap();
    place.refuses("fit generator --data empty --out run", &["holds no .jpg or .png files"]);
    place.refuses("inpaint empty", &["is not the run of a generator"]);
    place.refuses("inpaint empty --mask 5,5,5,9", &["--mask 5,5,5,9", "10,10,22,22"]);
    place.refuses("inpaint empty --mask 0,0,32,32", &["leaves no pixel"]);
    place.refuses("synthesize empty --from gaussian --components 3", &["--components", "mixture"]);
    place.refuses("fit generatr", &["generatr"]);
}

#[test]
fn wrong_uses_of_a_run_are_refused_in_a_sentence() {
    let place = Place::in_memory();
    place.bare(&format!("{TINY} --steps 1 --out run").replace("--epochs 1 ", ""));
    place.bare(&format!("{TINY} --steps 1 --out other").replace("--epochs 1 ", ""));
    let huge = "18446744073709551615";
    place.write("five", idx(&[5], &[1, 2, 3, 4, 5]));
    place.write("colour", idx(&[4, 3, 4, 4], &[9; 192]));
    place.write("two", idx(&[4, 2, 4, 4], &[9; 128]));
    let mut black = Vec::new();
    let mut encoder = png::Encoder::new(&mut black, 32, 32);
    encoder.set_color(png::ColorType::Grayscale);
    encoder.write_header().unwrap().write_image_data(&[0; 1024]).unwrap();
    place.write("black.png", black);
    for (words, pieces) in [
        (format!("synthesize run --from prior --count {huge}"), &["--count", "are available", "fewer"][..]),
        (format!("interpolate run --from 1 --to 2 --count {huge}"), &["--count", "are available", "fewer"]),
        ("inpaint run --mask black.png".into(), &["black.png has no hole", "white"]),
        ("inpaint run --images colour".into(), &["images of 3 channels, not of 1", "; give others"]),
        ("frechet run mnist-test".into(), &["run is a run directory", ".npy"]),
        ("frechet two mnist-test".into(), &["images of 2 channels, not of 1", "; give others"]),
        (format!("{TINY} --labels five --out new"), &["5 labels for 64 images", ";"]),
    ] {
        place.refuses(&words, pieces);
    }
    // Coloured images may be zipped too.
    place.write("colour.gz", gzip(&fs::read(place.path("colour")).unwrap()));
    let fit = "fit generator --channels 3 --particles 1 --batch 2 --steps 1 --no-report --quiet";
    place.motes(&format!("{fit} --data colour.gz --out zipped")).ok();
    place.motes(&format!("{fit} --data colour --out plain")).ok();
    let posterior = |run: &str| fs::read(place.path(run).join("posterior.npz")).unwrap();
    assert!(posterior("zipped") == posterior("plain"));
    // What is lost can be had again.
    fs::remove_file(place.path("plain/posterior.npz")).unwrap();
    place.refuses("reconstruct plain", &["plain/posterior.npz", "`motes resume plain`"]);
    place.motes("resume plain --no-report --quiet").ok();
    assert!(posterior("zipped") == posterior("plain"));
}

#[test]
fn inpainting_can_be_interrupted() {
    let place = Place::new();
    place.bare(&format!("{TINY} --out run"));
    let mut child = place.spawn("inpaint run --count 64 --steps 3000");
    // The search has begun when its first line appears.
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let line = lines.next().unwrap().unwrap();
    assert!(line.starts_with("images ") && line.contains(" of 64, inpainted, "), "{line}");
    let signal = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(signal.success());
    let last = lines.map(|line| line.unwrap()).last().unwrap();
    assert!(last.starts_with("stopped, and nothing was written"), "{last}");
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert!(!place.path("run/inpaint.npy").exists());
}

#[test]
fn generators_are_compared_by_their_losses() {
    let place = Place::new();
    let words =
        "compare generator --images 8 --particles 2 --steps 3 --batch 4 --algorithms pgd,vae --out both";
    let done = place.motes(words);
    let table = &done.ok().out;
    let head = table.lines().find(|line| line.contains("algorithm")).unwrap();
    assert!(head.contains("loss") && head.contains("error"), "{table}");
    assert!(!table.contains("lin.weight") && !table.contains("more components"), "{table}");
    let page = place.text("both/report.html");
    assert!(page.contains("data-chart=\"overlay\" data-log data-name=\"loss\""));
    // What is done is not done again, and any of them goes on alone.
    assert!(place.motes(words).ok().err.contains("already finished"));
    place.bare("resume both/vae --steps 5");
    assert_eq!(summary(&place.path("both/vae"))["steps"], 5);
    place.motes("report both/pgd both/vae").ok();
}
