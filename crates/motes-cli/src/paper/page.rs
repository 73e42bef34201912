//! The pages on which everything is shown: report.html for browsers, results.md for the repository.

use std::fmt::Write;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::table::Table;
use super::text;
use motes_app::report::{STYLE, base64, escape};

/// One item as it is shown, with how it was made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Section {
    pub item: String,
    pub title: String,
    pub setting: String,
    pub fewer: String,
    pub figure: Option<String>,
    pub picture: Option<String>,
    pub tables: Vec<Table>,
    pub notes: Vec<String>,
    pub made: Made,
}

/// How, when and where something was made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Made {
    pub command: String,
    pub date: String,
    pub machine: String,
    pub version: String,
    pub commit: Option<String>,
}

impl Made {
    pub fn now(command: String) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        Made {
            command,
            date: date(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())),
            machine: format!("{}, {cores} cores, {}{}", processor(), motes::simd::level_name(), load()),
            version: env!("CARGO_PKG_VERSION").into(),
            commit: commit(),
        }
    }

    fn words(&self) -> String {
        let commit = self.commit.as_ref().map_or(String::new(), |c| format!(", commit {c}"));
        format!("on {} by Motes {}{commit}, on {}", self.date, self.version, self.machine)
    }
}

/// The day (UTC) of a second since 1970, as 2023-04-25.
fn date(seconds: u64) -> String {
    // Days since 0000-03-01, so that leap days come last in a year (H. Hinnant's algorithm).
    let days = seconds / 86_400 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year}-{month:02}-{day:02}")
}

fn processor() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model =
        info.lines().find(|line| line.starts_with("model name")).and_then(|line| line.split_once(':'));
    model.map_or(std::env::consts::ARCH.into(), |(_, name)| name.trim().to_string())
}

/// How busy the machine is, which tells how far times can be trusted.
fn load() -> String {
    let averages = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    averages.split_whitespace().nth(2).map_or(String::new(), |load| format!(", load average {load}"))
}

/// The commit of the checkout in which the command runs, if it is one.
fn commit() -> Option<String> {
    let git = |arguments: &[&str]| {
        let output = std::process::Command::new("git").args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_string())
    };
    let commit = git(&["rev-parse", "--short=10", "HEAD"]).filter(|c| !c.is_empty())?;
    let changed = git(&["status", "--porcelain", "--untracked-files=no", "--", "crates", "Cargo.toml"])?;
    Some(if changed.is_empty() { commit } else { format!("{commit} with changes") })
}

const VERDICT: &str = "A verdict stands in each cell for which the paper has a number: it agrees if the difference of the means is at most 4 standard errors of both together, plus half a unit of the paper's last digit; with fewer than 10 replicates the larger of the two standard deviations stands for ours, unless ours are longer runs. Numbers in brackets are errata of the paper and of its authors' code, explained below each table. Where ours is of another scale than the paper's, the cell says so and nothing is judged.";

/// The file that holds the picture of an item.
pub fn picture(item: &str) -> String {
    format!("{item}-pictures.png")
}

/// Everything for a browser, in one file that asks for nothing from outside. `svg` gives the figure of an item, `png` its
/// picture.
pub fn html(sections: &[Section], svg: impl Fn(&str) -> String, png: impl Fn(&str) -> Vec<u8>) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"generator\" content=\"Motes {version}\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>The paper, reproduced – Motes</title>\n<style>\n{STYLE}{OWN_STYLE}</style>\n</head>\n<body>\n<main>\n\
         <header><p class=\"kind\">Motes {version}</p><h1>The paper, reproduced</h1>\n\
         <p class=\"sub\">Kuntz, Lim and Johansen, Particle algorithms for maximum likelihood training of latent variable models, AISTATS 2023</p></header>\n"
    );
    out.push_str("<nav>");
    for section in sections {
        let _ = write!(out, "<a href=\"#{}\">{0}</a> ", escape(&section.item));
    }
    out.push_str("</nav>\n");
    let _ = writeln!(out, "<p class=\"note\">{VERDICT}</p>");
    for section in sections {
        let Section { item, title, setting, fewer, figure, picture, tables, notes, made } = section;
        let _ = writeln!(
            out,
            "<section id=\"{}\">\n<h2>{}</h2>\n<p>{}</p>",
            escape(item),
            text::html(title),
            text::html(setting)
        );
        if !fewer.is_empty() {
            let _ = writeln!(out, "<p class=\"care fewer\">{}</p>", escape(fewer));
        }
        if figure.is_some() {
            let _ = writeln!(out, "<div class=\"scroll figure\">{}</div>", svg(item));
        }
        for table in tables {
            let fewer = if fewer.is_empty() {
                String::new()
            } else {
                format!(" <span class=\"care\">{}</span>", escape(in_short(fewer)))
            };
            let _ = writeln!(out, "<h3>{}{fewer}</h3>\n{}", text::html(&table.title), table.html());
        }
        if let Some(description) = picture {
            let (described, bytes) = (escape(description), base64(&png(item)));
            let _ = writeln!(
                out,
                "<div class=\"scroll\"><img class=\"picture\" alt=\"{described}\" src=\"data:image/png;base64,{bytes}\"></div>\n\
                 <p class=\"note\">{described}.</p>"
            );
        }
        for note in notes {
            let _ = writeln!(out, "<p class=\"note\">{}</p>", text::html(note));
        }
        let _ = writeln!(
            out,
            "<p class=\"note\">Made by <code>{}</code> {}.</p>\n</section>",
            escape(&made.command),
            escape(&made.words())
        );
    }
    out + "</main>\n<footer>This file needs no network.</footer>\n</body>\n</html>\n"
}

