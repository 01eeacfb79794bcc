//! Matches the client that offers a file with the destination that fetches it. Either may come first.
//!
//! The client that offers a file may read it. A destination has only the key, so anybody may come as one, and most
//! destinations come before their offer. Their number is bounded, in total and by address. Beyond the bound a new
//! destination is not refused: the oldest one of the address that has most is sent away. So a destination waits for at
//! least as long as others of its address need to fill all places. The offer of a legitimate copy comes sooner, one
//! round trip later. A destination that was sent away may ask again, and always gets an offer that exists.

use base::{Failure, FilePath, Result};
use net::unproven::Source;
use std::{
    collections::HashMap,
    hash::Hash,
    net::IpAddr,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    net::lookup_host,
    sync::oneshot,
    time::{Instant, timeout},
};
use wire::xrd::tpc::CopyKey;

/// How long one waits for the other, if the client does not say.
const WAIT: Duration = Duration::from_secs(15);
/// Longest wait that a client can ask for.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// How long the name of a destination may take to be found.
const LOOKUP_DEADLINE: Duration = Duration::from_secs(10);
/// Offers at a time: each lasts seconds.
const OFFERS_MAX: usize = 4096;
/// Those of one user.
const OFFERS_PER_USER_MAX: usize = 1024;
/// Destinations that wait for an offer: a client whose offer is slower than its destination is rare.
const WAITS_MAX: usize = 1024;
/// Those of one address: a disk server makes some dozen copies at a time.
const WAITS_PER_ADDRESS_MAX: usize = 64;

/// The client that offers a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OfferSource {
    pub(super) user: String,
    /// `user.process` of the client, as the field writes it.
    pub(super) origin: String,
    pub(super) client: IpAddr,
}

/// A file that a destination may fetch once.
#[derive(Debug)]
pub(super) struct Offer<T> {
    /// What opens the file for the destination.
    right: T,
    by: OfferSource,
    destination: String,
    addresses: Vec<IpAddr>,
    until: Instant,
}

impl<T> Offer<T> {
    /// An offer to a destination, whose name is looked up.
    pub(super) async fn new(
        right: T,
        by: OfferSource,
        destination: String,
        ttl_s: Option<u32>,
    ) -> Result<Self> {
        let unknown = |cause: String| {
            Failure::unavailable(format!(
                "destination {destination} of a third-party copy is not known: {cause}"
            ))
            .hint("the source must be able to look up the destination's name")
        };
        let found = timeout(LOOKUP_DEADLINE, lookup_host((destination.as_str(), 0))).await;
        let found = found.map_err(|_| unknown("looking it up takes too long".to_owned()))?;
        let addresses =
            found.map_err(|cause| unknown(cause.to_string()))?.map(|address| address.ip()).collect();
        let wait = ttl_s.map_or(WAIT, |ttl| Duration::from_secs(ttl.into())).min(WAIT_MAX);
        Ok(Self { right, by, destination, addresses, until: Instant::now() + wait })
    }

    /// Yields what opens the file, if it is the right one who comes to fetch.
    fn accept(self, path: &FilePath, origin: &str, address: IpAddr) -> Result<T> {
        let asked_by = origin.split_once('@').map_or(origin, |(user, _)| user);
        let OfferSource { origin: offered_by, client, .. } = &self.by;
        if asked_by != offered_by {
            let what = format!("{path} was offered by {offered_by} of {client}, not by {asked_by}");
            return Err(Failure::permission(what));
        }
        let address = address.to_canonical();
        // Who comes over loopback is on this host: the name of the host may mean another of its addresses.
        let is_expected =
            address.is_loopback() || self.addresses.iter().any(|known| known.to_canonical() == address);
        if !is_expected {
            let what = format!("{path} was offered to {}, not to {address}", self.destination);
            return Err(
                Failure::permission(what).hint("use the name by which the source knows the destination")
            );
        }
        Ok(self.right)
    }
}

/// A destination that waits for its offer; without an answer it was sent away.
struct Wait<T> {
    answer: oneshot::Sender<Offer<T>>,
    source: Source,
}

enum Participant<T> {
    Offered(Offer<T>),
    Awaited(Wait<T>),
}

