//! The particles of posterior.npz, column by column.
//!
//! Clouds of 64 MB are read in a few milliseconds more than the disk needs: rows stream through a small buffer, and only
//! the coordinates that are shown are kept. (`motes::npz` reads whole arrays, which suits predictions.)

use std::io::{Read, Seek, SeekFrom};

use motes::npz::{Header, parse_strings};
use zip::ZipArchive;
use zip::read::ZipFile;

/// So many values are enough for any picture; of larger clouds every n-th particle is taken.
pub const MOST: usize = 2_000_000;
/// Bytes read at a time.
const BUFFER: usize = 1 << 17;

/// An open archive, and how many bytes it has.
pub struct Archive<R>(ZipArchive<R>, u64);

/// Some coordinates of all (or every n-th) particles.
pub struct Columns {
    /// Particles taken.
    pub particles: usize,
    /// Particles there are.
    pub of_particles: usize,
    values: Vec<f64>,
}

impl Columns {
    /// The values of the i-th coordinate that was asked for.
    pub fn get(&self, i: usize) -> &[f64] {
        &self.values[i * self.particles..][..self.particles]
    }
}

impl<R: Read + Seek> Archive<R> {
    pub fn open(mut reader: R) -> Result<Self, String> {
        let length = reader.seek(SeekFrom::End(0)).map_err(|e| format!("cannot be read ({e})"))?;
        let archive = ZipArchive::new(reader).map_err(|e| format!("is not an npz archive ({e})"))?;
        Ok(Archive(archive, length))
    }

    /// An array of numbers whose values are all there: nothing is allocated for what a header merely promises. `None`
    /// if there is no such array.
    fn numbers(&mut self, name: &str) -> Result<Option<(ZipFile<'_, R>, Header, bool)>, String> {
        let mut entry = match self.0.by_name(&format!("{name}.npy")) {
            Ok(entry) => entry,
            Err(zip::result::ZipError::FileNotFound) => return Ok(None),
            Err(e) => return Err(e.to_string()),
        };
        let there = entry.size().min(entry.compressed_size()).min(self.1);
        let mut counted = Counted { inner: &mut entry, bytes: 0 };
        let header = Header::read(&mut counted)?;
        let wide = header.is_wide()?;
        let values = (header.count() as u64).checked_mul(if wide { 8 } else { 4 });
        if values.and_then(|values| values.checked_add(counted.bytes)) != Some(there) {
            return Err("wrong length".into());
        }
        Ok(Some((entry, header, wide)))
    }

    /// The shape of an array; `None` if there is no such array or nothing in it.
    pub fn shape(&mut self, name: &str) -> Result<Option<Vec<usize>>, String> {
        let found = self.numbers(name).map_err(|what| format!("has a damaged array '{name}' ({what})"))?;
        Ok(found.map(|(_, header, _)| header.shape).filter(|s| s.iter().product::<usize>() > 0))
    }

    /// A vector, or a matrix row by row, if it is there.
    pub fn vector(&mut self, name: &str) -> Result<Option<Vec<f64>>, String> {
        let Some(shape) = self.shape(name)? else { return Ok(None) };
        match shape[..] {
            [_] => self.columns(name, &[0]).map(|c| Some(c.values)),
            [rows, d] => {
                let columns = self.columns(name, &(0..d).collect::<Vec<_>>())?;
                let whole = columns.particles == rows;
                Ok(whole.then(|| (0..rows * d).map(|i| columns.get(i % d)[i / d]).collect()))
            }
            _ => Ok(None),
        }
    }

    /// An array of text, if it is there.
    pub fn strings(&mut self, name: &str) -> Result<Option<Vec<String>>, String> {
        let damaged = |what: String| format!("has a damaged array '{name}' ({what})");
        let mut bytes = Vec::new();
        match self.0.by_name(&format!("{name}.npy")) {
            Ok(mut entry) => entry.read_to_end(&mut bytes).map_err(|e| damaged(e.to_string()))?,
            Err(zip::result::ZipError::FileNotFound) => return Ok(None),
            Err(e) => return Err(damaged(e.to_string())),
        };
        parse_strings(&bytes).map(Some).map_err(damaged)
    }

