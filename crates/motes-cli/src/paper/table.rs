//! Tables as Markdown, CSV and HTML.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::text;
use super::verdict::{Printed, Stats, Verdict};
use motes_app::report::escape;

/// A table with the paper's numbers beside ours.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Table {
    /// The name of its files.
    pub name: String,
    pub title: String,
    pub columns: Vec<String>,
    pub rows: Vec<Vec<Cell>>,
    /// The same numbers for machines.
    pub records: Vec<Record>,
}

/// What stands in one place.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Cell {
    pub text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Cell { text: text.into(), verdict: None }
    }
}

/// One line of the CSV file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    pub algorithm: String,
    pub particles: usize,
    pub quantity: String,
    pub convention: String,
    pub mean: Option<f64>,
    pub sd: Option<f64>,
    pub replicates: usize,
    pub paper_mean: Option<f64>,
    pub paper_sd: Option<f64>,
    pub paper_replicates: Option<usize>,
    pub verdict: String,
}

/// Where a number belongs.
pub struct Place<'a> {
    pub algorithm: &'a str,
    pub particles: usize,
    pub quantity: &'a str,
    pub convention: String,
}

impl Table {
    pub fn new(name: &str, title: impl Into<String>, columns: &[&str]) -> Self {
        let columns = columns.iter().map(|c| c.to_string()).collect();
        Table { name: name.into(), title: title.into(), columns, rows: Vec::new(), records: Vec::new() }
    }

    /// Our number as a cell, judged if the paper has one and a reason for differences is given; it is recorded too.
    pub fn cell(
        &mut self,
        place: Place<'_>,
        ours: Option<Stats>,
        paper: Option<Printed>,
        why: Option<&str>,
        decimals: usize,
    ) -> Cell {
        let verdict = ours.zip(paper).zip(why).map(|((ours, paper), why)| Verdict::of(ours, paper, why));
        let theirs = paper.map(|p| p.stats());
        self.records.push(Record {
            algorithm: place.algorithm.into(),
            particles: place.particles,
            quantity: place.quantity.into(),
            convention: place.convention,
            mean: ours.map(|s| s.mean),
            sd: ours.map(|s| s.sd),
            replicates: ours.map_or(0, |s| s.n),
            paper_mean: theirs.map(|s| s.mean),
            paper_sd: theirs.map(|s| s.sd),
            paper_replicates: theirs.map(|s| s.n),
            verdict: verdict.as_ref().map_or(String::new(), Verdict::words),
        });
        let text = ours.map_or("–".into(), |s| shown(s, decimals));
        Cell { text, verdict }
    }

    /// Our number beside the paper's of another scale, with which it cannot agree or disagree.
    pub fn cell_at_another_scale(
        &mut self,
        place: Place<'_>,
        ours: Option<Stats>,
        paper: Option<Printed>,
        decimals: usize,
    ) -> Cell {
        let mut cell = self.cell(place, ours, paper, None, decimals);
        cell.verdict = paper.map(|_| Verdict::AnotherScale);
        if let (Some(record), Some(verdict)) = (self.records.last_mut(), &cell.verdict) {
            record.verdict = verdict.words();
        }
        cell
    }

    /// How many cells agree, and how many were judged.
    pub fn agreement(&self) -> (usize, usize) {
        let judged = |v: &&Verdict| **v != Verdict::AnotherScale;
        let verdicts = || self.rows.iter().flatten().filter_map(|c| c.verdict.as_ref()).filter(judged);
        (verdicts().filter(|v| **v == Verdict::Agrees).count(), verdicts().count())
    }

