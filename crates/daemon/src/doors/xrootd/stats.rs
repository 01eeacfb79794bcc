//! Attributes that were asked for lately, as long as nothing in the namespace has changed.

use crate::doors::files::answer_key;
use base::{FilePath, TwoGenerationCache};
use head::{Head, Principal};
use net::xrd::StatInfo;
use std::sync::{Mutex, PoisonError};

/// Half of the answers that are kept.
const KEPT: usize = 1 << 14;

/// Answers by user and path, with the version of the namespace at which they were right.
pub(super) struct Stats(Mutex<TwoGenerationCache<String, (u64, StatInfo)>>);

impl Stats {
    pub(super) fn new() -> Self {
        Self(Mutex::new(TwoGenerationCache::new(KEPT)))
    }

    /// The attributes, if they were asked for since the last change.
    pub(super) fn get(&self, head: &Head, who: &Principal, path: &FilePath) -> Option<StatInfo> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (version, stat) = kept.get(answer_key(who, path).as_str())?;
        (*version == head.namespace_version()).then(|| stat.clone())
    }

    /// Keeps an answer; `version` was read before the question was asked.
    pub(super) fn keep(&self, version: u64, who: &Principal, path: &FilePath, stat: &StatInfo) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.insert(answer_key(who, path), (version, stat.clone()));
    }
}
