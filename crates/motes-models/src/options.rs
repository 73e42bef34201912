//! Options of models and runs: a struct, and a table of what the struct's fields are called and mean. Flags, config files
//! and Python's keywords come from that table.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Mutex;

use motes::printable::one_line;
use motes::sentence::foreign;
use motes::settings::{Growth, InitParticles, JointUpdate, Preconditioner, StepDecay, WarmStart};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Choices by name, as a config file has them.
pub type Table = serde_json::Map<String, Value>;

/// An option: its name in config files, which is its flag too.
#[derive(Clone, Copy, Debug)]
pub struct Flag {
    /// Words joined by hyphens.
    pub name: &'static str,
    /// What stands for its value in the help; empty for what only config files have.
    pub value: &'static str,
    /// What it means, and its default.
    pub help: &'static str,
    /// Under which heading it is listed.
    pub heading: &'static str,
    /// What values look like.
    pub kind: Kind,
    /// Whether values may begin with a hyphen.
    pub signed: bool,
    /// An option that says the same in other words.
    pub instead_of: Option<&'static str>,
    /// Makes a value of text, as it stands in config files; of one item for lists.
    pub parse: fn(&str) -> Result<Value, String>,
    /// Says what is wrong with a value that stands in a config file.
    pub check: fn(&Value) -> Result<(), String>,
    /// All values, where they are a few words.
    pub words: fn() -> Vec<&'static str>,
}

/// What values look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A whole number.
    Whole,
    /// Any number.
    Number,
    /// A word, or something in a notation of its own.
    Text,
    /// True or false; true if nothing else is said.
    Switch,
    /// Items with commas between them.
    List,
    /// The name of a file or folder.
    File,
}

/// A type of values.
pub trait Setting: Sized {
    /// What they look like.
    const KIND: Kind;

    /// Makes a value of text, as it stands in config files; of one item for lists.
    fn parse(text: &str) -> Result<Value, String>;

    /// The value that stands in a config file.
    fn read(value: &Value) -> Result<Self, String>;

    /// The value as it stands in config files.
    fn write(&self) -> Value;

    /// All values, where they are a few words.
    fn words() -> Vec<&'static str> {
        Vec::new()
    }
}

/// Types that are made of text by `FromStr`, and written as serde does; with all their words, where they are few.
#[macro_export]
macro_rules! settings {
    ($($ty:ty: $kind:ident $(of $words:expr)?),+ $(,)?) => {$(
        impl $crate::options::Setting for $ty {
            const KIND: $crate::options::Kind = $crate::options::Kind::$kind;

            fn parse(text: &str) -> Result<serde_json::Value, String> {
                text.parse::<$ty>().map(|v| v.write()).map_err(|e| e.to_string())
            }

            fn read(value: &serde_json::Value) -> Result<Self, String> {
                $crate::options::text_of::<Self>(value)?.parse::<$ty>().map_err(|e| e.to_string())
            }

            fn write(&self) -> serde_json::Value {
                $crate::options::write(self)
            }

            $(fn words() -> Vec<&'static str> {
                $words.to_vec()
            })?
        }
    )+};
}

/// Types that TOML has itself.
macro_rules! plain {
    ($($ty:ty: $kind:ident),+ $(,)?) => {$(
        impl Setting for $ty {
            const KIND: Kind = Kind::$kind;

            fn parse(text: &str) -> Result<Value, String> {
                text.parse::<$ty>().map(|v| v.write()).map_err(|e| e.to_string())
            }

            fn read(value: &Value) -> Result<Self, String> {
                read(value, KindOf::<Self>::SAID)
            }

            fn write(&self) -> Value {
                write(self)
            }
        }
    )+};
}

plain!(bool: Switch, String: Text, PathBuf: File);

/// Whole numbers, which people also write as 1e4.
macro_rules! whole_numbers {
    ($($ty:ty),+) => {$(
        impl Setting for $ty {
            const KIND: Kind = Kind::Whole;

            fn parse(text: &str) -> Result<Value, String> {
                whole::<$ty>(text).map(|v| v.write())
            }

            fn read(value: &Value) -> Result<Self, String> {
                read(value, KindOf::<Self>::SAID)
            }

            fn write(&self) -> Value {
                write(self)
            }
        }
    )+};
}

whole_numbers!(u32, u64, usize);

/// A whole number, in digits or as 1e4.
pub fn whole<T: FromStr<Err: Display>>(text: &str) -> Result<T, String> {
    let plain = text.parse::<T>();
    let exact = text
        .parse::<f64>()
        .ok()
        .filter(|v| text.contains(['e', 'E']) && v.fract() == 0.0 && *v <= MOST_EXACT);
    match (plain, exact) {
        (Ok(v), _) => Ok(v),
        (Err(_), Some(v)) => format!("{v}").parse::<T>().map_err(|e| e.to_string()),
        (Err(e), None) => Err(e.to_string()),
    }
}

