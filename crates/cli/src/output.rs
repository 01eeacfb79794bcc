//! All output of `bp`. Control characters that a terminal would obey are escaped: names, reasons and failures
//! come from others.

use crate::{
    context::{Run, Stop},
    table::Table,
};
use base::{ErrorKind, Failure, shown, shown_lines};
use serde::Serialize;
use std::io::{self, BufWriter, IsTerminal, Stderr, Stdout, Write};

/// Colours of words; plain text without a terminal or with `NO_COLOR`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Faint,
    Strong,
    Good,
    Wait,
    Bad,
    Blue,
}

impl Tone {
    fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Faint => "2",
            Self::Strong => "1",
            Self::Good => "32",
            Self::Wait => "33",
            Self::Bad => "31",
            Self::Blue => "34",
        }
    }

    /// `text` in this colour, if there are colours.
    pub(crate) fn paint(self, text: &str, is_colour: bool) -> String {
        if is_colour && self != Self::Plain && !text.is_empty() {
            format!("\x1b[{}m{text}\x1b[0m", self.code())
        } else {
            text.to_owned()
        }
    }
}

/// Standard output and standard error.
pub(crate) struct Output {
    stdout: BufWriter<Stdout>,
    stderr: Stderr,
    is_json: bool,
    is_quiet: bool,
    is_hushed: bool,
    is_colour: bool,
    is_error_colour: bool,
    width: Option<usize>,
}

impl Output {
    pub(crate) fn new(is_json: bool, is_quiet: bool) -> Self {
        let (stdout, stderr) = (io::stdout(), io::stderr());
        let wants_colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
            && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        Self {
            is_json,
            is_quiet,
            is_hushed: false,
            is_colour: wants_colour && stdout.is_terminal(),
            is_error_colour: wants_colour && stderr.is_terminal(),
            width: terminal_width(&stdout),
            stdout: BufWriter::new(stdout),
            stderr,
        }
    }

    /// Whether replies are printed as they are.
    pub(crate) fn is_json(&self) -> bool {
        self.is_json
    }

    /// Whether bars and spinners may be drawn on standard error.
    pub(crate) fn is_lively(&self) -> bool {
        !self.is_json && !self.is_quiet && self.stderr.is_terminal()
    }

    /// Columns of the terminal; none where the output goes elsewhere.
    pub(crate) fn columns(&self) -> Option<usize> {
        self.width
    }

    /// Prints a line that was asked for.
    pub(crate) fn line(&mut self, text: impl AsRef<str>) -> Run<()> {
        self.raw_line(&shown(text.as_ref()))
    }

    /// Prints a line in a colour.
    pub(crate) fn toned(&mut self, tone: Tone, text: &str) -> Run<()> {
        let text = tone.paint(&shown(text), self.is_colour);
        self.raw_line(&text)
    }

    fn raw_line(&mut self, text: &str) -> Run<()> {
        self.bytes(text.as_bytes())?;
        self.bytes(b"\n")
    }

    /// Clears the terminal, and begins at its top.
    pub(crate) fn clear_screen(&mut self) -> Run<()> {
        self.bytes(b"\x1b[H\x1b[2J")
    }

    /// Keeps news back, or no longer.
    pub(crate) fn hush(&mut self, is_hushed: bool) {
        self.is_hushed = is_hushed;
    }

    /// Prints a line that says what happens meanwhile: not with `--quiet` or `--json`, and at once.
    pub(crate) fn news(&mut self, text: impl AsRef<str>) -> Run<()> {
        if self.is_quiet || self.is_json || self.is_hushed {
            return Ok(());
        }
        self.line(text)?;
        self.flush()
    }

    /// Whether somebody sits at a terminal who can answer.
    pub(crate) fn can_ask(&self) -> bool {
        !self.is_json && io::stdin().is_terminal() && self.stderr.is_terminal()
    }

    /// Asks a question on the terminal; only `y` or `yes` is a yes.
    pub(crate) fn ask(&mut self, question: &str) -> Run<bool> {
        self.flush()?;
        write!(self.stderr, "{} [y/N] ", shown(question)).map_err(stop)?;
        let mut answer = String::new();
        io::stdin().read_line(&mut answer).map_err(|cause| Failure::io("read the answer", &cause))?;
        Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
    }

    /// Prints what a program of somebody has printed: as it is where it is kept or passed on, readable on a terminal.
    pub(crate) fn foreign(&mut self, text: &str) -> Run<()> {
        if self.stdout.get_ref().is_terminal() {
            return self.bytes(shown_lines(&text.replace("\r\n", "\n")).as_bytes());
        }
        self.bytes(text.as_bytes())
    }

