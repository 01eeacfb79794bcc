//! Whoever waits for an answer: a thread of some program, which may be killed meanwhile.

use crate::{errno::Refusal, kernel::request::Request, names::Names};
use rustix::io::Errno;
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use wire::control::ActsFor;

/// How long a head may be silent before threads that end do not wait for it: it may just be starting again.
const EXIT_PATIENCE: Duration = Duration::from_secs(10);
/// Something is being done: an answer comes when it is.
const BUSY: u8 = 0;
/// It waits for somebody else, and nothing was done: it may be given up.
const WAITING: u8 = 1;
/// It was answered already that it was interrupted.
const GIVEN_UP: u8 = 2;

/// Whoever waits for one answer.
#[derive(Debug)]
pub(crate) struct Caller {
    /// The number of the request.
    pub(crate) unique: u64,
    pid: u32,
    /// Since when the head is silent.
    silence: Arc<Silence>,
    /// Whose rights it has, if that is not those of whoever mounted.
    identity: Option<Arc<Identity>>,
    /// A signal that does not kill ends the wait, too: so it is with locks. The head is told first, so that it does not set the lock
    /// for a program that has gone on.
    is_light_sleeper: bool,
    /// Number of its wait at the head; 0: none.
    wait: AtomicU64,
    state: AtomicU8,
    /// A signal came while it was busy.
    is_woken: AtomicBool,
}

/// The user and the groups of a thread, as the kernel has them for files.
#[derive(Debug)]
pub(crate) struct Identity {
    names: Arc<Names>,
    pid: u32,
    uid: u32,
    gid: u32,
    /// Found out when it is needed: a request that the head is not asked for needs none.
    header: OnceLock<String>,
}

impl Identity {
    /// That of a request.
    pub(crate) fn of(request: &Request, names: &Arc<Names>) -> Self {
        let (pid, uid, gid) = (request.pid, request.uid, request.gid);
        Self { names: Arc::clone(names), pid, uid, gid, header: OnceLock::new() }
    }

    fn header(&self) -> &str {
        self.header.get_or_init(|| {
            let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid));
            // Of a thread that this process cannot see, as in another container, the other groups do not count.
            let others = status.map_or_else(|_| Vec::new(), |status| groups(&status));
            let gids = std::iter::once(self.gid).chain(others.into_iter().filter(|gid| *gid != self.gid));
            let groups = gids.map(|gid| self.names.group(gid)).collect();
            let acts_for = ActsFor::new(self.names.user(self.uid), groups, self.uid == 0);
            // What is not understood is refused: nobody gets more rights by that.
            acts_for.header().unwrap_or_default()
        })
    }
}

/// The supplementary groups that `/proc/PID/status` shows.
fn groups(status: &str) -> Vec<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("Groups:"));
    line.unwrap_or_default().split_whitespace().filter_map(|gid| gid.parse().ok()).collect()
}

impl Caller {
    pub(crate) fn new(unique: u64, pid: u32, is_light_sleeper: bool) -> Self {
        let silence = Arc::default();
        let (state, is_woken, wait) = (AtomicU8::new(BUSY), AtomicBool::new(false), AtomicU64::new(0));
        Self { unique, pid, silence, identity: None, is_light_sleeper, wait, state, is_woken }
    }

    /// The same, that knows of the silence of the head.
    pub(crate) fn with_silence(self, silence: &Arc<Silence>) -> Self {
        Self { silence: Arc::clone(silence), ..self }
    }

    /// The same, with rights of its own.
    pub(crate) fn with_identity(self, identity: Identity) -> Self {
        Self { identity: Some(Arc::new(identity)), ..self }
    }

    /// On whose behalf calls are made for it; `None`: of whoever mounted.
    pub(crate) fn acts_for(&self) -> Option<&str> {
        self.identity.as_deref().map(Identity::header)
    }

    /// The same program, which waits for something that only its end ends.
    pub(crate) fn until_killed(&self) -> Self {
        let (identity, silence) = (self.identity.clone(), Arc::clone(&self.silence));
        Self { silence, identity, ..Self::new(self.unique, self.pid, false) }
    }

    /// The thread that waits; 0: nobody's.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Notes under which number it waits at the head.
    pub(crate) fn set_wait(&self, request: u64) {
        self.wait.store(request, Ordering::SeqCst);
    }

    /// Nobody: what the mount does by itself.
    pub(crate) fn nobody() -> Self {
        Self::new(0, 0, false)
    }

