//! `sacct`: shows jobs, also those that are over.

mod fields;
mod layout;

use super::{
    help, hostlist, jobs,
    line::{self, Line},
    selection::{selection, selections},
    site::Site,
    state::State,
};
use crate::{
    context::Run,
    shims::{
        Shim,
        getopt::{Order, Parsed},
    },
};
use base::{Failure, Timestamp};
use fields::Row;
use layout::{Layout, Parted};
use wire::control::{JobFilter, JobInfo, JobSelection, Jobs};

const OPTIONS: &str = "\
    A/accounts= a/allusers array B/batch-script b/brief c/completion C/constraints= D/duplicates delimiter= \
    E/endtime= e/helpformat env-vars expand-patterns F/flags= federation f/file= o/format= g/gid= group= h/help \
    i/nnodes= I/ncpus= j/jobs= json? K/timelimit-max= k/timelimit-min= l/long L/allclusters local M/clusters= \
    cluster= name= N/nodelist= n/noheader noconvert P/parsable2 p/parsable q/qos= r/partition= R/reason= \
    S/starttime= s/state= T/truncate U/use-local-uid u/user= uid= units= usage v/verbose V/version W/wckeys= \
    whole-hetjob? X/allocations x/associations=";

/// Runs the command.
pub(crate) fn run(shim: &mut Shim, arguments: Vec<String>) -> Run {
    let parsed = match help::read(shim, "[options]", OPTIONS, Order::Permuted, arguments, 1)? {
        help::Asked::Do(parsed) => parsed,
        help::Asked::Answered(code) => return Ok(code),
    };
    if parsed.has("helpformat") {
        layout::help().into_iter().try_for_each(|line| shim.line(line))?;
        return Ok(0);
    }
    let site = Site::here();
    let layout = match layout(&parsed) {
        Ok(layout) => layout,
        Err(refusal) => return shim.refuse(&refusal, 1),
    };
    let asked = match Asked::read(&parsed, &site) {
        Ok(asked) => asked,
        Err(Refused::Fatal(refusal)) => {
            shim.say(&format!("fatal: {refusal}"));
            return Ok(1);
        }
        Err(Refused::Error(refusal)) => return shim.refuse(&refusal, 1),
    };
    let lines = asked.lines(shim, &parsed)?;
    if !parsed.has("noheader") {
        layout.headings().into_iter().try_for_each(|line| shim.line(line))?;
    }
    for row in rows(&lines, &asked) {
        shim.line(layout.row(row, &site))?;
    }
    Ok(0)
}

fn layout(parsed: &Parsed) -> Result<Layout, String> {
    let parted = if parsed.has("parsable2") || parsed.has("parsable") {
        let text = parsed.last("delimiter").unwrap_or("|").to_owned();
        Parted::By { text, also_last: !parsed.has("parsable2") }
    } else {
        Parted::Padded
    };
    let inherited = std::env::var("SACCT_FORMAT").ok().filter(|format| !format.is_empty());
    let format = parsed.last("format").map(str::to_owned).or(inherited);
    Layout::read(format.as_deref(), parsed.has("brief"), parsed.has("long"), parted)
}

/// Which jobs are asked for.
#[derive(Debug)]
struct Asked {
    select: Vec<JobSelection>,
    /// Of these jobs only the named step is shown.
    steps: Vec<(JobSelection, String)>,
    start: Option<Timestamp>,
    end: Timestamp,
    states: Vec<State>,
    nodes: Vec<String>,
    is_without_steps: bool,
    apart: bool,
}

/// How a command line is refused: tools look for the word before the message.
#[derive(Debug, PartialEq, Eq)]
enum Refused {
    Fatal(String),
    Error(String),
}

