//! Text in figures: elements for people's own fonts in SVG, outlines of an embedded font where there may be none.

use std::fmt::Write;
use std::sync::OnceLock;

use ttf_parser::{Face, OutlineBuilder};

use motes_app::report::escape;

/// Latin, Greek and mathematical characters of DejaVu Sans.
static FONT: &[u8] = include_bytes!("../../assets/DejaVuSans-subset.ttf");
/// Subscripts are this much smaller, and this far below the line in sizes of the text.
const SMALLER: f64 = 0.72;
const BELOW: f64 = 0.22;

/// Whether text is written or drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Letters {
    Written,
    Drawn,
}

/// Where a text stands relative to its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

/// How a text looks.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    pub size: f64,
    pub anchor: Anchor,
    pub colour: &'static str,
    /// Read upwards.
    pub upwards: bool,
}

fn face() -> &'static Face<'static> {
    static FACE: OnceLock<Face<'static>> = OnceLock::new();
    FACE.get_or_init(|| Face::parse(FONT, 0).expect("the embedded font is sound"))
}

/// Pieces of a text and whether they are subscripts: of `x_k` and `x_{k+1}`, what follows the underscore.
fn pieces(text: &str) -> Vec<(String, bool)> {
    let mut out = vec![(String::new(), false)];
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '_' {
            out.last_mut().expect("a piece").0.push(c);
            continue;
        }
        let sub = match chars.next() {
            Some('{') => chars.by_ref().take_while(|c| *c != '}').collect(),
            Some(c) => c.to_string(),
            None => String::new(),
        };
        out.push((sub, true));
        out.push((String::new(), false));
    }
    out.retain(|(piece, _)| !piece.is_empty());
    out
}

/// A text as HTML, with its subscripts.
pub fn html(text: &str) -> String {
    let piece = |(piece, sub): (String, bool)| {
        if sub { format!("<sub>{}</sub>", escape(&piece)) } else { escape(&piece) }
    };
    pieces(text).into_iter().map(piece).collect()
}

fn advance(c: char, size: f64) -> f64 {
    let face = face();
    let glyph = face.glyph_index(c).or_else(|| face.glyph_index('?')).unwrap_or_default();
    f64::from(face.glyph_hor_advance(glyph).unwrap_or(0)) * size / f64::from(face.units_per_em())
}

/// How wide a text is in the embedded font, which is wider than most.
pub fn width(text: &str, size: f64) -> f64 {
    let of_piece = |(piece, sub): &(String, bool)| -> f64 {
        let size = if *sub { SMALLER * size } else { size };
        piece.chars().map(|c| advance(c, size)).sum()
    };
    pieces(text).iter().map(of_piece).sum()
}

/// Adds a text to an SVG document.
pub fn write(out: &mut String, letters: Letters, (x, y): (f64, f64), text: &str, look: Look) {
    let Look { size, anchor, colour, upwards } = look;
    let turn = if upwards { format!(" transform=\"rotate(-90 {x:.1} {y:.1})\"") } else { String::new() };
    if letters == Letters::Drawn {
        let shift = match anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => -0.5 * width(text, size),
            Anchor::End => -width(text, size),
        };
        let _ =
            writeln!(out, "<path fill=\"{colour}\"{turn} d=\"{}\"/>", outlines(text, (x + shift, y), size));
        return;
    }
    let anchor = match anchor {
        Anchor::Start => "",
        Anchor::Middle => " text-anchor=\"middle\"",
        Anchor::End => " text-anchor=\"end\"",
    };
    let _ =
        write!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" fill=\"{colour}\"{anchor}{turn}>");
    let mut down = false;
    for (piece, sub) in pieces(text) {
        let piece = escape(&piece);
        let dy = BELOW * size;
        let _ = match (sub, down) {
            (true, _) => {
                write!(out, "<tspan dy=\"{dy:.1}\" font-size=\"{:.1}\">{piece}</tspan>", SMALLER * size)
            }
            (false, true) => write!(out, "<tspan dy=\"-{dy:.1}\">{piece}</tspan>"),
            (false, false) => write!(out, "{piece}"),
        };
        down = sub;
    }
    out.push_str("</text>\n");
}

/// The outlines of a text that starts at (x, y).
fn outlines(text: &str, (mut x, y): (f64, f64), size: f64) -> String {
    let mut path = Path { out: String::new(), x: 0.0, y: 0.0, scale: 0.0 };
    for (piece, sub) in pieces(text) {
        let (size, y) = if sub { (SMALLER * size, y + BELOW * size) } else { (size, y) };
        path.scale = size / f64::from(face().units_per_em());
        for c in piece.chars() {
            (path.x, path.y) = (x, y);
            if let Some(glyph) = face().glyph_index(c).or_else(|| face().glyph_index('?')) {
                face().outline_glyph(glyph, &mut path);
            }
            x += advance(c, size);
        }
    }
    path.out
}

struct Path {
    out: String,
    x: f64,
    y: f64,
    scale: f64,
}

impl Path {
    fn add(&mut self, letter: char, points: &[(f32, f32)]) {
        self.out.push(letter);
        for (x, y) in points {
            let _ = write!(
                self.out,
                "{:.2} {:.2} ",
                self.x + self.scale * f64::from(*x),
                self.y - self.scale * f64::from(*y)
            );
        }
    }
}

impl OutlineBuilder for Path {
    fn move_to(&mut self, x: f32, y: f32) {
        self.add('M', &[(x, y)]);
    }
    fn line_to(&mut self, x: f32, y: f32) {
        self.add('L', &[(x, y)]);
    }
    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        self.add('Q', &[(x1, y1), (x, y)]);
    }
    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        self.add('C', &[(x1, y1), (x2, y2), (x, y)]);
    }
    fn close(&mut self) {
        self.out.push('Z');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subscripts_are_marked_by_underscores() {
        let found = pieces("θ_k and X_{k+1}");
        let want = [("θ", false), ("k", true), (" and X", false), ("k+1", true)];
        assert_eq!(found, want.map(|(p, s)| (p.to_string(), s)));
        assert!(width("θ_k", 10.0) < width("θk", 10.0));
    }

    #[test]
    fn every_character_in_use_has_an_outline() {
        for c in "abcxyzABCXYZ0123456789.,;:()[]{}+=<>/%*'−–±×·²αβθρλ∗√≤≥→…̄".chars()
        {
            assert!(face().glyph_index(c).is_some(), "{c} is missing");
        }
        assert!(outlines("θ_∗ = 1", (0.0, 0.0), 12.0).len() > 200);
    }
}
