//! The one form in which text and numbers from elsewhere are shown: a name in a file must not move the cursor, and no number
//! fills the screen.

use std::borrow::Cow;
use std::fmt;

/// Whether a character acts on the screen, or on the order of the characters around it, rather than standing for itself.
fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{feff}')
        || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{fff9}'..='\u{fffb}')
        || matches!(c, '\u{e0000}'..='\u{e007f}')
}

/// The text with everything escaped that would act on a terminal instead of being seen, line ends included.
pub fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, acts)
}

/// The same for a text of several lines, whose ends are meant.
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| c != '\n' && acts(c))
}

fn escaped(text: &str, acts: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&acts) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if acts(c) { out.extend(c.escape_default()) } else { out.push(c) }
    }
    Cow::Owned(out)
}

/// A message of several lines, as other crates and other people's functions have them, as one.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A number as people write it: as it is where that is short, else in powers of ten, such as 1e300.
#[derive(Clone, Copy, Debug)]
pub struct Number(pub f64);

impl Number {
    fn is_long(self) -> bool {
        self.0.is_finite() && self.0 != 0.0 && !(1e-15..1e15).contains(&self.0.abs())
    }

    /// With so many decimals, where it is not too large or too small for any.
    pub fn with_decimals(self, decimals: usize) -> String {
        let Number(value) = self;
        match value.is_finite() && value.abs() >= 1e15 {
            // With four digits, of which zeros at the end say nothing.
            true => format!("{:e}", format!("{value:.3e}").parse().unwrap_or(value)),
            false => format!("{value:.decimals$}"),
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_long() { write!(f, "{:e}", self.0) } else { self.0.fmt(f) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_foreign_acts_on_the_screen() {
        for (foreign, shown) in [
            ("plain größe 数 🙂 `x`", "plain größe 数 🙂 `x`"),
            ("\u{1b}[31mred\u{1b}[0m", "\\u{1b}[31mred\\u{1b}[0m"),
            ("a\r\nb\tc\u{7}\u{0}", "a\\r\\nb\\tc\\u{7}\\u{0}"),
            ("\u{9b}2J", "\\u{9b}2J"),
            ("abc\u{202e}fdp.exe", "abc\\u{202e}fdp.exe"),
            ("zero\u{200b}width", "zero\\u{200b}width"),
        ] {
            assert_eq!(printable(foreign), shown);
        }
        assert_eq!(printable_lines("a\n\u{1b}b\r\n"), "a\n\\u{1b}b\\r\n");
        assert_eq!(one_line(" two\n  lines\r\nor three "), "two lines or three");
    }

    #[test]
    fn no_number_is_long() {
        for (value, shown) in [
            (0.1, "0.1"),
            (-3.0, "-3"),
            (0.0, "0"),
            (1e14, "100000000000000"),
            (1e15, "1e15"),
            (-1.5e300, "-1.5e300"),
            (1e-300, "1e-300"),
            (1e-8, "0.00000001"),
            (f64::INFINITY, "inf"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(Number(value).to_string(), shown);
        }
        assert_eq!(format!("{:>6}", Number(2.5)), "   2.5");
        assert_eq!(Number(1e300).with_decimals(5), "1e300");
        assert_eq!(Number(-1.23456e20).with_decimals(5), "-1.235e20");
        assert_eq!(Number(123.456789).with_decimals(3), "123.457");
        assert_eq!(Number(1e-300).with_decimals(5), "0.00000");
        assert_eq!(Number(f64::NAN).with_decimals(5), "NaN");
    }
}
