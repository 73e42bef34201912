//! A run as text: `config.toml`, with the table `[run]` for what every run has and a table named as the model for its own.

use std::path::{Path, PathBuf};

use motes::printable::one_line;
use motes::sentence::{foreign, foreign_path};
use motes_models::options::{Flag, Kind, Setting, Table, refuse_unknown};
use motes_models::registry::{self, Entry};
use serde_json::Value;

use crate::Error;
use crate::choices::Choices;
use crate::{job, text};

/// The version of the file format; others are refused.
pub const VERSION: u64 = 2;

/// Everything that determines a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// The model's name.
    pub model: String,
    /// The SHA-256 of the data.
    pub data_sha256: Option<String>,
    /// What every run has.
    pub run: Choices,
    /// What the model has of its own.
    pub options: Table,
}

impl Config {
    /// Reads the config of a run directory.
    pub fn of_run(dir: &Path) -> Result<Config, Error> {
        let file = dir.join("config.toml");
        match file.exists() {
            true => Config::read(&file),
            false => Err(not_a_run(dir)),
        }
    }

    /// Reads a config file.
    pub fn read(path: &Path) -> Result<Config, Error> {
        let mut config = Config::parse(&text::read(path)?).map_err(|e| e.within(foreign_path(path)))?;
        if let Some(dir) = path.parent() {
            config.each_file(|file| {
                text::find_from(file, dir);
                text::find_beside(file, dir);
            });
        }
        Ok(config)
    }

    /// Parses the text of a config file.
    pub fn parse(file: &str) -> Result<Config, Error> {
        let mut table = text::parse(file)?;
        text::check_version(&table, VERSION)?;
        let in_line = |table: Option<&str>, key: &str, error: Error| match text::line_of(file, table, key) {
            Some(line) => error.within(format_args!("line {line}")),
            None => error,
        };
        table.remove("version");
        let model = match table.remove("model") {
            Some(Value::String(model)) => model,
            Some(_) => return Err("the model is not a name; write model = \"...\"".into()),
            None => {
                let meant = table.keys().find(|key| motes::did_you_mean(key, ["model"]).is_some());
                if let Some(key) = meant {
                    return Err(in_line(None, key, unknown(key, ["model"])));
                }
                let names = registry::names().join(", ");
                return Err(format!("it names no model; add model = \"...\" with one of {names}").into());
            }
        };
        let data_sha256 = match table.remove("data-sha256") {
            Some(value) => Some(
                String::read(&value)
                    .map_err(|problem| in_line(None, "data-sha256", setting("data-sha256", problem)))?,
            ),
            None => None,
        };
        let inner = |value: Option<Value>, name: &str| match value {
            None => Ok(Table::new()),
            Some(Value::Object(table)) => Ok(table),
            Some(_) => {
                let name = foreign(name);
                Err(Error::Refused(format!("{name} is not a table; write [{name}] above its settings")))
            }
        };
        let run = inner(table.remove("run"), "run")?;
        let options = inner(table.remove(&model), &model)?;
        if let Some((key, value)) = table.iter().next() {
            if registry::find(&model).is_none() && registry::find(key).is_some() {
                // The table of a model shows that a built-in one is meant.
                return Err(in_line(None, "model", job::no_model(&model)));
            }
            let table = if value.is_object() { None } else { home(key, &model) };
            let problem = match table {
                Some(table) => {
                    format!("the setting '{}' stands above all tables; put it below [{table}]", foreign(key))
                        .into()
                }
                None => unknown(key, ["version", "model", "data-sha256", "run", &model]),
            };
            return Err(in_line(None, key, problem));
        }
        for (inner, name) in [(&run, "run"), (&options, &model)] {
            check_settings(inner, name, &model).map_err(|(key, e)| in_line(Some(name), &key, e))?;
        }
        Ok(Config { model, data_sha256, run: Choices::of(&run)?, options })
    }

    /// Choices for a model in one table, whether they are a run's or the model's own, named as in a config file.
    pub fn of_table(model: &str, table: Table) -> Result<Config, Error> {
        let entry = registry::find(model);
        let own = |key: &str| entry.is_some_and(|e| has(e.flags(), key));
        let known = Choices::flags().iter().chain(entry.map_or(&[][..], |e| e.flags())).map(|f| f.name);
        refuse_unknown(&table, known)?;
        let (options, run): (Vec<_>, Vec<_>) = table.into_iter().partition(|(key, _)| own(key));
        let (run, options) = (Table::from_iter(run), Table::from_iter(options));
        Ok(Config { model: model.into(), data_sha256: None, run: Choices::of(&run)?, options })
    }

    /// What flags and a config file say together.
    pub fn over(mut self, mut file: Config) -> Result<Config, Error> {
        if self.model != file.model {
            let (a, b) = (&self.model, &file.model);
            return Err(format!(
                "the config is for the model {}, not {a}; leave one of them out",
                foreign(b)
            )
            .into());
        }
        if let Some(entry) = registry::find(&self.model) {
            let chosen = |names: &[&str]| names.iter().any(|name| self.options.contains_key(*name));
            let stale = entry.gives_way().iter().filter(|(new, old)| chosen(new) && !chosen(old));
            let mut run = file.run.table();
            for name in stale.flat_map(|(_, old)| *old) {
                file.options.remove(*name);
                run.remove(*name);
            }
            file.run = Choices::of(&run)?;
            if chosen(entry.names_data()) {
                file.data_sha256 = None;
            }
        }
        file.run.make_way_for(&self.run);
        file.options.append(&mut self.options);
        Ok(Config { run: self.run.or(&file.run), ..file })
    }

