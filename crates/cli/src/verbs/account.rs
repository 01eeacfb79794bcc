//! `bp account`: shows what users, groups and projects store and use.

use crate::{
    context::{Context, Run},
    table::{Cell, Column, Table},
    words::span,
};
use base::{Month, units::human_bytes};
use std::str::FromStr;
use wire::control::{AccountLine, AccountPart, GetAccounts};

/// Stands for an option without a value.
const EACH: &str = "*";

/// What is asked of one part of an account.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Part<T> {
    /// Each gets its own line.
    Each,
    /// Nothing but this.
    Only(T),
}

impl<T: FromStr> FromStr for Part<T> {
    type Err = T::Err;

    fn from_str(text: &str) -> Result<Self, T::Err> {
        if text == EACH { Ok(Self::Each) } else { text.parse().map(Self::Only) }
    }
}

impl<T> Part<T> {
    fn only(self) -> Option<T> {
        match self {
            Self::Each => None,
            Self::Only(value) => Some(value),
        }
    }
}

/// Show usage by user, group, project, pool and month
#[derive(Debug, clap::Args)]
#[command(
    after_help = "An option without a value prints a line for each user, group, project, pool or month; with a \
        value, only that one:\n`bp account --project cms --owner --month` shows the usage of each user for the \
        project cms, month by month.\nWithout options there is a line for each user. An empty name ('') stands \
        for files without a project or pool."
)]
pub(crate) struct Args {
    /// A line for each user, or only this one
    #[arg(long, value_name = "USER", num_args = 0..=1, default_missing_value = EACH)]
    owner: Option<Part<String>>,
    /// A line for each group, or only this one
    #[arg(long, value_name = "GROUP", num_args = 0..=1, default_missing_value = EACH)]
    group: Option<Part<String>>,
    /// A line for each project, or only this one
    #[arg(long, value_name = "PROJECT", num_args = 0..=1, default_missing_value = EACH)]
    project: Option<Part<String>>,
    /// A line for each pool, or only this one
    #[arg(long, value_name = "POOL", num_args = 0..=1, default_missing_value = EACH)]
    pool: Option<Part<String>>,
    /// A line for each month, or only this one (YYYY-MM) [default: everything in one line]
    #[arg(long, value_name = "YYYY-MM", num_args = 0..=1, default_missing_value = EACH)]
    month: Option<Part<Month>>,
    /// Only the N lines with the most byte-hours on disk
    #[arg(long, value_name = "N")]
    top: Option<usize>,
}

impl Args {
    fn ask(self) -> GetAccounts {
        let is_each = [
            (AccountPart::Month, self.month == Some(Part::Each)),
            (AccountPart::User, self.owner == Some(Part::Each)),
            (AccountPart::Group, self.group == Some(Part::Each)),
            (AccountPart::Project, self.project == Some(Part::Each)),
            (AccountPart::Pool, self.pool == Some(Part::Each)),
        ];
        let mut by: Vec<_> = is_each.into_iter().filter(|(_, is)| *is).map(|(part, _)| part).collect();
        if by.is_empty() {
            by.push(AccountPart::User);
        }
        GetAccounts {
            by,
            user: self.owner.and_then(Part::only),
            group: self.group.and_then(Part::only),
            project: self.project.and_then(Part::only),
            pool: self.pool.and_then(Part::only),
            month: self.month.and_then(Part::only),
            top: self.top,
        }
    }
}

/// A column of numbers: its title, and what stands in a line; nothing where that is zero.
type Figure = (&'static str, fn(&AccountLine) -> Option<String>);

const FIGURES: [Figure; 12] = [
    ("files", |line| count(line.files)),
    ("held", |line| bytes(line.bytes)),
    ("on disk", |line| bytes(line.disk_bytes)),
    ("disk GB·h", |line| (line.disk_gb_hours >= 0.005).then(|| format!("{:.2}", line.disk_gb_hours))),
    ("in", |line| bytes(line.in_bytes)),
    ("out", |line| bytes(line.out_bytes)),
    ("moved", |line| count(line.in_transfers + line.out_transfers)),
    ("to tape", |line| bytes(line.tape_written_bytes)),
    ("from tape", |line| bytes(line.tape_read_bytes)),
    ("loads", |line| (line.tape_loads > 0.0).then(|| format!("{:.2}", line.tape_loads))),
    ("CPU", |line| (line.cpu.0 > 0).then(|| span(line.cpu))),
    ("jobs", |line| count(line.jobs)),
];

fn count(number: u64) -> Option<String> {
    (number > 0).then(|| number.to_string())
}

fn bytes(number: u64) -> Option<String> {
    (number > 0).then(|| human_bytes(number))
}

fn name(line: &AccountLine, part: AccountPart) -> String {
    let name = match part {
        AccountPart::User => line.user.clone(),
        AccountPart::Group => line.group.clone(),
        AccountPart::Project => line.project.clone(),
        AccountPart::Pool => line.pool.clone(),
        AccountPart::Month => line.month.map(|month| month.to_string()),
    };
    name.filter(|name| !name.is_empty()).unwrap_or_else(|| "-".to_owned())
}

fn title(part: AccountPart) -> &'static str {
    match part {
        AccountPart::User => "user",
        AccountPart::Group => "group",
        AccountPart::Project => "project",
        AccountPart::Pool => "pool",
        AccountPart::Month => "month",
    }
}

/// A table without the columns in which nothing stands.
fn table(by: &[AccountPart], lines: &[AccountLine]) -> Table {
    let figures: Vec<Figure> =
        FIGURES.into_iter().filter(|(_, show)| lines.iter().any(|line| show(line).is_some())).collect();
    let names = by.iter().map(|part| Column::Text(title(*part)));
    let mut table: Table =
        Table::new(names.chain(figures.iter().map(|(title, _)| Column::Right(title))).collect::<Vec<_>>());
    for line in lines {
        let names = by.iter().map(|part| Cell::from(name(line, *part)));
        let figures =
            figures.iter().map(|(_, show)| Cell::from(show(line).unwrap_or_else(|| "-".to_owned())));
        table.row(names.chain(figures).collect::<Vec<_>>());
    }
    table
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    let ask = args.ask();
    let accounts = context.call(&ask)?;
    if context.output.is_json() {
        context.output.json(&accounts)?;
        return Ok(0);
    }
    if accounts.lines.is_empty() {
        context.output.news("no usage matches")?;
        return Ok(0);
    }
    context.output.table(&table(&ask.by, &accounts.lines))?;
    let left_out = accounts.lines_len.saturating_sub(accounts.lines.len() as u64);
    if left_out > 0 {
        context.output.news(format!("and {left_out} more"))?;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_in_which_nothing_stands_are_left_out() {
        let line = |user: &str, bytes| AccountLine {
            user: Some(user.into()),
            files: 1,
            bytes,
            ..Default::default()
        };
        let shown = table(&[AccountPart::User], &[line("ada", 2000), line("bob", 0)]).render(None, false);
        assert_eq!(shown, "user  files      held\nada       1  1.95 KiB\nbob       1         -\n");
    }
}
