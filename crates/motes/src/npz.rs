//! NumPy's .npz: a zip of .npy arrays, stored without compression and with fixed dates, so that equal runs give equal files.
//!
//! Own code for the few header bytes: the crates made for it bring compressors (some in C) that nothing here uses.

use std::io::{Read, Seek, SeekFrom, Write};

use zip::result::ZipError;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipArchive, ZipWriter};

use crate::Real;
use crate::sentence::foreign;

/// Writes arrays one after the other.
pub struct NpzWriter<W: Write + Seek>(ZipWriter<FirstError<W>>);

/// Reports the first failure and swallows everything after it: a zip writer that is dropped after an error tries to
/// finish the archive, and prints that it could not.
struct FirstError<W> {
    inner: W,
    failed: bool,
    /// Where the writer is, and how far it has been, as long as it only pretends.
    at: u64,
    end: u64,
}

impl<W> FirstError<W> {
    fn report<T>(&mut self, result: std::io::Result<T>) -> std::io::Result<T> {
        self.failed |= result.as_ref().is_err_and(|e| e.kind() != std::io::ErrorKind::Interrupted);
        result
    }

    fn move_to(&mut self, at: u64) -> u64 {
        (self.at, self.end) = (at, self.end.max(at));
        at
    }
}

impl<W: Write> Write for FirstError<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = if self.failed { Ok(bytes.len()) } else { self.inner.write(bytes) };
        let written = self.report(written)?;
        self.move_to(self.at + written as u64);
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        let flushed = if self.failed { Ok(()) } else { self.inner.flush() };
        self.report(flushed)
    }
}

impl<W: Seek> Seek for FirstError<W> {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        let pretended = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
            SeekFrom::End(by) => self.end.checked_add_signed(by),
        };
        let at = if self.failed { Ok(pretended.unwrap_or(self.at)) } else { self.inner.seek(to) };
        let at = self.report(at)?;
        Ok(self.move_to(at))
    }
}

impl<W: Write + Seek> NpzWriter<W> {
    /// An archive with nothing in it yet.
    pub fn new(writer: W) -> Self {
        NpzWriter(ZipWriter::new(FirstError { inner: writer, failed: false, at: 0, end: 0 }))
    }

    /// Opens the next array; its values follow by [`NpzWriter::values`].
    pub fn begin<T: Real>(&mut self, name: &str, shape: &[usize]) -> std::io::Result<()> {
        self.begin_type(name, T::NUMPY, size_of::<T>(), shape)
    }

    /// A whole array of unsigned integers.
    pub fn integers(&mut self, name: &str, values: &[u64]) -> std::io::Result<()> {
        self.begin_type(name, "<u8", 8, &[values.len()])?;
        self.0.write_all(bytemuck::cast_slice(values))
    }

    /// A whole array of text, as NumPy's `str_` of the longest.
    pub fn strings(&mut self, name: &str, values: &[String]) -> std::io::Result<()> {
        let width = values.iter().map(|v| v.chars().count()).max().unwrap_or(0).max(1);
        self.begin_type(name, &format!("<U{width}"), 4 * width, &[values.len()])?;
        let mut field = vec![0; 4 * width];
        for value in values {
            field.fill(0);
            for (place, c) in field.chunks_exact_mut(4).zip(value.chars()) {
                place.copy_from_slice(&u32::from(c).to_le_bytes());
            }
            self.0.write_all(&field)?;
        }
        Ok(())
    }

    fn begin_type(&mut self, name: &str, code: &str, size: usize, shape: &[usize]) -> std::io::Result<()> {
        let count: usize = shape.iter().product();
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Stored)
            .last_modified_time(DateTime::default())
            .large_file(count * size >= u32::MAX as usize - 4096);
        self.0.start_file(format!("{name}.npy"), options).map_err(io_error)?;
        npy_header(&mut self.0, code, shape)
    }

    /// Values of the array opened last.
    pub fn values<T: Real>(&mut self, values: &[T]) -> std::io::Result<()> {
        self.0.write_all(bytemuck::cast_slice(values))
    }

    /// A whole array.
    pub fn array<T: Real>(&mut self, name: &str, shape: &[usize], values: &[T]) -> std::io::Result<()> {
        debug_assert_eq!(shape.iter().product::<usize>(), values.len());
        self.begin::<T>(name, shape)?;
        self.values(values)
    }

    /// Writes the archive's directory.
    pub fn finish(self) -> std::io::Result<()> {
        self.0.finish().map(drop).map_err(io_error)
    }
}

