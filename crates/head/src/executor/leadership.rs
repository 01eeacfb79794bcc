//! Leadership: the active head writes a heartbeat, and ends when another head has taken over.

use crate::{
    Apply, Context, Core, Head,
    executor::service::Pending,
    store::{HeadAddress, StoreResult},
};
use base::{Failure, FilePath, Millis, Result, Timestamp};
use wire::control::{Done, TakeOver};

/// How often the active head says that it lives, and makes sure that it is the active one. Nothing that it answers is older than
/// this when another one takes over.
const BEAT_EVERY: Millis = Millis(1000);

/// What the active head says of itself.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    address: HeadAddress,
    last: Option<Timestamp>,
}

impl Core {
    /// Says where this head is. In a database it has to be the active one from now on.
    #[must_use]
    pub fn at_address(mut self, address: HeadAddress) -> Self {
        self.beat = self.store.has_standbys().then_some(Heartbeat { address, last: None });
        self
    }

    /// Whether it must say now and then that it lives.
    #[must_use]
    pub fn must_beat(&self) -> bool {
        self.beat.is_some()
    }

    /// Says that it lives, if that is due. It counts when the group under way is durable.
    pub(crate) fn beat(&mut self, now: Timestamp) -> StoreResult<()> {
        let Some(beat) = &mut self.beat else { return Ok(()) };
        let is_due = beat.last.is_none_or(|last| now < last || now - last >= BEAT_EVERY);
        if !is_due {
            return Ok(());
        }
        // Whatever becomes of this group: the next one tries again if it fails.
        beat.last = None;
        self.store.beat(self.facility.incarnation, &beat.address)?;
        self.beaten = Some(now);
        Ok(())
    }

    /// The group is durable, and with it what was said.
    pub(crate) fn has_beaten(&mut self) {
        if let (Some(beat), Some(now)) = (&mut self.beat, self.beaten.take()) {
            beat.last = Some(now);
        }
    }
}

/// Nothing to do but to say that it lives.
struct Tick;

impl Pending for Tick {
    fn paths(&self) -> Vec<FilePath> {
        Vec::new()
    }

    fn apply(&mut self, _: &mut Core, _: Timestamp) {}

    fn answer(self: Box<Self>, _: &Result<()>) {}
}

impl Head {
    /// Has it say that it lives, if that is due: to be called once a second. A full queue says so by itself.
    pub fn tick(&self) {
        drop(self.enqueue_for_thread(Box::new(Tick)));
    }

    /// Ends when another head has taken over: from then on nothing is committed or answered here.
    pub async fn superseded(&self) {
        let mut superseded = self.watched.superseded.subscribe();
        // The sender lives as long as this handle.
        let _ = superseded.wait_for(|is_so| *is_so).await;
    }
}

impl Apply for TakeOver {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        context.who.require_operator("have another head take over")?;
        if !core.must_beat() {
            return Err(Failure::unsupported("this facility has one head only")
                .hint("with its catalogue in a database, `bpd run DIR --standby` waits on another host"));
        }
        core.store.order_successor(self.host.as_deref())?;
        Ok(Done {})
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HeadConfig, Principal, store::testing::TestCatalogue};
    use base::{Clock, ErrorKind};
    use std::sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    };
    use wire::{
        auth::{capability::CapKeys, token::TokenKey},
        control::{DiskServer, GetEntry, Mkdir},
    };

    fn start(place: &TestCatalogue, host: &str, now: &Arc<AtomicI64>) -> Head {
        let (name, root, https) = (host.to_owned(), format!("{host}:1"), format!("{host}:2"));
        let server = DiskServer { name, root: root.clone(), https: https.clone() };
        let config = HeadConfig {
            keys: CapKeys::derive(&[7; 32]),
            tokens: TokenKey::derive(&[7; 32]),
            server,
            pool: "main".into(),
        };
        let time = Arc::clone(now);
        let clock: Clock = Arc::new(move || Timestamp(time.load(Ordering::Relaxed)));
        let core = Core::open(&place.catalogue, config, clock()).unwrap();
        let core = core.at_address(HeadAddress { host: host.into(), root, https });
        assert!(core.must_beat());
        Head::start(core, clock).unwrap().0
    }

    fn wait<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
    }

    #[test]
    fn a_head_that_was_replaced_answers_nobody_not_even_from_memory() {
        let Some(place) = TestCatalogue::database() else { return };
        drop(place.create());
        let ada = Principal::operator("ada");
        let now = Arc::new(AtomicI64::new(5000));
        let mkdir = |path: &str| Mkdir { path: path.parse().unwrap(), mode: 0o755, parents: false };
        let look = || GetEntry { path: "/d".parse().unwrap() };
        let old = start(&place, "a", &now);
        wait(old.call(&ada, mkdir("/d"))).unwrap();
        let new = start(&place, "b", &now);
        wait(new.call(&ada, look())).unwrap();
        wait(old.call(&ada, mkdir("/late"))).unwrap_err();
        now.fetch_add(BEAT_EVERY.0, Ordering::Relaxed);
        let failure = wait(old.call(&ada, look())).unwrap_err();
        assert_eq!(failure.kind, ErrorKind::Unavailable, "{failure}");
        wait(old.superseded());
        wait(new.call(&ada, look())).unwrap();
        assert!(wait(new.call(&ada, GetEntry { path: "/late".parse().unwrap() })).is_err());
    }
}