    pub fn markdown(&self) -> String {
        let mut out = format!("| {} |\n|", self.columns.join(" | "));
        for i in 0..self.columns.len() {
            out.push_str(if i == 0 { "---|" } else { "---:|" });
        }
        out.push('\n');
        for row in &self.rows {
            let cells: Vec<String> = row
                .iter()
                .map(|cell| match &cell.verdict {
                    Some(verdict) => format!("{}<br>*{}*", cell.text, verdict.words()),
                    None => cell.text.clone(),
                })
                .collect();
            let _ = writeln!(out, "| {} |", cells.join(" | "));
        }
        out
    }

    pub fn html(&self) -> String {
        let mut out = String::from("<div class=\"scroll\"><table>\n<thead><tr>");
        for column in &self.columns {
            let _ = write!(out, "<th scope=\"col\">{}</th>", text::html(column));
        }
        out.push_str("</tr></thead>\n<tbody>\n");
        for row in &self.rows {
            out.push_str("<tr>");
            for (i, cell) in row.iter().enumerate() {
                let text = escape(&cell.text);
                let _ = match (&cell.verdict, i) {
                    (_, 0) => write!(out, "<th scope=\"row\">{text}</th>"),
                    (None, _) => write!(out, "<td><span>{text}</span></td>"),
                    (Some(verdict), _) => {
                        let tone = if *verdict == Verdict::Agrees { "good" } else { "care" };
                        let words = escape(&verdict.words());
                        write!(out, "<td><span>{text}</span><small class=\"{tone}\">{words}</small></td>")
                    }
                };
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</tbody></table></div>\n");
        out
    }

    pub fn csv(&self) -> Result<Vec<u8>, String> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        if self.records.is_empty() {
            let plain = |text: &str| text.replace('−', "-");
            writer.write_record(&self.columns).map_err(|e| e.to_string())?;
            for row in &self.rows {
                writer.write_record(row.iter().map(|c| plain(&c.text))).map_err(|e| e.to_string())?;
            }
        }
        for record in &self.records {
            writer.serialize(record).map_err(|e| e.to_string())?;
        }
        writer.into_inner().map_err(|e| e.to_string())
    }
}

/// Mean ± sd with so many decimals and a true minus sign.
pub fn shown(stats: Stats, decimals: usize) -> String {
    let mean = format!("{:.decimals$}", stats.mean).replace('-', "−");
    if stats.n < 2 { mean } else { format!("{mean} ± {:.decimals$}", stats.sd) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_says_the_same_in_every_format() {
        let mut table = Table::new("t", "A <table>", &["Algorithm", "Paper", "Ours"]);
        let place = || Place {
            algorithm: "PGD",
            particles: 1,
            quantity: "error",
            convention: "fixed, theirs".into(),
        };
        let paper = Printed::new("-3.58", "0.78", 100);
        let ours = Stats { mean: -1.0, sd: 0.5, n: 100, alike: true };
        let differs = table.cell(place(), Some(ours), Some(paper), Some("erratum 9"), 2);
        let agrees = table.cell(place(), Some(paper.stats()), Some(paper), Some("erratum 9"), 2);
        table.rows.push(vec!["PGD".into(), paper.shown().into(), differs]);
        table.rows.push(vec!["PGD".into(), paper.shown().into(), agrees]);
        assert_eq!(table.agreement(), (1, 2));
        assert_eq!(
            table.markdown(),
            "| Algorithm | Paper | Ours |\n|---|---:|---:|\n\
             | PGD | −3.58 ± 0.78 | −1.00 ± 0.50<br>*differs: erratum 9* |\n\
             | PGD | −3.58 ± 0.78 | −3.58 ± 0.78<br>*agrees* |\n"
        );
        assert!(
            table.html().contains(
                "<td><span>−1.00 ± 0.50</span><small class=\"care\">differs: erratum 9</small></td>"
            )
        );
        let csv = String::from_utf8(table.csv().unwrap()).unwrap();
        assert_eq!(
            csv.lines().nth(1).unwrap(),
            "PGD,1,error,\"fixed, theirs\",-1.0,0.5,100,-3.58,0.78,100,differs: erratum 9"
        );
    }
}