fn npy_header(out: &mut impl Write, code: &str, shape: &[usize]) -> std::io::Result<()> {
    let dims: Vec<String> = shape.iter().map(|n| format!("{n},")).collect();
    let dict = format!("{{'descr': '{code}', 'fortran_order': False, 'shape': ({}), }}", dims.join(" "));
    // Magic, version and length take 10 bytes; the values start at a multiple of 64.
    let length = (10 + dict.len() + 1).next_multiple_of(64) - 10;
    out.write_all(b"\x93NUMPY\x01\x00")?;
    out.write_all(&(length as u16).to_le_bytes())?;
    writeln!(out, "{dict:<width$}", width = length - 1)
}

/// Writes one array as a .npy file.
pub fn write_npy<T: Real>(out: &mut impl Write, shape: &[usize], values: &[T]) -> std::io::Result<()> {
    debug_assert_eq!(shape.iter().product::<usize>(), values.len());
    npy_header(out, T::NUMPY, shape)?;
    out.write_all(bytemuck::cast_slice(values))
}

/// The system's own error, which knows its kind, where there is one.
fn io_error(error: ZipError) -> std::io::Error {
    match error {
        ZipError::Io(error) => error,
        other => std::io::Error::other(other),
    }
}

/// What stands before the values of an array in C order.
#[derive(Clone, Debug, PartialEq)]
pub struct Header {
    /// NumPy's code of its type, as `<f8`.
    pub code: String,
    /// Its dimensions.
    pub shape: Vec<usize>,
}

impl Header {
    /// Reads it; the values follow.
    pub fn read(reader: &mut impl Read) -> Result<Self, String> {
        let mut start = [0; 10];
        reader.read_exact(&mut start).map_err(|_| "no header")?;
        if &start[..8] != b"\x93NUMPY\x01\x00" {
            return Err("no header".into());
        }
        let mut text = vec![0; usize::from(u16::from_le_bytes([start[8], start[9]]))];
        reader.read_exact(&mut text).map_err(|_| "short header")?;
        let text = String::from_utf8(text).map_err(|_| "no text header")?;
        let between = |from: &str, to: char| Some(text.split_once(from)?.1.split_once(to)?.0);
        if !text.contains("'fortran_order': False") {
            return Err("not in C order".into());
        }
        let dims = between("'shape': (", ')').ok_or("no shape")?.split(',').map(str::trim);
        let shape: Option<Vec<usize>> = dims.filter(|d| !d.is_empty()).map(|d| d.parse().ok()).collect();
        let shape = shape.ok_or("no shape")?;
        // No type that is read here takes more than these bytes for a value, but for text, which is checked where it is read.
        shape.iter().try_fold(8usize, |p, n| p.checked_mul(*n)).ok_or("too large")?;
        Ok(Header { code: between("'descr': '", '\'').ok_or("no type")?.into(), shape })
    }

    /// How many values there are.
    pub fn count(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether values are f64 rather than f32; other types are refused.
    pub fn is_wide(&self) -> Result<bool, String> {
        match self.code.as_str() {
            "<f8" => Ok(true),
            "<f4" => Ok(false),
            _ => Err("neither f4 nor f8".into()),
        }
    }
}

/// Reads an array of text from the bytes of a .npy file.
pub fn parse_strings(mut bytes: &[u8]) -> Result<Vec<String>, String> {
    let header = Header::read(&mut bytes)?;
    let width = header.code.strip_prefix("<U").and_then(|w| w.parse::<usize>().ok()).ok_or("not text")?;
    let size = width.checked_mul(4).filter(|size| *size > 0).ok_or("not text")?;
    if header.count().checked_mul(size) != Some(bytes.len()) {
        return Err("wrong length".into());
    }
    let text = |field: &[u8]| -> Result<String, &'static str> {
        let codes = field.chunks_exact(4).map(|c| u32::from_le_bytes(c.try_into().expect("4 bytes")));
        codes.take_while(|c| *c != 0).map(|c| char::from_u32(c).ok_or("not text")).collect()
    };
    bytes.chunks_exact(size).map(|field| text(field).map_err(String::from)).collect()
}

