//! Chooses the sources of a new piece.

use crate::pool::decide::{
    budget::{Budget, Reason, Source},
    view::{FileView, Layout, PieceView, Snapshot},
};

/// The source of a piece.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fetch {
    /// From one piece like it, or from as many different ones as give the file.
    From(Vec<Source>),
    /// There are such pieces, but their servers have enough to do.
    Later,
    /// There are none that are good.
    Never,
}

/// Finds what to make piece `index` from: good pieces at the least busy servers that the budget allows.
pub(crate) fn fetch(
    snapshot: &Snapshot,
    file: &FileView,
    index: u8,
    reason: Reason,
    budget: &Budget,
) -> Fetch {
    let mut good: Vec<_> = file.pieces.iter().filter(|piece| snapshot.is_good(piece)).collect();
    good.sort_by_key(|piece| {
        let busy = snapshot.partition(&piece.partition).map_or(u32::MAX, |partition| partition.busy);
        (busy, piece.object)
    });
    let allowed = good.iter().filter_map(|piece| {
        let source = source(snapshot, piece)?;
        budget.allows_at(reason, &source.server, piece.size_bytes).then_some(source)
    });
    let allowed: Vec<_> = allowed.collect();
    if let Some(like) = allowed.iter().find(|source| source.index == index) {
        return Fetch::From(vec![like.clone()]);
    }
    if good.iter().any(|piece| piece.index == index) {
        return Fetch::Later;
    }
    if matches!(file.layout, Layout::Copies(_)) {
        return Fetch::Never;
    }
    let needed = usize::from(file.layout.needed());
    let different = firsts(allowed, |source| source.index);
    if different.len() >= needed {
        return Fetch::From(different.into_iter().take(needed).collect());
    }
    if firsts(good, |piece| piece.index).len() >= needed { Fetch::Later } else { Fetch::Never }
}

pub(in crate::pool) fn source(snapshot: &Snapshot, piece: &PieceView) -> Option<Source> {
    let server = snapshot.partition(&piece.partition)?.server.clone();
    Some(Source { object: piece.object, partition: piece.partition.clone(), server, index: piece.index })
}

/// The first of each index.
fn firsts<T>(items: Vec<T>, index: impl Fn(&T) -> u8) -> Vec<T> {
    let mut found: Vec<T> = Vec::new();
    for item in items {
        if !found.iter().any(|known| index(known) == index(&item)) {
            found.push(item);
        }
    }
    found
}
