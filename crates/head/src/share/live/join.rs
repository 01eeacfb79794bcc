//! Columns of a striped file become one object when it is sealed.
//!
//! A disk server reads all columns and writes the object, which has a number of its own. It counts once the head knows its sums; then
//! the columns go. Whatever stops meanwhile, they are there still, and it is ordered once more.

use super::copies::layout;
use crate::{
    Context, Core,
    namespace::path_of,
    pool::{Reserve, choose_partition, is_away, pool_of_live},
    share::{put, waits},
    store::{JoinedObject, LiveContent, Node, ReplicaState, SharedFile},
    waiters::Awaited,
};
use ::share::Mode;
use base::{ErrorKind, Result};
use wire::control::LiveOrder;

/// The order for a partition to make one object of the columns of a file, if it is the one that was chosen for it.
pub(super) fn join_order(
    core: &mut Core,
    (node, mut shared): (&Node, SharedFile),
    partition: &str,
    context: &Context,
) -> Result<Option<LiveOrder>> {
    let Some(live) = &shared.live else { return Ok(None) };
    let joined = match &live.joined {
        Some(joined) if !is_away(core, &joined.partition, context.now)? => joined.clone(),
        before => {
            let before = before.clone();
            let Some(joined) = choose(core, node, live, context)? else { return Ok(None) };
            if let Some(before) = before {
                core.store.remove_object(&before.partition, before.object, node.size)?;
                core.live.share.forget_object(before.object);
            }
            if let Some(live) = &mut shared.live {
                live.joined = Some(joined.clone());
                live.is_sealing = true;
            }
            put(core, node.id, &shared, context.now)?;
            core.store.note_changed(Awaited::LiveOrders);
            joined
        }
    };
    if joined.partition != partition {
        return Ok(None);
    }
    let path = path_of(core, node.id)?;
    let asked = (Mode::Read, shared.grants.newest());
    let mut layout = layout(core, (node, &path), &shared, asked, context.now)?;
    if shared.live.as_ref().is_some_and(|live| live.is_uneven) {
        // Two copies that differ must not be mixed.
        layout.columns.iter_mut().for_each(|copies| copies.truncate(1));
    }
    let content = shared.live.as_ref().map_or(0, |live| live.object.0);
    Ok(Some(LiveOrder::Join {
        object: joined.object,
        content,
        file: node.id,
        path,
        holder: node.holder(),
        size: node.size,
        layout,
    }))
}

/// Chooses where the object is made. None: nowhere is space for it now.
fn choose(
    core: &mut Core,
    node: &Node,
    live: &LiveContent,
    context: &Context,
) -> Result<Option<JoinedObject>> {
    let Some(copy) = live.copies.first() else { return Ok(None) };
    let pool = pool_of_live(core, &copy.partition)?;
    let reserve = Reserve {
        file: node.id,
        owner: &node.owner,
        bytes: node.size,
        state: ReplicaState::Writing,
        on: None,
        pool: Some(&pool.name),
    };
    match choose_partition(core, &reserve, context.now) {
        Ok(partition) => Ok(Some(JoinedObject { object: core.store.next_object()?, partition })),
        Err(failure) if matches!(failure.kind, ErrorKind::NoSpace | ErrorKind::Unavailable) => {
            core.look_again_in(waits::LOOK);
            Ok(None)
        }
        Err(failure) => Err(failure),
    }
}