/// An array read back, widened to f64.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Its dimensions.
    pub shape: Vec<usize>,
    /// Its values, row-major.
    pub values: Vec<f64>,
}

/// Reads one array of an archive that Motes (or NumPy, in C order) has written.
pub fn read_npz<R: Read + Seek>(reader: R, name: &str) -> Result<Array, String> {
    let mut archive = ZipArchive::new(reader).map_err(|e| format!("is not an npz archive ({e})"))?;
    let mut entry = archive
        .by_name(&format!("{name}.npy"))
        .map_err(|e| format!("has no array '{name}' ({})", foreign(e)))?;
    let mut bytes = Vec::new();
    entry.read_to_end(&mut bytes).map_err(|e| format!("has a damaged array '{name}' ({e})"))?;
    parse_npy(&bytes).map_err(|what| format!("has a damaged array '{name}' ({what})"))
}

/// Reads an array of floats from the bytes of a .npy file in C order.
pub fn parse_npy(mut bytes: &[u8]) -> Result<Array, String> {
    let header = Header::read(&mut bytes)?;
    let wide = header.is_wide()?;
    if header.count() * if wide { 8 } else { 4 } != bytes.len() {
        return Err("wrong length".into());
    }
    let values = if wide {
        bytes.chunks_exact(8).map(|b| f64::from_le_bytes(b.try_into().expect("8 bytes"))).collect()
    } else {
        let single = |b: &[u8]| f32::from_le_bytes(b.try_into().expect("4 bytes"));
        bytes.chunks_exact(4).map(|b| f64::from(single(b))).collect()
    };
    Ok(Array { shape: header.shape, values })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn arrays_come_back() {
        let mut file = std::io::Cursor::new(Vec::new());
        let mut npz = NpzWriter::new(&mut file);
        npz.array("a", &[2, 3], &[1.0f32, 2.0, 3.0, 4.0, 5.0, f32::MIN_POSITIVE]).unwrap();
        npz.array("b", &[0, 7], &[0f64; 0]).unwrap();
        npz.integers("k", &[1, 2]).unwrap();
        let names = ["x[0]", "", "größe", "🙂 , \"a\""].map(String::from);
        npz.strings("names", &names).unwrap();
        npz.strings("none", &[]).unwrap();
        npz.finish().unwrap();
        let a = read_npz(&mut file, "a").unwrap();
        assert_eq!(a.shape, [2, 3]);
        assert_eq!(a.values[5], f64::from(f32::MIN_POSITIVE));
        assert_eq!(read_npz(&mut file, "b").unwrap().shape, [0, 7]);
        assert!(read_npz(&mut file, "c").unwrap_err().contains("no array 'c'"));
        assert!(read_npz(&mut file, "k").is_err() && read_npz(&mut file, "names").is_err());
        let mut archive = ZipArchive::new(file).unwrap();
        let mut text = |name: &str| {
            let mut bytes = Vec::new();
            archive.by_name(&format!("{name}.npy")).unwrap().read_to_end(&mut bytes).unwrap();
            parse_strings(&bytes)
        };
        assert_eq!((text("names").unwrap(), text("none").unwrap()), (names.to_vec(), Vec::new()));
        assert!(text("a").is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = read_npz(std::io::Cursor::new(&bytes), "a");
            let mut npy = b"\x93NUMPY\x01\x00".to_vec();
            npy.extend(&bytes);
            let _ = (parse_npy(&npy), parse_strings(&npy));
        }

        #[test]
        fn any_header_text_is_refused_or_read(text in "[{}'(),:0-9a-zU<>_ ]{0,120}", tail in 0usize..64) {
            let mut npy = b"\x93NUMPY\x01\x00".to_vec();
            npy.extend((text.len() as u16).to_le_bytes());
            npy.extend(text.as_bytes());
            npy.extend(vec![0; tail]);
            let _ = (parse_npy(&npy), parse_strings(&npy));
        }
    }
}
