//! Figures: a row of panels as SVG, and PNG from the same SVG.

use std::fmt::Write;

use super::axis::Axis;
use super::text::{self, Anchor, Letters, Look};

const INK: &str = "#1d2125";
const SOFT: &str = "#5b646e";
const RULE: &str = "#dfe3e7";
const TEXT: f64 = 12.0;
const SMALL: f64 = 11.0;
const WIDTH: f64 = 1040.0;
const PLOT_HEIGHT: f64 = 236.0;
const TOP: f64 = 34.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 24.0;
const BELOW_PLOT: f64 = 46.0;
const LEGEND_LINE: f64 = 19.0;
const SAMPLE: f64 = 34.0;
/// PNG pixels to an SVG unit.
const PIXELS: f32 = 2.0;

/// What a series looks like: in colours that colour-blind people tell apart (Okabe and Ito), and in grey by its dashes
/// and marks.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    pub colour: &'static str,
    pub dash: &'static str,
    pub mark: Mark,
    pub width: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    None,
    Circle,
    Square,
    Triangle,
    Diamond,
    Cross,
}

const fn style(colour: &'static str, dash: &'static str, mark: Mark) -> Style {
    Style { colour, dash, mark, width: 1.6 }
}

/// Styles in the order in which they are used.
pub const STYLES: [Style; 5] = [
    style("#0072b2", "", Mark::Circle),
    style("#d55e00", "7 3", Mark::Square),
    style("#009e73", "9 3 2 3", Mark::Triangle),
    style("#aa4499", "2 2.5", Mark::Diamond),
    style("#b07d00", "12 4", Mark::Cross),
];
/// For what is known exactly.
pub const TRUTH: Style = Style { colour: INK, dash: "5 4", mark: Mark::None, width: 1.2 };

/// Points joined by a line.
#[derive(Clone, Debug)]
pub struct Line {
    /// What the legend calls it; nothing if it is empty.
    pub name: String,
    pub points: Vec<(f64, f64)>,
    pub style: Style,
}

/// One set of axes.
#[derive(Clone, Debug)]
pub struct Panel {
    pub title: String,
    pub x: Axis,
    pub y: Axis,
    pub lines: Vec<Line>,
    /// Single marks, such as optima and limits.
    pub marks: Vec<((f64, f64), Style)>,
    /// Words inside the plot.
    pub words: Vec<((f64, f64), String)>,
    /// A part of the plot, magnified into this rectangle (left, top, right, bottom as fractions of the plot).
    pub inset: Option<(Box<Panel>, [f64; 4])>,
    /// Entries of the legend that belong to no line: marks and what they mean.
    pub keys: Vec<(Style, String)>,
}

impl Panel {
    pub fn new(title: &str, x: Axis, y: Axis) -> Self {
        let (lines, marks, words, keys) = (vec![], vec![], vec![], vec![]);
        Panel { title: title.into(), x, y, lines, marks, words, inset: None, keys }
    }

    pub fn line(&mut self, name: impl Into<String>, points: Vec<(f64, f64)>, style: Style) {
        self.lines.push(Line { name: name.into(), points, style });
    }

    /// A horizontal line over the whole width, for a known value.
    pub fn level(&mut self, name: &str, y: f64, style: Style) {
        self.line(name, vec![(self.x.min, y), (self.x.max, y)], style);
    }

    fn legend(&self) -> Vec<(Style, &str)> {
        let lines = self.lines.iter().filter(|l| !l.name.is_empty()).map(|l| (l.style, l.name.as_str()));
        lines.chain(self.keys.iter().map(|(style, name)| (*style, name.as_str()))).collect()
    }

    /// The legend in lines that fit: each entry with its distance from the left.
    fn legend_lines(&self, room: f64) -> Vec<Vec<(f64, Style, &str)>> {
        let mut lines: Vec<Vec<(f64, Style, &str)>> = Vec::new();
        let mut x = f64::INFINITY;
        for (style, name) in self.legend() {
            let needs = SAMPLE + 6.0 + text::width(name, SMALL) + 14.0;
            if x + needs > room + 14.0 {
                lines.push(Vec::new());
                x = 0.0;
            }
            lines.last_mut().expect("a line").push((x, style, name));
            x += needs;
        }
        lines
    }
}

