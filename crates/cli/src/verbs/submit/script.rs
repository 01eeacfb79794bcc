//! The script of a job: its text, and the options that it carries in lines that begin with `#BP`.

use super::Options;
use crate::shims::directives::directives;
use base::Failure;
use clap::{Arg, ArgMatches, Args as _, Command, FromArgMatches, parser::ValueSource};
use std::{ffi::OsString, path::Path};

/// Begin of a line that carries options.
const PREFIX: &str = "#BP";

/// The command line of `bp submit`.
#[derive(Debug)]
pub(crate) struct Args {
    options: Options,
    /// The options as the user typed them, to be read again behind those of the script.
    words: Vec<OsString>,
}

impl Args {
    /// The options of script and command line, of which the latter wins, and the text of the script.
    pub(super) fn with_script(self) -> Result<(Options, Option<String>), Failure> {
        let Some(file) = self.options.place.script.clone() else {
            return Ok((self.options, None));
        };
        let text = text(&file)?;
        let carried = directives(&text, &[PREFIX]).and_then(checked).map_err(|what| {
            refused(&file, &what, "options of `bp submit` follow #BP, quoted as in a shell")
        })?;
        let options = if carried.is_empty() { self.options } else { combined(&file, carried, self.words)? };
        Ok((options, Some(text)))
    }
}

impl FromArgMatches for Args {
    fn from_arg_matches(found: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self { options: Options::from_arg_matches(found)?, words: words(found) })
    }

    fn update_from_arg_matches(&mut self, found: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(found)?;
        Ok(())
    }
}

impl clap::Args for Args {
    fn augment_args(command: Command) -> Command {
        Options::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Options::augment_args_for_update(command)
    }
}

/// The text of a script: a local file, or standard input.
fn text(file: &Path) -> Result<String, Failure> {
    let text = if file == Path::new("-") {
        std::io::read_to_string(std::io::stdin())
    } else {
        std::fs::read_to_string(file)
    };
    text.map_err(|cause| Failure::io(format!("read script {}", file.display()), &cause))
}

/// Refuses what only a command line can say: which script, and its arguments.
fn checked(carried: Vec<String>) -> Result<Vec<String>, String> {
    let is_foreign = |word: &&String| *word == "--" || *word == "--script" || word.starts_with("--script=");
    match carried.iter().find(is_foreign) {
        Some(word) => Err(format!("{word} is only for the command line")),
        None => Ok(carried),
    }
}

fn refused(file: &Path, what: &str, hint: &str) -> Failure {
    Failure::invalid(format!("{PREFIX} line of script {}: {what}", file.display())).hint(hint)
}

/// Reads the words of a script, then those of the command line. Options that may be repeated add up.
fn combined(file: &Path, carried: Vec<String>, typed: Vec<OsString>) -> Result<Options, Failure> {
    let command = Options::augment_args(Command::new("submit"))
        .no_binary_name(true)
        .args_override_self(true)
        .disable_help_flag(true);
    let words = carried.into_iter().map(OsString::from).chain(typed);
    let read = command.try_get_matches_from(words).and_then(|found| Options::from_arg_matches(&found));
    read.map_err(|refusal| {
        let lines = refusal.render().to_string();
        let what = lines.lines().next().unwrap_or_default().trim_start_matches("error: ");
        refused(file, what, "`bp submit --help` lists the options")
    })
}

/// The words of a command line, without the defaults of options that it does not name.
fn words(found: &ArgMatches) -> Vec<OsString> {
    let command = Options::augment_args(Command::new("submit"));
    let (mut words, mut operands) = (Vec::new(), vec![OsString::from("--")]);
    for arg in command.get_arguments().filter(|arg| is_typed(arg, found)) {
        let values = found.get_raw(arg.get_id().as_str()).into_iter().flatten();
        match arg.get_long() {
            None => operands.extend(values.map(OsString::from)),
            Some(long) if !arg.get_action().takes_values() => words.push(format!("--{long}").into()),
            Some(long) => words.extend(values.map(|value| {
                let mut word = OsString::from(format!("--{long}="));
                word.push(value);
                word
            })),
        }
    }
    words.append(&mut operands);
    words
}

fn is_typed(arg: &Arg, found: &ArgMatches) -> bool {
    found.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a script and a command line say together.
    fn read(script: &str, line: &[&str]) -> Result<Options, String> {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("job.sh");
        std::fs::write(&file, script).unwrap();
        let typed = line.iter().map(OsString::from);
        let words =
            ["submit".into(), "--script".into(), file.clone().into_os_string()].into_iter().chain(typed);
        let found = Args::augment_args(Command::new("submit")).try_get_matches_from(words).unwrap();
        let read = Args::from_arg_matches(&found).unwrap().with_script();
        read.map(|(options, _)| options)
            .map_err(|failure| failure.what.replace(&file.display().to_string(), "FILE"))
    }

    #[test]
    fn the_command_line_wins_over_the_script() {
        let script = "#!/bin/sh\n#BP --name 'two words' --cpus 4   # and\n#BP --retries=3 --hold --env A=1\n\
                      #BPX --nope\ntrue\n#BP --nope\n";
        let options = read(script, &[]).unwrap();
        assert_eq!((options.name.as_deref(), options.cpus), (Some("two words"), Some(4)));
        assert_eq!((options.when.retries, options.when.hold, options.command.len()), (3, true, 0));
        let line = ["--cpus", "2", "--priority", "-5", "--env", "A=2", "--archive", "--", "--cpus", "9"];
        let options = read(script, &line).unwrap();
        assert_eq!((options.cpus, options.when.retries, options.archive), (Some(2), 3, true));
        assert_eq!(options.when.priority.map(|priority| priority.0), Some(-5));
        assert_eq!(options.env.iter().map(|one| &*one.value).collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!(options.command, ["--cpus", "9"]);
    }

    #[test]
    fn what_a_script_cannot_say_is_refused() {
        for (line, refusal) in [
            ("--nope", "unexpected argument '--nope' found"),
            ("--help", "unexpected argument '--help' found"),
            ("--json", "unexpected argument '--json' found"),
            ("word", "unexpected argument 'word' found"),
            ("--cpus none", "invalid value 'none' for '--cpus <N>': invalid digit found in string"),
            ("--script=x", "--script=x is only for the command line"),
            ("-- x", "-- is only for the command line"),
            ("--name 'a", "line 2: the quote ' is not closed"),
        ] {
            let refused = read(&format!("#!/bin/sh\n#BP {line}\n"), &[]).unwrap_err();
            assert_eq!(refused, format!("#BP line of script FILE: {refusal}"));
        }
    }
}
