//! A cache of attributes, valid until anything in the namespace changes.

use crate::doors::files::answer_key;
use base::{FilePath, TwoGenerationCache};
use head::{Head, Principal};
use net::xrd::StatInfo;

/// Half of the answers that are kept.
const KEPT: usize = 1 << 14;

/// Answers by user and path, with the version of the namespace at which they were right.
pub(super) struct Stats(TwoGenerationCache<String, (u64, StatInfo)>);

impl Stats {
    pub(super) fn new() -> Self {
        Self(TwoGenerationCache::new(KEPT))
    }

    /// The attributes, if they were asked for since the last change.
    pub(super) fn get(&self, head: &Head, who: &Principal, path: &FilePath) -> Option<StatInfo> {
        let (version, stat) = self.0.get(answer_key(who, path).as_str())?;
        (version == head.namespace_version()).then_some(stat)
    }

    /// Keeps an answer; `version` was read before the question was asked.
    pub(super) fn keep(&self, version: u64, who: &Principal, path: &FilePath, stat: &StatInfo) {
        self.0.insert(answer_key(who, path), (version, stat.clone()));
    }
}
