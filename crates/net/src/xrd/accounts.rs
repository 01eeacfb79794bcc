//! Bounds the answers that peers do not read, over all sessions of one user.
//!
//! `limits.rs` bounds each session; this bounds users who have many. A user whose peers do not read waits for their own
//! answers, and no other user is affected.

use super::limits::{ACCOUNT_BYTES_MAX, ACCOUNT_LATE_LISTINGS_MAX, ACCOUNT_LISTINGS_MAX};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Accounts without a session that are kept at most, and then forgotten together.
const FORGOTTEN_LEN: usize = 1024;

/// The budget that the sessions of one user share.
#[derive(Debug)]
pub(super) struct Account {
    budget: Arc<Semaphore>,
    listings: Arc<Semaphore>,
    /// Listings that are kept whole.
    pub(super) late_listings: Semaphore,
}

impl Account {
    fn new() -> Self {
        let budget = Arc::new(Semaphore::new(ACCOUNT_BYTES_MAX));
        let listings = Arc::new(Semaphore::new(ACCOUNT_LISTINGS_MAX));
        Self { budget, listings, late_listings: Semaphore::new(ACCOUNT_LATE_LISTINGS_MAX) }
    }

    /// Waits until there is budget for a large answer. `None` never comes: nobody closes the semaphore.
    pub(super) async fn take_budget(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let bytes = bytes.min(ACCOUNT_BYTES_MAX) as u32;
        Arc::clone(&self.budget).acquire_many_owned(bytes).await.ok()
    }

    /// Waits until one more listing may be under way. `None` never comes.
    pub(super) async fn begin_listing(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.listings).acquire_owned().await.ok()
    }
}

/// The accounts of a door, as long as they have sessions.
#[derive(Debug, Default)]
pub(super) struct Accounts(Mutex<HashMap<String, Weak<Account>>>);

impl Accounts {
    /// The account of a user; a session whose user has no name has one of its own.
    pub(super) fn of(&self, user: Option<&str>) -> Arc<Account> {
        let Some(user) = user else { return Arc::new(Account::new()) };
        let mut accounts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = accounts.get(user).and_then(Weak::upgrade) {
            return known;
        }
        if accounts.len() >= FORGOTTEN_LEN {
            accounts.retain(|_, account| account.strong_count() > 0);
        }
        let account = Arc::new(Account::new());
        accounts.insert(user.to_owned(), Arc::downgrade(&account));
        account
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xrd::outbox::Outbox;
    use std::{future::Future, pin::pin, task::Poll};
    use wire::xrd::{Answer, StreamId};

    #[test]
    fn sessions_of_a_user_share_an_account_as_long_as_there_are_any() {
        let accounts = Accounts::default();
        let ann = accounts.of(Some("ann"));
        assert!(Arc::ptr_eq(&ann, &accounts.of(Some("ann"))));
        assert!(
            !Arc::ptr_eq(&ann, &accounts.of(Some("bob")))
                && !Arc::ptr_eq(&accounts.of(None), &accounts.of(None))
        );
        for number in 0..2 * FORGOTTEN_LEN {
            accounts.of(Some(&number.to_string()));
        }
        assert!(Arc::ptr_eq(&ann, &accounts.of(Some("ann"))));
        assert!(accounts.0.lock().unwrap().len() <= FORGOTTEN_LEN + 1);
    }

    /// Whether an answer of this many bytes fits into the budget now.
    async fn is_taken(outbox: &Outbox, bytes: usize) -> bool {
        // A task that does much is made to wait now and then, whether there is budget or not.
        tokio::task::yield_now().await;
        let mut send = pin!(outbox.send(StreamId::of(1), Answer::Ok(vec![0; bytes])));
        std::future::poll_fn(|context| Poll::Ready(send.as_mut().poll(context).is_ready())).await
    }

    #[tokio::test]
    async fn unread_answers_of_a_user_are_bounded_over_all_sessions() {
        let accounts = Accounts::default();
        let sessions: Vec<_> = (0..100).map(|_| Outbox::new(accounts.of(Some("ann")))).collect();
        let mut taken = 0;
        for session in &sessions {
            while is_taken(session, 1 << 20).await {
                taken += 1 << 20;
            }
        }
        assert!((ACCOUNT_BYTES_MAX - (1 << 20)..=ACCOUNT_BYTES_MAX).contains(&taken), "{taken}");
        // Small answers are bounded by their number; those of others are not concerned.
        assert!(is_taken(&sessions[99], 100).await);
        assert!(is_taken(&Outbox::new(accounts.of(Some("bob"))), 1 << 20).await);
        // What is read frees budget.
        drop(sessions[0].take());
        drop(sessions[0].take());
        assert!(is_taken(&sessions[0], 1 << 20).await);
    }

    #[tokio::test]
    async fn listings_of_a_user_wait_for_each_other() {
        let account = Account::new();
        let mut held = Vec::new();
        for _ in 0..ACCOUNT_LISTINGS_MAX {
            held.push(account.begin_listing().await);
        }
        let mut next = pin!(account.begin_listing());
        let is_ready = std::future::poll_fn(|context| Poll::Ready(next.as_mut().poll(context).is_ready()));
        assert!(!is_ready.await);
        held.pop();
        assert!(next.await.is_some());
    }
}
