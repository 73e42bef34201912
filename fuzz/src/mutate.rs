//! Ways to damage a file.

use serde_json::Value;

use crate::Dice;

/// Numbers that readers trip over.
pub const NUMBERS: &[&str] = &[
    "0",
    "-1",
    "1",
    "2",
    "-0.0",
    "0.5",
    "255",
    "256",
    "65536",
    "2147483648",
    "4294967296",
    "9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "100000000000000000",
    "1e17",
    "1e300",
    "-1e300",
    "1e999",
    "1e-320",
    "nan",
    "inf",
    "-inf",
    "null",
];

/// Changes some bytes: flips, cuts, repeats, inserts pieces that mean something to a reader, replaces numbers.
pub fn bytes(mut bytes: Vec<u8>, dice: &mut Dice, pieces: &[&[u8]]) -> Vec<u8> {
    for _ in 0..1 + dice.below(4) {
        let at = dice.below(bytes.len() as u64 + 1) as usize;
        let length = *dice.of_these(&[1, 2, 20]);
        let to = (at + dice.below(length) as usize).min(bytes.len());
        match dice.below(8) {
            0 if at < bytes.len() => bytes[at] ^= 1 << dice.below(8),
            1 => bytes.truncate(at),
            2 => drop(bytes.drain(at..to)),
            3 => {
                let part = bytes[at..to].to_vec();
                bytes.splice(at..at, part);
            }
            4 | 5 if !pieces.is_empty() => {
                let piece = *dice.of_these(pieces);
                bytes.splice(at..to, piece.iter().copied());
            }
            6 => number(&mut bytes, at, dice),
            _ if at < bytes.len() => bytes[at] = dice.below(256) as u8,
            _ => bytes.push(dice.below(256) as u8),
        }
    }
    bytes
}

/// Replaces the next number in a text by another.
fn number(bytes: &mut Vec<u8>, from: usize, dice: &mut Dice) {
    let Some(start) = bytes[from..].iter().position(u8::is_ascii_digit).map(|i| from + i) else { return };
    let digits = bytes[start..].iter().take_while(|b| b.is_ascii_digit() || **b == b'.').count();
    bytes.splice(start..start + digits, dice.of_these(NUMBERS).bytes());
}

/// Changes some values of a JSON text, which stays one; sometimes its bytes too.
pub fn json(text: Vec<u8>, dice: &mut Dice, pieces: &[&[u8]]) -> Vec<u8> {
    let Ok(mut value) = serde_json::from_slice::<Value>(&text) else { return bytes(text, dice, pieces) };
    for _ in 0..1 + dice.below(3) {
        deep(&mut value, dice);
    }
    let text = value.to_string().into_bytes();
    if dice.below(8) == 0 { bytes(text, dice, pieces) } else { text }
}

/// Changes a value, or one somewhere inside it.
fn deep(value: &mut Value, dice: &mut Dice) {
    let stop = dice.below(6) == 0;
    match value {
        Value::Object(map) if !map.is_empty() && !stop => {
            let nth = dice.below(map.len() as u64) as usize;
            deep(map.values_mut().nth(nth).expect("there are as many"), dice);
        }
        Value::Array(list) if !list.is_empty() && !stop => {
            let nth = dice.below(list.len() as u64) as usize;
            deep(&mut list[nth], dice);
        }
        value => change(value, dice),
    }
}

fn change(value: &mut Value, dice: &mut Dice) {
    match value {
        Value::Array(list) if !list.is_empty() && dice.below(4) > 0 => match dice.below(4) {
            0 => drop(list.pop()),
            1 => {
                let again = list[0].clone();
                list.push(again);
            }
            2 => list.reverse(),
            _ => list.clear(),
        },
        Value::Object(map) if !map.is_empty() && dice.below(4) > 0 => {
            let nth = dice.below(map.len() as u64) as usize;
            let key = map.keys().nth(nth).expect("there are as many").clone();
            map.remove(&key);
        }
        Value::Number(n) if dice.below(3) == 0 => {
            *value = n.as_f64().map_or(Value::Null, |v| (-v).into());
        }
        value => {
            let text = match dice.below(8) {
                0 => "[]".into(),
                1 => "{}".into(),
                2 => "\"\"".into(),
                3 => "\"\\u001b[2J\\n\"".into(),
                4 => "true".into(),
                _ => dice.of_these(NUMBERS).to_string(),
            };
            *value = serde_json::from_str(&text).unwrap_or(Value::Null);
        }
    }
}