/// Whole numbers up to here are themselves in double precision.
const MOST_EXACT: f64 = 9_007_199_254_740_992.0;

settings! {
    Growth: Text, StepDecay: Text, WarmStart: Text,
    JointUpdate: Text of ["pgd", "pqn"],
    Preconditioner: Text of ["none", "diagonal", "adagrad", "rmsprop", "adam"],
    &'static motes::Algorithm: Text of motes::Algorithm::names(),
    crate::generator::BatchNorm: Text of ["two-pass", "one-pass"],
}

/// How people call what a type of values looks like.
struct KindOf<T>(std::marker::PhantomData<T>);

impl<T: Setting> KindOf<T> {
    const SAID: &'static str = match T::KIND {
        Kind::Whole => "a whole number of 0 or more",
        Kind::Number => "a number",
        Kind::Text => "a text in quotes",
        Kind::Switch => "true or false",
        Kind::List => "a list of values of one kind, as in [1, 2]",
        Kind::File => "the name of a file in quotes",
    };
}

impl Setting for InitParticles {
    const KIND: Kind = Kind::Text;

    fn parse(text: &str) -> Result<Value, String> {
        let parsed = text.parse::<InitParticles>();
        parsed.map(|v| v.write()).map_err(|problem| with_guess(problem, text, &["prior"]))
    }

    fn read(value: &Value) -> Result<Self, String> {
        let text = text_of::<Self>(value)?;
        text.parse().map_err(|problem| with_guess(problem, &text, &["prior"]))
    }

    fn write(&self) -> Value {
        write(self)
    }
}

/// What is wrong with a word that stands where a few words or a number may, with a guess at what was meant.
pub fn with_guess(problem: String, text: &str, words: &[&str]) -> String {
    match motes::did_you_mean(text, words.iter().copied()) {
        Some(word) => format!("{problem}; did you mean {word}?"),
        None => problem,
    }
}

/// What stands in a config file for something that is written as text: numbers need no quotes.
#[doc(hidden)]
pub fn text_of<T: Setting>(value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        other => Err(is_not(other, KindOf::<T>::SAID)),
    }
}

fn is_not(value: &Value, wanted: &str) -> String {
    format!("{} is not {wanted}", foreign(one_line(&value.to_string())))
}

impl Setting for f64 {
    const KIND: Kind = Kind::Number;

    fn parse(text: &str) -> Result<Value, String> {
        text.parse::<f64>().map(|v| v.write()).map_err(|e| e.to_string())
    }

    fn read(value: &Value) -> Result<Self, String> {
        match value.as_str().and_then(|text| text.parse().ok()).filter(|v: &f64| !v.is_finite()) {
            Some(v) => Ok(v),
            None => read(value, KindOf::<Self>::SAID),
        }
    }

    /// Numbers that are not finite, which JSON does not know, are words: they are refused with their names later.
    fn write(&self) -> Value {
        if self.is_finite() { write(self) } else { Value::String(self.to_string()) }
    }
}

impl<T: Serialize + DeserializeOwned + FromStr<Err: Display>> Setting for Vec<T> {
    const KIND: Kind = Kind::List;

    fn parse(text: &str) -> Result<Value, String> {
        text.parse::<T>().map(|v| write(&v)).map_err(|e| e.to_string())
    }

    fn read(value: &Value) -> Result<Self, String> {
        read(value, KindOf::<Self>::SAID)
    }

    fn write(&self) -> Value {
        write(self)
    }
}

/// What serde makes of a value, which should be what is `wanted`: it names types of Rust, which nobody has to know.
pub fn read<T: DeserializeOwned>(value: &Value, wanted: &str) -> Result<T, String> {
    serde_json::from_value(value.clone()).map_err(|_| is_not(value, wanted))
}

/// What serde makes of plain data.
pub fn write(value: &impl Serialize) -> Value {
    serde_json::to_value(value).expect("plain data")
}

