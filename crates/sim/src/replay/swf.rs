//! Traces in the standard workload format of the Parallel Workloads Archive: a job a line, 18 numbers, `;` begins a remark.
//!
//! Source: Chapin et al., *Benchmarks and standards for the evaluation of parallel job schedulers* (JSSPP 1999).

use base::{Failure, Result};

/// Numbers of a line.
const FIELDS: usize = 18;
/// Lines of a trace that are read: the largest of the archive have fewer.
const JOBS_MAX: usize = 10_000_000;
/// Processors of one job, and seconds: more is a broken line.
const CPUS_MAX: i64 = 10_000_000;
const SECONDS_MAX: i64 = 1 << 40;

/// A job of a trace. Users, groups and queues are numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceJob {
    /// Seconds after the trace began.
    pub submitted: i64,
    /// Seconds that it ran.
    pub ran: i64,
    /// Processors that it held.
    pub cpus: u32,
    /// Who submitted it.
    pub user: u32,
    /// Their group.
    pub group: u32,
    /// The queue.
    pub queue: u32,
}

/// Jobs by the time of their submission, and the processors of the machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trace {
    /// Jobs that ran, the first that was submitted first.
    pub jobs: Vec<TraceJob>,
    /// Jobs that never ran, or asked for no processor or for more than there are: nothing can be replayed of them.
    pub left_out: usize,
    /// What the head of the trace says of the machine (`MaxProcs`), else the widest job.
    pub cpus: u32,
}

impl Trace {
    /// Reads a trace.
    pub fn parse(text: &str) -> Result<Self> {
        let (mut trace, mut all) = (Self::default(), Vec::new());
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            if let Some(remark) = line.strip_prefix(';') {
                trace.cpus = max_procs(remark).unwrap_or(trace.cpus);
            } else if !line.is_empty() {
                if all.len() == JOBS_MAX {
                    return Err(Failure::invalid(format!("the trace has more than {JOBS_MAX} jobs")));
                }
                all.push(job(line).map_err(|what| {
                    Failure::invalid(format!("line {} of the trace: {what}", at + 1))
                        .hint("a line of the standard workload format has 18 numbers")
                })?);
            }
        }
        let lines = all.len();
        let mut jobs: Vec<_> = all.into_iter().flatten().collect();
        if trace.cpus == 0 {
            trace.cpus = jobs.iter().map(|job| job.cpus).max().unwrap_or(0);
        }
        jobs.retain(|job| job.cpus <= trace.cpus);
        // A stable order: what came at the same second stays as it is written.
        jobs.sort_by_key(|job| job.submitted);
        trace.left_out = lines - jobs.len();
        trace.jobs = jobs;
        Ok(trace)
    }
}

fn max_procs(remark: &str) -> Option<u32> {
    remark.trim().strip_prefix("MaxProcs:")?.trim().parse().ok()
}

/// A line; `None` for a job that never ran.
fn job(line: &str) -> std::result::Result<Option<TraceJob>, String> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    if fields.len() != FIELDS {
        return Err(format!("{} fields", fields.len()));
    }
    let number = |at: usize| {
        let value: f64 = fields[at].parse().map_err(|_| format!("{:?} is no number", fields[at]))?;
        Ok::<_, String>(value as i64)
    };
    let (submitted, ran) = (number(1)?, number(3)?);
    // Processors that were allocated, else those that were asked for.
    let cpus = if number(4)? > 0 { number(4)? } else { number(7)? };
    if !(0..SECONDS_MAX).contains(&submitted) || ran >= SECONDS_MAX || cpus > CPUS_MAX {
        return Err("a time or a number of processors is out of range".to_owned());
    }
    if ran < 0 || cpus <= 0 {
        return Ok(None);
    }
    let name = |at: usize| number(at).map(|value| value.clamp(0, i64::from(u32::MAX)) as u32);
    Ok(Some(TraceJob {
        submitted,
        ran,
        cpus: cpus as u32,
        user: name(11)?,
        group: name(12)?,
        queue: name(14)?,
    }))
}

/// Fuzz body: no trace panics, and what is read of one fits its machine and comes in order.
pub fn fuzz_trace(data: &[u8]) {
    let Ok(trace) = Trace::parse(&String::from_utf8_lossy(data)) else { return };
    assert!(trace.jobs.iter().all(|job| (1..=trace.cpus).contains(&job.cpus) && job.ran >= 0));
    assert!(trace.jobs.is_sorted_by_key(|job| job.submitted));
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "; Computer: x\n; MaxProcs: 8\n;\n";

    #[test]
    fn broken_traces_are_refused_without_a_panic() {
        for text in ["1", "a b c", "; MaxProcs: -1\n;", "1 nan 0 inf 4 1 9 4 100 -1 1 8 3 1 1 -1 -1 -1"] {
            fuzz_trace(text.as_bytes());
        }
        fuzz_trace(b"\xff\xfe; MaxProcs: 99999999999\n");
        assert!(Trace::parse("1 2 3").is_err());
    }

    #[test]
    fn lines_are_read_and_put_in_order() {
        let text = format!(
            "{HEAD}  2 10 1 30 4 1.5 9 4 100 -1 1 7 3 1 2 -1 -1 -1\n 1 5 0 20 -1 1 9 2 100 -1 1 8 3 1 1 -1 -1 -1\n"
        );
        let trace = Trace::parse(&text).unwrap();
        let first = TraceJob { submitted: 5, ran: 20, cpus: 2, user: 8, group: 3, queue: 1 };
        let second = TraceJob { submitted: 10, ran: 30, cpus: 4, user: 7, group: 3, queue: 2 };
        assert_eq!(trace, Trace { jobs: vec![first, second], left_out: 0, cpus: 8 });
    }

    #[test]
    fn what_never_ran_or_cannot_fit_is_left_out_and_counted() {
        let text = format!(
            "{HEAD}1 5 0 -1 1 1 9 1 1 -1 5 8 3 1 1 -1 -1 -1\n2 5 0 9 9 1 9 9 1 -1 1 8 3 1 1 -1 -1 -1\n"
        );
        let trace = Trace::parse(&text).unwrap();
        assert_eq!((trace.jobs.len(), trace.left_out), (0, 2));
    }

    #[test]
    fn a_broken_line_is_named() {
        for line in
            ["1 2 3", "1 x 0 1 1 1 9 1 1 -1 5 8 3 1 1 -1 -1 -1", "1 -5 0 1 1 1 9 1 1 -1 5 8 3 1 1 -1 -1 -1"]
        {
            let failure = Trace::parse(&format!("{HEAD}{line}\n")).unwrap_err();
            assert!(failure.what.starts_with("line 4 of the trace"), "{failure}");
        }
    }
}