struct PendingOffer<T> {
    party: Participant<T>,
    /// The order in which they came.
    number: u64,
}

impl<T> PendingOffer<T> {
    fn is_over(&self, now: Instant) -> bool {
        match &self.party {
            Participant::Offered(offer) => offer.until <= now,
            Participant::Awaited(wait) => wait.answer.is_closed(),
        }
    }

    fn user(&self) -> Option<&str> {
        match &self.party {
            Participant::Offered(offer) => Some(&offer.by.user),
            Participant::Awaited(_) => None,
        }
    }

    fn waiting_from(&self) -> Option<Source> {
        match &self.party {
            Participant::Offered(_) => None,
            Participant::Awaited(wait) => Some(wait.source),
        }
    }
}

type Place = (CopyKey, FilePath);

/// Offers that nobody has fetched yet, and destinations that nobody has offered anything yet.
pub(super) struct Rendezvous<T>(Mutex<Offers<T>>);

struct Offers<T> {
    meetings: HashMap<Place, PendingOffer<T>>,
    next: u64,
}

impl<T> Default for Rendezvous<T> {
    fn default() -> Self {
        Self(Mutex::new(Offers { meetings: HashMap::new(), next: 0 }))
    }
}

impl<T> Rendezvous<T> {
    /// The meetings that are not over.
    fn now(&self) -> MutexGuard<'_, Offers<T>> {
        let mut book = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        book.meetings.retain(|_, meeting| !meeting.is_over(now));
        book
    }

    /// Offers a file.
    pub(super) fn offer(&self, key: CopyKey, path: &FilePath, offer: Offer<T>) -> Result<()> {
        let mut book = self.now();
        let place = (key, path.clone());
        match book.meetings.remove(&place).map(|meeting| meeting.party) {
            // A destination that left in this moment is as good as one that never came.
            Some(Participant::Awaited(wait)) => {
                let _ = wait.answer.send(offer);
                Ok(())
            }
            // Neither can be trusted: somebody else knows the key.
            Some(Participant::Offered(_)) => Err(used_twice(path)),
            None => book.add_offer(place, offer),
        }
    }

    /// Waits for the offer of a file and yields what opens it.
    pub(super) async fn fetch(
        &self,
        key: CopyKey,
        path: &FilePath,
        origin: &str,
        address: IpAddr,
    ) -> Result<T> {
        let place = (key, path.clone());
        let (answer, receiver) = oneshot::channel();
        let offered = {
            let mut book = self.now();
            match book.meetings.remove(&place).map(|meeting| meeting.party) {
                Some(Participant::Offered(offer)) => Some(offer),
                Some(Participant::Awaited(_)) => return Err(used_twice(path)),
                None => {
                    book.add_wait(place, Wait { answer, source: Source::of(address) });
                    None
                }
            }
        };
        let offer = match offered {
            Some(offer) => offer,
            None => match timeout(WAIT, receiver).await {
                Ok(Ok(offer)) => offer,
                // The place is given up by the next who comes.
                Ok(Err(_)) => return Err(sent_away(path)),
                Err(_) => {
                    let what = format!(
                        "no client offered {path} for this third-party copy within {} s",
                        WAIT.as_secs()
                    );
                    return Err(Failure::permission(what)
                        .hint("the client that started the copy may have disconnected"));
                }
            },
        };
        offer.accept(path, origin, address)
    }
}

impl<T> Offers<T> {
    /// Keeps an offer. A user who has too many is told so; where all have too many, the oldest of who has most is dropped.
    fn add_offer(&mut self, place: Place, offer: Offer<T>) -> Result<()> {
        let user = offer.by.user.clone();
        let own = self.meetings.values().filter(|meeting| meeting.user() == Some(&user)).count();
        if own >= OFFERS_PER_USER_MAX {
            let what = format!("{own} third-party copies of {user} wait for their destination");
            return Err(Failure::busy(what).hint("try again later"));
        }
        if self.meetings.values().filter(|meeting| meeting.user().is_some()).count() >= OFFERS_MAX {
            self.displace(|meeting| meeting.user().map(str::to_owned));
        }
        self.insert(place, Participant::Offered(offer));
        Ok(())
    }

