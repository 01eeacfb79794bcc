//! Bars and spinners on standard error; nothing where that is no terminal.

use crate::output::Output;
use indicatif::{BinaryBytes, HumanDuration, ProgressBar, ProgressState, ProgressStyle};
use std::{fmt, time::Duration};

/// How often a spinner moves.
const TICK: Duration = Duration::from_millis(120);

/// Characters of the name beside a bar; as in the templates.
const NAME_WIDTH: usize = 24;

/// A bar for a copy of `bytes`, or without an end if that is not known.
pub(crate) fn transfer(output: &Output, name: &str, bytes: Option<u64>) -> ProgressBar {
    bar(output.is_lively(), name, bytes)
}

/// As [`transfer`], where it is known already whether bars may be drawn.
pub(crate) fn bar(is_lively: bool, name: &str, bytes: Option<u64>) -> ProgressBar {
    if !is_lively {
        return ProgressBar::hidden();
    }
    let (bar, template) = match bytes {
        Some(bytes) => (
            ProgressBar::new(bytes),
            "{msg:24!} {wide_bar:.cyan/dim} {percent:>3} % of {binary_total_bytes} {rate:>12} {left:>4}",
        ),
        None => (ProgressBar::no_length(), "{msg:24!} {spinner} {binary_bytes:>11} {rate:>13}"),
    };
    let shown = style(template).with_key("rate", rate).with_key("left", left);
    bar.set_style(shown);
    bar.set_message(short(name, NAME_WIDTH));
    bar
}

/// A bar for a pass over `count` entries.
pub(crate) fn entries(output: &Output, count: u64) -> ProgressBar {
    if !output.is_lively() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(count);
    bar.set_style(style("entries {wide_bar:.cyan/dim} {percent:>3} % of {human_len} {eta:>4}"));
    bar
}

/// Before the first byte there is no rate: it may be waiting for tape.
fn rate(state: &ProgressState, out: &mut dyn fmt::Write) {
    // What cannot be drawn is not shown.
    let _ = match state.pos() {
        0 => out.write_str("waiting"),
        _ => write!(out, "{}/s", BinaryBytes(state.per_sec() as u64)),
    };
}

/// Nor is it known then how long it takes.
fn left(state: &ProgressState, out: &mut dyn fmt::Write) {
    let _ = match state.pos() {
        0 => Ok(()),
        _ => write!(out, "{:#}", HumanDuration(state.eta())),
    };
}

/// A spinner with text that may have several lines.
pub(crate) fn spinner(output: &Output) -> ProgressBar {
    if !output.is_lively() {
        return ProgressBar::hidden();
    }
    let spinner = ProgressBar::new_spinner();
    spinner.set_style(style("{spinner:.cyan} {msg}"));
    spinner.enable_steady_tick(TICK);
    spinner
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the templates are ours").progress_chars("━━─")
}

/// The end of a name that is too long.
fn short(name: &str, width: usize) -> String {
    let name: Vec<char> = base::shown(name).chars().collect();
    if name.len() <= width {
        return name.into_iter().collect();
    }
    std::iter::once('…').chain(name[name.len() + 1 - width..].iter().copied()).collect()
}
