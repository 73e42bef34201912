//! `motes paper`: the figures and tables of the paper, from nothing but the binary and its embedded data.

mod axis;
mod display;
mod figure;
mod items;
mod page;
mod replicates;
mod table;
mod task;
mod text;
mod training;
mod verdict;

use std::io::Write;
use std::path::{Path, PathBuf};

use motes::files::{Durable, is_unfinished, sweep, write_atomically};
use motes::sentence::foreign_path;
use motes::settings::unknown;
use motes::{Ended, memory};
use motes_models::data::write_grid;

use crate::args::PaperArgs;
use crate::progress::Interrupt;
use items::{ITEMS, Item, Plan};
use page::{Made, Section};
use replicates::{Job, Needs, Outcomes, Store};
use text::Letters;

/// What says that a directory is ours.
const MARK: &str = "paper.json";
const MAX_JOBS: usize = 1024;

/// Reproduces the items that the command line names, or all.
pub fn paper(args: PaperArgs) -> Result<Ended, String> {
    let chosen = chosen(&args.items)?;
    let plan = plan(&args)?;
    let workers = match args.jobs {
        None => std::thread::available_parallelism().map_or(1, |n| n.get()),
        Some(0) => return Err("--jobs 0 leaves nobody to work; use 1 or more, or leave it out".into()),
        Some(j) if j > MAX_JOBS => {
            return Err(format!("--jobs {j} is more than {MAX_JOBS}; leave it out to use all cores"));
        }
        Some(j) => j,
    };
    let place = Output { dir: args.out.unwrap_or_else(|| PathBuf::from("runs/paper")), docs: args.docs };
    place.claim()?;
    let store = Store::open(&place.dir)?;
    let interrupt = Interrupt::listen();
    let made = Made::now(command_line());
    let needs: Vec<Needs> =
        chosen.iter().map(|item| Needs { item: item.name, jobs: (item.jobs)(plan) }).collect();
    enough_memory(&needs, workers)?;
    let mut lines = Vec::new();
    let ended = replicates::carry_out(&needs, workers, &store, &interrupt, |i, outcomes| {
        lines.push(place.item(chosen[i], plan, outcomes, &made)?);
        place.pages()
    })?;
    // That nobody reads it is no error.
    lines.iter().for_each(|line| drop(crate::print(&format!("{line}\n"))));
    match ended {
        Ended::Complete => {
            drop(crate::print(&format!("{}\n", place.dir.join("report.html").to_string_lossy())))
        }
        Ended::Early => say!(
            "stopped; the replicates that are done are kept in {}; go on with: {}",
            foreign_path(&place.dir),
            made.command
        ),
    }
    Ok(ended)
}

fn chosen(names: &[String]) -> Result<Vec<&'static Item>, String> {
    let all: Vec<&str> = ITEMS.iter().map(|item| item.name).collect();
    if let Some(name) = names.iter().find(|name| !all.contains(&name.as_str())) {
        return Err(unknown("item", name, &all));
    }
    let wanted = |item: &&Item| match names {
        [] => !item.named,
        _ => names.iter().any(|name| name == item.name),
    };
    Ok(ITEMS.iter().filter(wanted).collect())
}

/// Refuses trainings that do not fit beside each other.
fn enough_memory(needs: &[Needs], workers: usize) -> Result<(), String> {
    let mut bytes: Vec<u128> = needs.iter().flat_map(|need| need.jobs.iter().map(Job::bytes)).collect();
    bytes.sort_by(|a, b| b.cmp(a));
    let together = |workers: usize| bytes.iter().take(workers).sum::<u128>();
    let Some(available) = memory::available().filter(|there| together(workers) > *there) else {
        return Ok(());
    };
    let fits = (1..workers).rev().find(|j| together(*j) <= available);
    Err(format!(
        "{} trainings at once need about {}, but {} are available; {}",
        workers.min(bytes.len()),
        memory::size(together(workers)),
        memory::size(available),
        fits.map_or("use --quick or a larger machine".into(), |j| format!("use --jobs {j}"))
    ))
}

fn plan(args: &PaperArgs) -> Result<Plan, String> {
    let mut plan = if args.full { Plan::FULL } else { Plan::QUICK };
    let generators = &mut plan.generators;
    for (flag, chosen, most) in [
        ("--steps", args.steps, 10_000_000),
        ("--inpaint", args.inpaint, 2000), // those that are built in
    ] {
        let Some(n) = chosen else { continue };
        if !args.items.iter().any(|item| item == "table4") {
            return Err(format!("{flag} belongs to table4; name that item or leave {flag} out"));
        }
        if !(1..=most).contains(&n) {
            return Err(format!("{flag} {n} is not from 1 to {most}; choose such a number or leave it out"));
        }
    }
    generators.steps = args.steps.unwrap_or(generators.steps);
    generators.inpainted = args.inpaint.map_or(generators.inpainted, |n| n as usize);
    match args.replicates {
        None => Ok(plan),
        Some(r) if (1..=100_000).contains(&r) => Ok(plan.replicates(r)),
        Some(r) => {
            Err(format!("--replicates {r} is not from 1 to 100000; choose such a number or leave it out"))
        }
    }
}

/// The command as it was given, for people to repeat.
fn command_line() -> String {
    let word = |word: std::ffi::OsString| match word.to_str() {
        Some(flag) if flag.starts_with("--") => flag.to_string(),
        _ => motes_app::report::shell(Path::new(&word)),
    };
    let words = std::env::args_os().skip(1).map(word);
    std::iter::once("motes".to_string()).chain(words).collect::<Vec<_>>().join(" ")
}

/// Where everything is written.
struct Output {
    dir: PathBuf,
    docs: Option<PathBuf>,
}

