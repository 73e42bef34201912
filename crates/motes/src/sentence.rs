//! Sentences that no face of Motes has to read: they name settings in backquotes, and each face renders them in its own words.
//!
//! `` `step-size=0.1` `` is `--step-size 0.1` on the command line and `step_size=0.1` in Python; `` `adjust` `` is `--adjust`
//! and `adjust`. A name with brackets is something to do: `` `resume()` ``.

use crate::printable::printable;

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
        match after.split_once('`').and_then(|(inside, after)| Some((rendered(inside, face)?, after))) {
            Some((words, after)) => {
                out.push_str(&words);
                rest = after;
            }
            None => {
                out.push('`');
                rest = after;
            }
        }
    }
    out + rest
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
}
