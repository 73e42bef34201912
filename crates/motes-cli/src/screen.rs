//! Text on a screen: lines that are too long for it end between words.

use std::borrow::Cow;
use std::io::IsTerminal;
use std::os::fd::AsFd;

/// Narrower screens show tables and sentences alike badly.
const NARROWEST: usize = 40;

/// The text as a terminal shows it best; as it is for other programs.
pub fn wrapped<'a>(text: &'a str, out: &(impl IsTerminal + AsFd)) -> Cow<'a, str> {
    let width = out.is_terminal().then(|| terminal_size::terminal_size_of(out)).flatten();
    match width.map(|(width, _)| usize::from(width.0)) {
        Some(width) if width >= NARROWEST => Cow::Owned(wrap(text, width)),
        _ => Cow::Borrowed(text),
    }
}

/// Breaks sentences that are longer than so many columns, and leaves tables alone.
fn wrap(text: &str, width: usize) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (body, end) = line.strip_suffix('\n').map_or((line, ""), |body| (body, "\n"));
        let indent = indent(body);
        // Rows of a table have gaps, which no sentence has.
        if body.chars().count() <= width || body.chars().skip(indent).collect::<String>().contains("  ") {
            out.push_str(line);
            continue;
        }
        let mut column = 0;
        for (i, word) in body.split(' ').enumerate() {
            let length = word.chars().count();
            if i > 0 && column > indent && column + 1 + length > width {
                out.push('\n');
                out.extend(std::iter::repeat_n(' ', indent));
                column = indent;
            } else if i > 0 {
                out.push(' ');
                column += 1;
            }
            out.push_str(word);
            column += length;
        }
        out.push_str(end);
    }
    out
}

/// Where a line's sentence begins: after the blanks at its start and the word that stands in a column before it.
fn indent(line: &str) -> usize {
    let blanks = line.chars().take_while(|c| *c == ' ').count();
    let rest: String = line.chars().skip(blanks).collect();
    match rest.split_once("  ") {
        Some((label, text)) if blanks > 0 && !label.contains(' ') => {
            blanks + label.chars().count() + 2 + text.chars().take_while(|c| *c == ' ').count()
        }
        _ => blanks,
    }
}

#[cfg(test)]
mod tests {
    use super::wrap;

    #[test]
    fn sentences_are_broken_between_words_below_where_they_begin() {
        let text = "  verdict   one two three four five six\n  files     a\n";
        assert_eq!(
            wrap(text, 24),
            "  verdict   one two\n            three four\n            five six\n  files     a\n"
        );
        assert_eq!(wrap("one two three", 7), "one two\nthree");
        let table = "  coefficient     mean       sd\n  a              1.000    0.100";
        assert_eq!(wrap(table, 20), table);
        assert_eq!(wrap("averyveryverylongword and", 8), "averyveryverylongword\nand");
    }
}