    /// The same on standard error.
    pub(crate) fn foreign_error(&mut self, text: &str) -> Run<()> {
        self.flush()?;
        if self.stderr.is_terminal() {
            return self.stderr.write_all(shown_lines(&text.replace("\r\n", "\n")).as_bytes()).map_err(stop);
        }
        self.stderr.write_all(text.as_bytes()).map_err(stop)
    }

    /// Prints bytes as they are: those of a table, or what we made ourselves.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Run<()> {
        let outcome = self.stdout.write_all(bytes);
        outcome.map_err(stop)
    }

    /// Prints a reply as one line of JSON.
    pub(crate) fn json(&mut self, reply: &impl Serialize) -> Run<()> {
        let text = serde_json::to_string(reply)
            .map_err(|cause| Failure::internal(format!("cannot write the reply as JSON: {cause}")))?;
        // JSON escapes control characters, but not what changes the direction of text.
        self.raw_line(&json_safe(&text))
    }

    /// Prints a table that fits the terminal, and beside it what to do about its rows.
    pub(crate) fn table(&mut self, table: &Table) -> Run<()> {
        let text = table.render(self.width, self.is_colour);
        self.bytes(text.as_bytes())?;
        table.next_steps().iter().try_for_each(|step| self.aside(&format!("hint: {step}")))
    }

    /// Prints a heading, then the table under it.
    pub(crate) fn titled(&mut self, title: &str, table: &Table) -> Run<()> {
        self.line("")?;
        self.toned(Tone::Strong, title)?;
        self.table(table)
    }

    /// Prints a line beside the output, on standard error: not with `--quiet` or `--json`.
    pub(crate) fn aside(&mut self, text: &str) -> Run<()> {
        if self.is_quiet || self.is_json || self.is_hushed {
            return Ok(());
        }
        self.flush()?;
        self.stderr.write_all(format!("{}\n", shown(text)).as_bytes()).map_err(stop)
    }

    /// Says on standard error what went wrong, and the next step.
    pub(crate) fn failure(&mut self, failure: &Failure) {
        let _ = self.stdout.flush();
        let mut text =
            format!("{} {}\n", Tone::Bad.paint("error:", self.is_error_colour), indented(&failure.what));
        if let Some(hint) = &failure.hint {
            text.push_str(&format!(
                "{} {}\n",
                Tone::Blue.paint("hint:", self.is_error_colour),
                indented(hint)
            ));
        }
        // There is no better place to say that standard error does not work.
        let _ = self.stderr.write_all(text.as_bytes());
    }

    /// Hands everything to the system.
    pub(crate) fn flush(&mut self) -> Run<()> {
        self.stdout.flush().map_err(stop)
    }
}

/// A text that may have several lines; none of them can be taken for a line of ours.
fn indented(text: &str) -> String {
    shown_lines(text).replace('\n', "\n  ")
}

/// JSON with escapes for all that JSON allows and terminals obey. Outside of strings there is nothing of the kind.
fn json_safe(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        let mut one = [0; 4];
        if shown(c.encode_utf8(&mut one)) == *c.encode_utf8(&mut [0; 4]) {
            safe.push(c);
        } else {
            // All of them have four hex digits.
            safe.push_str(&format!("\\u{:04x}", u32::from(c)));
        }
    }
    safe
}

/// Says on standard error why there is nothing to do; there is no better place to say that it does not work.
pub(crate) fn refusal(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

fn stop(cause: io::Error) -> Stop {
    if cause.kind() == io::ErrorKind::BrokenPipe {
        return Stop::PipeClosed;
    }
    let mut failure = Failure::io("write the output", &cause);
    if failure.kind == ErrorKind::Unavailable {
        failure.kind = ErrorKind::Io;
    }
    Stop::Failed(failure)
}

/// Columns of the terminal, or those of `COLUMNS`; none if this is no terminal.
fn terminal_width(stdout: &Stdout) -> Option<usize> {
    if let Ok(size) = rustix::termios::tcgetwinsize(stdout)
        && size.ws_col > 0
    {
        return Some(usize::from(size.ws_col));
    }
    // Whoever shows the output elsewhere may say how wide it is.
    std::env::var("COLUMNS").ok()?.parse().ok().filter(|width| *width > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_cannot_look_like_other_lines_of_ours() {
        assert_eq!(indented("a\nhint: run\u{1b}[2J"), "a\n  hint: run\\x1b[2J");
    }

    #[test]
    fn json_says_the_same_in_other_letters() {
        let value = serde_json::json!({"a\u{202e}": "\u{9b}2J\u{7f}\u{1b} é"});
        let text = json_safe(&value.to_string());
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
        assert_eq!(shown(&text), text);
    }
}