impl Output {
    /// Takes a new or empty directory, or one that is ours already.
    fn claim(&self) -> Result<(), String> {
        let (dir, shown) = (&self.dir, foreign_path(&self.dir));
        let mark = dir.join(MARK);
        if dir.exists() && !mark.exists() {
            let entries = std::fs::read_dir(dir).map_err(|e| {
                format!("cannot use {shown} as a directory: {e}; choose another place with --out")
            })?;
            let foreign = entries.flatten().any(|entry| !is_unfinished(&entry.file_name()));
            if foreign {
                return Err(format!(
                    "{shown} is not empty and was not made by `motes paper`; choose another place with --out"
                ));
            }
        }
        if let Some(docs) = self.docs.as_ref().filter(|docs| !docs.is_dir()) {
            return Err(format!(
                "{} is no directory; name that of the documentation with --docs",
                foreign_path(docs)
            ));
        }
        sweep(dir);
        if mark.exists() {
            return Ok(());
        }
        std::fs::create_dir_all(dir)
            .map_err(|e| format!("cannot make {shown}: {e}; choose another place with --out"))?;
        write(
            &mark,
            format!("{{\"made by\": \"motes paper\", \"version\": \"{}\"}}\n", env!("CARGO_PKG_VERSION")),
        )
    }

    /// Writes what an item shows; returns a line about it.
    fn item(&self, item: &Item, plan: Plan, outcomes: &Outcomes, made: &Made) -> Result<String, String> {
        let shown = (item.show)(plan, outcomes);
        let file = |ending: &str| self.dir.join(format!("{}.{ending}", item.name));
        let figure = shown.figure.as_ref().map(|f| f.description.clone());
        if let Some(mut figure) = shown.figure {
            figure.name = item.name;
            let notes = [shown.fewer.as_str(), figure.note.as_str()];
            figure.note = notes.iter().filter(|n| !n.is_empty()).copied().collect::<Vec<_>>().join(" ");
            write(&file("svg"), figure.svg(Letters::Written))?;
            write(&file("png"), figure.png()?)?;
        }
        if let Some(picture) = &shown.picture {
            write_grid(&self.picture(item.name), &picture.images, 1, picture.columns)
                .map_err(|e| e.to_string())?;
        }
        let section = Section {
            item: item.name.into(),
            title: shown.title.into(),
            setting: shown.setting,
            fewer: shown.fewer,
            figure,
            picture: shown.picture.as_ref().map(|p| p.description.clone()),
            tables: shown.tables,
            notes: shown.notes,
            made: made.clone(),
        };
        let (mut agree, mut judged) = (0, 0);
        for table in &section.tables {
            let path = |ending: &str| self.dir.join(format!("{}.{ending}", table.name));
            write(&path("md"), page::table_markdown(&section, table))?;
            write(&path("csv"), table.csv()?)?;
            let (a, j) = table.agreement();
            (agree, judged) = (agree + a, judged + j);
        }
        let sections = self.sections();
        std::fs::create_dir_all(&sections).map_err(|e| {
            format!("cannot make {}: {e}; choose another place with --out", foreign_path(&sections))
        })?;
        let json = serde_json::to_vec_pretty(&section).expect("a section is plain data");
        write(&sections.join(format!("{}.json", item.name)), json)?;
        Ok(match judged {
            0 => item.name.to_string(),
            _ => format!("{}: {agree} of {judged} cells agree with the paper", item.name),
        })
    }

    fn picture(&self, item: &str) -> PathBuf {
        self.dir.join(page::picture(item))
    }

    fn sections(&self) -> PathBuf {
        self.dir.join("sections")
    }

    /// Writes the pages of all items that the directory holds.
    fn pages(&self) -> Result<(), String> {
        let names: Vec<&str> = ITEMS.iter().map(|item| item.name).collect();
        let sections = page::stored(&self.sections(), &names);
        let svg =
            |item: &str| std::fs::read_to_string(self.dir.join(format!("{item}.svg"))).unwrap_or_default();
        let png = |item: &str| std::fs::read(self.picture(item)).unwrap_or_default();
        write(&self.dir.join("report.html"), page::html(&sections, svg, png))?;
        let mut commands: Vec<&str> = Vec::new();
        for section in &sections {
            if !commands.contains(&section.made.command.as_str()) {
                commands.push(&section.made.command);
            }
        }
        let commands = commands.join("\n");
        write(&self.dir.join("results.md"), page::markdown(&sections, "", &commands))?;
        let Some(docs) = &self.docs else { return Ok(()) };
        let images = docs.join("images/paper");
        std::fs::create_dir_all(&images)
            .map_err(|e| format!("cannot make {}: {e}; check --docs", foreign_path(&images)))?;
        for section in sections.iter().filter(|s| s.figure.is_some()) {
            write(&images.join(format!("{}.svg", section.item)), svg(&section.item))?;
        }
        for section in sections.iter().filter(|s| s.picture.is_some()) {
            write(&images.join(page::picture(&section.item)), png(&section.item))?;
        }
        write(&docs.join("results.md"), page::markdown(&sections, "images/paper/", &commands))
    }
}

/// Everything here can be made again from the replicates.
fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<(), String> {
    write_atomically(path, Durable::No, |file| file.write_all(content.as_ref())).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_half_an_hour_is_done_only_if_it_is_named() {
        let names = |given: &[String]| chosen(given).unwrap().iter().map(|i| i.name).collect::<Vec<_>>();
        assert!(names(&[]).len() == ITEMS.len() - 1 && !names(&[]).contains(&"table4"));
        assert_eq!(names(&["table4".into()]), ["table4"]);
    }
}