/// Panels (a), (b), ... side by side.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Unique on a page: elements are named after it.
    pub name: &'static str,
    pub panels: Vec<Panel>,
    /// What the picture shows, for those who cannot see it.
    pub description: String,
    /// A line below, for what must not be overlooked.
    pub note: String,
}

struct Canvas {
    out: String,
    name: &'static str,
    letters: Letters,
    clips: usize,
}

impl Figure {
    pub fn svg(&self, letters: Letters) -> String {
        let room = WIDTH / self.panels.len() as f64;
        let plot = room - LEFT - RIGHT;
        let legend = self.panels.iter().map(|p| p.legend_lines(plot + LEFT - 10.0).len()).max().unwrap_or(0);
        let note = if self.note.is_empty() { 0.0 } else { 24.0 };
        let height = TOP + PLOT_HEIGHT + BELOW_PLOT + LEGEND_LINE * legend as f64 + note + 6.0;
        let mut canvas = Canvas { out: String::new(), name: self.name, letters, clips: 0 };
        let described = motes_app::report::escape(&self.description);
        let _ = writeln!(
            canvas.out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" width=\"{WIDTH}\" height=\"{height:.0}\" \
             font-family=\"'DejaVu Sans', Verdana, 'Segoe UI', sans-serif\" role=\"img\" aria-label=\"{described}\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>"
        );
        for (i, panel) in self.panels.iter().enumerate() {
            let left = i as f64 * room + LEFT;
            canvas.panel(panel, [left, TOP, left + plot, TOP + PLOT_HEIGHT], false);
            let title = format!("({}) {}", (b'a' + i as u8) as char, panel.title);
            canvas.text((left - LEFT + 10.0, 19.0), &title, 13.0, Anchor::Start, INK);
            for (row, line) in panel.legend_lines(plot + LEFT - 10.0).iter().enumerate() {
                let y = TOP + PLOT_HEIGHT + BELOW_PLOT + LEGEND_LINE * (row as f64 + 0.5);
                for (x, style, name) in line {
                    let x = left - LEFT + 20.0 + x;
                    canvas.stroke(&[(x, y), (x + SAMPLE, y)], *style, None);
                    canvas.mark((x + SAMPLE / 2.0, y), *style);
                    canvas.text((x + SAMPLE + 6.0, y + 4.0), name, SMALL, Anchor::Start, INK);
                }
            }
        }
        if !self.note.is_empty() {
            canvas.text((10.0, height - 10.0), &self.note, SMALL, Anchor::Start, SOFT);
        }
        canvas.out + "</svg>\n"
    }

    /// The picture in pixels, from the SVG with text drawn from the embedded font.
    pub fn png(&self) -> Result<Vec<u8>, String> {
        use resvg::{tiny_skia, usvg};
        let failed =
            |e: &dyn std::fmt::Display| format!("a figure could not be drawn: {e}; use the SVG file");
        let svg = self.svg(Letters::Drawn);
        let tree = usvg::Tree::from_str(&svg, &usvg::Options::default()).map_err(|e| failed(&e))?;
        let size = tree.size().to_int_size().scale_by(PIXELS).ok_or_else(|| failed(&"it has no size"))?;
        let pixels = tiny_skia::Pixmap::new(size.width(), size.height());
        let mut pixels = pixels.ok_or_else(|| failed(&"it is too large"))?;
        resvg::render(&tree, tiny_skia::Transform::from_scale(PIXELS, PIXELS), &mut pixels.as_mut());
        pixels.encode_png().map_err(|e| failed(&e))
    }
}

impl Canvas {
    fn text(&mut self, at: (f64, f64), text: &str, size: f64, anchor: Anchor, colour: &'static str) {
        let look = Look { size, anchor, colour, upwards: false };
        text::write(&mut self.out, self.letters, at, text, look);
    }

