//! The grants of one file, as the head keeps them.

use crate::{ClientId, Fence, Generation, Incarnation, RequestId};
use base::ByteRange;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Number of a disk server among those that hold objects of the file.
pub type ServerId = u32;

/// What a grant is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// To cache what was read. Any number of clients at a time.
    Read,
    /// To write, and to cache what was read and written. One client at a time.
    Write,
}

/// How far a grant is from its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// In use.
    Held,
    /// In use; the client was asked to return it.
    Recalled,
    /// Returned, or taken away. It is over when it is fenced and nothing is served from its cache.
    Ending,
}

/// A right to a range of a file.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Grant {
    /// Its number.
    pub generation: Generation,
    /// Who has it.
    pub client: ClientId,
    /// What it is the answer to.
    pub request: RequestId,
    /// What for.
    pub mode: Mode,
    /// Where.
    pub range: ByteRange,
    /// How far it is from its end.
    pub stage: Stage,
    /// The client has said that it caches nothing under it, or its lease is over.
    pub is_cache_gone: bool,
    /// Disk servers that might still carry out its writes.
    pub unfenced: BTreeSet<ServerId>,
}

impl Grant {
    fn is_over(&self) -> bool {
        self.stage == Stage::Ending && self.is_cache_gone && self.unfenced.is_empty()
    }

    fn is_read_of(&self, client: ClientId) -> bool {
        self.client == client && self.mode == Mode::Read && self.stage != Stage::Ending
    }

    fn conflicts(&self, mode: Mode, range: ByteRange) -> bool {
        let overlaps = self.range.offset < range.end && range.offset < self.range.end;
        overlaps && (self.mode == Mode::Write || mode == Mode::Write)
    }

    fn answers(&self, request: RequestId, mode: Mode, range: ByteRange) -> bool {
        self.request == request && (self.mode, self.range) == (mode, range) && self.stage != Stage::Ending
    }
}

/// What a client is answered that asks for a grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It has it; durable before it is told.
    Granted(Generation),
    /// Others have what conflicts. These were asked back just now; those that were asked before are not named again.
    Wait(Vec<(ClientId, Generation)>),
}

/// Why a grant ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Its client returned it, and has dropped what it cached.
    Returned,
    /// Its client is evicted. It may not know, so that its cache counts until its lease is over.
    Evicted,
}

/// The grants of one file. All of it is durable.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FileGrants {
    next: Generation,
    grants: Vec<Grant>,
    /// Grants to write up to this one ended when the content was replaced, if they had not ended before.
    #[serde(default)]
    replaced: Generation,
}

impl Default for FileGrants {
    fn default() -> Self {
        Self { next: Generation(1), grants: Vec::new(), replaced: Generation(0) }
    }
}

impl FileGrants {
    /// All that are not over, in the order of their generations.
    #[must_use]
    pub fn grants(&self) -> &[Grant] {
        &self.grants
    }

    /// The generation that was given last; 0: none was.
    #[must_use]
    pub fn newest(&self) -> Generation {
        Generation(self.next.0 - 1)
    }

    /// Gives a grant, or asks for the return of grants that conflict with it.
    ///
    /// A repeated request, which has the same number, gets the same answer. A new request never gets an old grant,
    /// however well it would do: that grant may be on its way back.
    ///
    /// A client that reads and wants to write gives up its own read grants in the range: it sees its own writes. Its
    /// own write grant that conflicts must be returned like that of any other client: writes under it may still be on
    /// their way.
    pub fn ask(
        &mut self,
        (client, request): (ClientId, RequestId),
        (mode, range): (Mode, ByteRange),
        servers: &BTreeSet<ServerId>,
    ) -> Answer {
        let mut own = self.grants.iter().filter(|grant| grant.client == client);
        if let Some(grant) = own.find(|grant| grant.answers(request, mode, range)) {
            return Answer::Granted(grant.generation);
        }
        let is_own_read = |grant: &Grant| grant.is_read_of(client);
        if !self.is_free(client, mode, range) {
            let is_in_the_way = |grant: &Grant| grant.conflicts(mode, range) && !is_own_read(grant);
            let conflicting = self.grants.iter_mut().filter(|grant| is_in_the_way(grant));
            let recalled = conflicting.filter(|grant| grant.stage == Stage::Held).map(|grant| {
                grant.stage = Stage::Recalled;
                (grant.client, grant.generation)
            });
            return Answer::Wait(recalled.collect());
        }
        self.grants.retain(|grant| !(is_own_read(grant) && grant.conflicts(mode, range)));
        let generation = self.next;
        self.next = generation.next();
        // Late reads do no harm: they are answered with what is there then.
        let unfenced = if mode == Mode::Write { servers.clone() } else { BTreeSet::new() };
        let stage = Stage::Held;
        self.grants.push(Grant {
            generation,
            client,
            request,
            mode,
            range,
            stage,
            is_cache_gone: false,
            unfenced,
        });
        Answer::Granted(generation)
    }