    /// Columns of a matrix, in the order asked for; a vector is one column.
    pub fn columns(&mut self, name: &str, wanted: &[usize]) -> Result<Columns, String> {
        let damaged = |what: String| format!("has a damaged array '{name}' ({what})");
        let found = self.numbers(name).map_err(damaged)?;
        let (mut entry, header, wide) = found.ok_or_else(|| damaged("it is not there".into()))?;
        let (rows, d) = match header.shape[..] {
            [rows] => (rows, 1),
            // Groups and their coordinates are one row of numbers.
            [rows, ref axes @ ..] => (rows, width(axes)),
            _ => return Err(damaged("not a matrix".into())),
        };
        if wanted.iter().any(|i| *i >= d) {
            return Err(damaged(format!("{d} coordinates are too few")));
        }
        let every = (rows.saturating_mul(wanted.len())).div_ceil(MOST).max(1);
        let particles = rows.div_ceil(every);
        let size = if wide { 8 } else { 4 };
        let together = (BUFFER / (d * size).max(1)).clamp(1, rows.max(1));
        let mut bytes = vec![0; together * d * size];
        let mut values = vec![0.0; particles * wanted.len()];
        for first in (0..rows).step_by(together) {
            let count = together.min(rows - first);
            let chunk = &mut bytes[..count * d * size];
            entry.read_exact(chunk).map_err(|e| damaged(e.to_string()))?;
            let start = first.next_multiple_of(every);
            if start >= first + count || particles == 0 {
                continue;
            }
            for (column, i) in values.chunks_exact_mut(particles).zip(wanted) {
                let taken = chunk[(start - first) * d * size + i * size..].chunks(d * size * every);
                for (to, from) in column[start / every..].iter_mut().zip(taken) {
                    *to = if wide {
                        f64::from_le_bytes(from[..8].try_into().expect("8 bytes"))
                    } else {
                        f64::from(f32::from_le_bytes(from[..4].try_into().expect("4 bytes")))
                    };
                }
            }
        }
        // The checksum is compared at the end of the entry.
        match entry.read(&mut [0]) {
            Ok(0) => Ok(Columns { particles, of_particles: rows, values }),
            Ok(_) => Err(damaged("wrong length".into())),
            Err(e) => Err(damaged(e.to_string())),
        }
    }
}

/// Counts what is read.
struct Counted<R> {
    inner: R,
    bytes: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let read = self.inner.read(out)?;
        self.bytes += read as u64;
        Ok(read)
    }
}

/// How many numbers there are in a row of these axes.
pub fn width(axes: &[usize]) -> usize {
    axes.iter().fold(1, |d, n| d.saturating_mul(*n))
}

#[cfg(test)]
mod tests {
    use super::*;
    use motes::npz::NpzWriter;
    use std::io::Cursor;

    fn archive(write: impl FnOnce(&mut NpzWriter<&mut Cursor<Vec<u8>>>)) -> Cursor<Vec<u8>> {
        let mut file = Cursor::new(Vec::new());
        let mut npz = NpzWriter::new(&mut file);
        write(&mut npz);
        npz.finish().unwrap();
        file
    }

    #[test]
    fn columns_are_those_of_the_matrix() {
        let (rows, d) = (5003, 7);
        let values: Vec<f32> = (0..rows * d).map(|i| i as f32).collect();
        let file = archive(|npz| {
            npz.array("clouds", &[rows, d], &values).unwrap();
            npz.array("mean", &[d], &vec![0.5f64; d]).unwrap();
            npz.array("none", &[0, d], &[0f64; 0]).unwrap();
        });
        let mut archive = Archive::open(file).unwrap();
        let columns = archive.columns("clouds", &[6, 2]).unwrap();
        assert_eq!(columns.particles, rows);
        for (i, column) in [6, 2].into_iter().enumerate() {
            let want: Vec<f64> = (0..rows).map(|r| (r * d + column) as f64).collect();
            assert_eq!(columns.get(i), want);
        }
        assert_eq!(archive.shape("clouds").unwrap(), Some(vec![rows, d]));
        assert_eq!(archive.shape("none").unwrap(), None);
        assert_eq!(archive.shape("other").unwrap(), None);
        assert!(archive.columns("clouds", &[7]).is_err());
        assert_eq!(archive.vector("mean").unwrap(), Some(vec![0.5; d]));
        let all: Vec<f64> = (0..rows * d).map(|i| i as f64).collect();
        assert_eq!(archive.vector("clouds").unwrap(), Some(all));
    }

    #[test]
    fn every_nth_particle_of_a_large_cloud_is_taken() {
        let (rows, d) = (3000, 1000);
        let values: Vec<f32> = (0..rows * d).map(|i| (i / d) as f32).collect();
        let file = archive(|npz| npz.array("clouds", &[rows, d], &values).unwrap());
        let all: Vec<usize> = (0..d).collect();
        let columns = Archive::open(file).unwrap().columns("clouds", &all).unwrap();
        assert_eq!((columns.particles, columns.of_particles), (1500, 3000));
        let want: Vec<f64> = (0..1500).map(|i| 2.0 * f64::from(i)).collect();
        assert!(columns.get(0) == want && columns.get(999) == want);
    }

    #[test]
    fn shapes_are_compared_with_the_bytes_there_are() {
        for shape in [&[1, 100_000_000_000_000_000][..], &[1 << 40, 2], &[201], &[99, 2], &[1 << 50]] {
            let file = archive(|npz| {
                npz.begin::<f64>("clouds", shape).unwrap();
                npz.values(&[1f64; 200]).unwrap();
            });
            let mut archive = Archive::open(file).unwrap();
            for refused in [
                archive.shape("clouds").map(drop),
                archive.columns("clouds", &[0]).map(drop),
                archive.vector("clouds").map(drop),
            ] {
                assert_eq!(refused.unwrap_err(), "has a damaged array 'clouds' (wrong length)", "{shape:?}");
            }
        }
    }

    #[test]
    fn damage_is_noticed() {
        let mut file = archive(|npz| npz.array("clouds", &[100, 2], &[1f64; 200]).unwrap());
        let middle = file.get_ref().len() / 3;
        file.get_mut()[middle] ^= 1;
        assert!(Archive::open(file).and_then(|mut a| a.columns("clouds", &[0])).is_err());
        assert!(Archive::open(Cursor::new(b"PK".to_vec())).is_err());
    }
}
