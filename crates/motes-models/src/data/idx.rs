//! IDX files of images and labels, plain or gzipped, and the classification task that is made of them.

use std::io::{Cursor, Read};

use flate2::read::MultiGzDecoder;

use super::reading::room_for;
use super::split::permutation;
use super::{DataError, Split, train_test_split};

/// Handwritten digits: MNIST, Y. LeCun and C. Cortes, CC BY-SA 3.0; see data/README.md.
pub mod mnist {
    /// The first 10,000 training images.
    pub const IMAGES: &[u8] = include_bytes!("../../data/mnist/train-images-10k-idx3-ubyte.gz");
    /// Their labels.
    pub const LABELS: &[u8] = include_bytes!("../../data/mnist/train-labels-10k-idx1-ubyte.gz");
    /// The first 2,000 test images.
    pub const TEST_IMAGES: &[u8] = include_bytes!("../../data/mnist/test-images-2k-idx3-ubyte.gz");
    /// Their labels.
    pub const TEST_LABELS: &[u8] = include_bytes!("../../data/mnist/test-labels-2k-idx1-ubyte.gz");
    /// The names used in messages, in the order above.
    pub const NAMES: [&str; 4] = [
        "train-images-10k-idx3-ubyte.gz",
        "train-labels-10k-idx1-ubyte.gz",
        "test-images-2k-idx3-ubyte.gz",
        "test-labels-2k-idx1-ubyte.gz",
    ];
}

/// Grey images, one byte per pixel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Images {
    /// How many.
    pub count: usize,
    /// Rows of pixels.
    pub height: usize,
    /// Columns of pixels.
    pub width: usize,
    /// Image after image, row after row.
    pub pixels: Vec<u8>,
}

/// Reads images from an IDX file of three dimensions, gzipped or not; `name` is used in messages.
pub fn read_images(bytes: &[u8], name: &str) -> Result<Images, DataError> {
    let mut stream = Stream::of_bytes(bytes, name)?;
    let [count, height, width] = stream.dims("images")?;
    let pixels = stream.all()?;
    if pixels.is_empty() {
        return Err(stream.without_pixels());
    }
    Ok(Images { count, height, width, pixels })
}

/// Reads labels from an IDX file of one dimension, gzipped or not; `name` is used in messages.
pub fn read_labels(bytes: &[u8], name: &str) -> Result<Vec<u8>, DataError> {
    let mut stream = Stream::of_bytes(bytes, name)?;
    let [_] = stream.dims("labels")?;
    stream.all()
}

/// As [`read_labels`], but no more than `most` of them: what follows is not unpacked.
pub fn first_labels(bytes: &[u8], name: &str, most: usize) -> Result<Vec<u8>, DataError> {
    let mut stream = Stream::of_bytes(bytes, name)?;
    match stream.dims("labels")? {
        [count] if count > most => {
            let mut labels = Vec::new();
            stream.next(most, &mut labels)?;
            Ok(labels)
        }
        [_] => stream.all(),
    }
}

/// What gzipped files begin with.
pub(super) const GZIP: [u8; 2] = [0x1f, 0x8b];

/// No deflate stream grows by more than this.
const MOST_GROWTH: u64 = 1032;

const AGAIN: &str = "download it again";

/// An IDX file, unpacked on the way, of which only as much is read as somebody asks for.
pub(super) struct Stream<'a> {
    content: Box<dyn Read + 'a>,
    name: &'a str,
    /// The first four bytes, or fewer if there are no more.
    magic: Vec<u8>,
    /// What the content cannot be longer than, if anything is known.
    at_most: Option<u64>,
    dims: Vec<usize>,
    what: &'static str,
    /// The bytes that the header promises, and how many of them have been read.
    expected: u64,
    done: u64,
}

impl<'a> Stream<'a> {
    fn of_bytes(bytes: &'a [u8], name: &'a str) -> Result<Self, DataError> {
        Self::open(bytes, Some(bytes.len() as u64), name)
    }

    /// Begins to read `source`, of `length` bytes if that is known; `name` is used in messages.
    pub fn open(mut source: impl Read + 'a, length: Option<u64>, name: &'a str) -> Result<Self, DataError> {
        let mut magic = Vec::new();
        source.by_ref().take(4).read_to_end(&mut magic).map_err(|e| broken(name, &e))?;
        let mut content: Box<dyn Read + 'a> = Box::new(source);
        let mut at_most = length;
        if magic.starts_with(&GZIP) {
            content = Box::new(MultiGzDecoder::new(Cursor::new(magic).chain(content)));
            at_most = length.map(|l| l.saturating_mul(MOST_GROWTH));
            magic = Vec::new();
            content.by_ref().take(4).read_to_end(&mut magic).map_err(|e| broken(name, &e))?;
        }
        Ok(Stream { content, name, magic, at_most, dims: Vec::new(), what: "", expected: 0, done: 0 })
    }

