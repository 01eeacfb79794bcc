//! `bp audit`: shows the audit log, read from the facility's directory.

use crate::{
    context::{Context, Run},
    output::Tone,
    table::{Cell, Column, Table},
    words,
};
use base::{Failure, FilePath, Result, Timestamp, units::Span};
use std::{
    collections::VecDeque,
    fs::{self, File},
    io::{BufRead, BufReader, ErrorKind, Read},
    path::{Path, PathBuf},
    time::SystemTime,
};
use wire::audit::{DIRECTORY, FILE, REFUSED_FILE, Record};

/// Longest line that is read.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// Show the audit log: who did what, when, from where
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Run it on the facility's host, as a user who can read the facility's directory. When too many \
        records come at\nonce, some are dropped; the log then says how many."
)]
pub(crate) struct Args {
    /// Only actions of this user
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    /// Only actions on this path or below it
    #[arg(long, value_name = "PATH")]
    path: Option<FilePath>,
    /// Only refused actions
    #[arg(long)]
    refused: bool,
    /// Only actions within this time, e.g. 2h
    #[arg(long, value_name = "TIME")]
    since: Option<Span>,
    /// Show this many actions, the newest
    #[arg(long, short = 'n', value_name = "NUMBER", default_value_t = 100)]
    last: usize,
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    let place = context.place()?;
    let directory = Path::new(place).join(DIRECTORY);
    if !Path::new(place).is_dir() {
        return Err(Failure::invalid(format!("{place} is not the directory of a facility"))
            .hint("the log is read on the facility's host, with --facility DIR")
            .into());
    }
    let now = Timestamp::from_system(SystemTime::now());
    let wish = Filter {
        since: args.since.map_or(i64::MIN, |Span(span)| now.0.saturating_sub(span.0)),
        action: None,
        args: &args,
    };
    let mut found = Vec::new();
    for name in [FILE, REFUSED_FILE] {
        let mut of_ring = VecDeque::new();
        for file in files(&directory, name)? {
            read(&file, &wish, &mut of_ring)?;
        }
        found.extend(of_ring);
    }
    let found = latest(found, args.last);
    if context.output.is_json() {
        for record in &found {
            context.output.json(record)?;
        }
    } else if found.is_empty() {
        context.output.news("no matching record in the audit log")?;
    } else {
        context.output.table(&table(&found))?;
    }
    Ok(0)
}

struct Filter<'a> {
    since: i64,
    /// Only this action.
    action: Option<&'a str>,
    args: &'a Args,
}

impl Filter<'_> {
    fn wants(&self, record: &Record) -> bool {
        let Args { by, path, refused, .. } = self.args;
        record.at.0 >= self.since
            && self.action.is_none_or(|action| action == record.action)
            && by.as_ref().is_none_or(|by| *by == record.user)
            && (!refused || record.refused.is_some())
            && path.as_ref().is_none_or(|path| is_about(record, path))
    }
}

/// Whether one of the paths of a record is this one, or lies below it.
fn is_about(record: &Record, path: &FilePath) -> bool {
    let is_below = |text: &str| {
        path.is_root() && text.starts_with('/')
            || text
                .strip_prefix(path.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', ' ']))
    };
    // Several paths stand one after the other.
    let within = |text: &str| is_below(text) || text.split(' ').any(is_below);
    within(&record.what) || record.to.as_deref().is_some_and(within)
}

/// The last records of all in the order of their times.
fn latest(mut found: Vec<Record>, last: usize) -> Vec<Record> {
    found.sort_by_key(|record| record.at);
    found.split_off(found.len().saturating_sub(last))
}

/// The files of the log that is written to `name`, the oldest first.
fn files(directory: &Path, name: &str) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory).map_err(|cause| {
        let failure = Failure::io(format!("read {}", directory.display()), &cause);
        failure.hint("the log is made when the facility starts, and only its owner can read it")
    })?;
    let (stem, end) = name.rsplit_once('.').unwrap_or((name, ""));
    let mut found = Vec::new();
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let number = name.strip_prefix(stem).and_then(|rest| rest.strip_suffix(end)?.strip_suffix('.'));
        let number = match number {
            Some("") => Some(0),
            Some(number) => number.strip_prefix('.').and_then(|number| number.parse::<u32>().ok()),
            None => None,
        };
        found.extend(number.map(|number| (number, entry.path())));
    }
    found.sort_by(|one, other| other.cmp(one));
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