    /// Whether a client would have a grant at once: nothing is asked back for it.
    #[must_use]
    pub fn is_free(&self, client: ClientId, mode: Mode, range: ByteRange) -> bool {
        let mut others = self.grants.iter().filter(|grant| !grant.is_read_of(client));
        !others.any(|grant| grant.conflicts(mode, range))
    }

    /// Whether a grant was returned before. It is that of a client that has not been evicted and says that it returns it: so it had
    /// it, and only a return or [`Self::content_replaced`] has ended it.
    #[must_use]
    pub fn was_returned(&self, generation: Generation) -> bool {
        let mut alive = self.grants.iter().filter(|grant| grant.stage != Stage::Ending);
        generation > self.replaced && !alive.any(|grant| grant.generation == generation)
    }

    /// What a disk server is told that has started again, and has forgotten the fences that were not synced: grants below this
    /// generation have ended. That is the oldest that has not ended. The newest is not enough: it may have been returned just so.
    #[must_use]
    pub fn floor(&self) -> Generation {
        let alive = self.grants.iter().filter(|grant| grant.stage != Stage::Ending);
        alive.map(|grant| grant.generation).min().unwrap_or(self.next)
    }

    /// Names the disk servers that carry out the writes of a grant that was given just now: where its file lies was not known when
    /// it was asked for.
    pub fn set_servers(&mut self, generation: Generation, servers: &BTreeSet<ServerId>) {
        if let Some(grant) = self.find(generation).filter(|grant| grant.mode == Mode::Write) {
            grant.unfenced.clone_from(servers);
        }
    }

    /// A grant ends: it gives no right any more, and is over once it is fenced. Told again, it changes nothing.
    pub fn end(&mut self, client: ClientId, generation: Generation, how: Ended) {
        if let Some(grant) = self.find(generation).filter(|grant| grant.client == client) {
            grant.stage = Stage::Ending;
            grant.is_cache_gone |= how == Ended::Returned;
            self.clear();
        }
    }

    /// Asks the grants to write of all others back: somebody wants to know what they have written.
    pub fn recall_writers(&mut self, but: Option<ClientId>) {
        let writers =
            self.grants.iter_mut().filter(|grant| grant.mode == Mode::Write && Some(grant.client) != but);
        for grant in writers.filter(|grant| grant.stage == Stage::Held) {
            grant.stage = Stage::Recalled;
        }
    }

    /// What the file had is replaced by something else, and the objects that could be written to are gone: grants to write are over,
    /// and what was cached is asked back.
    pub fn content_replaced(&mut self) {
        let written = self.grants.iter().filter(|grant| grant.mode == Mode::Write);
        self.replaced = written.map(|grant| grant.generation).max().unwrap_or(self.replaced);
        self.grants.retain(|grant| grant.mode == Mode::Read);
        for grant in self.grants.iter_mut().filter(|grant| grant.stage == Stage::Held) {
            grant.stage = Stage::Recalled;
        }
    }

    /// A client is evicted: all its grants end.
    pub fn evict(&mut self, client: ClientId) {
        for grant in self.grants.iter_mut().filter(|grant| grant.client == client) {
            grant.stage = Stage::Ending;
        }
        self.clear();
    }

    /// The lease of a client is over by every clock: it serves nothing from its cache.
    pub fn lease_over(&mut self, client: ClientId) {
        for grant in
            self.grants.iter_mut().filter(|grant| grant.client == client && grant.stage == Stage::Ending)
        {
            grant.is_cache_gone = true;
        }
        self.clear();
    }

    /// The orders that a disk server has not acknowledged, to be sent until it has.
    #[must_use]
    pub fn fences(&self, server: ServerId, incarnation: Incarnation) -> Vec<Fence> {
        let oldest = self.grants.iter().map(|grant| grant.generation).min().unwrap_or(self.next);
        let ending = self.grants.iter().filter(|grant| grant.stage == Stage::Ending);
        let wanted = ending.filter(|grant| grant.unfenced.contains(&server));
        wanted
            .map(|grant| Fence { incarnation, generation: grant.generation, range: grant.range, oldest })
            .collect()
    }

    /// A disk server has made durable that it refuses a generation.
    pub fn fenced(&mut self, server: ServerId, generation: Generation) {
        if let Some(grant) = self.find(generation).filter(|grant| grant.stage == Stage::Ending) {
            grant.unfenced.remove(&server);
            self.clear();
        }
    }

    /// What a disk server has of the file is never read again: nothing is waited for from it.
    pub fn forget_server(&mut self, server: ServerId) {
        for grant in &mut self.grants {
            grant.unfenced.remove(&server);
        }
        self.clear();
    }

    fn find(&mut self, generation: Generation) -> Option<&mut Grant> {
        self.grants.iter_mut().find(|grant| grant.generation == generation)
    }