impl Asked {
    fn read(parsed: &Parsed, site: &Site) -> Result<Self, Refused> {
        let named = parsed.list("jobs").join(",");
        let select =
            selections(&named).map_err(|bad| Refused::Fatal(format!("Bad job/step specified: {bad}")))?;
        let steps = named.split(',').filter_map(|word| {
            let (_, step) = word.split_once('.')?;
            Some((selection(word)?, step.to_owned()))
        });
        let time = |key: &str| match parsed.last(key) {
            None => Ok(None),
            Some(text) => site
                .calendar
                .read(text, site.now)
                .map(Some)
                .ok_or_else(|| Refused::Error(format!("Invalid time specification: {text}"))),
        };
        let end = time("endtime")?.unwrap_or(site.now);
        // Jobs that are named are shown whenever they were.
        let today = select.is_empty().then(|| site.calendar.midnight(site.now));
        let start = time("starttime")?.or(today);
        if let Some(late) = start.filter(|start| *start > end) {
            return Err(Refused::Error(format!(
                "Start time ({}) requested is after end time ({}).",
                site.time(late),
                site.time(end)
            )));
        }
        let state = |word: &str| {
            State::read(word).ok_or_else(|| Refused::Fatal(format!("unrecognized job state value {word}")))
        };
        Ok(Self {
            steps: steps.collect(),
            select,
            start,
            end,
            states: parsed.list("state").into_iter().map(state).collect::<Result<_, _>>()?,
            nodes: hostlist::given(parsed, "nodelist").map_err(Refused::Error)?,
            is_without_steps: parsed.has("allocations"),
            apart: parsed.has("array"),
        })
    }

    /// Whether a job was there in the time that is asked for.
    fn wants(&self, job: &JobInfo) -> bool {
        let state = super::state::of(job);
        job.submitted <= self.end
            && self.start.is_none_or(|start| job.ended.is_none_or(|ended| ended >= start))
            && (self.states.is_empty() || self.states.contains(&state))
    }

    fn lines(&self, shim: &mut Shim, parsed: &Parsed) -> Run<Vec<Line>> {
        let mut found = if self.select.is_empty() {
            let call = self.call(shim, parsed)?;
            jobs::list(shim, call)?
        } else {
            let named = filter(shim, parsed)?;
            let mut found = jobs::existing(shim, &self.select)?;
            found.retain(|job| jobs::is_in(&named, job));
            found
        };
        let accounts = owned(parsed, "accounts");
        found.retain(|job| self.wants(job) && jobs::is_of(job, &accounts, &self.nodes));
        found.sort_by_key(|job| job.id);
        found.dedup_by_key(|job| job.id);
        Ok(if self.apart { line::single(found) } else { line::grouped(found) })
    }

    fn call(&self, shim: &Shim, parsed: &Parsed) -> base::Result<Jobs> {
        let mut filter = filter(shim, parsed)?;
        if filter.owners.is_empty() && !parsed.has("allusers") && shim.context.user() != "root" {
            filter.owners.push(shim.context.user().to_owned());
        }
        filter.since = self.start;
        filter.states = self.states.iter().flat_map(|state| state.ours().iter().copied()).collect();
        Ok(Jobs { elements: true, brief: true, limit: Some(jobs::LIMIT), filter, ..Jobs::default() })
    }
}

fn filter(shim: &Shim, parsed: &Parsed) -> base::Result<JobFilter> {
    let users = [owned(parsed, "user"), owned(parsed, "uid")].concat();
    let owners = jobs::owners(shim, &users);
    Ok(JobFilter {
        owners: owners.map_err(|user| Failure::invalid(format!("Invalid user id: {user}")))?,
        names: owned(parsed, "name"),
        queues: owned(parsed, "partition"),
        ..JobFilter::default()
    })
}

fn owned(parsed: &Parsed, key: &str) -> Vec<String> {
    parsed.list(key).into_iter().map(str::to_owned).collect()
}

