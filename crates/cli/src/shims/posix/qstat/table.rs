//! The tables of `qstat`.

use super::{letter, server_name};
use crate::shims::{
    posix::{id, resources},
    site::Site,
};
use base::Millis;
use wire::control::{JobInfo, QueueInfo};

/// Text of at most so many letters; the last is a star if some are missing, as OpenPBS shows it.
fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut cut: String = text.chars().take(width.saturating_sub(1)).collect();
    cut.push('*');
    cut
}

/// The table of POSIX.
pub(super) fn plain(jobs: &[JobInfo], site: &Site) -> Vec<String> {
    if jobs.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![
        "Job id            Name             User              Time Use S Queue".to_owned(),
        "----------------  ---------------- ----------------  -------- - -----".to_owned(),
    ];
    for job in jobs {
        let used = job.usage.map_or_else(|| elapsed(job, site), |usage| usage.cpu);
        let time = if job.started.is_some() { resources::clock(used) } else { "0".to_owned() };
        lines.push(format!(
            "{:<17} {:<16} {:<16} {:>9} {} {:<5}",
            cut(&id::shown(job), 17),
            cut(&job.spec.name, 16),
            cut(&job.owner, 16),
            time,
            letter(job),
            job.queue
        ));
    }
    lines
}

fn elapsed(job: &JobInfo, site: &Site) -> Millis {
    job.started.map_or(Millis(0), |started| job.ended.unwrap_or(site.now) - started)
}

/// The table of `-a`, `-i`, `-r`, `-u`; with the host of each job, and a line of its reason, if so asked.
pub(super) fn alternative(jobs: &[JobInfo], site: &Site, with_host: bool, with_reason: bool) -> Vec<String> {
    if jobs.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![
        String::new(),
        format!("{}: ", server_name()),
        format!("{:62}Req'd  Req'd   Elap", ""),
        "Job ID          Username Queue    Jobname    SessID NDS TSK Memory Time  S Time".to_owned(),
        "--------------- -------- -------- ---------- ------ --- --- ------ ----- - -----".to_owned(),
    ];
    for job in jobs {
        let wish = job.spec.resources;
        let memory =
            if wish.memory_bytes == 0 { "--".to_owned() } else { resources::size(wish.memory_bytes) };
        let ran = if job.started.is_some() { hours(elapsed(job, site)) } else { "--".to_owned() };
        lines.push(format!(
            "{:<15} {:<8} {:<8} {:<10} {:>6} {:>3} {:>3} {:>6} {:>5} {} {:>5}",
            cut(&id::shown(job), 15),
            cut(&job.owner, 8),
            cut(&job.queue, 8),
            cut(&job.spec.name, 10),
            "--",
            1,
            wish.cpus,
            memory,
            hours(wish.wall),
            letter(job),
            ran
        ));
        if with_host {
            lines.push(format!("    {}", job.worker.as_deref().unwrap_or("--")));
        }
        if with_reason {
            lines.push(format!("    {}", job.reason.as_deref().unwrap_or("--")));
        }
    }
    lines
}

/// `24:00`
fn hours(span: Millis) -> String {
    let minutes = span.0.max(0) / 60_000;
    format!("{:02}:{:02}", minutes / 60, minutes % 60)
}

/// The table of `-Q`.
pub(super) fn queues(queues: &[QueueInfo]) -> Vec<String> {
    let mut lines = vec![
        "Queue              Max   Tot Ena Str   Que   Run   Hld   Wat   Trn   Ext Type".to_owned(),
        "---------------- ----- ----- --- --- ----- ----- ----- ----- ----- ----- ----".to_owned(),
    ];
    let word = |is: bool| if is { "yes" } else { "no" };
    for queue in queues {
        let kind = match queue.settings.kind {
            wire::control::QueueKind::Batch => "Exec",
            wire::control::QueueKind::Pipe => "Rout",
        };
        lines.push(format!(
            "{:<16} {:>5} {:>5} {:>3} {:>3} {:>5} {:>5} {:>5} {:>5} {:>5} {:>5} {kind}",
            queue.name,
            queue.settings.run_limit.unwrap_or(0),
            queue.held + queue.queued + queue.running,
            word(queue.is_enabled),
            word(queue.is_started),
            queue.queued,
            queue.running,
            queue.held,
            0,
            0,
            0
        ));
    }
    lines
}

/// The table of `-B`.
pub(super) fn server(queues: &[QueueInfo]) -> Vec<String> {
    let sum = |of: fn(&QueueInfo) -> u64| queues.iter().map(of).sum::<u64>();
    let (queued, running, held) =
        (sum(|queue| queue.queued), sum(|queue| queue.running), sum(|queue| queue.held));
    vec![
        "Server             Max   Tot   Que   Run   Hld   Wat   Trn   Ext Status".to_owned(),
        "---------------- ----- ----- ----- ----- ----- ----- ----- ----- -----------".to_owned(),
        format!(
            "{:<16} {:>5} {:>5} {queued:>5} {running:>5} {held:>5} {:>5} {:>5} {:>5} Active",
            server_name(),
            0,
            queued + running + held,
            0,
            0,
            0
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shims::sample;
    use wire::control::{JobState, QueueSettings};

    #[test]
    fn tables_are_those_of_pbs() {
        let site = sample::site();
        let mut long = sample::job(12);
        long.spec.name = "a-name-that-is-too-long".to_owned();
        let held = JobInfo { state: JobState::Held, ..sample::job(13) };
        let rows = plain(&[sample::running(1), long, held], &site);
        assert_eq!(rows[2], "1.backplane       long             root              00:00:09 R batch");
        assert_eq!(rows[3], "12.backplane      a-name-that-is-* root                     0 Q batch");
        assert_eq!(rows[4], "13.backplane      long             root                     0 H batch");
        let rows = alternative(&[sample::running(1)], &site, true, false);
        assert_eq!(
            rows[5],
            "1.backplane     root     batch    long           --   1   1     -- 00:10 R 00:00"
        );
        assert_eq!(rows[6], "    n1");
        assert!(plain(&[], &site).is_empty());
    }

    #[test]
    fn queues_have_their_two_switches() {
        let queue = QueueInfo {
            name: "long".to_owned(),
            settings: QueueSettings::default(),
            is_enabled: true,
            is_started: false,
            is_default: false,
            held: 1,
            queued: 2,
            running: 3,
        };
        assert_eq!(
            queues(&[queue])[2],
            "long                 0     6 yes  no     2     3     1     0     0     0 Exec"
        );
    }
}
