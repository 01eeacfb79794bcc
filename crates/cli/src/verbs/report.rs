//! `bp report`: what the facility did in a month, in total, by user, by group, or job by job.

mod figures;

use crate::{
    context::{Context, Run},
    table::{Cell, Column, Table},
    words::{span, time},
};
use base::{Failure, Millis, Month, Timestamp, units::human_bytes};
use clap::ValueEnum;
use figures::{Figure, OF_ACCOUNT, OF_JOB, OF_SUMMARY, costs, csv};
use serde::Serialize;
use std::time::SystemTime;
use wire::control::{AccountLine, AccountPart, Accounts, GetAccounts, JobFilter, JobInfo, Jobs};

const DAY: Millis = Millis::from_seconds(86_400);
/// Jobs of a report: as many as the facility lists at once.
const JOBS_MAX: u32 = 100_000;

/// Report what the facility did in a month
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Without --by it sums up the month: users and jobs, bytes staged and moved, CPU time.\n\
        Jobs are listed as long as the facility keeps them (`bp report --by job`); sums are kept for ever."
)]
pub(crate) struct Args {
    /// The month [default: this one]
    #[arg(long, value_name = "YYYY-MM")]
    month: Option<Month>,
    /// A line for each of these
    #[arg(long, value_enum)]
    by: Option<By>,
    /// Comma-separated values, with times in seconds and sizes in bytes
    #[arg(long)]
    csv: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum By {
    User,
    Group,
    Job,
}

/// What `--json` prints of the whole month.
#[derive(Debug, Serialize)]
struct Summary {
    month: Month,
    /// Days of it that have passed.
    days: f64,
    /// Users who ran jobs.
    users: u64,
    jobs: u64,
    jobs_per_day: f64,
    cpu: Millis,
    slot_wall: Millis,
    staged_bytes: u64,
    staged_bytes_per_day: f64,
    archived_bytes: u64,
    loads: f64,
    in_bytes: u64,
    in_transfers: u64,
    out_bytes: u64,
    out_transfers: u64,
    disk_gb_hours: f64,
    memory_gb_hours: f64,
    /// Starts of the head after the first.
    interruptions: u64,
    /// Hours between two of them; all that have passed if there was none.
    hours_between_interruptions: f64,
}

impl Summary {
    fn of(month: Month, accounts: &Accounts, now: Timestamp) -> Self {
        let lines = &accounts.lines;
        let days = days(month, now);
        let per_day = |number: u64| if days > 0.0 { number as f64 / days } else { 0.0 };
        let sum = |of: fn(&AccountLine) -> u64| lines.iter().map(of).sum::<u64>();
        let (jobs, staged_bytes) = (sum(|line| line.jobs), sum(|line| line.tape_read_bytes));
        Self {
            month,
            days,
            users: lines.iter().filter(|line| line.jobs > 0).count() as u64,
            jobs,
            jobs_per_day: per_day(jobs),
            cpu: Millis(lines.iter().map(|line| line.cpu.0).sum()),
            slot_wall: Millis(lines.iter().map(|line| line.slot_wall.0).sum()),
            staged_bytes,
            staged_bytes_per_day: per_day(staged_bytes),
            archived_bytes: sum(|line| line.tape_written_bytes),
            loads: lines.iter().map(|line| line.tape_loads).sum(),
            in_bytes: sum(|line| line.in_bytes),
            in_transfers: sum(|line| line.in_transfers),
            out_bytes: sum(|line| line.out_bytes),
            out_transfers: sum(|line| line.out_transfers),
            disk_gb_hours: lines.iter().map(|line| line.disk_gb_hours).sum(),
            memory_gb_hours: lines.iter().map(|line| line.memory_gb_hours).sum(),
            interruptions: accounts.interruptions,
            hours_between_interruptions: days * 24.0 / accounts.interruptions.max(1) as f64,
        }
    }

