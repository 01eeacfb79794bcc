//! The options of `qsub`: POSIX's, those of PBS and Torque that scripts use, and NQS's limits.

use super::depend;
use crate::shims::{
    getopt::Given,
    posix::{
        date, id,
        resources::{self, Wish},
    },
    site::Site,
};
use base::Timestamp;
use wire::control::{ArrayRange, JobDependency, PRIORITY};

/// Every option. `-t` and `-J` are arrays of Torque and PBS, `-F` arguments of the script, `-d` and `-w` its directory.
pub(super) const OPTIONS: &str = "a/= A/= b/= c/= C/= d/= e/= f/ F/= G/ h/ I/ j/= J/= k/= l/= m/= M/= n/ N/= o/= p/= P/= q/= r/= R/= S/= t/= u/= v/= V/ \
     w/= W/= x/ X/ z/ nqs-t= nqs-T= nqs-m= nqs-M= nqs-f= nqs-F=";

/// What the options say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) account: Option<String>,
    pub(super) array: Option<ArrayRange>,
    pub(super) begin: Option<Timestamp>,
    pub(super) prefixes: Option<String>,
    pub(super) dependencies: Vec<JobDependency>,
    pub(super) directory: Option<String>,
    pub(super) output: Option<String>,
    pub(super) error: Option<String>,
    pub(super) merges: bool,
    pub(super) held: bool,
    pub(super) name: Option<String>,
    pub(super) priority: i32,
    pub(super) queue: Option<String>,
    pub(super) rerunnable: bool,
    pub(super) shell: Option<String>,
    pub(super) arguments: Vec<String>,
    pub(super) variables: Vec<(String, Option<String>)>,
    pub(super) passes_all: bool,
    pub(super) is_silent: bool,
    pub(super) waits: bool,
    pub(super) wish: Wish,
    pub(super) ignored: Vec<String>,
}

impl Default for Request {
    fn default() -> Self {
        Self {
            account: None,
            array: None,
            begin: None,
            prefixes: None,
            dependencies: Vec::new(),
            directory: None,
            output: None,
            error: None,
            merges: false,
            held: false,
            name: None,
            priority: 0,
            queue: None,
            // POSIX: a job is rerunnable unless somebody says otherwise.
            rerunnable: true,
            shell: None,
            arguments: Vec::new(),
            variables: Vec::new(),
            passes_all: false,
            is_silent: false,
            waits: false,
            wish: Wish::default(),
            ignored: Vec::new(),
        }
    }
}

/// NQS writes `-lt 100`, which would be a resource `t` to others.
pub(super) fn with_nqs_limits(words: Vec<String>) -> Vec<String> {
    let one = |word: String| match word.as_str() {
        "-lt" | "-lT" | "-lm" | "-lM" | "-lf" | "-lF" => format!("--nqs-{}", &word[2..]),
        _ => word,
    };
    words.into_iter().map(one).collect()
}

impl Request {
    /// Takes options in; those that are there already stay if they came from the command line, which is read first.
    pub(super) fn apply(&mut self, options: &[Given], site: &Site) -> Result<(), String> {
        for given in options {
            if !(self.set_text(given) || self.set_switch(given)?) {
                self.set_value(given, site)?;
            }
        }
        Ok(())
    }

    fn set_text(&mut self, given: &Given) -> bool {
        let place = match given.key {
            "A" | "P" => &mut self.account,
            "C" => &mut self.prefixes,
            "d" | "w" => &mut self.directory,
            "N" => &mut self.name,
            "e" => &mut self.error,
            "o" => &mut self.output,
            _ => return false,
        };
        *place = Some(given.text().to_owned());
        true
    }

