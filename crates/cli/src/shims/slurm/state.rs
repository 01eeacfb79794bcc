//! States and reasons of jobs in Slurm's words.

use wire::control::{JobExit, JobInfo, JobState, WaitCause};

/// A state as Slurm has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum State {
    Pending,
    Running,
    Suspended,
    Completed,
    Cancelled,
    Failed,
    Timeout,
    NodeFail,
    Preempted,
    BootFail,
    Deadline,
    OutOfMemory,
    Completing,
    Configuring,
    Resizing,
    Requeued,
}

/// All states: word and code.
const STATES: [(State, &str, &str); 16] = [
    (State::Pending, "PENDING", "PD"),
    (State::Running, "RUNNING", "R"),
    (State::Suspended, "SUSPENDED", "S"),
    (State::Completed, "COMPLETED", "CD"),
    (State::Cancelled, "CANCELLED", "CA"),
    (State::Failed, "FAILED", "F"),
    (State::Timeout, "TIMEOUT", "TO"),
    (State::NodeFail, "NODE_FAIL", "NF"),
    (State::Preempted, "PREEMPTED", "PR"),
    (State::BootFail, "BOOT_FAIL", "BF"),
    (State::Deadline, "DEADLINE", "DL"),
    (State::OutOfMemory, "OUT_OF_MEMORY", "OOM"),
    (State::Completing, "COMPLETING", "CG"),
    (State::Configuring, "CONFIGURING", "CF"),
    (State::Resizing, "RESIZING", "RS"),
    (State::Requeued, "REQUEUED", "RQ"),
];

impl State {
    fn row(self) -> (State, &'static str, &'static str) {
        STATES.into_iter().find(|(state, ..)| *state == self).unwrap_or(STATES[0])
    }

    /// `PENDING`
    pub(crate) fn word(self) -> &'static str {
        self.row().1
    }

    /// `PD`
    pub(crate) fn code(self) -> &'static str {
        self.row().2
    }

    /// Reads a word or a code.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let text = text.trim();
        let is_it = |(_, word, code): &(State, &str, &str)| {
            text.eq_ignore_ascii_case(word) || text.eq_ignore_ascii_case(code)
        };
        STATES.into_iter().find(is_it).map(|(state, ..)| state)
    }

    /// Every state.
    pub(crate) fn all() -> Vec<Self> {
        STATES.map(|(state, ..)| state).to_vec()
    }

    /// All words, as messages list them.
    pub(crate) fn words() -> String {
        STATES.map(|(_, word, _)| word).join(",")
    }

    /// Whether nothing will happen to the job any more.
    pub(crate) fn is_over(self) -> bool {
        !matches!(
            self,
            Self::Pending | Self::Running | Self::Suspended | Self::Completing | Self::Configuring
        )
    }

    /// Our states that it may be: a listing asks the head for these.
    pub(crate) fn ours(self) -> &'static [JobState] {
        match self {
            Self::Pending => &[JobState::Held, JobState::Queued],
            Self::Running => &[JobState::Running],
            Self::Completing => &[JobState::Archiving],
            Self::Completed => &[JobState::Done],
            Self::Cancelled => &[JobState::Cancelled],
            Self::Failed | Self::Timeout | Self::NodeFail | Self::Deadline | Self::OutOfMemory => {
                &[JobState::Failed]
            }
            _ => &[],
        }
    }
}

/// The state of a job.
pub(crate) fn of(job: &JobInfo) -> State {
    match job.state {
        JobState::Held | JobState::Queued => State::Pending,
        JobState::Running => State::Running,
        JobState::Archiving => State::Completing,
        JobState::Done => State::Completed,
        JobState::Cancelled => State::Cancelled,
        JobState::Failed => match &job.exit {
            Some(JobExit::WallLimit) => State::Timeout,
            Some(JobExit::Lost) => State::NodeFail,
            Some(JobExit::Limit(limit)) if limit.starts_with("memory") => State::OutOfMemory,
            None | Some(JobExit::Cancelled) if has_missed_deadline(job) => State::Deadline,
            _ => State::Failed,
        },
    }
}

/// The head fails a job that is not over in time, and says so in words only.
fn has_missed_deadline(job: &JobInfo) -> bool {
    let (Some(deadline), Some(ended)) = (job.spec.deadline, job.ended) else { return false };
    ended >= deadline
}

/// What Slurm's `ExitCode` shows: code and signal.
pub(crate) fn exit(job: &JobInfo) -> (i32, i32) {
    match &job.exit {
        Some(JobExit::Code(code)) => (*code, 0),
        Some(JobExit::Signal(signal)) => (0, *signal),
        Some(JobExit::Limit(_)) => (0, if of(job) == State::OutOfMemory { OUT_OF_MEMORY } else { KILL }),
        Some(JobExit::NotStarted(_)) => (0, NOT_STARTED),
        Some(JobExit::OutputFailed(_) | JobExit::Refused(_) | JobExit::Lost) => (1, 0),
        Some(JobExit::WallLimit | JobExit::Cancelled) => (0, 0),
        // Failed without a run: a dependency, a deadline, an input that is gone.
        None => (i32::from(job.state == JobState::Failed), 0),
    }
}

