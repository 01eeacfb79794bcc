//! Bars and spinners on standard error; nothing where that is no terminal.

use crate::output::Output;
use indicatif::{ProgressBar, ProgressStyle};
use std::time::Duration;

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
            "{msg:24!} {wide_bar:.cyan/dim} {percent:>3} % of {binary_total_bytes} {binary_bytes_per_sec:>12} {eta:>4}",
        ),
        None => {
            (ProgressBar::no_length(), "{msg:24!} {spinner} {binary_bytes:>11} {binary_bytes_per_sec:>13}")
        }
    };
    bar.set_style(style(template));
    bar.set_message(short(name, NAME_WIDTH));
    bar
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