/// A line for each job, and behind it one for its step if it has run.
fn rows<'a>(lines: &'a [Line], asked: &Asked) -> Vec<Row<'a>> {
    let mut rows = Vec::new();
    for line in lines {
        let is_one_step = asked.steps.iter().find(|(job, _)| jobs::names(job, &line.job));
        if let Some((_, step)) = is_one_step {
            // Only the batch step exists here.
            if step == "batch" && line.job.started.is_some() {
                rows.push(Row { line, is_step: true });
            }
            continue;
        }
        rows.push(Row { line, is_step: false });
        if !asked.is_without_steps && line.job.started.is_some() && line.state() != State::Pending {
            rows.push(Row { line, is_step: true });
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shims::{getopt::parse, slurm::sample};
    use base::Millis;
    use wire::control::{JobExit, JobState, Usage, WaitCause};

    fn accounting() -> Vec<JobInfo> {
        let ended = |id, exit: JobExit, state| JobInfo {
            state,
            exit: Some(exit),
            ended: Some(sample::NOW + Millis::from_seconds(-4)),
            usage: Some(Usage { cpu: Millis(1250), wall: Millis(5000), memory_bytes_max: 5 << 20 }),
            ..sample::running(id)
        };
        let mut bad = ended(6, JobExit::Code(3), JobState::Failed);
        bad.spec.name = "a-long-name".to_owned();
        let element = |index| {
            let waits =
                JobInfo { waits_for: Some(WaitCause::ArrayLimit), ..sample::job(u64::from(index) + 20) };
            sample::element(waits, 2, index)
        };
        let yesterday = JobInfo { ended: Some(Timestamp(0)), ..ended(9, JobExit::Code(0), JobState::Done) };
        vec![
            sample::running(1),
            bad,
            ended(7, JobExit::Signal(9), JobState::Failed),
            yesterday,
            element(4),
            element(9),
        ]
    }

    fn output(line: &str) -> String {
        let parsed = parse(OPTIONS, Order::Permuted, line.split_whitespace().map(str::to_owned)).unwrap();
        let site = sample::site();
        let layout = layout(&parsed).unwrap();
        let asked = Asked::read(&parsed, &site).unwrap();
        let mut jobs = accounting();
        jobs.retain(|job| {
            asked.wants(job) && (asked.select.is_empty() || asked.select.iter().any(|one| one.job == job.id))
        });
        let lines = line::grouped(jobs);
        let mut text = if parsed.has("noheader") { Vec::new() } else { layout.headings() };
        text.extend(rows(&lines, &asked).into_iter().map(|row| layout.row(row, &site)));
        text.join("\n")
    }

    #[test]
    fn the_table_is_that_of_slurm() {
        let text = output("");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "JobID           JobName  Partition    Account  AllocCPUS      State ExitCode ");
        assert_eq!(lines[1], "------------ ---------- ---------- ---------- ---------- ---------- -------- ");
        assert_eq!(lines[2], "1                  long      batch                     1    RUNNING      0:0 ");
        assert_eq!(lines[3], "1.batch           batch                                1    RUNNING      0:0 ");
        assert_eq!(lines[4], "6            a-long-na+      batch                     1     FAILED      3:0 ");
        assert_eq!(lines[7], "7.batch           batch                                1  CANCELLED      0:9 ");
        assert_eq!(lines[8], "2_[4,9]            long      batch                     1    PENDING      0:0 ");
    }

    #[test]
    fn formats_that_tools_use() {
        assert_eq!(
            output(
                "-nPX -o jobid,jobidraw,state,exitcode,elapsedraw,cputimeraw,jobname,partition,start,end,submit,nodelist,maxrss,reqmem -j 1,6"
            ),
            "1|1|RUNNING|0:0|9|9|long|batch|2026-11-26T05:17:53|Unknown|2026-11-26T05:17:52|n1||0\n\
             6|6|FAILED|3:0|5|5|a-long-name|batch|2026-11-26T05:17:53|2026-11-26T05:17:58|2026-11-26T05:17:52|n1||0"
        );
        assert_eq!(
            output("-P -j 6 -o JobID,MaxRSS,TotalCPU"),
            "JobID|MaxRSS|TotalCPU\n6||00:01.250\n6.batch|5120K|00:01.250"
        );
        assert_eq!(output("-j 6.batch -P -o jobid,state"), "JobID|State\n6.batch|FAILED");
        assert_eq!(output("-j 6.0 --format=Reason --noheader"), "");
        assert_eq!(output("-n -X -j 6 -o nodelist%-8"), "n1       ");
        assert_eq!(output("-p -X -j 1 -o jobid,state"), "JobID|State|\n1|RUNNING|");
        assert_eq!(output("-XnP --delimiter , -s R -o jobid,state"), "1,RUNNING");
        assert_eq!(output("-XnP -S 1969-01-01 -s CD -o jobid"), "9");
    }

    #[test]
    fn refusals_are_those_of_sacct() {
        let read = |line: &str| {
            let parsed = parse(OPTIONS, Order::Permuted, line.split(' ').map(str::to_owned)).unwrap();
            Asked::read(&parsed, &sample::site()).unwrap_err()
        };
        assert_eq!(read("-j abc"), Refused::Fatal("Bad job/step specified: abc".to_owned()));
        assert_eq!(read("-N n[1"), Refused::Error("Invalid host list: n[1".to_owned()));
        assert_eq!(
            read("-S 2030-01-01"),
            Refused::Error(
                "Start time (2030-01-01T00:00:00) requested is after end time (2026-11-26T05:18:02)."
                    .to_owned()
            )
        );
        let parsed = parse(OPTIONS, Order::Permuted, ["-o".to_owned(), "nope".to_owned()]).unwrap();
        assert_eq!(layout(&parsed).err().unwrap(), "Invalid field requested: \"nope\"");
    }
}