    /// Whether it begins as IDX files do.
    pub fn is_idx(&self) -> bool {
        self.magic.starts_with(&[0, 0])
    }

    /// The number of dimensions, if it is an IDX file.
    pub fn rank(&self) -> usize {
        self.magic.get(3).copied().unwrap_or_default().into()
    }

    /// Reads the dimensions of what is said to be there, before anything else.
    pub fn dims<const D: usize>(&mut self, what: &'static str) -> Result<[usize; D], DataError> {
        let Ok(magic) = <[u8; 4]>::try_from(&self.magic[..]) else {
            return Err(bad(self.name, "ends too early", AGAIN));
        };
        if magic != [0, 0, 8, D as u8] {
            let problem = format!(
                "is not an IDX file of {what}: it begins with {magic:02x?}, not [00, 00, 08, {:02x}]",
                D as u8
            );
            return Err(bad(
                self.name,
                &problem,
                "give an IDX file of unsigned bytes, such as those of MNIST",
            ));
        }
        let mut dims = [0usize; D];
        let mut expected = Some(1u64);
        for dim in &mut dims {
            let mut word = [0; 4];
            self.content.read_exact(&mut word).map_err(|e| broken(self.name, &e))?;
            let value = u32::from_be_bytes(word);
            *dim = value as usize;
            expected = expected.and_then(|e| e.checked_mul(u64::from(value)));
        }
        // Before anything is allocated: a header may promise what no file of this length can hold.
        let Some(expected) = expected.filter(|e| self.at_most.is_none_or(|most| *e <= most)) else {
            let problem = format!("is too short for the {dims:?} {what} that its header promises");
            return Err(bad(self.name, &problem, AGAIN));
        };
        (self.dims, self.what, self.expected) = (dims.to_vec(), what, expected);
        Ok(dims)
    }

    /// Reads the next `count` bytes into `out`, in place of what is there.
    pub fn next(&mut self, count: usize, out: &mut Vec<u8>) -> Result<(), DataError> {
        out.clear();
        let read = self.content.by_ref().take(count as u64).read_to_end(out);
        self.done += read.map_err(|e| broken(self.name, &e))? as u64;
        if out.len() < count {
            let problem =
                format!("holds {} of the {} bytes that its header promises", self.done, self.expected);
            return Err(bad(self.name, &problem, AGAIN));
        }
        Ok(())
    }

    /// Expects that nothing follows once all has been read that the header promises.
    pub fn end(&mut self) -> Result<(), DataError> {
        let more =
            self.done == self.expected && self.content.read(&mut [0]).map_err(|e| broken(self.name, &e))? > 0;
        if more {
            let problem = format!("goes on after the {:?} {} of its header", self.dims, self.what);
            return Err(bad(self.name, &problem, AGAIN));
        }
        Ok(())
    }

    /// All bytes after the header, if there is memory for them.
    fn all(&mut self) -> Result<Vec<u8>, DataError> {
        let what = format!("{:?} {}", self.dims, self.what);
        room_for(self.expected.into(), self.name, &what, "give a smaller file")?;
        let mut out = Vec::new();
        self.next(self.expected as usize, &mut out)?;
        self.end()?;
        Ok(out)
    }

    /// What is said of a file without a single pixel.
    pub fn without_pixels(&self) -> DataError {
        bad(self.name, "holds no pixels", "give a file with at least one image")
    }
}

fn bad(name: &str, problem: &str, remedy: &str) -> DataError {
    DataError(format!("{name} {problem}; {remedy}"))
}

fn broken(name: &str, error: &std::io::Error) -> DataError {
    match error.kind() {
        std::io::ErrorKind::UnexpectedEof => bad(name, "ends too early", AGAIN),
        _ if error.raw_os_error().is_some() => {
            bad(name, &format!("cannot be read ({error})"), "check the file")
        }
        _ => bad(name, &format!("cannot be decompressed ({error})"), AGAIN),
    }
}

/// Whether bytes begin like an IDX file, compressed or not; what cannot be unpacked may be one.
pub fn looks_like_idx(bytes: &[u8]) -> bool {
    match Stream::of_bytes(bytes, "") {
        Ok(stream) => stream.is_idx(),
        Err(_) => true,
    }
}

/// Which images become a task, and how they are split.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskOptions {
    /// The labels that are kept; they become classes 0, 1, ... in this order.
    pub classes: Vec<u8>,
    /// How many images are drawn from those; all of them if `None`.
    pub subsample: Option<usize>,
    /// The seed of that draw.
    pub seed: u32,
    /// The fraction of the images to test on.
    pub test_fraction: f64,
    /// The seed of the split.
    pub split_seed: u32,
}

