//! `motes frechet` on the real command line.

use crate::common;

use std::fs;
use std::path::Path;

use common::{Done, Place};
use motes::noise::{Noise, Purpose};

fn normals(step: u64, len: usize) -> Vec<f64> {
    let mut x = vec![0.0; len];
    Noise::new(9, Purpose::Check).normals_f64(step, 0, &mut x);
    x
}

fn write_npy(path: &Path, shape: &[usize], values: &[f64]) {
    let mut bytes = Vec::new();
    motes::npz::write_npy(&mut bytes, shape, values).unwrap();
    fs::write(path, bytes).unwrap();
}

/// The name, the value and the rest of the one line that is printed.
#[track_caller]
fn result(done: &Done) -> (String, f64, String) {
    assert_eq!(done.ok().out.lines().count(), 1, "{}", done.out);
    let (name, rest) = done.out.trim_end().split_once(" = ").unwrap();
    let (value, rest) = rest.split_once(' ').unwrap();
    (name.into(), value.parse().unwrap(), rest.into())
}

/// Writes an image as a PNG file.
fn png(path: &Path, color: png::ColorType, pixels: &[u8]) {
    let mut encoder = png::Encoder::new(fs::File::create(path).unwrap(), 32, 32);
    encoder.set_color(color);
    encoder.write_header().unwrap().write_image_data(pixels).unwrap();
}

#[test]
fn arrays_of_features_against_a_closed_form() {
    let place = Place::in_memory();
    // Variances 2 and 8 with divisor n - 1 against 18 and 8; the means differ by 3 and 4.
    let around = |x: f64, y: f64, a: f64, b: f64| [x - a, y, x + a, y, x, y - b, x, y + b];
    let root = |v: f64| (1.5 * v).sqrt();
    write_npy(&place.path("a.npy"), &[4, 2], &around(0.0, 0.0, root(2.0), root(8.0)));
    write_npy(&place.path("b.npy"), &[4, 2], &around(3.0, 4.0, root(18.0), root(8.0)));
    let done = place.motes("frechet a.npy b.npy");
    let (name, value, rest) = result(&done);
    assert_eq!((name.as_str(), rest.as_str()), ("frechet", "(4 and 4 rows, 2 features)"));
    // 9 + 16, and (sqrt 18 - sqrt 2)^2 = 8.
    assert!((value - 33.0).abs() < 1e-6, "{value}");
    assert!(done.err.contains("warning: 4 and 4 rows for 2 features are few"), "{}", done.err);
    assert_eq!(place.motes("frechet a.npy b.npy --quiet").err, "");
    let (_, zero, _) = result(&place.motes("frechet a.npy a.npy --features none"));
    assert!((0.0..1e-12).contains(&zero), "{zero}");
    // Enough rows: no warning. A part of them has a distance of its own.
    write_npy(&place.path("many.npy"), &[100, 3], &normals(0, 300));
    write_npy(&place.path("more.npy"), &[80, 3], &normals(1, 240));
    let done = place.motes("frechet many.npy more.npy");
    assert_eq!(done.err, "");
    assert_eq!(result(&done).2, "(100 and 80 rows, 3 features)");
    let part = result(&place.motes("frechet many.npy:20..100 more.npy"));
    assert_eq!(part.2, "(80 and 80 rows, 3 features)");
    write_npy(&place.path("part.npy"), &[80, 3], &normals(0, 300)[60..]);
    assert_eq!(part, result(&place.motes("frechet part.npy more.npy")));
}

#[test]
fn images_of_every_kind_give_the_same_number() {
    let place = Place::in_memory();
    let files = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/mnist");
    let built_in = result(&place.motes("frechet mnist-test:0..200 mnist-train:0..300"));
    assert_eq!(built_in.0, "frechet_lenet");
    assert_eq!(built_in.2, "(200 and 300 images, 80 features)");
    let idx = |set: &str| format!("{files}/{set}-idx3-ubyte.gz");
    let done = place.motes(&format!(
        "frechet {}:0..200 {}:0..300 --threads 1",
        idx("test-images-2k"),
        idx("train-images-10k")
    ));
    assert_eq!(built_in, result(&done));
    // The same test images as a .npy file, and as a folder of PNG files, grey or with three equal channels.
    let set = motes_models::data::ImageSet::mnist_test(1).unwrap();
    let values: Vec<f64> = set.values(0..200).into_iter().map(f64::from).collect();
    write_npy(&place.path("test.npy"), &[200, 1, 32, 32], &values);
    fs::create_dir(place.path("folder")).unwrap();
    for (i, image) in set.values(0..200).chunks(1024).enumerate() {
        let bytes: Vec<u8> = image.iter().map(|v| motes_models::data::byte_of(*v)).collect();
        let path = place.path(&format!("folder/{i:03}.png"));
        if i % 2 == 0 {
            png(&path, png::ColorType::Grayscale, &bytes);
        } else {
            png(&path, png::ColorType::Rgb, &bytes.iter().flat_map(|b| [*b; 3]).collect::<Vec<u8>>());
        }
    }
    for a in ["test.npy", "folder"] {
        let mut command = place.command(&format!("frechet {a} mnist-train:0..300"));
        command.env("XDG_CACHE_HOME", place.path("cache"));
        assert_eq!(built_in, result(&Done::of(&mut command)), "{a}");
    }
    // Nothing is nearer than the same images; noise is far away.
    let (_, zero, _) = result(&place.motes("frechet test.npy mnist-test:0..200"));
    assert!(zero < 1e-6 * built_in.1, "{zero}");
    let noise: Vec<f64> = normals(2, 200 * 1024).iter().map(|v| v.tanh()).collect();
    write_npy(&place.path("noise.npy"), &[200, 32, 32], &noise);
    let (_, far, _) = result(&place.motes("frechet noise.npy mnist-test:0..200"));
    assert!(far > 5.0 * built_in.1, "{far} and {}", built_in.1);
    let pixels = result(&place.motes("frechet noise.npy mnist-test:0..50 --features none"));
    assert_eq!(
        (pixels.0.as_str(), pixels.2.as_str()),
        ("frechet_pixels", "(200 and 50 images, 1024 features)")
    );
}

