//! A page of reference for a command line, made from its definition: every command with its arguments.
//!
//! Only tests use it: they compare the pages of `bp` and `bpd` in `docs/reference` with what is made here.

use clap::{Arg, Command};
use std::fmt::Write as _;

#[path = "page.rs"]
mod page;

pub(crate) use page::{escaped, is_current, paragraph};

/// The section of a command, then those of its subcommands.
pub(crate) fn sections(command: &mut Command) -> String {
    command.build();
    let mut text = String::new();
    add(command, &mut text);
    text
}

fn add(command: &mut Command, text: &mut String) {
    let usage = command.render_usage().to_string();
    let name = command.get_bin_name().unwrap_or(command.get_name()).to_owned();
    // Writing into a string cannot fail.
    let _ = write!(text, "\n## {name}\n\n");
    let about = command.get_long_about().or(command.get_about());
    text.push_str(&paragraph(&about.map(ToString::to_string).unwrap_or_default()));
    let usage = usage.replace("Usage: ", "").replace("\n       ", "\n");
    let _ = write!(text, "\n```text\n{}\n```\n", usage.trim());
    let aliases: Vec<_> = command.get_visible_aliases().map(|alias| format!("`{alias}`")).collect();
    if !aliases.is_empty() {
        let _ = write!(text, "\nAlso: {}.\n", aliases.join(", "));
    }
    text.push_str(&table(command.get_arguments().filter(|argument| !argument.is_global_set())));
    if let Some(further) = command.get_after_long_help().or(command.get_after_help()) {
        for piece in further.to_string().split("\n\n") {
            let _ = write!(text, "\n{}", paragraph(piece));
        }
    }
    for inner in
        command.get_subcommands_mut().filter(|inner| inner.get_name() != "help" && !inner.is_hide_set())
    {
        add(inner, text);
    }
}

/// A table of arguments: those by position first, then the options.
pub(crate) fn table<'a>(arguments: impl Iterator<Item = &'a Arg>) -> String {
    let is_own = |argument: &&Arg| {
        !matches!(argument.get_id().as_str(), "help" | "version") && !argument.is_hide_set()
    };
    let mut rows: Vec<(bool, String)> =
        arguments.filter(is_own).map(|argument| (!argument.is_positional(), row(argument))).collect();
    rows.sort_by_key(|(is_option, _)| *is_option);
    if rows.is_empty() {
        return String::new();
    }
    rows.iter().fold("\n| argument | meaning |\n| --- | --- |\n".to_owned(), |text, (_, row)| text + row)
}

fn row(argument: &Arg) -> String {
    let help = argument.get_long_help().or(argument.get_help()).map(ToString::to_string).unwrap_or_default();
    let mut meaning = escaped(&help.replace('\n', " "));
    let possible = argument.get_possible_values();
    let named: Vec<_> = possible.iter().map(|value| format!("`{}`", value.get_name())).collect();
    if argument.get_action().takes_values() && !named.is_empty() && !help.contains("possible values") {
        let _ = write!(meaning, " (one of {})", named.join(", "));
    }
    let defaults: Vec<_> =
        argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    if argument.get_action().takes_values() && !argument.is_hide_default_value_set() && !defaults.is_empty() {
        let _ = write!(meaning, " (default `{}`)", defaults.join(" "));
    }
    format!("| `{}` | {meaning} |\n", shape(argument).replace('|', "\\|"))
}

/// How an argument is written: `-p, --parents`, `--size SIZE`, `PATH`.
fn shape(argument: &Arg) -> String {
    let value = || {
        let names = argument.get_value_names().unwrap_or_default();
        names.iter().map(clap::builder::Str::as_str).collect::<Vec<_>>().join(" ")
    };
    let short = argument.get_short().map(|short| format!("-{short}"));
    let long = argument.get_long().map(|long| format!("--{long}"));
    let names: Vec<_> = [short, long].into_iter().flatten().collect();
    match (names.is_empty(), argument.get_action().takes_values()) {
        (true, _) => value(),
        (false, true) => format!("{} {}", names.join(", "), value()),
        (false, false) => names.join(", "),
    }
}
