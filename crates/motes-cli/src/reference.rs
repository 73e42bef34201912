//! The reference of all commands as a page of Markdown, from the same tables as `--help`.

use std::fmt::Write as _;

use clap::{Arg, Command};

/// All commands that are shown in the help, with their arguments and options.
pub(crate) fn page(mut command: Command) -> String {
    command.build();
    let mut page = String::from(
        "# Commands\n\nGenerated from the flags of the program; `motes COMMAND --help` shows the same in the terminal.\n",
    );
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help") {
        write_command(&mut page, sub);
    }
    page
}

fn write_command(page: &mut String, command: &Command) {
    let about = command.get_about().map(|about| format!("{about}.\n")).unwrap_or_default();
    let _ = write!(page, "\n## motes {}\n\n{about}", command.get_name());
    let models: Vec<&Command> = command.get_subcommands().collect();
    if models.is_empty() {
        let usage = command.clone().render_usage().to_string();
        let _ = write!(page, "\n```text\n{}\n```\n", usage.trim_start_matches("Usage: "));
        write_options(page, &listed(command, |_| true));
    } else {
        let _ = write!(page, "\n```text\nmotes {} MODEL [OPTIONS]\n```\n", command.get_name());
        let everywhere = |arg: &Arg| models.iter().all(|model| same(model, arg));
        for model in &models {
            let own = listed(model, |arg| !everywhere(arg));
            let about = model.get_about().map(ToString::to_string).unwrap_or_default();
            let _ =
                write!(page, "\n### motes {} {}\n\n{}\n", command.get_name(), model.get_name(), text(&about));
            write_options(page, &own);
        }
        let _ = write!(page, "\n### motes {}: every model\n", command.get_name());
        write_options(page, &listed(models[0], everywhere));
    }
    if let Some(after) = command.get_after_help() {
        let _ = write!(page, "\n```text\n{after}\n```\n");
    }
}

/// Whether a model has the same option.
fn same(model: &Command, arg: &Arg) -> bool {
    model.get_arguments().any(|other| other.get_id() == arg.get_id() && help(other) == help(arg))
}

fn listed(command: &Command, wanted: impl Fn(&Arg) -> bool) -> Vec<&Arg> {
    command
        .get_arguments()
        .filter(|arg| !arg.is_hide_set() && arg.get_id() != "help" && wanted(arg))
        .collect()
}

fn help(arg: &Arg) -> String {
    arg.get_help().map(ToString::to_string).unwrap_or_default()
}

/// What Markdown would read otherwise, inside a cell of a table.
fn text(words: &str) -> String {
    words.replace('\n', " ").replace('|', "\\|").replace('<', "&lt;").replace('*', "\\*")
}

/// A table for each heading, in the order of the help.
fn write_options(page: &mut String, args: &[&Arg]) {
    let mut headings: Vec<Option<&str>> = Vec::new();
    for arg in args {
        if !headings.contains(&arg.get_help_heading()) {
            headings.push(arg.get_help_heading());
        }
    }
    for heading in headings {
        let title = heading.unwrap_or("Options");
        let _ = write!(page, "\n| {title} | |\n|---|---|\n");
        for arg in args.iter().filter(|arg| arg.get_help_heading() == heading) {
            let value = || arg.get_value_names().unwrap_or_default().join(" ");
            let name = match arg.get_long() {
                Some(long)
                    if arg.get_action().takes_values()
                        && arg.get_num_args().is_none_or(|n| n.min_values() > 0) =>
                {
                    format!("--{long} {}", value())
                }
                Some(long) => format!("--{long}"),
                None => value(),
            };
            let _ = writeln!(page, "| `{}` | {} |", name.replace('|', "\\|"), text(&help(arg)));
        }
    }
}
