//! Sentences that no face of Motes has to read: they name settings in backquotes, and each face renders them in its own words.
//!
//! `` `step-size=0.1` `` is `--step-size 0.1` on the command line and `step_size=0.1` in Python; `` `adjust` `` is `--adjust`
//! and `adjust`. A name with brackets is something to do: `` `resume()` ``.
//!
//! Names of columns and files, values that people typed and messages of other libraries may hold backquotes of their own. They go
//! into a sentence by [`foreign`] or [`foreign_path`], which double them; two backquotes are one that means nothing.

use std::fmt::Display;
use std::path::Path;

use crate::printable::printable;

/// Text from elsewhere as a part of a sentence: no backquote in it begins or ends a setting.
pub fn foreign(text: impl Display) -> String {
    text.to_string().replace('`', "``")
}

/// A file or directory as a part of a sentence; below the working directory as people type it there, whoever has made the
/// path absolute.
pub fn foreign_path(path: &Path) -> String {
    let here = std::env::current_dir();
    let below = here.ok().and_then(|here| path.strip_prefix(here).ok());
    foreign(below.filter(|below| !below.as_os_str().is_empty()).unwrap_or(path).to_string_lossy())
}

/// Who reads a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Face {
    /// Somebody at the command line.
    Shell,
    /// Somebody in Python.
    Python,
}

/// Things to do, as the command line and as Python says them.
const PHRASES: &[(&str, &str, &str)] = &[
    ("resume()", "`motes resume`", "`motes.resume`"),
    ("fit-again()", "start a new run with fit --config", "fit the model again"),
    ("fit-anew()", "start a new run without --config", "fit the model again"),
];

/// Settings that Python calls something else: `from` is a word of its own, and its flags are positive.
const PYTHON_NAMES: &[(&str, &str)] = &[("no-standardize", "standardize=False"), ("from", "source")];

/// The sentence in the words of a face, on one line: what it repeats of files, names and messages from elsewhere cannot act
/// on a terminal.
pub fn render(sentence: &str, face: Face) -> String {
    let sentence = &*printable(sentence);
    let mut out = String::with_capacity(sentence.len());
    let mut rest = sentence;
    while let Some((before, after)) = rest.split_once('`') {
        out.push_str(before);
        rest = after;
        if let Some(after) = rest.strip_prefix('`') {
            out.push('`');
            rest = after;
            continue;
        }
        match closed(rest)
            .and_then(|(inside, after)| Some((rendered(&inside.replace("``", "`"), face)?, after)))
        {
            Some((words, after)) => {
                out.push_str(&words);
                rest = after;
            }
            None => out.push('`'),
        }
    }
    out + rest
}

/// What stands before the next backquote that is not doubled, and what comes after it.
fn closed(text: &str) -> Option<(&str, &str)> {
    let mut from = 0;
    loop {
        let at = from + text[from..].find('`')?;
        match text[at + 1..].starts_with('`') {
            true => from = at + 2,
            false => return Some((&text[..at], &text[at + 1..])),
        }
    }
}

/// What stands between backquotes in the words of a face; `None` if it is neither a setting nor something to do.
fn rendered(inside: &str, face: Face) -> Option<String> {
    if let Some((_, shell, python)) = PHRASES.iter().find(|(name, ..)| *name == inside) {
        return Some(if face == Face::Shell { shell.to_string() } else { python.to_string() });
    }
    let (name, value) = match inside.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (inside, None),
    };
    let is_name = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    if !is_name {
        return None;
    }
    Some(match (face, value) {
        (Face::Shell, None) => format!("--{name}"),
        (Face::Shell, Some(value)) => format!("--{name} {value}"),
        (Face::Python, value) => {
            let renamed = PYTHON_NAMES.iter().find(|(n, _)| *n == name).map(|(_, python)| python.to_string());
            let name = renamed.unwrap_or_else(|| name.replace('-', "_"));
            match value {
                None => name,
                Some(value) if value.parse::<f64>().is_ok() || value.starts_with('\'') => {
                    format!("{name}={value}")
                }
                Some(value) => format!("{name}=\"{value}\""),
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_face_has_its_words() {
        let cases = [
            ("`step-size=0.1` is large", "--step-size 0.1 is large", "step_size=0.1 is large"),
            ("use `algorithm=pgd`", "use --algorithm pgd", "use algorithm=\"pgd\""),
            ("leave `grow` and `adjust` out", "leave --grow and --adjust out", "leave grow and adjust out"),
            ("with `no-standardize`", "with --no-standardize", "with standardize=False"),
            ("`drop='a b'` goes", "--drop 'a b' goes", "drop='a b' goes"),
            ("`resume()` it", "`motes resume` it", "`motes.resume` it"),
            ("a column '`x y`' and one `", "a column '`x y`' and one `", "a column '`x y`' and one `"),
            ("`A`, then `steps=3`", "`A`, then --steps 3", "`A`, then steps=3"),
            ("no file '\u{1b}[2J\n'", "no file '\\u{1b}[2J\\n'", "no file '\\u{1b}[2J\\n'"),
        ];
        for (sentence, shell, python) in cases {
            assert_eq!(render(sentence, Face::Shell), shell);
            assert_eq!(render(sentence, Face::Python), python);
        }
    }

    #[test]
    fn what_is_foreign_is_no_setting() {
        for text in ["`lab`", "`steps=3`", "`resume()`", "`", "``", "a`b", "`lab", "lab`", "```x```", "plain"]
        {
            let name = foreign(text);
            for (face, steps, drop) in
                [(Face::Shell, "--steps 3", "--drop "), (Face::Python, "steps=3", "drop=\"")]
            {
                let shown = render(&format!("'{name}': `steps=3`, or `motes resume {name}`, {name}"), face);
                assert_eq!(shown, format!("'{text}': {steps}, or `motes resume {text}`, {text}"));
                let shown = render(&format!("leave it out with `drop=x{name}`"), face);
                assert!(shown.starts_with(&format!("leave it out with {drop}x{text}")), "{shown}");
            }
        }
        assert_eq!(render(&foreign_path(Path::new("/tmp/`lab`")), Face::Shell), "/tmp/`lab`");
        let here = std::env::current_dir().unwrap();
        assert_eq!(foreign_path(&here.join("a/b.csv")), "a/b.csv");
        assert_eq!(foreign_path(&here), here.to_string_lossy());
    }
}
