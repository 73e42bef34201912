//! The images of the Bayesian neural network: their files, and the tasks made of them.

use motes_models::data::{
    ImageSet, ImageTask, Images, TaskOptions, first_labels, mnist, read_images, read_labels,
};
use proptest::prelude::*;

/// NumPy's mnist49() of the peers: rows, labels, features and split.
#[test]
fn the_task_is_that_of_numpy() {
    let task = ImageTask::mnist(&TaskOptions::default()).unwrap();
    assert_eq!((task.inputs, task.classes, task.labels.len()), (784, 2, 1000));
    assert_eq!(task.images[..8], [6552, 5937, 3340, 4423, 8321, 6308, 3371, 471]);
    assert_eq!(task.images.iter().enumerate().map(|(i, r)| i * r).sum::<usize>(), 2_392_571_966);
    assert_eq!(task.labels.iter().map(|l| usize::from(*l)).sum::<usize>(), 501);
    assert_eq!(task.split.train[..5], [687, 500, 332, 979, 817]);
    assert_eq!(task.split.test[..5], [993, 859, 298, 553, 672]);
    let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-8 * b.abs(), "{a} {b}");
    close(task.features[300], -0.87255825);
    close(task.features[309], -0.0316386);
    close(task.features.iter().map(|f| f.abs()).sum(), 298628.0207353581);
    assert_eq!(task.std.iter().filter(|s| **s != 1.0).count(), 557);
    let test = read_images(mnist::TEST_IMAGES, mnist::NAMES[2]).unwrap();
    assert_eq!((test.count, test.height, test.width), (2000, 28, 28));
    assert_eq!(read_labels(mnist::TEST_LABELS, mnist::NAMES[3]).unwrap().len(), 2000);
}

#[test]
fn tasks_that_cannot_be_made_are_refused() {
    let images = Images { count: 4, height: 1, width: 2, pixels: (0..8).collect() };
    let task = |labels: &[u8], classes: &[u8], subsample| {
        let options = TaskOptions { classes: classes.to_vec(), subsample, ..TaskOptions::default() };
        ImageTask::new(&images, labels, &options).map_err(|e| e.to_string())
    };
    let all = task(&[4, 9, 9, 4], &[9, 4], None).unwrap();
    assert_eq!((all.labels, all.images, all.classes), (vec![1, 0, 0, 1], vec![0, 1, 2, 3], 2));
    for (result, sentence) in [
        (task(&[4], &[4, 9], None), "there are 4 images but 1 labels; give the two files of one set"),
        (
            task(&[4, 9, 9, 4], &[4, 4], None),
            "the classes [4, 4] are not two or more different labels; choose labels such as 4 and 9",
        ),
        (task(&[4, 9, 9, 4], &[4, 7], None), "no image has the label 7; choose labels that occur"),
        (
            task(&[4, 9, 9, 4], &[4, 9], Some(5)),
            "cannot draw 5 of the 4 images with labels [4, 9]; choose a number from 1 to 4",
        ),
    ] {
        assert_eq!(result.unwrap_err(), sentence);
    }
}

fn idx(dims: &[u32], content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 0, 8, dims.len() as u8];
    dims.iter().for_each(|d| bytes.extend(d.to_be_bytes()));
    bytes.extend(content);
    bytes
}

#[test]
fn broken_idx_files_are_refused() {
    let images = read_images(&idx(&[2, 1, 3], b"abcdef"), "x").unwrap();
    assert_eq!((images.count, images.height, images.width, &images.pixels[..]), (2, 1, 3, &b"abcdef"[..]));
    assert_eq!(read_labels(&idx(&[2], b"\x04\x09"), "x").unwrap(), [4, 9]);
    let cut = &mnist::LABELS[..mnist::LABELS.len() / 2];
    for (bytes, sentence) in [
        (&b""[..], "f ends too early; download it again"),
        (&idx(&[3], b"")[..6], "f ends too early; download it again"),
        (cut, "f ends too early; download it again"),
        (
            b"PK\x03\x04",
            "f is not an IDX file of labels: it begins with [50, 4b, 03, 04], not [00, 00, 08, 01]; give an IDX file of unsigned bytes, such as those of MNIST",
        ),
        (&idx(&[4], b"abc"), "f holds 3 of the 4 bytes that its header promises; download it again"),
        (&idx(&[2], b"abc"), "f goes on after the [2] labels of its header; download it again"),
        (
            &idx(&[u32::MAX], b"abc"),
            "f is too short for the [4294967295] labels that its header promises; download it again",
        ),
    ] {
        assert_eq!(read_labels(bytes, "f").unwrap_err().to_string(), sentence);
    }
    let huge = idx(&[u32::MAX, u32::MAX, u32::MAX], b"");
    assert!(read_images(&huge, "f").unwrap_err().to_string().contains("is too short for"));
    assert!(read_images(&idx(&[3, 0, 2], b""), "f").unwrap_err().to_string().contains("holds no pixels"));
}

/// What comes after the images or labels that are asked for is not looked at, and the others are the same.
#[test]
fn no_more_is_read_than_is_asked_for() {
    let pixels: Vec<u8> = (0..200).map(|i| (i * 7 % 256) as u8).collect();
    let (whole, torn) = (idx(&[2, 5, 5], &pixels[..50]), idx(&[8, 5, 5], &pixels[..190]));
    let set = |bytes: &[u8], limit| ImageSet::from_idx(bytes, "f", 1, limit).map_err(|e| e.to_string());
    assert_eq!(set(&torn, Some(2)), set(&whole, None));
    let short = "f holds 190 of the 200 bytes that its header promises; download it again";
    assert_eq!(set(&torn, Some(8)).unwrap_err(), short);
    assert_eq!(set(&torn, None).unwrap_err(), short);
    let long = [&whole[..], b"x"].concat();
    assert!(set(&long, Some(1)).is_ok());
    assert_eq!(set(&long, Some(2)).unwrap_err(), set(&long, None).unwrap_err());
    let all = read_labels(mnist::LABELS, "f").unwrap();
    for most in [0, 1, 4000, all.len(), all.len() + 1] {
        assert_eq!(first_labels(mnist::LABELS, "f", most).unwrap(), all[..most.min(all.len())]);
    }
}

/// An image that is larger than what is read at once is read all the same, unless it is larger than any camera takes.
#[test]
fn sizes_of_images_are_limited() {
    let set = |dims: &[u32], n: usize| {
        ImageSet::from_idx(&idx(dims, &vec![9; n]), "f", 1, Some(1)).map_err(|e| e.to_string())
    };
    let large = set(&[2, 6000, 6000], 72_000_000).unwrap();
    assert_eq!(large, set(&[1, 32, 32], 1024).unwrap());
    let sentence = set(&[1, 15_000, 15_000], 225_000_000).unwrap_err();
    assert!(
        sentence.contains("f has images of 15000 x 15000 pixels; give images of at most 200"),
        "{sentence}"
    );
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        at in 0..5000usize,
        flip in 1..=255u8,
        zipped in any::<bool>(),
    ) {
        let _ = read_images(&bytes, "f");
        let _ = read_labels(&[&[0, 0, 8, 1][..], &bytes].concat(), "f");
        let _ = read_images(&[&[0x1f, 0x8b, 8, 0][..], &bytes].concat(), "f");
        let mut damaged = if zipped { mnist::LABELS.to_vec() } else { idx(&[100, 7, 7], &[5; 4900]) };
        let at = at % damaged.len();
        damaged[at] ^= flip;
        let _ = read_labels(&damaged, "f");
        let _ = read_images(&damaged, "f");
    }
}