/// When somebody last did `action` and was not refused, as the log of the facility in `directory` tells.
pub(super) fn newest(directory: &Path, action: &str) -> Result<Option<Timestamp>> {
    let args = Args { by: None, path: None, refused: false, since: None, last: usize::MAX };
    let wish = Filter { since: i64::MIN, action: Some(action), args: &args };
    let mut found = VecDeque::new();
    for file in files(&directory.join(DIRECTORY), FILE)? {
        read(&file, &wish, &mut found)?;
    }
    Ok(found.iter().filter(|record| record.refused.is_none()).map(|record| record.at).max())
}

fn read(file: &Path, wish: &Filter<'_>, found: &mut VecDeque<Record>) -> Result<()> {
    let failed = |cause| Failure::io(format!("read {}", file.display()), &cause);
    let mut lines = match File::open(file) {
        Ok(file) => BufReader::new(file),
        // It was given up for newer ones meanwhile.
        Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(()),
        Err(cause) => return Err(failed(cause)),
    };
    let mut line = Vec::new();
    while lines.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line).map_err(failed)? > 0 {
        // The last line of a facility that was killed may be cut off.
        if let Ok(record) = Record::parse(String::from_utf8_lossy(&line).trim_end())
            && wish.wants(&record)
        {
            found.push_back(record);
            if found.len() > wish.args.last {
                found.pop_front();
            }
        }
        line.clear();
    }
    Ok(())
}

fn table(records: &[Record]) -> Table {
    let columns = [
        Column::Left("time"),
        Column::Left("user"),
        Column::Left("from"),
        Column::Left("door"),
        Column::Left("action"),
        Column::Path("target"),
        Column::Text("outcome"),
    ];
    let mut table = Table::new(columns);
    for record in records {
        let what = match &record.to {
            Some(to) => format!("{} → {to}", record.what),
            None => record.what.clone(),
        };
        let outcome = match (&record.refused, &record.why) {
            (None, _) => Cell::from("done"),
            (Some(_), why) => {
                let times = record.count.filter(|count| *count > 1);
                let times = times.map_or_else(String::new, |count| format!("{count} times "));
                Cell::toned(format!("{times}refused: {}", why.as_deref().unwrap_or("")), Tone::Bad)
            }
        };
        table.row([
            Cell::from(words::exact_time(record.at).trim_end_matches(" UTC")),
            Cell::from(record.user.as_str()),
            Cell::from(record.address.map_or_else(String::new, |address| address.to_string())),
            Cell::from(record.door.as_ref()),
            Cell::from(record.action.as_ref()),
            Cell::from(what),
            outcome,
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(what: &str, to: Option<&str>) -> Record {
        Record {
            at: Timestamp(5),
            door: "root".into(),
            address: None,
            user: "ann".to_owned(),
            action: "read".into(),
            what: what.to_owned(),
            to: to.map(str::to_owned),
            refused: None,
            why: None,
            count: None,
        }
    }

    #[test]
    fn paths_are_found_by_whole_names() {
        let path: FilePath = "/a b".parse().unwrap();
        for (what, to, is_it) in [
            ("/a b", None, true),
            ("/a b/c", None, true),
            ("/a b 644", None, true),
            ("/a bc", None, false),
            ("/x", Some("/a b/y"), true),
            ("/x", Some("/y"), false),
        ] {
            assert_eq!(is_about(&record(what, to), &path), is_it, "{what} {to:?}");
        }
        let root = FilePath::root();
        assert!(is_about(&record("/x", None), &root) && !is_about(&record("vid=BP0001", None), &root));
        assert!(is_about(&record("/x /y/z", None), &"/y".parse().unwrap()));
    }

    #[test]
    fn files_are_read_from_the_oldest_to_the_newest() {
        let directory = tempfile::tempdir().unwrap();
        for (file, at) in
            [("audit.jsonl", 3), ("audit.1.jsonl", 2), ("audit.10.jsonl", 1), ("notes.jsonl", 9)]
        {
            let line = Record { at: Timestamp(at), ..record("/a", None) }.line();
            fs::write(directory.path().join(file), format!("{line}cut off {{")).unwrap();
        }
        let args = Args { by: None, path: None, refused: false, since: None, last: 2 };
        let wish = Filter { since: i64::MIN, action: None, args: &args };
        let mut found = VecDeque::new();
        for file in files(directory.path(), FILE).unwrap() {
            read(&file, &wish, &mut found).unwrap();
        }
        assert_eq!(found.iter().map(|record| record.at.0).collect::<Vec<_>>(), [2, 3]);
        let others = [1, 3, 5].map(|at| Record { at: Timestamp(at), ..record("/b", None) });
        let merged = latest(found.into_iter().chain(others).collect(), 4);
        assert_eq!(merged.iter().map(|record| record.at.0).collect::<Vec<_>>(), [2, 3, 3, 5]);
    }
}
