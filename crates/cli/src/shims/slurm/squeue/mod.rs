//! `squeue`: shows jobs that wait or run.

mod fields;
mod json;
mod order;

use super::{
    MIN_JOB_AGE_S,
    columns::Layout,
    help, hostlist, jobs,
    line::{self, Line},
    selection::selections,
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
use base::Millis;
use fields::FIELDS;
use wire::control::{JobFilter, JobInfo, JobSelection, Jobs};

const OPTIONS: &str = "\
    A/account= a/all array-unique federation h/noheader help hide i/iterate= j/jobs= json? local l/long \
    L/licenses= M/clusters= cluster= me n/name= noconvert o/format= O/Format= only-job-state p/partition= q/qos= \
    R/reservation= r/array sibling S/sort= start t/states= u/user= users= usage v/verbose V/version w/nodelist= \
    yaml?";

const DEFAULT: &str = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R";
const LONG: &str = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R";
const START: &str = "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %20Y %R";

/// The states that are shown if nobody asks for others.
const ACTIVE: [State; 3] = [State::Pending, State::Running, State::Completing];

/// Runs the command.
pub(crate) fn run(shim: &mut Shim, arguments: Vec<String>) -> Run {
    let parsed = match help::read(shim, "[options]", OPTIONS, Order::Permuted, arguments, 1)? {
        help::Asked::Do(parsed) => parsed,
        help::Asked::Answered(code) => return Ok(code),
    };
    if parsed.has("yaml") || parsed.has("iterate") {
        return shim.refuse("--yaml and --iterate are not supported here", 1);
    }
    let asked = match Asked::read(&parsed, &variable) {
        Ok(asked) => asked,
        Err(refusal) => {
            refusal.lines().for_each(|line| shim.error(line));
            return Ok(1);
        }
    };
    let site = Site::here();
    let Some(lines) = lines(shim, &asked, &site)? else { return Ok(1) };
    if parsed.has("json") {
        return shim.line(json::document(&lines, &site).to_string()).map(|()| 0);
    }
    print(shim, &parsed, &asked, &lines, &site)
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Which jobs are asked for, and how they are to be shown.
#[derive(Debug, Default)]
struct Asked {
    select: Vec<JobSelection>,
    states: Vec<State>,
    users: Vec<String>,
    names: Vec<String>,
    queues: Vec<String>,
    accounts: Vec<String>,
    nodes: Vec<String>,
    is_me: bool,
    apart: bool,
    sort: Option<String>,
    format: Option<String>,
    long_format: Option<String>,
}

impl Asked {
    fn read(parsed: &Parsed, variable: &dyn Fn(&str) -> Option<String>) -> Result<Self, String> {
        let list = |keys: &[&str], name: &str| -> Vec<String> {
            let given: Vec<&str> = keys.iter().flat_map(|key| parsed.list(key)).collect();
            if given.is_empty() {
                let inherited = variable(name).unwrap_or_default();
                return inherited
                    .split(',')
                    .map(str::trim)
                    .filter(|one| !one.is_empty())
                    .map(str::to_owned)
                    .collect();
            }
            given.into_iter().map(str::to_owned).collect()
        };
        let text = |key: &str, name: &str| parsed.last(key).map(str::to_owned).or_else(|| variable(name));
        let format = parsed.last("format").map(str::to_owned);
        let long_format = parsed.last("Format").map(str::to_owned);
        let is_given = format.is_some() || long_format.is_some() || parsed.has("long") || parsed.has("start");
        Ok(Self {
            select: selections(&parsed.list("jobs").join(","))
                .map_err(|bad| format!("Invalid job id: {bad}"))?,
            states: states(&list(&["states"], "SQUEUE_STATES"), parsed.has("start"))?,
            users: list(&["user", "users"], "SQUEUE_USERS"),
            names: list(&["name"], "SQUEUE_NAMES"),
            queues: list(&["partition"], "SQUEUE_PARTITION"),
            accounts: list(&["account"], "SQUEUE_ACCOUNT"),
            nodes: hostlist::given(parsed, "nodelist")?,
            is_me: parsed.has("me"),
            apart: parsed.has("array") || variable("SQUEUE_ARRAY").is_some(),
            sort: text("sort", "SQUEUE_SORT"),
            format: format.or_else(|| variable("SQUEUE_FORMAT").filter(|_| !is_given)),
            long_format: long_format.or_else(|| variable("SQUEUE_FORMAT2").filter(|_| !is_given)),
        })
    }

    /// Whether a job is asked for, as far as the head was not told.
    fn wants(&self, line: &Line) -> bool {
        let account = line.job.spec.account.as_deref().unwrap_or_default();
        self.states.contains(&line.state())
            && (self.accounts.is_empty() || self.accounts.iter().any(|one| one == account))
            && (self.nodes.is_empty() || self.nodes.iter().any(|node| node == line.node()))
    }
}

fn states(words: &[String], is_start: bool) -> Result<Vec<State>, String> {
    if words.iter().any(|word| word.eq_ignore_ascii_case("all")) {
        return Ok(State::all());
    }
    if words.is_empty() {
        return Ok(if is_start { vec![State::Pending] } else { ACTIVE.to_vec() });
    }
    let read = |word: &String| {
        State::read(word).ok_or_else(|| {
            format!("Invalid job state specified: {word}\nValid job states include: {}", State::words())
        })
    };
    words.iter().map(read).collect()
}

/// The lines, in their order; none if that was refused.
fn lines(shim: &mut Shim, asked: &Asked, site: &Site) -> Run<Option<Vec<Line>>> {
    let mut owners = Vec::new();
    for user in &asked.users {
        match jobs::owner(shim, user) {
            Some(name) => owners.push(name),
            None => shim.error(&format!("Invalid user: {user}")),
        }
    }
    if asked.is_me {
        owners.push(shim.context.user().to_owned());
    }
    if owners.is_empty() && !asked.users.is_empty() {
        // Only users whom nobody knows were asked for.
        return Ok(Some(Vec::new()));
    }
    let mut ours: Vec<_> = asked.states.iter().flat_map(|state| state.ours().iter().copied()).collect();
    ours.sort_by_key(|state| state.as_str());
    ours.dedup();
    let call = Jobs {
        select: asked.select.clone(),
        elements: true,
        brief: true,
        limit: Some(jobs::LIMIT),
        filter: JobFilter {
            states: ours,
            queues: asked.queues.clone(),
            owners,
            names: asked.names.clone(),
            since: None,
        },
        ..Jobs::default()
    };
    let found = match jobs::list(shim, call) {
        Ok(found) => found,
        Err(_) if !asked.select.is_empty() => {
            shim.plain_error("slurm_load_jobs error: Invalid job id specified");
            return Ok(None);
        }
        Err(failure) => return Err(failure.into()),
    };
    if found.is_empty() && asked.select.len() == 1 && !jobs::is_known(shim, &asked.select)? {
        shim.plain_error("slurm_load_jobs error: Invalid job id specified");
        return Ok(None);
    }
    Ok(Some(shown(found, asked, site)))
}

/// What of the jobs is shown, in order.
fn shown(mut found: Vec<JobInfo>, asked: &Asked, site: &Site) -> Vec<Line> {
    let oldest = site.now + Millis::from_seconds(-MIN_JOB_AGE_S);
    let is_named = !asked.select.is_empty();
    found.retain(|job| is_named || job.ended.is_none_or(|ended| ended >= oldest));
    let mut lines = if asked.apart { line::single(found) } else { line::grouped(found) };
    lines.retain(|line| asked.wants(line));
    order::sort(&mut lines, asked.sort.as_deref(), site);
    lines
}

fn print(shim: &mut Shim, parsed: &Parsed, asked: &Asked, lines: &[Line], site: &Site) -> Run {
    let layout = match (&asked.long_format, asked.format.as_deref()) {
        (Some(names), _) => match Layout::named(FIELDS, names) {
            Ok(layout) => layout,
            Err(name) => return shim.refuse(&format!("Invalid job format specification: {name}"), 1),
        },
        (None, Some("%all")) => Layout::all(FIELDS),
        (None, Some(format)) => Layout::percent(FIELDS, format),
        (None, None) if parsed.has("start") => Layout::percent(FIELDS, START),
        (None, None) if parsed.has("long") => Layout::percent(FIELDS, LONG),
        (None, None) => Layout::percent(FIELDS, DEFAULT),
    };
    for letter in &layout.unknown {
        shim.error(&format!("Invalid job format specification: {letter}"));
    }
    if !parsed.has("noheader") {
        if parsed.has("long") {
            shim.line(site.calendar.heading(site.now))?;
        }
        shim.line(layout.heading())?;
    }
    for line in lines {
        shim.line(layout.row(line, site))?;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shims::{getopt::parse, slurm::sample};
    use wire::control::{JobExit, JobState, WaitCause};

    fn queue() -> Vec<JobInfo> {
        let mut held =
            JobInfo { state: JobState::Held, waits_for: Some(WaitCause::HeldByUser), ..sample::job(3) };
        held.spec.name = "held".to_owned();
        held.spec.resources.memory_bytes = 100 << 20;
        let element = |index| {
            let waits =
                JobInfo { waits_for: Some(WaitCause::ArrayLimit), ..sample::job(u64::from(index) + 20) };
            sample::element(waits, 2, index)
        };
        let failed = JobInfo {
            state: JobState::Failed,
            exit: Some(JobExit::Code(3)),
            ended: Some(sample::NOW),
            ..sample::running(6)
        };
        vec![
            failed,
            held,
            element(4),
            element(9),
            sample::element(sample::running(22), 2, 2),
            sample::running(1),
        ]
    }

    fn output(line: &str) -> String {
        let words = line.split(' ').filter(|word| !word.is_empty()).map(|word| word.replace('_', " "));
        let parsed = parse(OPTIONS, Order::Permuted, words).unwrap();
        let asked = Asked::read(&parsed, &|_| None).unwrap();
        let site = sample::site();
        let lines = shown(queue(), &asked, &site);
        let format = asked.format.as_deref().unwrap_or(DEFAULT);
        let layout = match &asked.long_format {
            Some(names) => Layout::named(FIELDS, names).unwrap(),
            None => Layout::percent(FIELDS, format),
        };
        let rows = lines.iter().map(|line| layout.row(line, &site));
        std::iter::once(layout.heading()).chain(rows).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn the_table_is_that_of_slurm() {
        let expected = [
            "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)",
            "           2_[4,9]     batch     long     root PD       0:00      1 (JobArrayTaskLimit)",
            "                 3     batch     held     root PD       0:00      1 (JobHeldUser)",
            "                 1     batch     long     root  R       0:09      1 n1",
            "               2_2     batch     long     root  R       0:09      1 n1",
        ];
        assert_eq!(output("").lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn formats_that_tools_use() {
        assert_eq!(
            output("-t all -o %i|%T -S i"),
            "JOBID|STATE\n1|RUNNING\n2_[4,9]|PENDING\n2_2|RUNNING\n3|PENDING\n6|FAILED"
        );
        assert_eq!(
            output("-t PD -r -o %A|%F|%K|%t|%r -S -i"),
            "JOBID|ARRAY_JOB_ID|ARRAY_TASK_ID|ST|REASON\n3|3|N/A|PD|JobHeldUser\n24|2|4|PD|JobArrayTaskLimit\n29|2|9|PD|JobArrayTaskLimit"
        );
        assert_eq!(
            output("-t R -O JobID:6,Name:.8,StateCompact:4|,TimeLeft:8,tres-alloc:30 -S i"),
            "JOBID     NAMEST  |TIME_LEFTRES_ALLOC                    \n1         longR   |9:51    cpu=1,node=1,billing=1        \n22        longR   |9:51    cpu=1,node=1,billing=1        "
        );
        assert_eq!(
            output("-t PD -n x -o %i,%m,%l,%E,%Z,%S -S -i").lines().nth(1).unwrap(),
            "3,100M,10:00,(null),/home/ada,N/A"
        );
    }

    #[test]
    fn states_that_do_not_exist_are_refused_with_those_that_do() {
        let refused = states(&["bogus".to_owned()], false).unwrap_err();
        assert!(
            refused.starts_with("Invalid job state specified: bogus\nValid job states include: PENDING,")
        );
    }
}
