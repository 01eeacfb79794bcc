//! What a replay shows: how long jobs waited, how full the machine was.

use super::{Trace, by_user};
use serde::Serialize;

/// Points of a curve of waits.
const POINTS: usize = 200;
/// Jobs shorter than this count as so long in a slowdown, as is usual, so that a job of a second does not decide it.
const SHORT: i64 = 10;

/// The jobs of one user.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct WaitsOfUser {
    /// Who.
    pub user: u32,
    /// How many they are.
    pub jobs: usize,
    /// Processor seconds that they ran.
    pub cpu_seconds: i64,
    /// Mean wait in seconds.
    pub wait_mean: f64,
}

/// How a scheduler did.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figures {
    /// Seconds that a job waits: mean, half of them at most, nine of ten, 99 of 100.
    pub wait_mean: f64,
    /// The median.
    pub wait_p50: i64,
    /// Nine of ten.
    pub wait_p90: i64,
    /// 99 of 100.
    pub wait_p99: i64,
    /// The mean wait of a user's jobs: the median of all users, and nine of ten.
    pub user_wait_p50: f64,
    /// Nine of ten users.
    pub user_wait_p90: f64,
    /// Mean of (wait + run) / run.
    pub slowdown_mean: f64,
    /// Part of the processors that jobs held, from the first to the last submission.
    pub utilisation: f64,
    /// Seconds until the last job ended.
    pub makespan: i64,
    /// Waits in seconds of equally many jobs each, for a plot.
    pub waits: Vec<i64>,
    /// Each user.
    pub users: Vec<WaitsOfUser>,
}

/// The value below which a part of sorted values lies.
fn quantile<T: Copy + Default>(sorted: &[T], part: f64) -> T {
    let at = (part * sorted.len().saturating_sub(1) as f64).round() as usize;
    sorted.get(at).copied().unwrap_or_default()
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0u64), |(sum, count), value| (sum + value, count + 1));
    if count == 0 { 0.0 } else { sum / count as f64 }
}

impl Figures {
    /// Computes them from when each job started.
    pub fn of(trace: &Trace, started: &[i64]) -> Self {
        let jobs = || trace.jobs.iter().zip(started);
        let mut waits: Vec<i64> = jobs().map(|(job, start)| start - job.submitted).collect();
        let users = users(trace, &waits);
        waits.sort_unstable();
        let mut means: Vec<f64> = users.iter().map(|user| user.wait_mean).collect();
        means.sort_by(f64::total_cmp);
        let slowdown = jobs().map(|(job, start)| {
            let ran = job.ran.max(SHORT) as f64;
            ((start - job.submitted) as f64 + ran) / ran
        });
        let (first, last) = (
            trace.jobs.first().map_or(0, |job| job.submitted),
            trace.jobs.last().map_or(0, |job| job.submitted),
        );
        let held = jobs().map(|(job, start)| {
            let (from, to) = ((*start).clamp(first, last), (start + job.ran).clamp(first, last));
            (to - from) as f64 * f64::from(job.cpus)
        });
        Self {
            wait_mean: mean(waits.iter().map(|wait| *wait as f64)),
            wait_p50: quantile(&waits, 0.5),
            wait_p90: quantile(&waits, 0.9),
            wait_p99: quantile(&waits, 0.99),
            user_wait_p50: quantile(&means, 0.5),
            user_wait_p90: quantile(&means, 0.9),
            slowdown_mean: mean(slowdown),
            utilisation: held.sum::<f64>() / ((last - first).max(1) as f64 * f64::from(trace.cpus.max(1))),
            makespan: jobs().map(|(job, start)| start + job.ran).max().unwrap_or(0) - first,
            waits: (0..=POINTS).map(|at| quantile(&waits, at as f64 / POINTS as f64)).collect(),
            users,
        }
    }
}

fn users(trace: &Trace, waits: &[i64]) -> Vec<WaitsOfUser> {
    let of = |(user, jobs): (u32, Vec<usize>)| WaitsOfUser {
        user,
        jobs: jobs.len(),
        cpu_seconds: jobs
            .iter()
            .map(|number| trace.jobs[*number].ran * i64::from(trace.jobs[*number].cpus))
            .sum(),
        wait_mean: mean(jobs.iter().map(|number| waits[*number] as f64)),
    };
    by_user(trace).into_iter().map(of).collect()
}