const OWN_STYLE: &str = "\
main { max-width: 70rem; }
nav { margin: 1rem 0; } nav a { margin-right: 0.8rem; }
a { color: var(--c0); }
section { border-top: 1px solid var(--rule); padding-top: 1.4rem; }
h2 { font-size: 1.3rem; } h3 { font-size: 1rem; font-weight: 600; margin: 1.6rem 0 0; }
h3 span { font-weight: 400; font-size: 0.85rem; }
.care { color: var(--tone); }
td, thead th { white-space: normal; vertical-align: top; } tbody th { vertical-align: top; } td span { white-space: nowrap; }
td small { display: block; color: var(--tone); font-size: 0.72rem; line-height: 1.3; }
td:nth-child(n+3) { min-width: 6.4rem; }
.figure { background: #ffffff; border-radius: 6px; } .figure svg { display: block; width: 100%; min-width: 44rem; height: auto; }
.picture { display: block; max-width: 100%; margin-top: 1rem; }
.note { max-width: 60rem; } .note code { padding: 0.1rem 0.35rem; }
@media print { .figure svg { min-width: 0; } section { break-inside: avoid; } nav { display: none; } }
";

/// Everything as Markdown; figures are linked below `images`.
pub fn markdown(sections: &[Section], images: &str, regenerate: &str) -> String {
    let mut out = format!(
        "# Results\n\n<!-- Generated by `motes paper`; do not edit: run the command below again instead. -->\n\n\
         The figures and tables of Kuntz, Lim and Johansen (AISTATS 2023), reproduced from nothing but the `motes` binary and its embedded data.\n\
         This page is generated by\n\n```sh,slow\n{regenerate}\n```\n\n{VERDICT}\n"
    );
    for section in sections {
        let Section { item, title, setting, fewer, figure, picture, tables, notes, made } = section;
        let _ = write!(out, "\n## {title}\n\n{setting}\n");
        if !fewer.is_empty() {
            let _ = write!(out, "\n**{fewer}**\n");
        }
        if let Some(description) = figure {
            let _ = write!(out, "\n![{description}]({images}{item}.svg)\n");
        }
        for table in tables {
            let fewer = if fewer.is_empty() { String::new() } else { format!(" ({})", in_short(fewer)) };
            let _ = write!(out, "\n**{}**{fewer}\n\n{}", table.title, table.markdown());
        }
        if let Some(description) = picture {
            let file = self::picture(item);
            let _ = write!(out, "\n![{description}]({images}{file})\n\n*{description}.*\n");
        }
        if !notes.is_empty() {
            out.push('\n');
        }
        for note in notes {
            let _ = writeln!(out, "- {note}");
        }
        let _ = write!(out, "\n*Made by `{}` {}.*\n", made.command, made.words());
    }
    out
}

/// What differs from the paper's setting, without its list.
fn in_short(fewer: &str) -> &str {
    fewer.split(':').next().unwrap_or_default().trim_end_matches('.')
}

/// One table on its own.
pub fn table_markdown(section: &Section, table: &Table) -> String {
    let mut out = format!("# {}\n\n{}\n", table.title, section.setting);
    if !section.fewer.is_empty() {
        let _ = write!(out, "\n**{}**\n", section.fewer);
    }
    let _ = write!(out, "\n{}\n", table.markdown());
    for note in &section.notes {
        let _ = writeln!(out, "- {note}");
    }
    let _ = write!(out, "\n{VERDICT}\n\n*Made by `{}` {}.*\n", section.made.command, section.made.words());
    out
}

/// The sections stored in a directory, in the order of `names`. Those that cannot be read are left out.
pub fn stored(dir: &Path, names: &[&str]) -> Vec<Section> {
    let read =
        |name: &&str| serde_json::from_slice(&std::fs::read(dir.join(format!("{name}.json"))).ok()?).ok();
    names.iter().filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_counted_right() {
        assert_eq!(date(0), "1970-01-01");
        assert_eq!(date(951_782_400), "2000-02-29");
        assert_eq!(date(1_682_380_800), "2023-04-25");
        assert_eq!(date(4_107_542_399), "2100-02-28");
        assert_eq!(date(4_107_542_400), "2100-03-01");
    }
}