    /// Lines of text: what, how much, and how much a day.
    fn rows(&self) -> [(&'static str, String, String); 12] {
        let a_day = |number: f64| human_bytes(number as u64);
        let none = String::new;
        [
            ("users who ran jobs", self.users.to_string(), none()),
            ("jobs", self.jobs.to_string(), format!("{:.1}", self.jobs_per_day)),
            ("CPU time", span(self.cpu), none()),
            ("slot time", span(self.slot_wall), none()),
            ("memory", format!("{:.2} GB·h", self.memory_gb_hours), none()),
            ("staged from tape", human_bytes(self.staged_bytes), a_day(self.staged_bytes_per_day)),
            ("written to tape", human_bytes(self.archived_bytes), none()),
            ("volumes loaded", format!("{:.2}", self.loads), none()),
            (
                "in and out",
                format!("{} and {}", human_bytes(self.in_bytes), human_bytes(self.out_bytes)),
                none(),
            ),
            ("disk", format!("{:.2} GB·h", self.disk_gb_hours), none()),
            ("interruptions", self.interruptions.to_string(), none()),
            ("time between them", format!("{:.1} h", self.hours_between_interruptions), none()),
        ]
    }
}

/// Days of a month that have passed.
fn days(month: Month, now: Timestamp) -> f64 {
    let end = month.next().start().min(now);
    ((end - month.start()).0.max(0) as f64) / DAY.0 as f64
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    if args.csv && context.output.is_json() {
        return Err(Failure::invalid("--csv and --json exclude each other").into());
    }
    let now = Timestamp::from_system(SystemTime::now());
    let month = args.month.unwrap_or_else(|| Month::of(now));
    match args.by {
        Some(By::Job) => jobs(context, month, args.csv),
        Some(By::User) => accounts(context, (month, AccountPart::User), args.csv),
        Some(By::Group) => accounts(context, (month, AccountPart::Group), args.csv),
        None => summary(context, month, (args.csv, now)),
    }
}

fn ask(context: &mut Context, month: Month, part: AccountPart) -> Run<Accounts> {
    let ask = GetAccounts { by: vec![part], month: Some(month), ..GetAccounts::default() };
    let accounts = context.call(&ask)?;
    if accounts.lines_len > accounts.lines.len() as u64 {
        // Sums of a part would look like those of the whole.
        let what = format!("{} of {} accounts are told at once", accounts.lines.len(), accounts.lines_len);
        return Err(Failure::unsupported(what).hint("`bp account --top N` has the largest").into());
    }
    Ok(accounts)
}

fn summary(context: &mut Context, month: Month, (is_csv, now): (bool, Timestamp)) -> Run {
    let accounts = ask(context, month, AccountPart::User)?;
    let summary = Summary::of(month, &accounts, now);
    if context.output.is_json() {
        context.output.json(&summary)?;
    } else if is_csv {
        csv(context, &OF_SUMMARY, &[summary])?;
    } else {
        let mut table = Table::new([Column::Left(""), Column::Right("in the month"), Column::Right("a day")]);
        for (what, number, a_day) in summary.rows() {
            table.row([Cell::from(what), number.into(), a_day.into()]);
        }
        context.output.titled(&month.to_string(), &table)?;
    }
    Ok(0)
}

fn accounts(context: &mut Context, (month, part): (Month, AccountPart), is_csv: bool) -> Run {
    let lines = ask(context, month, part)?.lines;
    if context.output.is_json() {
        context.output.json(&lines)?;
        return Ok(0);
    }
    let name: Figure<AccountLine> = match part {
        AccountPart::Group => ("group", |line| line.group.clone().unwrap_or_default()),
        _ => ("user", |line| line.user.clone().unwrap_or_default()),
    };
    if is_csv {
        csv(context, &[&[name], &OF_ACCOUNT[..]].concat(), &lines)?;
        return Ok(0);
    }
    let titles = ["jobs", "CPU", "slot time", "memory GB·h", "from tape", "loads", "in", "out", "disk GB·h"];
    let columns = std::iter::once(Column::Text(name.0)).chain(titles.map(Column::Right));
    let mut table = Table::new(columns.collect::<Vec<_>>());
    for line in &lines {
        table.row([
            Cell::from(name.1(line)),
            line.jobs.to_string().into(),
            span(line.cpu).into(),
            span(line.slot_wall).into(),
            format!("{:.2}", line.memory_gb_hours).into(),
            human_bytes(line.tape_read_bytes).into(),
            format!("{:.2}", line.tape_loads).into(),
            human_bytes(line.in_bytes).into(),
            human_bytes(line.out_bytes).into(),
            format!("{:.2}", line.disk_gb_hours).into(),
        ]);
    }
    show(context, &table)
}

fn jobs(context: &mut Context, month: Month, is_csv: bool) -> Run {
    let filter = JobFilter { since: Some(month.start()), ..JobFilter::default() };
    let call =
        Jobs { filter, elements: true, brief: true, costs: true, limit: Some(JOBS_MAX), ..Jobs::default() };
    let list = context.call(&call)?;
    if list.is_cut {
        let what = format!("more than {JOBS_MAX} jobs are listed since the beginning of {month}");
        return Err(Failure::unsupported(what).hint("`bp report --by user` has the sums").into());
    }
    // A job belongs to the month in which it ended.
    let is_of_month = |job: &JobInfo| job.ended.is_some_and(|ended| Month::of(ended) == month);
    let jobs: Vec<_> = list.jobs.into_iter().filter(is_of_month).collect();
    if context.output.is_json() {
        context.output.json(&jobs)?;
    } else if is_csv {
        csv(context, &OF_JOB, &jobs)?;
    } else {
        show(context, &table_of_jobs(&jobs))?;
    }
    Ok(0)
}

fn table_of_jobs(jobs: &[JobInfo]) -> Table {
    let mut table = Table::new([
        Column::Left("job"),
        Column::Text("user"),
        Column::Text("name"),
        Column::Left("state"),
        Column::Left("ended"),
        Column::Right("slots"),
        Column::Right("CPU"),
        Column::Right("wall"),
        Column::Right("memory"),
        Column::Right("in"),
        Column::Right("out"),
        Column::Right("loads"),
    ]);
    for job in jobs {
        let usage = job.usage.unwrap_or_default();
        table.row([
            Cell::from(job.shown_id()),
            job.owner.as_str().into(),
            job.spec.name.as_str().into(),
            job.state.as_str().into(),
            job.ended.map_or_else(String::new, time).into(),
            job.spec.resources.cpus.to_string().into(),
            span(usage.cpu).into(),
            span(usage.wall).into(),
            human_bytes(usage.memory_bytes_max).into(),
            human_bytes(costs(job).in_bytes).into(),
            human_bytes(costs(job).out_bytes).into(),
            format!("{:.2}", costs(job).tape_loads).into(),
        ]);
    }
    table
}

fn show(context: &mut Context, table: &Table) -> Run {
    if table.is_empty() {
        context.output.news("no usage in this month")?;
    } else {
        context.output.table(table)?;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn month(text: &str) -> Month {
        text.parse().expect("it is a month")
    }

    #[test]
    fn a_month_that_is_not_over_has_the_days_that_have_passed() {
        let november = month("2026-11");
        assert!((days(november, november.next().start() + DAY) - 30.0).abs() < 1e-9);
        assert!((days(november, november.start() + DAY) - 1.0).abs() < 1e-9);
        assert!(days(november, november.start() + Millis(-DAY.0)).abs() < 1e-9, "it has not begun");
    }

    #[test]
    fn a_summary_adds_up_users() {
        let line = |user: &str, jobs, cpu| AccountLine {
            user: Some(user.into()),
            jobs,
            cpu: Millis(cpu),
            tape_read_bytes: 100,
            ..AccountLine::default()
        };
        let november = month("2026-11");
        let lines = [line("ada", 4, 1000), line("bob", 6, 500), line("eve", 0, 0)];
        let accounts = Accounts { lines: lines.into(), interruptions: 3, ..Accounts::default() };
        let summary = Summary::of(november, &accounts, november.start() + DAY + DAY);
        assert!((summary.hours_between_interruptions - 16.0).abs() < 1e-9);
        assert_eq!((summary.users, summary.jobs, summary.cpu), (2, 10, Millis(1500)));
        assert!((summary.jobs_per_day - 5.0).abs() < 1e-9);
        assert!((summary.staged_bytes_per_day - 150.0).abs() < 1e-9);
    }
}