    /// A panel in the rectangle [left, top, right, bottom].
    fn panel(&mut self, panel: &Panel, [left, top, right, bottom]: [f64; 4], inset: bool) {
        let place = |(x, y): (f64, f64)| {
            let up = panel.y.fraction(y) * (bottom - top);
            (left + panel.x.fraction(x) * (right - left), bottom - up)
        };
        let (width, height) = (right - left, bottom - top);
        let _ = writeln!(
            self.out,
            "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"#ffffff\"/>"
        );
        let size = if inset { 9.5 } else { SMALL };
        let mut grid = String::new();
        let (x_ticks, y_ticks) = if inset { (3, 3) } else { (5, 5) };
        for (x, label) in panel.x.ticks(x_ticks) {
            let (px, _) = place((x, panel.y.min));
            let _ = write!(grid, "M{px:.1} {top:.1}V{bottom:.1}");
            self.text((px, bottom + size + 4.0), &label, size, Anchor::Middle, SOFT);
        }
        for (y, label) in panel.y.ticks(y_ticks) {
            let (_, py) = place((panel.x.min, y));
            let _ = write!(grid, "M{left:.1} {py:.1}H{right:.1}");
            self.text((left - 6.0, py + 0.36 * size), &label, size, Anchor::End, SOFT);
        }
        let _ =
            writeln!(self.out, "<path d=\"{grid}\" stroke=\"{RULE}\" stroke-width=\"0.8\" fill=\"none\"/>");
        self.clips += 1;
        let clip = format!("{}-{}", self.name, self.clips);
        let _ = writeln!(
            self.out,
            "<clipPath id=\"{clip}\"><rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"/></clipPath>"
        );
        for (i, line) in panel.lines.iter().enumerate() {
            // What leaves the plot by far is cut off there: huge coordinates help nobody.
            let far = |(x, y): (f64, f64)| (x, y.clamp(top - 4.0 * height, bottom + 4.0 * height));
            let points: Vec<(f64, f64)> = line.points.iter().map(|p| far(place(*p))).collect();
            self.stroke(&points, line.style, Some(&clip));
            if line.style.mark != Mark::None && !inset {
                self.spread_marks(&points, line.style, i, [left, top, right, bottom]);
            }
        }
        for (at, style) in &panel.marks {
            self.mark(place(*at), *style);
        }
        for (at, words) in &panel.words {
            self.text(place(*at), words, SMALL, Anchor::Start, INK);
        }
        let _ = writeln!(
            self.out,
            "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"none\" stroke=\"{SOFT}\" stroke-width=\"0.9\"/>"
        );
        if !inset {
            self.text((0.5 * (left + right), bottom + 35.0), &panel.x.label, TEXT, Anchor::Middle, INK);
            let at = (left - LEFT + 15.0, 0.5 * (top + bottom));
            let look = Look { size: TEXT, anchor: Anchor::Middle, colour: INK, upwards: true };
            text::write(&mut self.out, self.letters, at, &panel.y.label, look);
        }
        if let Some((part, [l, t, r, b])) = &panel.inset {
            let inside = [left + l * width, top + t * height, left + r * width, top + b * height];
            let _ = writeln!(
                self.out,
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"#ffffff\" stroke=\"{RULE}\"/>",
                inside[0] - 36.0,
                inside[1] - 8.0,
                inside[2] - inside[0] + 44.0,
                inside[3] - inside[1] + 27.0
            );
            self.panel(part, inside, true);
        }
    }

    fn stroke(&mut self, points: &[(f64, f64)], style: Style, clip: Option<&str>) {
        let mut path = String::new();
        for (i, (x, y)) in simplified(points, 0.2).into_iter().enumerate() {
            let _ = write!(path, "{}{x:.1} {y:.1}", if i == 0 { "M" } else { "L" });
        }
        let dash = match style.dash {
            "" => String::new(),
            dash => format!(" stroke-dasharray=\"{dash}\""),
        };
        let clip = clip.map_or(String::new(), |id| format!(" clip-path=\"url(#{id})\""));
        let _ = writeln!(
            self.out,
            "<path d=\"{path}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\" stroke-linejoin=\"round\"{dash}{clip}/>",
            style.colour, style.width
        );
    }