/// Declares options: a struct whose fields are `None` where nothing was chosen, and the table of its flags.
///
/// A field is written `name: type => "VALUE";` below its help, with `signed` where values may begin with a hyphen, and
/// `instead_of "other"` where another option says the same. Options that models share come by `+ field: Type,`. In the
/// help, `{algorithms}` are all algorithms, and `{takers}` those to which the option means something.
#[macro_export]
macro_rules! options {
    (
        $(#[$about:meta])*
        $vis:vis struct $name:ident {
            $(+ $shared:ident: $shared_ty:ty,)*
            $($heading:literal {
                $($(#[doc = $doc:literal])+ $field:ident: $ty:ty => $value:literal
                    $($signed:ident)? $([instead of $other:literal])?;)+
            })+
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Debug, Default, PartialEq)]
        $vis struct $name {
            $(
                /// What other models have too.
                pub $shared: $shared_ty,
            )*
            $($(
                $(#[doc = $doc])+
                pub $field: Option<$ty>,
            )+)+
        }

        impl $name {
            /// The choices in a table; other names there are none of its business.
            pub fn of(table: &$crate::options::Table) -> Result<Self, $crate::registry::Error> {
                Ok($name {
                    $($shared: <$shared_ty>::of(table)?,)*
                    $($($field: $crate::options::chosen(table, $crate::options::kebab(stringify!($field)))?,)+)+
                })
            }

            /// The choices as a table.
            pub fn table(&self) -> $crate::options::Table {
                #[allow(unused_mut)]
                let mut table = $crate::options::Table::new();
                $(table.extend(self.$shared.table());)*
                $($(if let Some(value) = &self.$field {
                    let name = $crate::options::kebab(stringify!($field)).to_string();
                    table.insert(name, $crate::options::Setting::write(value));
                })+)+
                table
            }

            /// What the options are called and mean.
            pub fn flags() -> &'static [$crate::options::Flag] {
                static FLAGS: std::sync::OnceLock<Vec<$crate::options::Flag>> = std::sync::OnceLock::new();
                FLAGS.get_or_init(|| {
                    let shared: &[&[$crate::options::Flag]] = &[$(<$shared_ty>::flags()),*];
                    let own = vec![$($($crate::options::Flag {
                        name: $crate::options::kebab(stringify!($field)),
                        value: $value,
                        help: $crate::options::help(
                            $crate::options::kebab(stringify!($field)),
                            concat!($($doc),+).trim_ascii_start(),
                        ),
                        heading: $heading,
                        kind: <$ty as $crate::options::Setting>::KIND,
                        signed: [$(stringify!($signed))?].contains(&"signed"),
                        instead_of: [$($other)?].first().copied(),
                        parse: <$ty as $crate::options::Setting>::parse,
                        check: |value| <$ty as $crate::options::Setting>::read(value).map(drop),
                        words: <$ty as $crate::options::Setting>::words,
                    }),+),+];
                    [shared.concat(), own].concat()
                })
            }
        }
    };
}

/// A field's name as an option's.
#[doc(hidden)]
pub fn kebab(field: &'static str) -> &'static str {
    static NAMES: Mutex<BTreeMap<&'static str, &'static str>> = Mutex::new(BTreeMap::new());
    let mut names = NAMES.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    // There are some dozens of them, each leaked once.
    names.entry(field).or_insert_with(|| Box::leak(field.replace('_', "-").into_boxed_str()))
}

/// The help of an option with the names of algorithms filled in, so that no list of them has to be kept by hand.
#[doc(hidden)]
pub fn help(name: &str, text: &'static str) -> &'static str {
    if !text.contains('{') {
        return text;
    }
    let usual = motes::Settings::default();
    let takers = motes::ALGORITHMS.iter().filter(|a| a.takes(name, &usual)).map(|a| a.name);
    let text = text.replace("{algorithms}", &one_of(motes::ALGORITHMS));
    text.replace("{takers}", &takers.collect::<Vec<_>>().join(", ")).leak() // once for each option
}

/// Algorithms to choose from, as a sentence names them.
pub fn one_of(algorithms: &[&motes::Algorithm]) -> String {
    match algorithms {
        [] => String::new(),
        [only] => only.name.into(),
        [others @ .., last] => {
            format!("{} or {last}", others.iter().map(|a| a.name).collect::<Vec<_>>().join(", "))
        }
    }
}

/// What a table says under a name.
#[doc(hidden)]
pub fn chosen<T: Setting>(table: &Table, name: &str) -> Result<Option<T>, crate::registry::Error> {
    let wrong = |problem| crate::registry::Error::Setting { key: name.into(), problem };
    table.get(name).map(|value| T::read(value).map_err(wrong)).transpose()
}

/// What is said of an option that there is not, with a guess at what was meant.
pub fn refuse_unknown<'a>(
    table: &Table,
    known: impl IntoIterator<Item = &'a str> + Clone,
) -> Result<(), String> {
    let is_known = |key: &str| known.clone().into_iter().any(|k| k == key);
    match table.keys().find(|key| !is_known(key)) {
        None => Ok(()),
        Some(key) => {
            let guess = motes::did_you_mean(key, known).map(|k| format!("did you mean {k}?"));
            Err(format!("there is no setting '{}'; {}", foreign(key), guess.unwrap_or("remove it".into())))
        }
    }
}
