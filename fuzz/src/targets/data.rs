//! Readers of data.

use std::io::Write;

use motes_models::data::{self, DataError, ImageSet, Moments, Table};

use super::texts::{FOREIGN, is_a_sentence};
use crate::{Dice, Scratch, Target, mutate};

/// Tables.
pub const CSV: Target =
    Target { name: "csv", seeds: tables, mutate: damage_table, read: read_table, cases: 30_000 };

fn tables() -> Vec<Vec<u8>> {
    [
        "id,\"x, y\",y\n1,2.5,0\n2,?,1\n3,\"4\",NA\n\n4,1e3,1\n5,-2,0\n",
        "a,b,c\r\n1,2,x\r\n2,3,y\r\n5,8,x\r\n",
        "\u{feff}größe,y\n1.5,ja\n2.5,nein\n3,ja\n",
        "y\n1\n2\n4\n",
    ]
    .map(|text| text.as_bytes().to_vec())
    .into()
}

fn damage_table(seed: Vec<u8>, dice: &mut Dice) -> Vec<u8> {
    let pieces: [&[u8]; 17] = [
        FOREIGN,
        b"\"",
        b",",
        b"\n",
        b"\r",
        b"\r\n",
        b"\xff",
        b"nan",
        b"1e999",
        b"\"\"",
        b";",
        b"\t",
        b"\0",
        b"\x1b[2J",
        b"\x1f\x8b",
        b"\0\0\x08\x03",
        b"1e308",
    ];
    mutate::bytes(seed, dice, &pieces)
}

fn read_table(bytes: &[u8], _: &Scratch) -> bool {
    match data::read_table(bytes, "fuzzed.csv") {
        Ok(table) => use_table(&table),
        Err(e) => {
            is_a_sentence(&e.to_string());
            return false;
        }
    }
    true
}

/// All that is done with tables.
fn use_table(table: &Table) {
    let said = |problem: Option<DataError>| problem.iter().for_each(|e| is_a_sentence(&e.to_string()));
    let notes = &mut Vec::new();
    said(data::column(table, None, notes).err());
    for target in table.names() {
        said(data::column(table, Some(target), notes).err());
        let all = data::labelled(table, Some(target), &[], &[], data::MOST_CLASSES);
        if let Ok(all) = &all
            && let Ok(coding) = data::Coding::learn(&all.frame, &all.rows, &[], false, notes)
        {
            said(data::labelled_like(table, &coding, target, &all.classes).err());
            said(data::features(table, &coding, data::Unknown::Refuse, notes).err());
        }
        said(all.err());
        let names = std::slice::from_ref(target);
        said(data::labelled(table, Some(target), names, names, data::MOST_CLASSES).err());
        if let Ok(all) = data::classification(table, Some(target), &[]) {
            let _ = data::train_test_split(all.rows(), 0.3, 1);
            let moments = Moments::of(&all.features, &all.feature_names);
            if let Err(e) = &moments {
                is_a_sentence(&e.to_string());
            }
            if let Ok(moments) = moments {
                let mut features = all.features.clone();
                moments.apply(&mut features);
                assert!(
                    features.iter().all(|v| v.is_finite() && v.abs() < 1e6),
                    "standardised to {features:?}"
                );
            }
        }
    }
}

/// Images and labels in the IDX format, packed or not.
pub const IDX: Target =
    Target { name: "idx", seeds: idx_files, mutate: damage_idx, read: read_idx, cases: 20_000 };

fn idx(dims: &[u32], content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 0, 8, dims.len() as u8];
    dims.iter().for_each(|d| bytes.extend(d.to_be_bytes()));
    bytes.extend(content);
    bytes
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(bytes).expect("writing to memory");
    out.finish().expect("writing to memory")
}

fn idx_files() -> Vec<Vec<u8>> {
    let pixels: Vec<u8> = (0..3 * 64).map(|i| (i * i % 251) as u8).collect();
    let (grey, labels) = (idx(&[3, 8, 8], &pixels), idx(&[12], &pixels[..12]));
    let coloured = idx(&[1, 3, 8, 8], &pixels);
    vec![gzip(&grey), gzip(&labels), grey, labels, coloured]
}

fn damage_idx(seed: Vec<u8>, dice: &mut Dice) -> Vec<u8> {
    let pieces: [&[u8]; 8] = [
        b"\xff\xff\xff\xff",
        b"\0\0\0\0",
        b"\x7f\xff\xff\xff",
        b"\x1f\x8b",
        b"\0\0\x08\x03",
        b"\0\0\x0d\x04",
        b"\x01",
        b"\0\x01\0\0",
    ];
    // What is packed is damaged inside, too.
    if seed.starts_with(b"\x1f\x8b") && dice.below(2) == 0 {
        let mut inside = Vec::new();
        let unpacked = std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&seed[..]), &mut inside);
        unpacked.expect("a good file");
        return gzip(&mutate::bytes(inside, dice, &pieces));
    }
    mutate::bytes(seed, dice, &pieces)
}

fn read_idx(bytes: &[u8], _: &Scratch) -> bool {
    let images = data::read_images(bytes, "fuzzed");
    if let Ok(images) = &images {
        assert_eq!(images.pixels.len(), images.count * images.height * images.width);
    }
    let labels = data::read_labels(bytes, "fuzzed").is_ok() | data::first_labels(bytes, "fuzzed", 3).is_ok();
    let sets = [1, 3].map(|channels| ImageSet::from_idx(bytes, "fuzzed", channels, Some(1)).is_ok());
    images.is_ok() || labels || sets.contains(&true)
}

/// Pictures.
pub const IMAGES: Target =
    Target { name: "images", seeds: pictures, mutate: damage_picture, read: read_picture, cases: 3_000 };

fn pictures() -> Vec<Vec<u8>> {
    let of = |side: u32, colour: png::ColorType, bytes: usize| {
        let mut out = Vec::new();
        let mut encoder = png::Encoder::new(&mut out, side, side);
        encoder.set_color(colour);
        let pixels: Vec<u8> = (0..side as usize * side as usize * bytes).map(|i| (i % 251) as u8).collect();
        encoder.write_header().and_then(|mut w| w.write_image_data(&pixels)).expect("writing to memory");
        out
    };
    vec![of(8, png::ColorType::Grayscale, 1), of(9, png::ColorType::Rgb, 3), of(5, png::ColorType::Rgba, 4)]
}

fn damage_picture(seed: Vec<u8>, dice: &mut Dice) -> Vec<u8> {
    let pieces: [&[u8]; 7] =
        [b"\xff\xff\xff\xff", b"\0\0\x56\0", b"IDAT", b"PLTE", b"tRNS", b"\xff\xd8\xff", b"\x10"];
    let mut bytes = mutate::bytes(seed, dice, &pieces);
    // Otherwise no damage of the header is ever looked at.
    if bytes.len() > 33 && dice.below(2) == 0 {
        let sum = crc32fast::hash(&bytes[12..29]);
        bytes[29..33].copy_from_slice(&sum.to_be_bytes());
    }
    bytes
}

fn read_picture(bytes: &[u8], scratch: &Scratch) -> bool {
    scratch.write("picture.png", bytes);
    ImageSet::read(&scratch.path("picture.png"), 3, None, &|_, _| {}).is_ok()
}
