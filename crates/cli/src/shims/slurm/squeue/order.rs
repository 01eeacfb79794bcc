//! The order of the lines: `--sort=P,t,-p`.

use super::fields::{FIELDS, priority};
use crate::shims::slurm::{line::Line, site::Site};
use std::cmp::Ordering;

/// The order if nobody asks for another: by queue, then what waits before what runs, then by priority.
const DEFAULT: &str = "P,t,-p,i";

/// What lines are compared by.
#[derive(Debug, PartialEq, PartialOrd)]
enum Key {
    Number(i64),
    Text(String),
}

/// Sorts lines; letters that mean nothing are passed over.
pub(super) fn sort(lines: &mut Vec<Line>, by: Option<&str>, site: &Site) {
    let rules: Vec<(char, bool)> = by.unwrap_or(DEFAULT).split(',').filter_map(rule).collect();
    let mut keyed: Vec<(Vec<Key>, Line)> = lines
        .drain(..)
        .map(|line| (rules.iter().map(|(letter, _)| key(*letter, &line, site)).collect(), line))
        .collect();
    keyed.sort_by(|(a, _), (b, _)| compare(a, b, &rules));
    lines.extend(keyed.into_iter().map(|(_, line)| line));
}

/// A letter, and whether it is turned round.
fn rule(text: &str) -> Option<(char, bool)> {
    let text = text.trim().trim_start_matches('+');
    let (turned, letter) = text.strip_prefix('-').map_or((false, text), |letter| (true, letter));
    let letter = letter.trim_start_matches('%').chars().next()?;
    FIELDS.iter().any(|field| field.code == letter).then_some((letter, turned))
}

fn compare(a: &[Key], b: &[Key], rules: &[(char, bool)]) -> Ordering {
    let orders = a.iter().zip(b).zip(rules).map(|((a, b), (_, turned))| {
        let order = a.partial_cmp(b).unwrap_or(Ordering::Equal);
        if *turned { order.reverse() } else { order }
    });
    orders.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

fn key(letter: char, line: &Line, site: &Site) -> Key {
    let time = |time: Option<base::Timestamp>| Key::Number(time.map_or(i64::MAX, |time| time.0));
    match letter {
        // An element that started has a number of its own; those that wait have that of the array.
        'i' | 'F' => Key::Number(number(line.array_id().0)),
        'A' => Key::Number(number(line.raw_id().0)),
        'K' => Key::Number(line.job.array.map_or(-1, |element| i64::from(element.index))),
        't' | 'T' => Key::Number(line.state() as i64),
        'p' | 'Q' => Key::Number(priority(line)),
        'C' | 'c' => Key::Number(i64::from(line.job.spec.resources.cpus)),
        'm' => Key::Number(number(line.job.spec.resources.memory_bytes)),
        'M' => Key::Number(line.elapsed(site.now).0),
        'l' => Key::Number(line.limit().map_or(i64::MAX, |limit| limit.0)),
        'L' => Key::Number(line.limit().map_or(i64::MAX, |limit| limit.0 - line.elapsed(site.now).0)),
        'S' => time(line.start()),
        'e' => time(line.end()),
        'V' => time(Some(line.job.submitted)),
        letter => {
            let field = FIELDS.iter().find(|field| field.code == letter);
            Key::Text(field.map(|field| (field.value)(line, site)).unwrap_or_default())
        }
    }
}

fn number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