    /// Some marks along a line, at places of its own so that lines that coincide are still seen.
    fn spread_marks(
        &mut self,
        points: &[(f64, f64)],
        style: Style,
        i: usize,
        [left, top, right, bottom]: [f64; 4],
    ) {
        let step = (right - left) / 6.0;
        let mut next = left + step * (0.25 + 0.17 * (i % 6) as f64);
        for (x, y) in points {
            if *x >= next {
                if (top..=bottom).contains(y) && *x <= right {
                    self.mark((*x, *y), style);
                }
                next = x + step;
            }
        }
    }

    fn mark(&mut self, (x, y): (f64, f64), style: Style) {
        let r = 3.4;
        let shape = match style.mark {
            Mark::None => return,
            Mark::Circle => {
                format!("M{:.1} {y:.1}a{r} {r} 0 1 0 {} 0a{r} {r} 0 1 0 -{} 0Z", x - r, 2.0 * r, 2.0 * r)
            }
            Mark::Square => format!("M{:.1} {:.1}h6v6h-6Z", x - 3.0, y - 3.0),
            Mark::Triangle => format!("M{x:.1} {:.1}l4 7h-8Z", y - 4.2),
            Mark::Diamond => format!("M{x:.1} {:.1}l4.2 4.2l-4.2 4.2l-4.2 -4.2Z", y - 4.2),
            Mark::Cross => format!("M{:.1} {:.1}l6 6m0 -6l-6 6", x - 3.0, y - 3.0),
        };
        let colour = style.colour;
        let _ = writeln!(
            self.out,
            "<path d=\"{shape}\" fill=\"#ffffff\" stroke=\"{colour}\" stroke-width=\"1.4\"/>"
        );
    }
}

/// Leaves out points that are within `tolerance` of the line through their neighbours (Douglas and Peucker).
fn simplified(points: &[(f64, f64)], tolerance: f64) -> Vec<(f64, f64)> {
    if points.len() < 3 {
        return points.to_vec();
    }
    let mut keep = vec![false; points.len()];
    (keep[0], keep[points.len() - 1]) = (true, true);
    let mut open = vec![(0, points.len() - 1)];
    while let Some((first, last)) = open.pop() {
        let ((x0, y0), (x1, y1)) = (points[first], points[last]);
        let (dx, dy) = (x1 - x0, y1 - y0);
        let length = libm::hypot(dx, dy).max(1e-12);
        let distance = |i: usize| ((points[i].0 - x0) * dy - (points[i].1 - y0) * dx).abs() / length;
        let farthest = (first + 1..last).max_by(|a, b| distance(*a).total_cmp(&distance(*b)));
        if let Some(i) = farthest.filter(|i| distance(*i) > tolerance) {
            keep[i] = true;
            open.extend([(first, i), (i, last)]);
        }
    }
    points.iter().zip(keep).filter(|(_, keep)| *keep).map(|(p, _)| *p).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_points_that_show_are_kept() {
        let straight: Vec<(f64, f64)> = (0..100).map(|i| (i as f64, 2.0 * i as f64)).collect();
        assert_eq!(simplified(&straight, 0.1), [(0.0, 0.0), (99.0, 198.0)]);
        let mut bent = straight.clone();
        bent[40].1 += 1.0;
        assert!(simplified(&bent, 0.1).contains(&bent[40]));
    }

    #[test]
    fn a_picture_has_text_even_without_fonts() {
        let mut panel = Panel::new("title", Axis::new("x", 0.0, 1.0), Axis::new("y", 0.0, 1.0));
        panel.line("line", vec![(0.0, 0.0), (1.0, 1.0)], STYLES[0]);
        let figure =
            Figure { name: "test", panels: vec![panel], description: "a line".into(), note: "quick".into() };
        assert!(figure.svg(Letters::Written).contains(">(a) title</text>"));
        let drawn = figure.svg(Letters::Drawn);
        assert!(!drawn.contains("<text"));
        let png = figure.png().unwrap();
        assert_eq!(&png[1..4], b"PNG");
    }
}
