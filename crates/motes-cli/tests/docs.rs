//! Every command in the docs: those that take seconds are run and print what the page shows; all name options that exist.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::Place;

/// A fenced block: what stands behind the fence, and its lines.
struct Block {
    kind: String,
    lines: Vec<String>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The pages that people read, by name.
fn pages() -> Vec<(String, String)> {
    let docs = fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = docs.filter(|path| path.extension().is_some_and(|e| e == "md")).collect();
    files.extend(["README.md", "CONTRIBUTING.md"].map(|name| root().join(name)));
    files.sort();
    assert!(files.len() > 15, "{files:?}");
    let name = |path: &PathBuf| path.strip_prefix(root()).unwrap().to_string_lossy().into_owned();
    files.iter().map(|path| (name(path), fs::read_to_string(path).unwrap())).collect()
}

fn blocks(text: &str) -> Vec<Block> {
    let (mut blocks, mut open): (Vec<Block>, bool) = (Vec::new(), false);
    for line in text.lines() {
        match (line.trim_start().strip_prefix("```"), open) {
            (Some(kind), false) => {
                blocks.push(Block { kind: kind.trim().into(), lines: Vec::new() });
                open = true;
            }
            (Some(_), true) => open = false,
            (None, true) => blocks.last_mut().unwrap().lines.push(line.into()),
            (None, false) => {}
        }
    }
    assert!(!open, "a fence is never closed");
    blocks
}

/// A line of a shell without its comment.
fn command(line: &str) -> &str {
    line.split("  #").next().unwrap().trim()
}

/// A line with every number replaced and blanks made single: numbers have tests of their own, and times differ.
fn form(line: &str) -> String {
    let mut form = String::new();
    for c in line.chars() {
        let number = c.is_ascii_digit() || (matches!(c, '.' | ',') && form.ends_with('#'));
        match c {
            _ if number && form.ends_with('#') => {}
            _ if number => {
                if form.ends_with('-') {
                    form.pop();
                }
                form.push('#');
            }
            c if c.is_whitespace() && form.ends_with(' ') => {}
            c if c.is_whitespace() => form.push(' '),
            c => form.push(c),
        }
    }
    form.trim().to_string()
}

#[test]
fn commands_run_and_print_what_the_page_shows() {
    let (mut ran, mut compared) = (0, 0);
    for (page, text) in pages() {
        let place = Place::new();
        let table = fs::read_to_string(root().join("data/wisconsin-breast-cancer.csv")).unwrap();
        fs::create_dir(place.path("data")).unwrap();
        place.write("data/wisconsin-breast-cancer.csv", &table);
        place.write("my.csv", table.replace("mitoses,class", "mitoses,outcome"));
        place.write("new.csv", table.lines().take(3).map(|line| format!("{line}\n")).collect::<String>());
        let mut printed = String::new();
        for block in blocks(&text) {
            match block.kind.as_str() {
                "sh" => {
                    printed.clear();
                    for line in block.lines.iter().map(|line| command(line)) {
                        let Some(words) = line.strip_prefix("motes ") else { continue };
                        let done = place.shell(&format!("\"$motes\" {words}"));
                        assert_eq!(done.code, Some(0), "{page}: {line}\n{}", done.err);
                        printed += &done.err;
                        printed += &done.out;
                        ran += 1;
                    }
                }
                "text" if !printed.is_empty() => {
                    let mut lines = printed.lines().map(form);
                    for shown in block.lines.iter().map(|line| form(line)).filter(|line| !line.is_empty()) {
                        assert!(
                            lines.any(|line| line == shown),
                            "{page} shows {shown:?}, but not so:\n{printed}"
                        );
                        compared += 1;
                    }
                }
                _ => {}
            }
        }
    }
    assert!(ran >= 12 && compared >= 40, "{ran} commands, {compared} lines");
}

#[test]
fn every_option_in_the_docs_exists() {
    let reference = motes_cli::reference();
    let options = |name: &str| {
        let from = reference.split(&format!("\n## motes {name}\n")).nth(1)?;
        Some(from.split("\n## motes ").next().unwrap_or_default())
    };
    let mut seen = 0;
    for (page, text) in pages() {
        let inline = text.split('`').skip(1).step_by(2).filter(|code| !code.contains('\n'));
        let shell = blocks(&text).into_iter().filter(|b| b.kind.starts_with("sh")).flat_map(|b| b.lines);
        for line in inline.map(String::from).chain(shell) {
            let Some(words) = command(&line).strip_prefix("motes ") else { continue };
            let name = words.split_whitespace().next().unwrap_or_default();
            // `motes inpaint|synthesize`, `motes COMMAND`: patterns, not commands.
            if !name.chars().all(|c| c.is_ascii_lowercase() || c == '-')
                || name == "help"
                || name.starts_with('-')
            {
                continue;
            }
            let known = options(name).unwrap_or_else(|| panic!("{page}: there is no motes {name}: {line}"));
            for flag in words.split_whitespace().filter(|word| word.starts_with("--") && *word != "--help") {
                let flag = flag.split('=').next().unwrap();
                let there = [' ', '`'].iter().any(|end| known.contains(&format!("`{flag}{end}")));
                assert!(there, "{page}: motes {name} has no {flag}: {line}");
                seen += 1;
            }
        }
    }
    assert!(seen > 60, "{seen}");
}

#[test]
fn every_target_in_the_docs_exists() {
    let makefile = fs::read_to_string(root().join("Makefile")).unwrap();
    for (page, text) in pages() {
        for code in text.split('`').skip(1).step_by(2).filter(|code| !code.contains('\n')) {
            let Some(target) = code.strip_prefix("make ").and_then(|rest| rest.split_whitespace().next())
            else {
                continue;
            };
            assert!(makefile.contains(&format!("\n{target}:")), "{page}: there is no `make {target}`");
        }
    }
}

#[test]
fn the_version_is_the_same_everywhere() {
    let version = env!("CARGO_PKG_VERSION");
    let says = |file: &str, line: &str| {
        let text = fs::read_to_string(root().join(file)).unwrap();
        assert!(text.lines().any(|there| there.starts_with(line)), "{file} does not say {line}");
    };
    says("CITATION.cff", &format!("version: {version}"));
    says("CHANGELOG.md", &format!("## [{version}]"));
}
