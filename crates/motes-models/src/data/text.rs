//! The text of a table, however it was packed and encoded.

use std::borrow::Cow;
use std::io::Read;

use flate2::read::MultiGzDecoder;
use motes::sentence::foreign;

use super::idx::GZIP;
use super::reading::room_for;
use super::{DataError, looks_like_idx};

/// What a file that is no table begins with, what it then is, and what to do.
const OTHERS: [(&[u8], &str, &str); 4] = [
    (
        b"PAR1",
        "a Parquet file",
        "build Motes with the cargo feature parquet, or write it as CSV: pandas.read_parquet(...).to_csv(..., index=False)",
    ),
    (b"PK\x03\x04", "a zip archive, as spreadsheets are", "save the sheet as CSV"),
    (b"\xd0\xcf\x11\xe0", "an old Excel file", "save the sheet as CSV"),
    (b"ARROW1", "an Arrow file", "write it as CSV"),
];

/// Bytes as text: unpacked, and in whatever encoding they are. What people would not expect is added to the notes.
pub(super) fn text<'a>(
    bytes: &'a [u8],
    name: &str,
    notes: &mut Vec<String>,
) -> Result<Cow<'a, str>, DataError> {
    let bytes = match bytes.starts_with(&GZIP) {
        true => Cow::Owned(unpacked(bytes, name)?),
        false => Cow::Borrowed(bytes),
    };
    #[cfg(feature = "parquet")]
    let bytes = match bytes.starts_with(super::parquet::MAGIC) {
        true => Cow::Owned(super::parquet::as_csv(&bytes, name, notes)?),
        false => bytes,
    };
    if let Some((_, what, remedy)) = OTHERS.iter().find(|(magic, ..)| bytes.starts_with(magic)) {
        return Err(DataError(format!("{name} is {what}; {remedy}")));
    }
    if looks_like_idx(&bytes) {
        return Err(DataError(format!("{name} begins like an IDX file of images; give a CSV file")));
    }
    if let Some(wide) = wide(&bytes) {
        return wide.map(Cow::Owned).ok_or_else(|| {
            DataError(format!("{name} begins like UTF-16 text but is not; save it as UTF-8"))
        });
    }
    let mark = if bytes.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
    if bytes.contains(&0) {
        return Err(DataError(format!("{name} is not text; give a CSV file")));
    }
    let valid = std::str::from_utf8(&bytes[mark..]).is_ok();
    if !valid {
        notes.push(format!("{name} is not UTF-8, so it is read as Latin-1"));
        return Ok(Cow::Owned(bytes[mark..].iter().map(|b| latin(*b)).collect()));
    }
    let checked = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap_or_default();
    Ok(match bytes {
        Cow::Borrowed(bytes) => Cow::Borrowed(std::str::from_utf8(&bytes[mark..]).unwrap_or_default()),
        Cow::Owned(mut bytes) => Cow::Owned(checked(bytes.split_off(mark))),
    })
}

fn unpacked(bytes: &[u8], name: &str) -> Result<Vec<u8>, DataError> {
    let mut out = Vec::new();
    let mut content = MultiGzDecoder::new(bytes);
    // A small file can unpack to more than there is memory for: look before each doubling.
    let mut next = (4 * bytes.len() as u64).max(1 << 20);
    loop {
        room_for(u128::from(next), name, "more text than that", "give a smaller file")?;
        let read = content.by_ref().take(next - out.len() as u64).read_to_end(&mut out);
        read.map_err(|e| DataError(format!("{name} cannot be unpacked ({}); make it again", foreign(e))))?;
        if (out.len() as u64) < next {
            return Ok(out);
        }
        next *= 2;
    }
}

/// The text of a file with UTF-16's mark, if it has that; `None` inside where it is not UTF-16 after all.
fn wide(bytes: &[u8]) -> Option<Option<String>> {
    let unit: fn([u8; 2]) -> u16 = match bytes {
        [0xff, 0xfe, ..] => u16::from_le_bytes,
        [0xfe, 0xff, ..] => u16::from_be_bytes,
        _ => return None,
    };
    let pairs = bytes[2..].chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return Some(None);
    }
    let units: Vec<u16> = pairs.map(|pair| unit([pair[0], pair[1]])).collect();
    Some(String::from_utf16(&units).ok().filter(|text| !text.contains('\0')))
}

/// Windows-1252, which is Latin-1 with letters where that has control characters.
fn latin(byte: u8) -> char {
    const FROM_80: [char; 32] = [
        '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž', '\u{8f}',
        '\u{90}', '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}', 'ž', 'Ÿ',
    ];
    match byte {
        0x80..=0x9f => FROM_80[usize::from(byte - 0x80)],
        byte => char::from(byte),
    }
}
