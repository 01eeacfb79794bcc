//! Runs sessions on threads: connects all, releases them together, and collects what they did.

use base::{Failure, Result};
use nix::sys::resource::{UsageWho, getrusage};
use rustix::{
    buffer::spare_capacity,
    event::{self, Timespec, epoll},
};
use std::{
    net::SocketAddr,
    os::fd::OwnedFd,
    sync::Barrier,
    thread,
    time::{Duration, Instant},
};

use crate::{
    link::{Link, PATIENCE},
    report::{Report, Tally, Times},
    room::Room,
    session::{Session, Setup, Until},
    work::Mode,
};

/// Failures that are reported in full.
const FAILURES_SHOWN_MAX: usize = 5;
/// Events taken from the kernel at once.
const EVENTS_MAX: usize = 256;

/// What to measure.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// Where the server is.
    pub(crate) server: SocketAddr,
    /// Which file; `{n}` stands for the number of the session.
    pub(crate) path: String,
    /// Random numbers in the path are below this.
    pub(crate) files: u64,
    /// What every session does.
    pub(crate) mode: Mode,
    /// How many there are.
    pub(crate) sessions: usize,
    /// How many threads they share.
    pub(crate) threads: usize,
    /// Requests of each session.
    pub(crate) items: Option<u64>,
    /// How long.
    pub(crate) duration: Option<Duration>,
    /// Whether the file has the pattern.
    pub(crate) has_pattern: bool,
    /// Requests a second of all sessions together; else as many as are answered.
    pub(crate) rate: Option<u32>,
    /// Bytes received at once.
    pub(crate) buffer_bytes: usize,
}

/// What the sessions of one thread did.
#[derive(Debug, Default)]
struct Outcome {
    tallies: Vec<Tally>,
    setups: Vec<Duration>,
    failures: Vec<Failure>,
    ended: Option<Instant>,
}

/// Measures.
pub(crate) fn run(plan: &Plan) -> Result<Report> {
    let threads = plan.threads.clamp(1, plan.sessions);
    // Once when everybody is connected, once to let them go when the clock is read.
    let barrier = Barrier::new(threads + 1);
    let (outcomes, began, cpu_before) = thread::scope(|scope| {
        let run = |number| run_thread(plan, number, threads, &barrier);
        let runs: Vec<_> = (0..threads).map(|number| scope.spawn(move || run(number))).collect();
        barrier.wait();
        let (began, cpu_before) = (Instant::now(), cpu_time());
        barrier.wait();
        let outcomes: Vec<_> = runs.into_iter().map(|run| run.join().unwrap_or_default()).collect();
        (outcomes, began, cpu_before)
    });
    let client_cpu = cpu_time()?.saturating_sub(cpu_before?);
    let mut whole = Outcome::default();
    for outcome in outcomes {
        whole.tallies.extend(outcome.tallies);
        whole.setups.extend(outcome.setups);
        whole.failures.extend(outcome.failures);
        whole.ended = whole.ended.max(outcome.ended);
    }
    let elapsed = whole.ended.map_or(Duration::ZERO, |ended| ended - began).max(Duration::from_nanos(1));
    let mut report =
        Report::new(plan.mode.name(), whole.tallies, &whole.setups, Times { elapsed, client_cpu });
    report.sessions = plan.sessions;
    report.threads = threads;
    report.failed = whole.failures.len();
    report.failures = whole.failures.iter().take(FAILURES_SHOWN_MAX).map(ToString::to_string).collect();
    Ok(report)
}

/// Processor time of this process.
fn cpu_time() -> Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_SELF).map_err(|cause| Failure::io("getrusage", &cause.into()))?;
    let duration = |time: nix::sys::time::TimeVal| {
        Duration::new(time.tv_sec().unsigned_abs(), (time.tv_usec() * 1000) as u32)
    };
    Ok(duration(usage.user_time()) + duration(usage.system_time()))
}

/// Runs every `threads`-th session from `number`.
fn run_thread(plan: &Plan, number: usize, threads: usize, barrier: &Barrier) -> Outcome {
    let mut outcome = Outcome::default();
    let mut sessions = Vec::new();
    for session in (number..plan.sessions).step_by(threads) {
        let began = Instant::now();
        match connect(plan, session) {
            Ok(session) => sessions.push(Some(session)),
            Err(failure) => outcome.failures.push(failure),
        }
        outcome.setups.push(began.elapsed());
    }
    barrier.wait();
    barrier.wait();
    let until =
        Until { items: plan.items, deadline: plan.duration.map(|duration| Instant::now() + duration) };
    let served = match sessions.len() {
        0 => Ok(()),
        1 if plan.rate.is_none() => serve_one(&mut sessions, until, plan.buffer_bytes, &mut outcome),
        _ => serve_many(&mut sessions, until, plan.buffer_bytes, &mut outcome),
    };
    outcome.ended = Some(Instant::now());
    if let Err(failure) = served {
        outcome.failures.extend(sessions.iter().flatten().map(|_| failure.clone()));
        return outcome;
    }
    for session in sessions.into_iter().flatten() {
        match session.finish() {
            Ok(tally) => outcome.tallies.push(tally),
            Err(failure) => outcome.failures.push(failure),
        }
    }
    // The close of a written file makes it durable: that is part of writing it.
    if plan.mode.is_write() {
        outcome.ended = Some(Instant::now());
    }
    outcome
}

