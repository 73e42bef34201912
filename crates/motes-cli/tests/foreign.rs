//! Files from elsewhere: devices, pipes, and small files that would become large ones.
#![cfg(unix)]

use crate::common;

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::symlink;

use common::{Done, Place, gzip, idx, same_bits, summary};

const TABLE: &str = "a,b,y\n1,2,0\n2,1,1\n3,5,0\n4,1,1\n5,4,0\n6,2,1\n7,1,0\n8,3,1\n9,2,0\n10,4,1\n";

/// A PNG file whose header speaks of a size that its content has not.
fn png_of(width: u32, height: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, 1, 1);
    encoder.set_color(png::ColorType::Grayscale);
    encoder.write_header().unwrap().write_image_data(&[0]).unwrap();
    bytes[16..20].copy_from_slice(&width.to_be_bytes());
    bytes[20..24].copy_from_slice(&height.to_be_bytes());
    let checksum = crc32fast::hash(&bytes[12..29]);
    bytes[29..33].copy_from_slice(&checksum.to_be_bytes());
    bytes
}

#[test]
fn devices_and_directories_are_refused_by_every_reader() {
    let place = Place::new();
    place.write("table.csv", TABLE);
    place.write("images", idx(&[4, 8, 8], &[7; 256]));
    place.bare("fit logistic --algorithm pgd --data table.csv --steps 5 --out run");
    fs::create_dir(place.path("folder")).unwrap();
    for link in ["folder/endless.png", "endless.jpg", "endless.npy"] {
        symlink("/dev/zero", place.path(link)).unwrap();
    }
    let device = &["it is a device; give a file or a pipe"];
    for words in [
        "fit hierarchical --data /dev/zero",
        "fit logistic --data /dev/zero",
        "fit logistic --data table.csv --test /dev/zero",
        "fit bnn --data /dev/zero",
        "fit bnn --data images --labels /dev/zero",
        "fit --config /dev/zero",
        "fit generator --config /dev/zero",
        "fit generator --data /dev/zero",
        "fit generator --data folder",
        "fit generator --data endless.jpg",
        "fit generator --data images --labels /dev/zero",
        "predict run --data /dev/zero",
        "frechet endless.npy mnist-test",
        "frechet mnist-test folder",
        "check-model hierarchical --data /dev/zero",
        "compare hierarchical --algorithms pgd,em --data /dev/zero",
    ] {
        place.motes(words).refused(device);
    }
    place
        .motes("fit logistic --data folder")
        .refused(&["the data", "folder: it is a directory; give a file"]);
    place.motes("fit --config folder").refused(&["the config folder: it is a directory; give a file"]);
    place.motes("fit bnn --data images --labels folder").refused(&["it is a directory; give a file"]);
}

#[test]
fn pipes_are_read_as_files_are() {
    let place = Place::new();
    place.write("table.csv", TABLE);
    let fit = "fit logistic --algorithm pgd --steps 20 --quiet --no-report";
    place.shell(&format!("$motes {fit} --data table.csv --out file")).ok();
    place.shell(&format!("cat table.csv | $motes {fit} --data /dev/stdin --out pipe")).ok();
    for file in ["trace.csv", "posterior.npz"] {
        let read = |run: &str| fs::read(place.path(run).join(file)).unwrap();
        assert!(read("file") == read("pipe"), "{file}");
    }
    // A config can come from a pipe too, although it is looked at before; files then count from where people are.
    place
        .shell("cd file; cat config.toml | $motes fit --config /dev/stdin --out ../again --quiet --no-report")
        .ok();
    same_bits(&place.path("file"), &place.path("again"));
}

#[test]
fn a_pipe_without_end_is_read_up_to_the_memory_there_is() {
    let place = Place::new();
    // In KiB, of which the program and its threads take some.
    let limit = "ulimit -v 800000 || exit 99";
    for reader in ["fit logistic --data", "fit bnn --data", "check-model hierarchical --data"] {
        let done = place.shell(&format!("{limit}; yes 1,2,3 2> /dev/null | $motes {reader} /dev/stdin"));
        done.refused(&["it goes on after", "of memory are available; give less data"]);
    }
    let done = place.shell(&format!("{limit}; yes 'a = 1' 2> /dev/null | $motes fit --config /dev/stdin"));
    done.refused(&["it is longer than 16.0 MiB; give the config.toml of a run"]);
}

#[test]
fn files_beyond_the_memory_are_refused_unread() {
    let place = Place::new();
    let sparse = |name: &str, length: u64| File::create(place.path(name)).unwrap().set_len(length).unwrap();
    sparse("large", 4 << 40);
    sparse("large.npy", 4 << 40);
    sparse("large.png", 4 << 40);
    sparse("long.toml", 17 << 20);
    let pieces = &["it has 4.0 TiB and", "of memory are available; give a smaller file"];
    place.write("images", idx(&[4, 8, 8], &[7; 256]));
    for words in [
        "fit hierarchical --data large",
        "fit bnn --data images --labels large",
        "fit generator --data large.png",
        "frechet large.npy mnist-test",
    ] {
        place.motes(words).refused(pieces);
    }
    let pieces = &["the config long.toml: it is longer than 16.0 MiB", "give the config.toml of a run"];
    place.motes("fit --config long.toml").refused(pieces);
    place.motes("fit generator --config long.toml").refused(pieces);
}

