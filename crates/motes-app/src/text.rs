//! Config files as text: what the configs of all models share.

use std::path::{Component, Path, PathBuf};

use motes::printable::one_line;
use motes::sentence::{foreign, foreign_path};
use motes_models::data::read_file_of;
use motes_models::options::{Flag, Table};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use crate::Error;

/// Configs name columns at most, so none is anywhere near this long.
const LONGEST: u64 = 16 << 20;

/// The text of a config file.
pub fn read(path: &Path) -> Result<String, Error> {
    let bytes = read_file_of(path, "the config", LONGEST, "give the config.toml of a run")?;
    let text = String::from_utf8(bytes)
        .map_err(|_| format!("{} is not a text file; give the config.toml of a run", foreign_path(path)))?;
    Ok(text)
}

/// The tables of a config file.
pub fn parse(text: &str) -> Result<Table, Error> {
    let Loose(value) = toml::from_str(text).map_err(|e| {
        let before = e.span().and_then(|span| text.as_bytes().get(..span.start)).unwrap_or_default();
        let line = 1 + before.iter().filter(|b| **b == b'\n').count();
        format!(
            "line {line}: {}; correct it or write a new one with `motes fit`",
            foreign(one_line(e.message()))
        )
    })?;
    match value {
        Value::Object(table) => Ok(table),
        _ => Ok(Table::new()),
    }
}

/// The line of a setting in a table, where it is written as people do: `key = ...` below `[table]`, or above all tables; or, as
/// one that belongs to no table, the line of the table `[key]`.
pub fn line_of(text: &str, table: Option<&str>, key: &str) -> Option<usize> {
    let mut within = None;
    for (i, line) in text.lines().map(str::trim).enumerate() {
        if let Some(name) = line.strip_prefix('[') {
            within = name.split(']').next().map(str::trim);
            if table.is_none() && within == Some(key) {
                return Some(i + 1);
            }
        } else if within == table
            && line.strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with('='))
        {
            return Some(i + 1);
        }
    }
    None
}

/// Refuses files of another version.
pub fn check_version(table: &Table, version: u64) -> Result<(), Error> {
    match table.get("version").and_then(Value::as_u64) {
        Some(v) if v == version => Ok(()),
        Some(v) if v > version => {
            Err(format!("it has format version {v} and this motes reads version {version}; use a newer motes").into())
        }
        Some(v) if v > 0 => Err(format!(
            "it has format version {v} and this motes reads version {version}; write a new one with `motes fit`"
        )
        .into()),
        _ => Err(format!("it lacks a valid version; begin it with version = {version}").into()),
    }
}

/// A setting as a line.
pub fn line(key: &str, value: &Value) -> String {
    toml::to_string(&Table::from_iter([(key.to_string(), value.clone())])).expect("a setting is plain data")
}

/// A table of a file, in the order of its flags.
pub fn section(name: &str, table: &Table, flags: &[Flag]) -> String {
    let lines = flags.iter().filter_map(|flag| table.get(flag.name).map(|value| line(flag.name, value)));
    format!("\n[{name}]\n{}", lines.collect::<String>())
}

/// What a model of somebody's own says of itself; its name may be any words.
pub fn own_section(name: &str, table: &Table) -> String {
    let lines = table.iter().map(|(key, value)| line(key, value));
    format!("\n[{}]\n{}", Value::from(name), lines.collect::<String>())
}

/// A name in a config counts from its directory, if there is such a file; else from where people are.
pub fn find_from(data: &mut PathBuf, dir: &Path) {
    if data.is_relative()
        && let Some(found) = resolved(&dir.join(&*data)).filter(|path| path.exists())
    {
        *data = found;
    }
}

/// How a file is called from a directory, which may not be there yet; nothing if they have no more in common than the root.
pub fn relative_to(file: &Path, dir: &Path) -> Option<PathBuf> {
    let (file, dir) = (resolved(file)?, resolved(&dir.join("config.toml"))?);
    let (to, from): (Vec<_>, Vec<_>) = (file.components().collect(), dir.parent()?.components().collect());
    let common = to.iter().zip(&from).take_while(|(a, b)| a == b).count();
    if common < 2 {
        return None;
    }
    let up = from[common..].iter().map(|_| Component::ParentDir);
    Some(up.chain(to[common..].iter().copied()).collect())
}

/// A path without links and dots in the part of its directory that is there.
pub fn resolved(path: &Path) -> Option<PathBuf> {
    let path = std::path::absolute(path).ok()?;
    let (mut there, mut rest) = (path.parent()?, vec![path.file_name()?]);
    loop {
        match there.canonicalize() {
            Ok(dir) => return Some(rest.iter().rev().fold(dir, |dir, name| dir.join(name))),
            Err(_) => {
                rest.push(there.file_name()?);
                there = there.parent()?;
            }
        }
    }
}

/// Data that are kept in the run directory move with it.
pub fn find_beside(data: &mut PathBuf, dir: &Path) {
    if let Some(beside) = data.file_name().map(|name| dir.join(name))
        && !data.exists()
        && beside.exists()
    {
        *data = std::path::absolute(&beside).unwrap_or(beside);
    }
}

/// Any value of TOML. Not TOML's own, which has no room for whole numbers beyond 2^63, and not quite JSON's, which has
/// none for numbers that are not finite: those are words here.
struct Loose(Value);

impl<'de> Deserialize<'de> for Loose {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(AnyValue).map(Loose)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Value;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, v: bool) -> Result<Value, E> {
        Ok(v.into())
    }

    fn visit_i64<E>(self, v: i64) -> Result<Value, E> {
        Ok(v.into())
    }

    fn visit_u64<E>(self, v: u64) -> Result<Value, E> {
        Ok(v.into())
    }

    fn visit_f64<E>(self, v: f64) -> Result<Value, E> {
        Ok(if v.is_finite() { v.into() } else { v.to_string().into() })
    }

    fn visit_str<E>(self, v: &str) -> Result<Value, E> {
        Ok(v.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Loose(value)) = items.next_element()? {
            list.push(value);
        }
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut table = Table::new();
        while let Some((key, Loose(value))) = entries.next_entry()? {
            table.insert(key, value);
        }
        Ok(table.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_count_from_the_run_directory() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        std::fs::write(root.join("my.csv"), "").unwrap();
        let run = root.join("runs").join("a-1");
        // Before and after it is there.
        for _ in 0..2 {
            assert_eq!(relative_to(&root.join("my.csv"), &run), Some(PathBuf::from("../../my.csv")));
            std::fs::create_dir_all(&run).unwrap();
        }
        assert_eq!(relative_to(&run.join("data.csv"), &run), Some(PathBuf::from("data.csv")));
        assert_eq!(relative_to(Path::new("/elsewhere.csv"), &run), None);
        let mut name = PathBuf::from("../../my.csv");
        find_from(&mut name, &run);
        assert_eq!(name, root.join("my.csv"));
        let mut missing = PathBuf::from("../other.csv");
        find_from(&mut missing, &run);
        assert_eq!(missing, Path::new("../other.csv"));
    }
}