    /// Does what only waits and changes nothing; it may be given up meanwhile. A refusal says that it was.
    pub(crate) fn waiting<T>(&self, wait: impl FnOnce() -> Result<T, Refusal>) -> Result<T, Refusal> {
        if self.is_woken.load(Ordering::SeqCst) || self.is_dying() {
            return Err(Errno::INTR.into());
        }
        if !self.step(BUSY, WAITING) {
            // A wait within another one ends with that.
            return if self.is_there() { wait() } else { Err(Errno::INTR.into()) };
        }
        // It may have come between the look and the step.
        let outcome = if self.is_woken.load(Ordering::SeqCst) { Err(Errno::INTR.into()) } else { wait() };
        if self.step(WAITING, BUSY) { outcome } else { Err(Errno::INTR.into()) }
    }

    /// A signal came. Yields whether the answer that it was interrupted is to be sent now.
    pub(crate) fn interrupt(&self) -> bool {
        let is_dying = self.is_dying();
        if self.is_light_sleeper || is_dying {
            self.is_woken.store(true, Ordering::SeqCst);
        }
        is_dying && self.step(WAITING, GIVEN_UP)
    }

    /// It does not wait for the rest of what is done for it. Yields whether the answer that it was interrupted is to be sent now.
    pub(crate) fn give_up(&self) -> bool {
        self.step(BUSY, GIVEN_UP)
    }

    /// Whether an answer is still awaited.
    pub(crate) fn is_there(&self) -> bool {
        self.state.load(Ordering::SeqCst) != GIVEN_UP
    }

    fn step(&self, from: u8, to: u8) -> bool {
        self.state.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Whether the thread is being killed. Programs do not expect other signals to interrupt a `stat`. A thread that ends, for whatever
    /// reason, closes its files, and the kernel drops all signals for it: it cannot be killed any more. So it gives up by itself what
    /// the head has been silent about for long; what it has written stays here, and is committed later.
    pub(crate) fn is_dying(&self) -> bool {
        let pid = self.pid;
        pid != 0
            && (is_killed(&std::fs::read_to_string(format!("/proc/{pid}/status")))
                || self.silence.is_long() && is_exiting(&std::fs::read(format!("/proc/{pid}/stat"))))
    }
}

/// Since when the head does not answer.
#[derive(Debug, Default)]
pub(crate) struct Silence {
    since: Mutex<Option<Instant>>,
}

impl Silence {
    /// It did not answer, or did. Yields whether that is new.
    pub(crate) fn set(&self, is_silent: bool) -> bool {
        let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = since.is_some() != is_silent;
        if is_new {
            *since = is_silent.then(Instant::now);
        }
        is_new
    }

    /// Whether it lasts longer than a head needs to start.
    fn is_long(&self) -> bool {
        let since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        since.is_some_and(|since| since.elapsed() > EXIT_PATIENCE)
    }
}

/// Whether `/proc/PID/stat` says that the thread ends: `PF_EXITING` among its flags.
fn is_exiting(stat: &std::io::Result<Vec<u8>>) -> bool {
    const PF_EXITING: u32 = 0x4;
    let Ok(stat) = stat else { return true };
    // The name may hold anything. The flags are the ninth field, and the third is the first behind it.
    let behind = stat.iter().rposition(|byte| *byte == b')').and_then(|end| stat.get(end + 1..));
    let text = std::str::from_utf8(behind.unwrap_or_default()).unwrap_or_default();
    let flags = text.split_ascii_whitespace().nth(6).and_then(|flags| flags.parse::<u32>().ok());
    flags.is_some_and(|flags| flags & PF_EXITING != 0)
}

/// Whether SIGKILL is pending; every signal that ends a process becomes one.
fn is_killed(status: &std::io::Result<String>) -> bool {
    let Ok(status) = status else { return true };
    let pending = status.lines().filter_map(|line| {
        line.strip_prefix("SigPnd:").or_else(|| line.strip_prefix("ShdPnd:")).map(str::trim)
    });
    pending.filter_map(|bits| u64::from_str_radix(bits, 16).ok()).any(|bits| bits & (1 << 8) != 0)
}

/// All who wait, by the number of their request.
#[derive(Debug, Default)]
pub(crate) struct Callers {
    waiting: Mutex<HashMap<u64, Arc<Caller>>>,
}

impl Callers {
    /// Remembers one until [`Self::remove`].
    pub(crate) fn add(&self, caller: &Arc<Caller>) {
        self.lock().insert(caller.unique, Arc::clone(caller));
    }