    /// Keeps a destination that waits; the oldest of its address, or of the address that has most, is sent away for it.
    fn add_wait(&mut self, place: Place, wait: Wait<T>) {
        let source = wait.source;
        let waiting = || self.meetings.values().filter_map(PendingOffer::waiting_from);
        let (own, all) = (waiting().filter(|other| *other == source).count(), waiting().count());
        if own >= WAITS_PER_ADDRESS_MAX {
            self.displace(|meeting| meeting.waiting_from().filter(|other| *other == source));
        } else if all >= WAITS_MAX {
            self.displace(PendingOffer::waiting_from);
        }
        self.insert(place, Participant::Awaited(wait));
    }

    fn insert(&mut self, place: Place, party: Participant<T>) {
        self.next += 1;
        self.meetings.insert(place, PendingOffer { party, number: self.next });
    }

    /// Drops the oldest meeting of the group that has most.
    fn displace<G: Eq + Hash>(&mut self, group: impl Fn(&PendingOffer<T>) -> Option<G>) {
        let mut groups: HashMap<G, (usize, u64, &Place)> = HashMap::new();
        for (place, meeting) in &self.meetings {
            let Some(group) = group(meeting) else { continue };
            let (count, oldest, at) = groups.entry(group).or_insert((0, meeting.number, place));
            *count += 1;
            if meeting.number < *oldest {
                (*oldest, *at) = (meeting.number, place);
            }
        }
        let most = groups.into_values().max_by_key(|(count, ..)| *count);
        if let Some(place) = most.map(|(.., place)| place.clone()) {
            self.meetings.remove(&place);
        }
    }
}

fn sent_away(path: &FilePath) -> Failure {
    Failure::busy(format!("too many destinations wait for offers of files, this one for {path}"))
        .hint("ask again: the client may have offered it by now")
}

