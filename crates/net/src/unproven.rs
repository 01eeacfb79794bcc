//! Peers that have not authenticated yet: one budget for all doors bounds what they cost.
//!
//! Every accepted connection begins in a [`ConnectionSlot`] of the budget, and its peer must authenticate within
//! [`PROOF_DEADLINE`]. Then [`ConnectionSlot::prove`] moves it to a slot of its door, which unproven connections
//! cannot take. The budget bounds connections, receive buffers and requests, in total and by address.
//!
//! If all slots are taken, the budget ends the oldest connection of the address that has most of them, and accepts the
//! new one. So a peer at another address always gets in. A peer at the address of a flood can log in until the flood
//! has filled all slots, which takes longer than a login. To refuse the new connection instead would lock out
//! everybody at that address for as long as the flood lasts.

use base::{
    Failure, Result,
    limits::{
        UNPROVEN_BYTES, UNPROVEN_BYTES_MAX, UNPROVEN_REQUESTS_FREE, UNPROVEN_REQUESTS_PER_S_MAX,
        UNPROVEN_SESSIONS_MAX, UNPROVEN_SESSIONS_PER_ADDRESS_MAX,
    },
};
use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore},
    time::timeout_at,
};

/// Handshake, TLS and login together take this long at most: a peer that has not said who it is by then is gone or hostile.
pub const PROOF_DEADLINE: Duration = Duration::from_secs(30);

/// Bounds of the budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections.
    pub sessions_max: usize,
    /// Connections of one address; the /64 of an IPv6 address is one.
    pub sessions_per_address_max: usize,
    /// Bytes of receive buffers beyond [`UNPROVEN_BYTES`] of each connection.
    pub bytes_max: usize,
    /// Requests a second beyond [`UNPROVEN_REQUESTS_FREE`] of each connection.
    pub requests_per_s_max: u32,
    /// Time for the proof, from the accept on.
    pub deadline: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            sessions_max: UNPROVEN_SESSIONS_MAX,
            sessions_per_address_max: UNPROVEN_SESSIONS_PER_ADDRESS_MAX,
            bytes_max: UNPROVEN_BYTES_MAX,
            requests_per_s_max: UNPROVEN_REQUESTS_PER_S_MAX,
            deadline: PROOF_DEADLINE,
        }
    }
}

/// The budget of all doors. Clones are the same budget.
#[derive(Debug, Clone)]
pub struct Unproven(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    limits: Limits,
    ledger: Mutex<Ledger>,
}

impl Default for Unproven {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}

impl Unproven {
    /// A budget within `limits`.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self(Arc::new(Shared { limits, ledger: Mutex::default() }))
    }

    /// Connections now.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.ledger().sessions
    }

    /// Bytes that they hold now, beyond what each may have anyway.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.ledger().bytes
    }

    /// Its bounds.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.0.limits
    }

    /// Connections so far that were ended because others needed their slots.
    #[must_use]
    pub fn displaced(&self) -> u64 {
        self.ledger().displaced
    }

    /// Takes a slot for a connection of `address`; once it is proven it belongs to `door`.
    pub(crate) fn enter(&self, address: IpAddr, door: &Arc<Semaphore>) -> ConnectionSlot {
        let (address, ended) = (Source::of(address), Arc::new(CloseSignal::default()));
        let number = self.ledger().enter(&self.0.limits, address, &ended);
        ConnectionSlot {
            budget: self.clone(),
            address,
            number,
            ended,
            door: Arc::clone(door),
            permit: OnceLock::new(),
            requests: AtomicU32::new(0),
            deadline: Instant::now() + self.0.limits.deadline,
        }
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        // A panic elsewhere cannot leave the counts half changed.
        self.0.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The network of a client: its IPv4 address, or the /64 of its IPv6 address, which is what one
/// host is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Source(u64, bool);

impl Source {
    /// The source of an address.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(v4) => Self(u64::from(v4.to_bits()), false),
            IpAddr::V6(v6) => Self((v6.to_bits() >> 64) as u64, true),
        }
    }
}

/// Tells a connection that it has to go.
#[derive(Debug, Default)]
struct CloseSignal {
    is_ended: AtomicBool,
    wake: Notify,
}

/// A connection in the ledger.
#[derive(Debug)]
struct Entry {
    bytes: usize,
    ended: Arc<CloseSignal>,
}

/// The connections of one source, the oldest first.
#[derive(Debug, Default)]
struct Group {
    entries: BTreeMap<u64, Entry>,
    bytes: usize,
    /// Requests in the second that is counted.
    requests: u32,
}

/// Counts of the unauthenticated connections, changed under one lock.
#[derive(Debug, Default)]
struct Ledger {
    groups: HashMap<Source, Group>,
    sessions: usize,
    bytes: usize,
    next: u64,
    displaced: u64,
    /// Requests in the second that began then.
    requests: u32,
    second: Option<Instant>,
}

impl Ledger {
    fn enter(&mut self, limits: &Limits, source: Source, ended: &Arc<CloseSignal>) -> u64 {
        let own = self.groups.get(&source).map_or(0, |group| group.entries.len());
        if own > 0 && own >= limits.sessions_per_address_max {
            self.displace_oldest(source);
        } else if self.sessions > 0
            && self.sessions >= limits.sessions_max
            && let Some(largest) = self.largest(|group| group.entries.len())
        {
            self.displace_oldest(largest);
        }
        self.next += 1;
        let entry = Entry { bytes: 0, ended: Arc::clone(ended) };
        self.groups.entry(source).or_default().entries.insert(self.next, entry);
        self.sessions += 1;
        self.next
    }

    /// The source that has most of something.
    fn largest(&self, measure: impl Fn(&Group) -> usize) -> Option<Source> {
        self.groups.iter().max_by_key(|(_, group)| measure(group)).map(|(source, _)| *source)
    }

