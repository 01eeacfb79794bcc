//! The active head among several: it says that it lives, and ends when another one has taken over.

use crate::{
    Apply, Context, Core, Head,
    service::Pending,
    store::{HeadPlace, StoreResult},
};
use base::{Failure, FilePath, Millis, Result, Timestamp};
use wire::control::{Done, TakeOver};

/// How often the active head says that it lives, and makes sure that it is the active one. Nothing that it answers is older than
/// this when another one takes over.
const BEAT_EVERY: Millis = Millis(1000);

/// What the active head says of itself.
#[derive(Debug)]
pub(crate) struct Beat {
    place: HeadPlace,
    last: Option<Timestamp>,
}

impl Core {
    /// Says where this head is. In a database it has to be the active one from now on.
    #[must_use]
    pub fn at_place(mut self, place: HeadPlace) -> Self {
        self.beat = self.store.has_standbys().then_some(Beat { place, last: None });
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
        self.store.beat(self.facility.incarnation, &beat.place)?;
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
        drop(self.enqueue(Box::new(Tick)));
    }

    /// Ends when another head has taken over: from then on nothing is committed or answered here.
    pub async fn superseded(&self) {
        let mut superseded = self.superseded.subscribe();
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