#[test]
fn what_cannot_be_compared_is_refused_in_a_sentence() {
    let place = Place::in_memory();
    write_npy(&place.path("rows.npy"), &[4, 3], &normals(0, 12));
    write_npy(&place.path("wide.npy"), &[4, 5], &normals(0, 20));
    write_npy(&place.path("one.npy"), &[1, 3], &normals(0, 3));
    write_npy(&place.path("none.npy"), &[0, 3], &[]);
    write_npy(&place.path("flat.npy"), &[12], &normals(0, 12));
    write_npy(&place.path("odd.npy"), &[3, 1, 28, 28], &[0.0; 3 * 784]);
    write_npy(&place.path("colour.npy"), &[3, 3, 32, 32], &[0.0; 3 * 3072]);
    write_npy(&place.path("bytes.npy"), &[2, 1, 32, 32], &[255.0; 2048]);
    let mut values = normals(0, 12);
    values[7] = f64::NAN;
    write_npy(&place.path("nan.npy"), &[4, 3], &values);
    let mut image = vec![0.0; 3 * 1024];
    image[1030] = f64::NAN;
    write_npy(&place.path("nan-image.npy"), &[3, 1, 32, 32], &image);
    place.write("text.npy", "hello");
    place.write("text.txt", "hello");
    fs::create_dir(place.path("empty")).unwrap();
    for (words, pieces) in [
        ("rows.npy", &["B", "see motes frechet --help"][..]),
        ("rows.npy nowhere.npy", &["nowhere.npy", "check the path"]),
        ("nowhere mnist-test", &["nowhere", "check the path"]),
        ("text.npy rows.npy", &["text.npy", "no header", "float32 or float64"]),
        ("text.txt mnist-test", &["text.txt", "neither an IDX file"]),
        ("empty mnist-test", &["holds no .jpg or .png files"]),
        ("rows.npy wide.npy", &["rows.npy has 3 features", "wide.npy 5", "same kind"]),
        ("rows.npy one.npy", &["one.npy makes a set of 1", "2 or more"]),
        ("rows.npy none.npy", &["none.npy makes a set of 0", "2 or more"]),
        ("flat.npy rows.npy", &["flat.npy has the shape [12]", "[n, d]"]),
        ("odd.npy mnist-test", &["[3, 1, 28, 28]", "[n, 1, 32, 32]"]),
        ("nan.npy rows.npy", &["nan.npy has the value NaN in row 2", "finite"]),
        ("nan-image.npy mnist-test", &["nan-image.npy has the value NaN in image 1", "[-1, 1]"]),
        ("bytes.npy mnist-test", &["bytes.npy has the value 255 in image 0", "[-1, 1]"]),
        ("colour.npy mnist-test", &["colour.npy holds coloured images", "grey"]),
        ("rows.npy mnist-test", &["mnist-test holds images", "rows.npy features", "same kind"]),
        ("rows.npy rows.npy --features lenet", &["rows.npy holds features", "leave the option out"]),
        ("rows.npy rows.npy --features inception", &["inception", "lenet, none"]),
        ("mnist-test:0..3000 mnist-train", &["mnist-test:0..3000", "2000", "within 0..2000"]),
        ("mnist-test:7..8 mnist-train", &["mnist-test:7..8 makes a set of 1"]),
        ("mnist-test:9..3 mnist-train", &["mnist-test:9..3 makes a set of 0"]),
        ("rows.npy rows.npy --threads 0", &["--threads 0"]),
    ] {
        place.refuses(&format!("frechet {words} --quiet"), pieces);
    }
}
