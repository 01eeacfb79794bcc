//! What `bp --help` prints: the verbs, grouped by what people do with them.
//!
//! clap lists the verbs of a program in one column. [`command`] puts the groups of `verbs/mod.rs` in its place.

use crate::{
    args::Cli,
    verbs::{self, GROUPS, Verb},
};
use clap::{Command, CommandFactory, builder::StyledStr};
use std::fmt::Write as _;

/// The group in which `help` stands.
const HELP_GROUP: &str = "Help";

/// The command line, with its verbs in groups.
pub(crate) fn command() -> Command {
    let command = plain();
    let options =
        command.clone().mut_subcommands(|verb| verb.hide(true)).help_template("{all-args}").render_help();
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{}{}{{after-help}}",
        groups(&command),
        options.ansi().to_string().trim_end()
    );
    command.help_template(StyledStr::from(template))
}

/// The command line as clap shows it.
fn plain() -> Command {
    verbs::add_to(Cli::command())
}

/// The verbs with what they do, a heading above each group.
fn groups(command: &Command) -> String {
    let styles = command.get_styles();
    let (heading, literal) = (styles.get_header(), styles.get_literal());
    let names = |verbs: &'static [Verb]| verbs.iter().map(|verb| verb.name);
    let width = GROUPS.iter().flat_map(|(_, verbs)| names(verbs)).map(str::len).max().unwrap_or(0);
    let mut text = String::new();
    for (group, verbs) in GROUPS {
        // Writing into a string cannot fail.
        let _ = writeln!(text, "{heading}{group}:{heading:#}");
        // clap adds `help` itself, when the command line is read.
        let help = (group == HELP_GROUP).then_some("help");
        for verb in help.into_iter().chain(names(verbs)) {
            let pad = width - verb.len();
            let _ = writeln!(text, "  {literal}{verb}{literal:#}{:pad$}  {}", "", about(command, verb));
        }
        text.push('\n');
    }
    text
}

/// A verb with its help in one line.
fn about(command: &Command, verb: &str) -> String {
    let found = command.find_subcommand(verb).and_then(Command::get_about);
    found.map_or_else(|| "Print this message or the help of a command".to_owned(), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::{is_current, sections, table};

    #[test]
    fn the_reference_is_current() {
        let mut command = plain();
        // The page stands for whoever reads it: the environment of the test must not show.
        let global = table(command.get_arguments().filter(|argument| argument.is_global_set()));
        let text = format!(
            "# Commands of `bp`\n\n\
             Reference for users and operators. The page is made from the definitions in `crates/cli`:\n\
             `UPDATE_SNAPSHOTS=1 cargo test -p cli` makes it anew, and a test holds that it is current.\n\n\
             Every command takes these options, too; the environment variables `BP_FACILITY` and `BP_USER` \
             stand for two of them:\n{global}{}",
            sections(&mut command)
        );
        is_current("cli.md", &text);
    }

    #[test]
    fn every_verb_is_listed_once() {
        let command = plain();
        command.clone().debug_assert();
        let verbs: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
        let listed: std::collections::BTreeSet<&str> = verbs.iter().copied().collect();
        assert_eq!(listed.len(), verbs.len(), "a verb stands twice in GROUPS of verbs/mod.rs: {verbs:?}");
    }

    #[test]
    fn each_line_fits_a_terminal_and_says_what_the_verb_does() {
        let text = groups(&plain().styles(clap::builder::Styles::plain()));
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
        for verb in plain().get_subcommands() {
            let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
            assert!(about.starts_with(|c: char| c.is_ascii_uppercase()), "{}: {about}", verb.get_name());
        }
    }
}