    /// Forgets one.
    pub(crate) fn remove(&self, unique: u64) {
        self.lock().remove(&unique);
    }

    /// A signal came for one. Yields whether it is to be answered that it was interrupted.
    pub(crate) fn interrupt(&self, unique: u64) -> bool {
        let caller = self.lock().get(&unique).cloned();
        caller.is_some_and(|caller| caller.interrupt())
    }

    /// The wait at the head of one whose wait a signal ends.
    pub(crate) fn wait_of(&self, unique: u64) -> Option<u64> {
        let wait = self.lock().get(&unique)?.wait.load(Ordering::SeqCst);
        (wait != 0).then_some(wait)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Arc<Caller>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_wait_of_who_is_killed_is_given_up() {
        // There is no process with this number.
        let caller = Caller::new(1, u32::MAX, true);
        assert!(caller.step(BUSY, WAITING) && caller.interrupt());
        assert!(!caller.is_there() && !caller.interrupt(), "answered once");
        assert!(caller.waiting(|| Ok(7)).is_err());
        let busy = Caller::new(2, u32::MAX, true);
        assert!(!busy.interrupt() && busy.is_there(), "it does something");
        assert!(busy.waiting(|| Ok(7)).is_err() && busy.is_there(), "its own answer says so");
    }

    #[test]
    fn a_wait_for_a_lock_goes_on_until_the_head_has_given_it_up_and_then_does_not_begin_again() {
        let caller = Caller::new(1, 0, true);
        assert!(caller.waiting(|| caller.waiting(|| Ok(7))).is_ok_and(|value| value == 7));
        assert!(caller.waiting(|| Ok(caller.interrupt())).is_ok_and(|is_given_up| !is_given_up));
        assert!(caller.is_there() && caller.waiting(|| Ok(7)).is_err());
    }

    #[test]
    fn a_thread_that_ends_is_seen_by_its_flags() {
        let stat = |flags: u32| {
            Ok(format!("7 (a) 4 b) S 1 7 7 0 -1 {flags} 0 0 0 0 0 0 0 0 20 0 1 0 99").into_bytes())
        };
        assert!(is_exiting(&stat(0x40_0104)) && !is_exiting(&stat(0x40_0100)));
        assert!(is_exiting(&Err(std::io::ErrorKind::NotFound.into())), "it is gone");
        assert!(!is_exiting(&Ok(b"7 (a".to_vec())) && !is_exiting(&Ok(Vec::new())));
        assert!(!is_exiting(&std::fs::read("/proc/self/stat")));
    }

    #[test]
    fn a_head_that_was_silent_for_a_moment_is_waited_for() {
        let silence = Silence::default();
        assert!(silence.set(true) && !silence.set(true) && !silence.is_long());
        *silence.since.lock().unwrap() = Instant::now().checked_sub(EXIT_PATIENCE * 2);
        assert!(silence.is_long() && !silence.set(true) && silence.is_long(), "it still is");
        assert!(silence.set(false) && !silence.set(false) && !silence.is_long());
    }

    #[test]
    fn a_caller_has_the_groups_of_its_thread() {
        assert_eq!(groups("Name:\tx\nGroups:\t4 1000 \nNStgid:\t7\n"), [4, 1000]);
        assert!(groups("Name:\tGroups\nGroups:\t \n").is_empty());
        let mut request = Request::of(1, 1, b"");
        request.uid = 3_999_999_999;
        let caller = Caller::new(1, 0, false).with_identity(Identity::of(&request, &Arc::default()));
        let acts_for = ActsFor::parse(caller.acts_for().unwrap()).unwrap();
        assert_eq!(acts_for, ActsFor::new("3999999999".into(), vec!["root".into()], false));
        assert_eq!(Caller::nobody().acts_for(), None);
    }

    #[test]
    fn a_stat_goes_on_unless_its_process_is_killed() {
        let caller = Caller::new(1, std::process::id(), false);
        assert!(caller.waiting(|| Ok(caller.interrupt())).is_ok_and(|is_given_up| !is_given_up));
        let status = |bits: &str| Ok(format!("Name:\tx\nSigPnd:\t{bits}\nShdPnd:\t0000000000000000\n"));
        assert!(is_killed(&status("0000000000000100")) && !is_killed(&status("0000000000002000")));
        assert!(is_killed(&Err(std::io::ErrorKind::NotFound.into())), "it is gone");
    }
}