fn used_twice(path: &FilePath) -> Failure {
    Failure::permission(format!("the key of the third-party copy of {path} was used twice"))
        .hint("start the copy again: a new key is made")
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::xrd::{Opaque, tpc};

    const NEAR: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn key(text: &str) -> CopyKey {
        let opaque = Opaque::parse(&format!("tpc.key={text}&tpc.dst=localhost"));
        match tpc::source_open(&opaque) {
            Ok(Some(tpc::SourceOpen::Offer { key, .. })) => key,
            other => panic!("{other:?}"),
        }
    }

    fn path() -> FilePath {
        "/f".parse().unwrap()
    }

    const RIGHT: &str = "what opens it";

    async fn offer(destination: &str) -> Offer<&'static str> {
        offer_of("ann", destination, None).await.unwrap()
    }

    async fn offer_of(user: &str, destination: &str, ttl_s: Option<u32>) -> Result<Offer<&'static str>> {
        let by = OfferSource { user: user.to_owned(), origin: format!("{user}.7"), client: NEAR };
        Offer::new(RIGHT, by, destination.to_owned(), ttl_s).await
    }

    #[tokio::test]
    async fn either_side_may_come_first() {
        let meetings = Rendezvous::default();
        meetings.offer(key("1"), &path(), offer("127.0.0.1").await).unwrap();
        assert_eq!(meetings.fetch(key("1"), &path(), "ann.7@x", NEAR).await.unwrap(), RIGHT);
        let (place, second) = (path(), offer("127.0.0.1").await);
        let fetching = meetings.fetch(key("2"), &place, "ann.7@x", NEAR);
        let offering = async {
            while meetings.now().meetings.is_empty() {
                tokio::task::yield_now().await;
            }
            meetings.offer(key("2"), &place, second)
        };
        let (fetched, offered) = tokio::join!(fetching, offering);
        offered.unwrap();
        assert_eq!(fetched.unwrap(), RIGHT);
        assert!(meetings.now().meetings.is_empty());
    }

    #[tokio::test]
    async fn strangers_get_nothing() {
        let meetings = Rendezvous::default();
        meetings.offer(key("1"), &path(), offer("127.0.0.1").await).unwrap();
        let refused = meetings.fetch(key("1"), &path(), "eve.7@x", NEAR).await.unwrap_err();
        assert!(refused.what.contains("not by eve.7"), "{refused}");
        meetings.offer(key("1"), &path(), offer("192.0.2.1").await).unwrap();
        let elsewhere = "192.0.2.9".parse().unwrap();
        let refused = meetings.fetch(key("1"), &path(), "ann.7@x", elsewhere).await.unwrap_err();
        assert!(refused.what.contains("not to 192.0.2.9"), "{refused}");
    }

    #[tokio::test]
    async fn a_key_is_good_once() {
        let meetings = Rendezvous::default();
        meetings.offer(key("1"), &path(), offer("127.0.0.1").await).unwrap();
        assert!(meetings.offer(key("1"), &path(), offer("127.0.0.1").await).is_err());
        assert!(meetings.now().meetings.is_empty(), "neither offer counts");
        let unknown = offer_of("ann", "no such host", None).await.unwrap_err();
        assert!(unknown.what.contains("no such host") && unknown.hint.is_some());
    }

    #[tokio::test]
    async fn an_offer_ends() {
        let meetings = Rendezvous::default();
        let ended = offer_of("ann", "127.0.0.1", Some(0)).await.unwrap();
        meetings.offer(key("1"), &path(), ended).unwrap();
        assert!(meetings.now().meetings.is_empty());
    }
    /// A destination that waits.
    fn wait(last: u8) -> (Wait<&'static str>, oneshot::Receiver<Offer<&'static str>>) {
        let (answer, receiver) = oneshot::channel();
        (Wait { answer, source: Source::of(IpAddr::from([192, 0, 2, last])) }, receiver)
    }

    fn place(number: usize) -> Place {
        (key(&format!("k{number}")), path())
    }

    #[tokio::test]
    async fn destinations_that_wait_displace_those_of_their_address() {
        let meetings = Rendezvous::default();
        let mut waiting = Vec::new();
        let mut add = |number: usize, last: u8| {
            let (wait, receiver) = wait(last);
            meetings.now().add_wait(place(number), wait);
            waiting.push(receiver);
        };
        add(0, 1);
        (1..=2 * WAITS_PER_ADDRESS_MAX).for_each(|number| add(number, 2));
        assert_eq!(meetings.now().meetings.len(), 1 + WAITS_PER_ADDRESS_MAX);
        // The oldest of the flood was sent away; the other one meets its offer.
        assert!(waiting[1].try_recv().is_err_and(|why| why == oneshot::error::TryRecvError::Closed));
        meetings.offer(key("k0"), &path(), offer("127.0.0.1").await).unwrap();
        assert!(waiting[0].try_recv().is_ok());
    }

    #[tokio::test]
    async fn an_offer_is_met_however_many_wait() {
        let meetings = Rendezvous::default();
        let mut waiting = Vec::new();
        for number in 0..2 * WAITS_MAX {
            let (wait, receiver) = wait((number % 200) as u8);
            meetings.now().add_wait(place(number), wait);
            waiting.push(receiver);
        }
        assert_eq!(meetings.now().meetings.len(), WAITS_MAX);
        meetings.offer(key("1"), &path(), offer("127.0.0.1").await).unwrap();
        assert_eq!(meetings.fetch(key("1"), &path(), "ann.7@x", NEAR).await.unwrap(), RIGHT);
    }

    #[tokio::test]
    async fn the_offers_of_one_user_leave_room_for_those_of_others() {
        let meetings = Rendezvous::default();
        for number in 0..OFFERS_PER_USER_MAX {
            let offer = offer_of("eve", "127.0.0.1", None).await.unwrap();
            meetings.now().add_offer(place(number), offer).unwrap();
        }
        let more = offer_of("eve", "127.0.0.1", None).await.unwrap();
        let refused = meetings.now().add_offer(place(OFFERS_MAX), more).unwrap_err();
        assert!(refused.kind == base::ErrorKind::Busy && refused.what.contains("eve"), "{refused}");
        meetings.offer(key("1"), &path(), offer("127.0.0.1").await).unwrap();
        assert_eq!(meetings.fetch(key("1"), &path(), "ann.7@x", NEAR).await.unwrap(), RIGHT);
    }
}