/// What Slurm shows as the signal of a job that its kernel ended for its memory, and of one that it could not start.
const OUT_OF_MEMORY: i32 = 125;
const NOT_STARTED: i32 = 53;
const KILL: i32 = 9;

/// Why a job waits or how it failed, in Slurm's word.
pub(crate) fn reason(job: &JobInfo) -> &'static str {
    match of(job) {
        State::Pending => job.waits_for.map_or("None", waiting),
        State::Failed => match &job.exit {
            Some(JobExit::Code(_)) => "NonZeroExitCode",
            Some(JobExit::Signal(_)) => "RaisedSignal",
            Some(JobExit::NotStarted(_)) => "JobLaunchFailure",
            _ => "SystemFailure",
        },
        State::Timeout => "TimeLimit",
        State::Deadline => "DeadLine",
        State::OutOfMemory => "OutOfMemory",
        State::NodeFail => "NodeDown",
        _ => "None",
    }
}

fn waiting(cause: WaitCause) -> &'static str {
    match cause {
        WaitCause::HeldByUser => "JobHeldUser",
        WaitCause::HeldByOperator | WaitCause::HeldBySystem => "JobHeldAdmin",
        WaitCause::Dependency => "Dependency",
        WaitCause::DependencyNeverSatisfied => "DependencyNeverSatisfied",
        WaitCause::BeginTime | WaitCause::Retry => "BeginTime",
        WaitCause::Inputs => "BurstBufferStageIn",
        WaitCause::QueueStopped => "PartitionDown",
        WaitCause::QueueWindow => "PartitionInactive",
        WaitCause::QueueLimit => "QOSGrpJobsLimit",
        WaitCause::UserLimit => "QOSMaxJobsPerUserLimit",
        WaitCause::RunLimit => "AssocGrpJobsLimit",
        WaitCause::ArrayLimit => "JobArrayTaskLimit",
        WaitCause::Resources => "Resources",
        WaitCause::Priority => "Priority",
        WaitCause::NoWorker | WaitCause::WorkerSilent => "ReqNodeNotAvail",
        WaitCause::Outputs | WaitCause::Other => "None",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shims::slurm::sample;
    use base::{Failure, Timestamp};

    fn ended(exit: JobExit) -> JobInfo {
        let state = if exit == JobExit::Code(0) { JobState::Done } else { JobState::Failed };
        JobInfo { state, exit: Some(exit), ..sample::job(7) }
    }

    #[test]
    fn ends_of_jobs_have_slurms_words_and_codes() {
        for (exit_of_job, word, code, why) in [
            (JobExit::Code(0), "COMPLETED", (0, 0), "None"),
            (JobExit::Code(3), "FAILED", (3, 0), "NonZeroExitCode"),
            (JobExit::Signal(9), "FAILED", (0, 9), "RaisedSignal"),
            (JobExit::WallLimit, "TIMEOUT", (0, 0), "TimeLimit"),
            (JobExit::Limit("memory: too much".to_owned()), "OUT_OF_MEMORY", (0, 125), "OutOfMemory"),
            (JobExit::Limit("scratch: too much".to_owned()), "FAILED", (0, 9), "SystemFailure"),
            (JobExit::Lost, "NODE_FAIL", (1, 0), "NodeDown"),
            (JobExit::NotStarted(Failure::invalid("no")), "FAILED", (0, 53), "JobLaunchFailure"),
            (JobExit::OutputFailed(Failure::invalid("no")), "FAILED", (1, 0), "SystemFailure"),
        ] {
            let job = ended(exit_of_job);
            assert_eq!((of(&job).word(), exit(&job), reason(&job)), (word, code, why), "{job:?}");
        }
        let cancelled = JobInfo { state: JobState::Cancelled, ..sample::job(7) };
        assert_eq!((of(&cancelled).word(), exit(&cancelled)), ("CANCELLED", (0, 0)));
        let mut late = JobInfo { state: JobState::Failed, ended: Some(Timestamp(2)), ..sample::job(7) };
        late.spec.deadline = Some(Timestamp(1));
        assert_eq!((of(&late).word(), reason(&late)), ("DEADLINE", "DeadLine"));
    }

    #[test]
    fn waiting_jobs_say_what_they_wait_for() {
        let job = JobInfo { state: JobState::Held, waits_for: Some(WaitCause::HeldByUser), ..sample::job(7) };
        assert_eq!((of(&job).code(), reason(&job)), ("PD", "JobHeldUser"));
    }

    #[test]
    fn states_are_read_as_words_and_codes() {
        assert_eq!(State::read("pd"), Some(State::Pending));
        assert_eq!(State::read("OUT_OF_MEMORY"), Some(State::OutOfMemory));
        assert_eq!(State::read("bogus"), None);
        assert!(State::words().starts_with("PENDING,RUNNING,"));
        for (state, word, code) in STATES {
            assert_eq!((State::read(word), State::read(code)), (Some(state), Some(state)));
        }
    }
}