    fn clear(&mut self) {
        self.grants.retain(|grant| !grant.is_over());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    const ANN: ClientId = ClientId(1);
    const BOB: ClientId = ClientId(2);
    const ALL: ByteRange = ByteRange { offset: 0, end: u64::MAX };
    const ONE: Generation = Generation(1);

    /// A request that nobody has made before.
    fn new(client: ClientId) -> (ClientId, RequestId) {
        static LAST: AtomicU64 = AtomicU64::new(0);
        (client, RequestId(LAST.fetch_add(1, Ordering::Relaxed)))
    }

    fn servers() -> BTreeSet<ServerId> {
        BTreeSet::from([0, 1])
    }

    #[test]
    fn readers_share_and_a_writer_waits_until_they_are_gone() {
        let mut file = FileGrants::default();
        assert_eq!(file.ask(new(ANN), (Mode::Read, ALL), &servers()), Answer::Granted(ONE));
        assert_eq!(file.ask(new(BOB), (Mode::Read, ALL), &servers()), Answer::Granted(Generation(2)));
        assert_eq!(file.ask(new(BOB), (Mode::Write, ALL), &servers()), Answer::Wait(vec![(ANN, ONE)]));
        assert_eq!(
            file.ask(new(BOB), (Mode::Write, ALL), &servers()),
            Answer::Wait(vec![]),
            "asked back once"
        );
        file.end(ANN, ONE, Ended::Returned);
        assert_eq!(file.ask(new(BOB), (Mode::Write, ALL), &servers()), Answer::Granted(Generation(3)));
        assert_eq!(file.grants().len(), 1, "its own read grant is replaced");
    }

    #[test]
    fn only_the_same_request_has_the_same_answer() {
        let mut file = FileGrants::default();
        let (request, other) = (new(ANN), new(ANN));
        let whole = (Mode::Write, ALL);
        assert_eq!(file.ask(request, whole, &servers()), Answer::Granted(ONE));
        assert_eq!(file.ask(request, whole, &servers()), Answer::Granted(ONE), "its answer was lost");
        let in_the_way = Answer::Wait(vec![(ANN, ONE)]);
        assert_eq!(file.ask(other, (Mode::Read, ALL), &servers()), in_the_way, "it may be on its way back");
        assert_eq!(file.ask(request, whole, &servers()), Answer::Granted(ONE), "asked back, and still there");
        file.end(ANN, ONE, Ended::Returned);
        assert_eq!(file.ask(request, whole, &servers()), Answer::Wait(vec![]));
    }

    #[test]
    fn a_write_grant_is_over_only_when_all_servers_are_fenced() {
        let mut file = FileGrants::default();
        file.ask(new(ANN), (Mode::Write, ALL), &servers());
        file.end(ANN, ONE, Ended::Returned);
        assert_eq!(
            file.ask(new(ANN), (Mode::Write, ALL), &servers()),
            Answer::Wait(vec![]),
            "also for its own client"
        );
        file.fenced(0, ONE);
        file.fenced(0, ONE);
        assert_eq!(file.ask(new(BOB), (Mode::Read, ALL), &servers()), Answer::Wait(vec![]));
        assert_eq!(file.fences(1, Incarnation(4)).len(), 1);
        file.fenced(1, ONE);
        assert_eq!(file.ask(new(BOB), (Mode::Read, ALL), &servers()), Answer::Granted(Generation(2)));
    }

    #[test]
    fn the_cache_of_an_evicted_client_counts_until_its_lease_is_over() {
        let mut file = FileGrants::default();
        file.ask(new(ANN), (Mode::Read, ALL), &servers());
        file.evict(ANN);
        assert_eq!(file.ask(new(BOB), (Mode::Write, ALL), &servers()), Answer::Wait(vec![]));
        file.lease_over(ANN);
        assert_eq!(file.ask(new(BOB), (Mode::Write, ALL), &servers()), Answer::Granted(Generation(2)));
    }

    #[test]
    fn an_acknowledgement_counts_for_the_generation_that_it_names_only() {
        let mut file = FileGrants::default();
        file.ask(new(ANN), (Mode::Write, ALL), &servers());
        file.fenced(0, ONE);
        assert_eq!(file.grants()[0].unfenced, servers(), "nothing was ordered yet");
        file.end(BOB, ONE, Ended::Returned);
        assert_eq!(file.grants()[0].stage, Stage::Held, "it is not Bob's");
    }

    #[test]
    fn halves_of_a_file_are_written_by_two() {
        let mut file = FileGrants::default();
        let (low, high) = (ByteRange { offset: 0, end: 8 }, ByteRange { offset: 8, end: 16 });
        assert_eq!(file.ask(new(ANN), (Mode::Write, low), &servers()), Answer::Granted(ONE));
        assert_eq!(file.ask(new(BOB), (Mode::Write, high), &servers()), Answer::Granted(Generation(2)));
        assert_eq!(
            file.ask(new(BOB), (Mode::Write, ALL), &servers()),
            Answer::Wait(vec![(ANN, ONE), (BOB, Generation(2))])
        );
    }
}
