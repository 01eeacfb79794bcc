//! Where the client who offers a file and the destination that fetches it meet. Either may come first.

use base::{Failure, FilePath, Result};
use std::{
    collections::HashMap,
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
/// Meetings at a time: each lasts seconds.
const MEETINGS_MAX: usize = 4096;

/// A file that a destination may fetch once.
#[derive(Debug)]
pub(super) struct Offer<T> {
    /// What opens the file for the destination.
    right: T,
    /// `user.process` of the client.
    origin: String,
    client: IpAddr,
    destination: String,
    addresses: Vec<IpAddr>,
    until: Instant,
}

impl<T> Offer<T> {
    /// An offer to a destination, whose name is looked up.
    pub(super) async fn new(
        right: T,
        origin: String,
        client: IpAddr,
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
        Ok(Self { right, origin, client, destination, addresses, until: Instant::now() + wait })
    }

    /// Yields what opens the file, if it is the right one who comes to fetch.
    fn accept(self, path: &FilePath, origin: &str, address: IpAddr) -> Result<T> {
        let asked_by = origin.split_once('@').map_or(origin, |(user, _)| user);
        if asked_by != self.origin {
            let what = format!("{path} was offered by {} of {}, not by {asked_by}", self.origin, self.client);
            return Err(Failure::permission(what));
        }
        let address = address.to_canonical();
        // Who comes over loopback is on this host: the name of the host may mean another of its addresses.
        let is_expected =
            address.is_loopback() || self.addresses.iter().any(|known| known.to_canonical() == address);
        if !is_expected {
            let what = format!("{path} was offered to {}, not to {address}", self.destination);
            return Err(Failure::permission(what).hint("name the destination as the source knows it"));
        }
        Ok(self.right)
    }
}

enum Meeting<T> {
    Offered(Offer<T>),
    Awaited(oneshot::Sender<Offer<T>>),
}

impl<T> Meeting<T> {
    fn is_over(&self, now: Instant) -> bool {
        match self {
            Self::Offered(offer) => offer.until <= now,
            Self::Awaited(waiting) => waiting.is_closed(),
        }
    }
}

type Place = (CopyKey, FilePath);

/// Offers that nobody has fetched yet, and destinations that nobody has offered anything yet.
pub(super) struct Meetings<T>(Mutex<HashMap<Place, Meeting<T>>>);

impl<T> Default for Meetings<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Meetings<T> {
    /// The meetings that are not over.
    fn now(&self) -> MutexGuard<'_, HashMap<Place, Meeting<T>>> {
        let mut meetings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        meetings.retain(|_, meeting| !meeting.is_over(now));
        meetings
    }

    /// Offers a file.
    pub(super) fn offer(&self, key: CopyKey, path: &FilePath, offer: Offer<T>) -> Result<()> {
        let mut meetings = self.now();
        let place = (key, path.clone());
        match meetings.remove(&place) {
            // A destination that left in this moment is as good as one that never came.
            Some(Meeting::Awaited(waiting)) => {
                let _ = waiting.send(offer);
                Ok(())
            }
            // Neither can be trusted: somebody else knows the key.
            Some(Meeting::Offered(_)) => Err(used_twice(path)),
            None => insert(&mut meetings, place, Meeting::Offered(offer)),
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
        let (sender, receiver) = oneshot::channel();
        let offered = {
            let mut meetings = self.now();
            match meetings.remove(&place) {
                Some(Meeting::Offered(offer)) => Some(offer),
                Some(Meeting::Awaited(_)) => return Err(used_twice(path)),
                None => {
                    insert(&mut meetings, place, Meeting::Awaited(sender))?;
                    None
                }
            }
        };
        let offer = match offered {
            Some(offer) => offer,
            None => match timeout(WAIT, receiver).await {
                Ok(Ok(offer)) => offer,
                // The place is given up by the next who comes.
                Ok(Err(_)) => return Err(used_twice(path)),
                Err(_) => {
                    let what =
                        format!("nobody offered {path} for this third-party copy in {} s", WAIT.as_secs());
                    return Err(
                        Failure::permission(what).hint("is the client that asked for it still there?")
                    );
                }
            },
        };
        offer.accept(path, origin, address)
    }
}

fn insert<T>(meetings: &mut HashMap<Place, Meeting<T>>, place: Place, meeting: Meeting<T>) -> Result<()> {
    if meetings.len() >= MEETINGS_MAX {
        return Err(Failure::busy(format!("{MEETINGS_MAX} third-party copies wait for their other side"))
            .hint("try again later"));
    }
    meetings.insert(place, meeting);
    Ok(())
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
        Offer::new(RIGHT, "ann.7".to_owned(), NEAR, destination.to_owned(), None).await.unwrap()
    }

    #[tokio::test]
    async fn either_side_may_come_first() {
        let meetings = Meetings::default();
        meetings.offer(key("1"), &path(), offer("127.0.0.1").await).unwrap();
        assert_eq!(meetings.fetch(key("1"), &path(), "ann.7@x", NEAR).await.unwrap(), RIGHT);
        let (place, second) = (path(), offer("127.0.0.1").await);
        let fetching = meetings.fetch(key("2"), &place, "ann.7@x", NEAR);
        let offering = async {
            while meetings.now().is_empty() {
                tokio::task::yield_now().await;
            }
            meetings.offer(key("2"), &place, second)
        };
        let (fetched, offered) = tokio::join!(fetching, offering);
        offered.unwrap();
        assert_eq!(fetched.unwrap(), RIGHT);
        assert!(meetings.now().is_empty());
    }

    #[tokio::test]
    async fn strangers_get_nothing() {
        let meetings = Meetings::default();
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
        let meetings = Meetings::default();
        meetings.offer(key("1"), &path(), offer("127.0.0.1").await).unwrap();
        assert!(meetings.offer(key("1"), &path(), offer("127.0.0.1").await).is_err());
        assert!(meetings.now().is_empty(), "neither offer counts");
        let unknown =
            Offer::new(RIGHT, String::new(), NEAR, "no such host".to_owned(), None).await.unwrap_err();
        assert!(unknown.what.contains("no such host") && unknown.hint.is_some());
    }

    #[tokio::test]
    async fn an_offer_ends() {
        let meetings = Meetings::default();
        let ended =
            Offer::new(RIGHT, "ann.7".to_owned(), NEAR, "127.0.0.1".to_owned(), Some(0)).await.unwrap();
        meetings.offer(key("1"), &path(), ended).unwrap();
        assert!(meetings.now().is_empty());
    }
}
