//! Flags from the tables of options: a subcommand for each model, with its own flags and those of every run.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use clap::builder::{PathBufValueParser, PossibleValue, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, ValueHint, value_parser};
use motes::sentence::{Face, foreign, render};
use motes_app::choices::Choices;
use motes_app::config::{Config, belongs, owners};
use motes_app::{Error, job};
use motes_models::options::{Flag, Kind, Table};
use motes_models::registry::{self, Entry};
use serde_json::Value;

/// Commands whose flags depend on a model.
const OF_MODELS: [&str; 3] = ["fit", "compare", "check-model"];

/// The choices for one of the models, and the rest of its command's flags.
pub struct OfModel<R> {
    /// What was chosen for a model of the table.
    pub config: Config,
    pub rest: R,
}

/// Which of a run's flags a command has.
pub trait Rest: Args {
    const RUN: fn(&dyn Entry) -> Vec<Flag>;

    /// One that is only there to be refused in words of its own.
    const HIDDEN: Option<&'static str> = None;
}

impl<R: Rest> Args for OfModel<R> {
    fn augment_args(command: Command) -> Command {
        let of = |entry: &&dyn Entry| {
            // A command that has only some of a run's flags has nothing to say about the others.
            let (own, run) = (entry.flags(), R::RUN(*entry));
            let there = |name: &&str| own.iter().chain(&run).any(|flag| flag.name == *name);
            let own: Vec<Flag> =
                own.iter().map(|flag| Flag { instead_of: flag.instead_of.filter(there), ..*flag }).collect();
            let command = with(Command::new(entry.name()), &own);
            // Last, for what documents the rest of the flags would be taken for it.
            let command = R::augment_args(with(command, &run)).about(entry.about()).long_about(None);
            match R::HIDDEN {
                Some(flag) => command.mut_arg(flag, |arg| arg.hide(true)),
                None => command,
            }
        };
        let models = registry::MODELS.iter().map(of);
        command
            .subcommand_required(true)
            .subcommand_value_name("MODEL")
            .subcommand_help_heading("Models")
            .disable_help_subcommand(true)
            .subcommands(models)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<R: Rest> FromArgMatches for OfModel<R> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let failed = |e: &dyn std::fmt::Display| {
            clap::Error::raw(ErrorKind::InvalidValue, format!("{}\n", render(&e.to_string(), Face::Shell)))
        };
        let (model, matches) = matches.subcommand().ok_or_else(|| failed(&"no model is named"))?;
        let entry = registry::find(model).ok_or_else(|| failed(&"no such model"))?;
        let run = Choices::of(&chosen(matches, &R::RUN(entry))).map_err(|e| failed(&e))?;
        let options = chosen(matches, entry.flags());
        let config = Config { model: model.into(), data_sha256: None, run, options };
        Ok(OfModel { config, rest: R::from_arg_matches(matches)? })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// A command with flags.
pub fn with(command: Command, flags: &[Flag]) -> Command {
    command.args(flags.iter().filter(|flag| !flag.value.is_empty()).map(arg))
}

fn arg(flag: &Flag) -> Arg {
    let arg = Arg::new(flag.name)
        .long(flag.name)
        .value_name(flag.value)
        .help(render(flag.help, Face::Shell))
        .help_heading(flag.heading)
        .allow_hyphen_values(flag.signed);
    let arg = match flag.instead_of {
        Some(other) => arg.conflicts_with(other),
        None => arg,
    };
    let parser = Parser { parse: flag.parse, words: (flag.words)() };
    match flag.kind {
        Kind::Whole | Kind::Number | Kind::Text => arg.value_parser(parser).hide_possible_values(true),
        Kind::List => arg.value_delimiter(',').action(ArgAction::Append).value_parser(parser),
        Kind::File => {
            arg.value_hint(ValueHint::FilePath).value_parser(PathBufValueParser::new().try_map(file))
        }
        Kind::Switch => arg
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true")
            .value_parser(value_parser!(bool)),
    }
}

/// Parses values as their type does, and knows all its words for completions.
#[derive(Clone)]
struct Parser {
    parse: fn(&str) -> Result<Value, String>,
    words: Vec<&'static str>,
}

impl TypedValueParser for Parser {
    type Value = Value;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<Value, clap::Error> {
        let parse = self.parse;
        let parser = move |text: &str| parse(text).map_err(|e| render(&e, Face::Shell));
        TypedValueParser::parse_ref(&parser, command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let words = self.words.iter().map(PossibleValue::new);
        (!self.words.is_empty()).then(|| Box::new(words) as Box<_>)
    }
}

/// A config is text, and so are the names of files in it.
fn file(path: PathBuf) -> Result<Value, String> {
    match path.to_str() {
        Some(name) => Ok(name.into()),
        None => Err(format!(
            "the name of {} is not UTF-8 and cannot be kept in config.toml; rename it",
            path.to_string_lossy()
        )),
    }
}

/// What was chosen with flags.
pub fn chosen(matches: &ArgMatches, flags: &[Flag]) -> Table {
    let value = |flag: &Flag| -> Option<Value> {
        Some(match flag.kind {
            Kind::Switch => (*matches.get_one::<bool>(flag.name)?).into(),
            Kind::List => matches.get_many::<Value>(flag.name)?.cloned().collect::<Vec<_>>().into(),
            _ => matches.get_one::<Value>(flag.name)?.clone(),
        })
    };
    let flags = flags.iter().filter(|flag| !flag.value.is_empty());
    flags.filter_map(|flag| Some((flag.name.to_string(), value(flag)?))).collect()
}

/// The arguments with the model right after the command: named anywhere among them, or by their config. Refuses flags of
/// other models by name.
pub fn with_model(mut args: Vec<OsString>) -> Result<Vec<OsString>, String> {
    let is = |arg: &OsStr, word: &str| arg == word;
    if !args.get(1).is_some_and(|arg| OF_MODELS.iter().any(|command| is(arg, command))) {
        return Ok(args);
    }
    join_switches(&mut args);
    let words: Vec<usize> = (2..args.len())
        .filter(|i| !is_value(&args, *i) && !args[*i].to_string_lossy().starts_with('-'))
        .collect();
    // What follows a flag that there is not may be its value: a word elsewhere is the model, or else one that names it.
    let plain = words.iter().find(|i| unknown_flag(&args[**i - 1]).is_none());
    let named = || words.iter().find(|i| args[**i].to_str().is_some_and(|w| registry::find(w).is_some()));
    let word = plain.or_else(named).copied();
    if let Some(flag) = words.first().filter(|_| word.is_none()).and_then(|i| unknown_flag(&args[i - 1])) {
        let guess = motes::did_you_mean(&flag, all_flags().map(|(name, _)| name));
        let guess = guess.map_or("see motes fit --help".into(), |name| format!("did you mean --{name}?"));
        return Err(format!("there is no flag '--{}'; {guess}", foreign(flag)));
    }
    let help = args.iter().any(|arg| is(arg, "--help") || is(arg, "-h"));
    match word {
        Some(i) => {
            let model = args.remove(i);
            args.insert(2, model);
        }
        None => match config_file(&args) {
            Some(file) => args.insert(2, model_of(Path::new(&file))?.into()),
            None if help => return Ok(args),
            None => return Err(format!("no model is named; give one of {}", registry::names().join(", "))),
        },
    }
    let model = args[2].to_string_lossy().into_owned();
    let entry = job::entry_of(&model)?;
    let known = |name: &str| entry.flags().iter().chain(Choices::flags()).any(|flag| flag.name == name);
    for name in args.iter().skip(3).filter_map(|arg| flag_name(arg)) {
        if !known(&name) && !owners(&name).is_empty() {
            return Err(belongs(&name, &owners(&name), &model).into());
        }
    }
    Ok(args)
}

/// Switches whose value stands apart, as in `--adjust false`.
fn join_switches(args: &mut Vec<OsString>) {
    let of_models = || registry::MODELS.iter().flat_map(|e| e.flags()).chain(Choices::flags());
    let is_switch = |arg: &OsStr| {
        let name = arg.to_str().and_then(|text| text.strip_prefix("--"));
        name.is_some_and(|name| of_models().any(|flag| flag.kind == Kind::Switch && flag.name == name))
    };
    let mut i = 3;
    while i < args.len() {
        if (args[i] == "true" || args[i] == "false") && is_switch(&args[i - 1]) {
            let value = args.remove(i);
            args[i - 1].push("=");
            args[i - 1].push(value);
        } else {
            i += 1;
        }
    }
}

/// The name of a flag, without its value.
fn flag_name(arg: &OsStr) -> Option<String> {
    let text = arg.to_str()?.strip_prefix("--")?;
    Some(text.split('=').next().unwrap_or_default().to_string())
}

/// Whether an argument is the value of the flag before it.
fn is_value(args: &[OsString], i: usize) -> bool {
    let before = &args[i - 1];
    let Some(name) = flag_name(before).filter(|_| !before.to_string_lossy().contains('=')) else {
        return false;
    };
    all_flags().any(|(flag, takes_value)| flag == name && takes_value)
}

/// The flags of all commands that have models, and whether a value follows them.
fn all_flags() -> impl Iterator<Item = (&'static str, bool)> {
    let values = ["config", "out", "threads", "algorithms", "budget"].map(|name| (name, true));
    let switches = ["quiet", "no-report", "help"].map(|name| (name, false));
    let of_models = registry::MODELS.iter().flat_map(|e| e.flags()).chain(Choices::flags());
    let of_models = of_models.map(|flag| (flag.name, flag.kind != Kind::Switch));
    values.into_iter().chain(switches).chain(of_models)
}

/// The name of a flag that no model and no command has, where its value would be the next word.
fn unknown_flag(arg: &OsStr) -> Option<String> {
    let name = flag_name(arg).filter(|name| !name.is_empty() && !arg.to_string_lossy().contains('='))?;
    (!all_flags().any(|(flag, _)| flag == name)).then_some(name)
}

fn config_file(args: &[OsString]) -> Option<OsString> {
    let at = args.iter().position(|arg| flag_name(arg).is_some_and(|name| name == "config"))?;
    match args[at].to_str().and_then(|arg| arg.split_once('=')) {
        Some((_, file)) => Some(file.into()),
        None => args.get(at + 1).cloned(),
    }
}

/// The model that a config is for.
fn model_of(file: &Path) -> Result<String, String> {
    Ok(read_config(file)?.model)
}

/// Reads a config once, although it is asked for twice: what is read from a pipe is gone.
pub fn read_config(file: &Path) -> Result<Config, Error> {
    static READ: Mutex<Option<(PathBuf, Config)>> = Mutex::new(None);
    let mut read = READ.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Some((_, config)) = read.as_ref().filter(|(path, _)| path == file) {
        return Ok(config.clone());
    }
    let config = Config::read(file)?;
    *read = Some((file.to_path_buf(), config.clone()));
    Ok(config)
}