    fn set_switch(&mut self, given: &Given) -> Result<bool, String> {
        let text = given.text();
        let bad = || format!("illegal -{} value: {text}", given.key);
        match given.key {
            "h" => self.held = true,
            "V" => self.passes_all = true,
            "z" => self.is_silent = true,
            "j" => self.merges = matches!(text, "oe" | "eo" | "y"),
            "r" => {
                self.rerunnable = match text {
                    "y" => true,
                    "n" => false,
                    _ => return Err(bad()),
                }
            }
            // Output is written where it is wanted while the job runs; who is told by mail can ask.
            "k" | "R" | "b" | "f" | "n" | "x" => {}
            "c" if matches!(text, "n" | "u") => {}
            "m" if text == "n" => {}
            "c" | "m" | "M" => self.ignored.push(format!("-{} is not supported here", given.key)),
            "I" | "X" | "G" => return Err("jobs that are interactive are started by `bp run`".to_owned()),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn set_value(&mut self, given: &Given, site: &Site) -> Result<(), String> {
        let text = given.text();
        let bad = || format!("illegal -{} value: {text}", given.key);
        match given.key {
            "a" => self.begin = Some(date::read(text, &site.calendar, site.now).ok_or_else(bad)?),
            "J" | "t" => self.array = Some(text.parse().map_err(|_| bad())?),
            "l" => self.wish.apply(text)?,
            "p" => {
                let priority = text.parse().ok().filter(|priority| PRIORITY.contains(priority));
                self.priority = priority.ok_or_else(bad)?;
            }
            "q" => self.queue = id::queue(text).map(str::to_owned),
            "S" => {
                let shell = text.split(',').next().and_then(|one| one.split('@').next());
                self.shell = shell.filter(|shell| shell.starts_with('/')).map(str::to_owned);
                self.shell.as_ref().ok_or_else(bad)?;
            }
            "F" => self.arguments = text.split_whitespace().map(str::to_owned).collect(),
            "v" => self.variables.extend(variables(text)),
            "u" => return Err("a job runs as the user who submits it".to_owned()),
            "W" => self.attributes(text)?,
            "nqs-m" | "nqs-M" => self.wish.memory_bytes = Some(resources::bytes(text).ok_or_else(bad)?),
            key => self.ignored.push(format!("-{} is not enforced here", key.replace("nqs-", "l"))),
        }
        Ok(())
    }

    /// `-W depend=afterok:3,block=true`
    fn attributes(&mut self, text: &str) -> Result<(), String> {
        if let Some(dependencies) = depend(text)? {
            self.dependencies = dependencies;
            return Ok(());
        }
        for one in text.split(',') {
            match one.split_once('=') {
                Some(("block", value)) => self.waits = value.eq_ignore_ascii_case("true"),
                Some(("umask" | "group_list" | "sandbox" | "run_count" | "x", _)) => {
                    self.ignored.push(format!("-W {one} is not supported here"));
                }
                _ => return Err(format!("illegal -W value: {text}")),
            }
        }
        Ok(())
    }
}

/// `A,B=2`; commas in quotes belong to a value.
fn variables(text: &str) -> Vec<(String, Option<String>)> {
    let mut parts: Vec<String> = vec![String::new()];
    let mut quote: Option<char> = None;
    for letter in text.chars() {
        match (letter, quote) {
            (',', None) => parts.push(String::new()),
            ('"' | '\'', None) => quote = Some(letter),
            (letter, Some(open)) if letter == open => quote = None,
            (letter, _) => parts.last_mut().unwrap_or(&mut String::new()).push(letter),
        }
    }
    let one = |part: String| match part.split_once('=') {
        Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
        None => (part, None),
    };
    parts.into_iter().map(one).filter(|(name, _)| !name.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_parted_by_commas() {
        let shown = |text: &str| {
            let found = variables(text);
            found.into_iter().map(|(name, value)| format!("{name}:{value:?}")).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(shown("A,B=2"), "A:None B:Some(\"2\")");
        assert_eq!(shown("A='x,y',B="), "A:Some(\"x,y\") B:Some(\"\")");
        assert_eq!(shown(""), "");
    }
}