    /// Makes the names of files absolute: a run is resumed from anywhere.
    pub fn make_absolute(&mut self) -> Result<(), Error> {
        let mut trouble = Ok(());
        self.each_file(|file| match std::path::absolute(&*file) {
            Ok(path) => *file = text::resolved(&path).unwrap_or(path),
            Err(e) => trouble = Err(format!("cannot use {}: {e}; check the path", foreign_path(file)).into()),
        });
        trouble
    }

    /// The text of the config file of a run directory, in which files have names that move with it.
    pub fn to_toml_in(&self, dir: &Path) -> String {
        let mut inside = self.clone();
        inside.each_file(|file| {
            if let Some(name) = text::relative_to(file, dir) {
                *file = name;
            }
        });
        inside.to_toml()
    }

    /// The text of a config file.
    pub fn to_toml(&self) -> String {
        let mut out = format!("# Replay with: motes fit --config <this file>\nversion = {VERSION}\n");
        out += &text::line("model", &self.model.as_str().into());
        if let Some(sha256) = &self.data_sha256 {
            out += &text::line("data-sha256", &sha256.as_str().into());
        }
        out += &text::section("run", &self.run.table(), Choices::flags());
        match registry::find(&self.model) {
            Some(entry) => out += &text::section(&self.model, &self.options, entry.flags()),
            None if self.options.is_empty() => {}
            None => out += &text::own_section(&self.model, &self.options),
        }
        out
    }

    /// All settings in one table, for summaries.
    pub fn flat(&self) -> Table {
        let mut table = self.run.table();
        table.extend(self.options.clone());
        table.insert("model".into(), self.model.as_str().into());
        table.insert("version".into(), VERSION.into());
        if let Some(sha256) = &self.data_sha256 {
            table.insert("data-sha256".into(), sha256.as_str().into());
        }
        table
    }

    fn each_file(&mut self, mut change: impl FnMut(&mut PathBuf)) {
        let flags = registry::find(&self.model).map_or(&[][..], |entry| entry.flags());
        for flag in flags.iter().filter(|flag| flag.kind == Kind::File) {
            // A hyphen is standard input, which has no place.
            if let Some(Value::String(name)) = self.options.get_mut(flag.name)
                && name != "-"
            {
                let mut path = PathBuf::from(&*name);
                change(&mut path);
                *name = path.to_string_lossy().into_owned();
            }
        }
    }
}

/// What is said of a directory without a config.
pub fn not_a_run(dir: &Path) -> Error {
    format!(
        "{} is not a run directory (it has no config.toml); give a directory that `motes fit` named",
        foreign_path(dir)
    )
    .into()
}

fn has(flags: &[Flag], name: &str) -> bool {
    flags.iter().any(|flag| flag.name == name)
}

fn setting(key: &str, problem: String) -> Error {
    registry::Error::Setting { key: key.into(), problem: one_line(&problem) }.into()
}

fn unknown<'a>(key: &str, known: impl IntoIterator<Item = &'a str> + Clone) -> Error {
    let table = Table::from_iter([(key.to_string(), Value::Null)]);
    refuse_unknown(&table, known).err().unwrap_or_default().into()
}

/// The table that a setting belongs to in the config of a model.
fn home<'a>(key: &str, model: &'a str) -> Option<&'a str> {
    if has(Choices::flags(), key) {
        return Some("run");
    }
    registry::find(model).filter(|entry| has(entry.flags(), key)).map(|_| model)
}

/// Refuses the first setting that a table does not have, and says where it belongs or what was meant, or whose value is
/// none.
fn check_settings(table: &Table, name: &str, model: &str) -> Result<(), (String, Error)> {
    let flags: &[Flag] = match registry::find(model) {
        _ if name == "run" => Choices::flags(),
        Some(entry) => entry.flags(),
        None => return Ok(()), // a model of somebody's own
    };
    for (key, value) in table {
        let problem = match flags.iter().find(|flag| flag.name == key) {
            Some(flag) => match (flag.check)(value) {
                Ok(()) => continue,
                Err(problem) => setting(key, problem),
            },
            None => match (home(key, model), owners(key)) {
                (Some(table), _) => {
                    format!("the setting '{}' stands below [{name}]; put it below [{table}]", foreign(key))
                        .into()
                }
                (None, owners) if owners.is_empty() => unknown(key, flags.iter().map(|flag| flag.name)),
                (None, owners) => belongs(key, &owners, model),
            },
        };
        return Err((key.clone(), problem));
    }
    Ok(())
}

/// The models that have an option.
pub fn owners(name: &str) -> Vec<&'static str> {
    registry::MODELS.iter().filter(|e: &&&dyn Entry| has(e.flags(), name)).map(|e| e.name()).collect()
}

/// What is said of an option of other models.
pub fn belongs(name: &str, owners: &[&str], model: &str) -> Error {
    let (s, owners) = (if owners.len() == 1 { "" } else { "s" }, owners.join(" and "));
    format!("`{name}` belongs to the model{s} {owners}, not to {}; leave it out", foreign(model)).into()
}