impl Default for TaskOptions {
    /// The task of Sec. 3.2: a thousand 4s and 9s, 800 of them to train on.
    fn default() -> Self {
        TaskOptions { classes: vec![4, 9], subsample: Some(1000), seed: 0, test_fraction: 0.2, split_seed: 0 }
    }
}

/// Images as standardised features with their classes, split into two parts.
#[derive(Clone, Debug, PartialEq)]
pub struct ImageTask {
    /// Row after row, a column per pixel.
    pub features: Vec<f64>,
    /// The class of each row.
    pub labels: Vec<u8>,
    /// The number of pixels of an image.
    pub inputs: usize,
    /// The number of classes.
    pub classes: usize,
    /// Which images of the file the rows are.
    pub images: Vec<usize>,
    /// What was subtracted from each pixel; 0 where it does not vary.
    pub mean: Vec<f64>,
    /// What each pixel was then divided by; 1 where it does not vary.
    pub std: Vec<f64>,
    /// The rows to train and to test on.
    pub split: Split,
}

impl ImageTask {
    /// Draws, standardises (ddof 0, over all rows drawn, pixels that vary only) and splits.
    pub fn new(images: &Images, labels: &[u8], options: &TaskOptions) -> Result<Self, DataError> {
        if labels.len() != images.count {
            return Err(DataError(format!(
                "there are {} images but {} labels; give the two files of one set",
                images.count,
                labels.len()
            )));
        }
        let class = |label: u8| options.classes.iter().position(|c| *c == label);
        if options.classes.len() < 2
            || (1..options.classes.len()).any(|i| class(options.classes[i]) != Some(i))
        {
            return Err(DataError(format!(
                "the classes {:?} are not two or more different labels; choose labels such as 4 and 9",
                options.classes
            )));
        }
        let mut chosen: Vec<usize> = (0..labels.len()).filter(|i| class(labels[*i]).is_some()).collect();
        if let Some(absent) = options.classes.iter().find(|c| !labels.contains(c)) {
            return Err(DataError(format!("no image has the label {absent}; choose labels that occur")));
        }
        if let Some(wanted) = options.subsample {
            if wanted == 0 || wanted > chosen.len() {
                return Err(DataError(format!(
                    "cannot draw {wanted} of the {} images with labels {:?}; choose a number from 1 to {0}",
                    chosen.len(),
                    options.classes,
                )));
            }
            let order = permutation(chosen.len(), options.seed);
            chosen = order[chosen.len() - wanted..].iter().map(|i| chosen[*i]).collect();
        }
        let inputs = images.height * images.width;
        let values = chosen.len() as u128 * inputs as u128;
        let what = format!("{} images of {inputs} pixels", chosen.len());
        room_for(8 * values, "the task", &what, "draw fewer of them with `subsample`")?;
        let pixels = |i: usize| &images.pixels[i * inputs..(i + 1) * inputs];
        let mut features: Vec<f64> = chosen.iter().flat_map(|i| pixels(*i)).map(|p| f64::from(*p)).collect();
        let (mean, std) = standardise(&mut features, inputs);
        Ok(ImageTask {
            features,
            labels: chosen.iter().filter_map(|i| class(labels[*i])).map(|c| c as u8).collect(),
            inputs,
            classes: options.classes.len(),
            split: train_test_split(chosen.len(), options.test_fraction, options.split_seed)?,
            images: chosen,
            mean,
            std,
        })
    }

    /// The task on the embedded MNIST images.
    pub fn mnist(options: &TaskOptions) -> Result<Self, DataError> {
        let images = read_images(mnist::IMAGES, mnist::NAMES[0])?;
        ImageTask::new(&images, &read_labels(mnist::LABELS, mnist::NAMES[1])?, options)
    }
}

/// Pixels that do not vary stay as they are: [`super::Moments`] refuses them, images are full of them.
fn standardise(features: &mut [f64], inputs: usize) -> (Vec<f64>, Vec<f64>) {
    let n = (features.len() / inputs) as f64;
    let (mut mean, mut std) = (vec![0.0; inputs], vec![0.0; inputs]);
    for row in features.chunks_exact(inputs) {
        mean.iter_mut().zip(row).for_each(|(m, f)| *m += f);
    }
    mean.iter_mut().for_each(|m| *m /= n);
    for row in features.chunks_exact(inputs) {
        for ((s, f), m) in std.iter_mut().zip(row).zip(&mean) {
            *s += (f - m) * (f - m);
        }
    }
    for (m, s) in mean.iter_mut().zip(&mut std) {
        *s = (*s / n).sqrt();
        if *s == 0.0 {
            (*m, *s) = (0.0, 1.0);
        }
    }
    for row in features.chunks_exact_mut(inputs) {
        for ((f, m), s) in row.iter_mut().zip(&mean).zip(&std) {
            *f = (*f - m) / s;
        }
    }
    (mean, std)
}