#[test]
fn images_that_would_become_too_large_are_refused_by_their_headers() {
    let place = Place::new();
    place.write("bomb.png", png_of(22_000, 22_000));
    fs::create_dir(place.path("folder")).unwrap();
    place.write("folder/bomb.png", png_of(22_000, 22_000));
    let pieces =
        &["bomb.png has images of 22000 x 22000 pixels", "give images of at most 200 million pixels"];
    place.motes("fit generator --data bomb.png").refused(pieces);
    place.motes("fit generator --data folder").refused(pieces);
    place.motes("frechet mnist-test folder").refused(pieces);
    // Not too large in itself, but for the memory there is.
    place.write("fine.png", png_of(10_000, 10_000));
    let done = place.shell("ulimit -v 500000 || exit 99; $motes fit generator --data fine.png --threads 1");
    done.refused(&[
        "fine.png has 10000 x 10000 pixels, which take 476.8 MiB of memory, and",
        "smaller image",
    ]);
    // Nor with all the memory in the world, for so few bytes hold no such image.
    place.motes("fit generator --data fine.png --threads 1").refused(&[
        "fine.png cannot be decoded (its",
        "bytes cannot hold 10000 x 10000 pixels); replace or remove it",
    ]);
    // The same in an IDX file, which may be packed a thousand times smaller.
    let header = idx(&[1, 20_000, 20_000], &[0; 400_000]);
    place.write("bomb.gz", gzip(&header));
    place
        .motes("fit generator --data bomb.gz --images 1")
        .refused(&["bomb.gz has images of 20000 x 20000 pixels"]);
}

#[test]
fn large_images_are_decoded_one_after_another() {
    let place = Place::new();
    for (folder, side) in [("small", 32), ("large", 5000)] {
        fs::create_dir(place.path(folder)).unwrap();
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, side, side);
        encoder.set_color(png::ColorType::Rgb);
        encoder
            .write_header()
            .unwrap()
            .write_image_data(&[90, 20, 200].repeat((side * side) as usize))
            .unwrap();
        (0..3).for_each(|i| place.write(&format!("{folder}/{i}.png"), &bytes));
        // Without the cache of other runs, which would know the images.
        let fit = format!(
            "fit generator --data {folder} --particles 1 --steps 1 --quiet --no-report --out {folder}.run"
        );
        Done::of(place.command(&fit).env("XDG_CACHE_HOME", place.path("cache"))).ok();
    }
    let posterior = |run: &str| fs::read(place.path(run).join("posterior.npz")).unwrap();
    assert!(posterior("small.run") == posterior("large.run"));
}

#[test]
fn no_more_images_are_read_than_are_asked_for() {
    let place = Place::new();
    let pixels: Vec<u8> = (0..30 * 64).map(|i| (i * i % 251) as u8).collect();
    place.write("whole", idx(&[4, 8, 8], &pixels[..256]));
    // Both promise more than they hold, but only later.
    place.write("torn.gz", gzip(&idx(&[25_000, 8, 8], &pixels)));
    place.pipe("open");
    let fit = "fit generator --particles 1 --steps 1 --quiet --no-report";
    place.motes(&format!("{fit} --data whole --out whole.run")).ok();
    place.motes(&format!("{fit} --data torn.gz --images 4 --out torn.run")).ok();
    place
        .motes(&format!("{fit} --data torn.gz --images 31 --out none"))
        .refused(&["holds 1920 of the 1600000"]);
    // It ends although the writer never does.
    let child = place.spawn(&format!("{fit} --data open --images 4 --out open.run"));
    let mut writer = OpenOptions::new().write(true).open(place.path("open")).unwrap();
    writer.write_all(&idx(&[3_000_000_000, 8, 8], &pixels)).unwrap();
    Done::wait(child).ok();
    let posterior = |run: &str| fs::read(place.path(run).join("posterior.npz")).unwrap();
    assert!(posterior("whole.run") == posterior("torn.run"));
    assert!(posterior("whole.run") == posterior("open.run"));
    assert_eq!(summary(&place.path("open.run"))["settings"]["images"], 4);
}

#[test]
fn no_more_labels_are_read_than_there_are_images() {
    let place = Place::new();
    place.write("images", idx(&[4, 8, 8], &[7; 256]));
    place.write("labels.gz", gzip(&idx(&[50_000], &[1; 100])));
    let fit = "fit generator --particles 1 --steps 1 --quiet --no-report --data images";
    place.motes(&format!("{fit} --labels labels.gz --out run")).ok();
    place.write("few", idx(&[3], &[1; 3]));
    place.motes(&format!("{fit} --labels few --out none")).refused(&["there are 3 labels for 4 images"]);
}