fn connect(plan: &Plan, number: usize) -> Result<Session> {
    let path = plan.path.replace("{n}", &number.to_string());
    let number = (number, plan.sessions);
    let between = plan.rate.map(|rate| Duration::from_secs(plan.sessions as u64) / rate);
    let setup =
        Setup { mode: plan.mode, path, files: plan.files, has_pattern: plan.has_pattern, number, between };
    Session::open(Link::connect(plan.server)?, &setup)
}

/// A session that is alone needs no polling: it waits in `recv`.
fn serve_one(
    sessions: &mut [Option<Session>],
    until: Until,
    buffer_bytes: usize,
    outcome: &mut Outcome,
) -> Result<()> {
    let mut buffer = Room::to_receive(buffer_bytes);
    let Some(session) = sessions.first_mut().and_then(Option::as_mut) else { return Ok(()) };
    let mut result = session.start(until);
    while result.is_ok() && !session.is_done() {
        result = session.wait(buffer_bytes).and_then(|()| session.visit(buffer.bytes_mut()));
    }
    if let Err(failure) = result {
        outcome.failures.push(failure);
        sessions[0] = None;
    }
    Ok(())
}

/// Serves whoever has something to receive; a session that fails leaves, the others go on.
fn serve_many(
    sessions: &mut [Option<Session>],
    until: Until,
    buffer_bytes: usize,
    outcome: &mut Outcome,
) -> Result<()> {
    let refuse = |cause: rustix::io::Errno| Failure::io("epoll", &cause.into());
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(refuse)?;
    let mut buffer = Room::to_receive(buffer_bytes);
    let mut busy = sessions.len();
    for (number, place) in sessions.iter_mut().enumerate() {
        let Some(session) = place else { continue };
        let data = epoll::EventData::new_u64(number as u64);
        epoll::add(&poll, session.link(), data, epoll::EventFlags::IN).map_err(refuse)?;
        if let Err(failure) = session.start(until) {
            busy -= 1;
            outcome.failures.push(failure);
            *place = None;
        }
    }
    // Ten thousand sessions are not asked each time when they want to ask, if all ask as soon as they are answered.
    let is_paced = sessions.iter().flatten().any(Session::is_paced);
    let mut events = Vec::with_capacity(EVENTS_MAX);
    while busy > 0 {
        events.clear();
        let due = if is_paced { sessions.iter().flatten().filter_map(Session::due).min() } else { None };
        wait(&poll, due, &mut events).map_err(refuse)?;
        if events.is_empty() && due.is_none() {
            return Err(Failure::timeout(format!("no answer within {PATIENCE:?}")));
        }
        let mut visit = |place: &mut Option<Session>, visit: &mut dyn FnMut(&mut Session) -> Result<()>| {
            let Some(session) = place.as_mut().filter(|session| !session.is_done()) else { return };
            match visit(session) {
                Ok(()) if session.is_done() => busy -= 1,
                Ok(()) => {}
                Err(failure) => {
                    busy -= 1;
                    outcome.failures.push(failure);
                    *place = None;
                }
            }
        };
        for event in &events {
            let place = &mut sessions[event.data.u64() as usize];
            visit(place, &mut |session| session.visit(buffer.bytes_mut()));
        }
        let now = Instant::now();
        for place in sessions.iter_mut().filter(|_| due.is_some_and(|due| due <= now)) {
            if place.as_ref().and_then(Session::due).is_some_and(|due| due <= now) {
                visit(place, &mut Session::refill);
            }
        }
    }
    Ok(())
}

/// Waits until answers come, or something is to be asked.
fn wait(poll: &OwnedFd, due: Option<Instant>, events: &mut Vec<epoll::Event>) -> rustix::io::Result<()> {
    let span =
        |span: Duration| Timespec { tv_sec: span.as_secs() as i64, tv_nsec: span.subsec_nanos().into() };
    let patience = match due {
        None => PATIENCE,
        Some(due) => {
            // epoll itself knows nothing shorter than a millisecond.
            let pause = span(due.saturating_duration_since(Instant::now()));
            event::poll(&mut [event::PollFd::new(poll, event::PollFlags::IN)], Some(&pause))?;
            Duration::ZERO
        }
    };
    epoll::wait(poll, spare_capacity(events), Some(&span(patience))).map(drop)
}