    fn displace_oldest(&mut self, source: Source) {
        let oldest = self.groups.get(&source).and_then(|group| group.entries.keys().next().copied());
        if let Some(number) = oldest {
            self.displace(source, number);
        }
    }

    fn displace(&mut self, source: Source, number: u64) {
        if let Some(entry) = self.leave(source, number) {
            self.displaced += 1;
            entry.ended.is_ended.store(true, Ordering::Release);
            entry.ended.wake.notify_one();
        }
    }

    fn leave(&mut self, source: Source, number: u64) -> Option<Entry> {
        let group = self.groups.get_mut(&source)?;
        let entry = group.entries.remove(&number)?;
        group.bytes -= entry.bytes;
        self.bytes -= entry.bytes;
        self.sessions -= 1;
        if group.entries.is_empty() {
            self.groups.remove(&source);
        }
        Some(entry)
    }

    /// Notes that a connection holds `bytes`. Where they are too many, the oldest of the source that holds most is ended; `false` if
    /// that is this one, or it was ended before.
    fn hold(&mut self, limits: &Limits, (source, number): (Source, u64), bytes: usize) -> bool {
        let Some(group) = self.groups.get_mut(&source) else { return false };
        let Some(entry) = group.entries.get_mut(&number) else { return false };
        let before = std::mem::replace(&mut entry.bytes, bytes);
        group.bytes = group.bytes - before + bytes;
        self.bytes = self.bytes - before + bytes;
        while self.bytes > limits.bytes_max
            && let Some(largest) = self.largest(|group| group.bytes)
        {
            let entries = self.groups.get(&largest).map(|group| &group.entries);
            let oldest = entries.and_then(|entries| entries.iter().find(|(_, entry)| entry.bytes > 0));
            let Some((oldest, _)) = oldest else { break };
            self.displace(largest, *oldest);
        }
        self.groups.get(&source).is_some_and(|group| group.entries.contains_key(&number))
    }

    /// Counts a request; `false` if there were too many in this second and this source has had its share.
    fn request(&mut self, limits: &Limits, source: Source, now: Instant) -> bool {
        if self.second.is_none_or(|second| now.saturating_duration_since(second) >= Duration::from_secs(1)) {
            (self.second, self.requests) = (Some(now), 0);
            self.groups.values_mut().for_each(|group| group.requests = 0);
        }
        let share = limits.requests_per_s_max / u32::try_from(self.groups.len().max(1)).unwrap_or(u32::MAX);
        let Some(group) = self.groups.get_mut(&source) else { return false };
        if self.requests >= limits.requests_per_s_max && group.requests >= share.max(1) {
            return false;
        }
        group.requests += 1;
        self.requests += 1;
        true
    }
}

/// The slot of a connection: in the budget of the unproven, and from its proof on in its door.
#[derive(Debug)]
pub struct ConnectionSlot {
    budget: Unproven,
    address: Source,
    number: u64,
    ended: Arc<CloseSignal>,
    door: Arc<Semaphore>,
    /// The slot in the door.
    permit: OnceLock<OwnedSemaphorePermit>,
    requests: AtomicU32,
    deadline: Instant,
}

impl ConnectionSlot {
    /// Whether the peer has authenticated.
    #[must_use]
    pub fn is_proven(&self) -> bool {
        self.permit.get().is_some()
    }

    /// Moves the connection to a slot of its door, because the peer has proven who it is. Refused if the door is full.
    pub fn prove(&self) -> Result<()> {
        if self.is_proven() {
            return Ok(());
        }
        let permit = Arc::clone(&self.door)
            .try_acquire_owned()
            .map_err(|_| Failure::busy("all connections of this port are in use").hint("try again later"))?;
        // Another request of the connection may have done it in this moment.
        if self.permit.set(permit).is_ok() {
            self.budget.ledger().leave(self.address, self.number);
        }
        Ok(())
    }

    /// The time left to authenticate.
    #[must_use]
    pub fn time_left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Says that the connection holds `bytes` of what it received. `false`: the memory of the unproven is used up, and the connection
    /// ends.
    #[must_use]
    pub fn hold(&self, bytes: usize) -> bool {
        let bytes = bytes.saturating_sub(UNPROVEN_BYTES);
        let budget = &self.budget;
        self.is_proven() || budget.ledger().hold(&budget.0.limits, (self.address, self.number), bytes)
    }

    /// Counts a request that comes without a proof. `false`: too many have come, and the connection ends.
    #[must_use]
    pub fn count_request(&self) -> bool {
        if self.requests.fetch_add(1, Ordering::Relaxed) < UNPROVEN_REQUESTS_FREE {
            return true;
        }
        let budget = &self.budget;
        budget.ledger().request(&budget.0.limits, self.address, Instant::now())
    }

    /// Whether the connection has to end: its time is over, or its slot was needed.
    #[must_use]
    pub fn is_over(&self) -> bool {
        !self.is_proven() && (self.ended.is_ended.load(Ordering::Acquire) || self.time_left().is_zero())
    }

    /// Waits until the connection has to end. A proof that comes meanwhile is not noticed at once: ask [`Self::is_over`] then.
    pub async fn over(&self) {
        if self.is_proven() {
            return std::future::pending().await;
        }
        while !self.is_over() {
            // The deadline wakes, too.
            let _ = timeout_at(self.deadline.into(), self.ended.wake.notified()).await;
            if self.is_proven() {
                return std::future::pending().await;
            }
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        if self.permit.get().is_none() {
            self.budget.ledger().leave(self.address, self.number);
        }
    }
}

#[cfg(test)]
#[path = "unproven_tests.rs"]
mod tests;
