//! The order in which the files of a session are read: pure.

use super::{
    plan::{VolumeView, Work},
    serpentine::{COMPARISONS_MAX, Extent, Serpentine},
};
use base::RequestId;
use std::collections::HashSet;

/// Puts the files of a session into the order in which they are read soonest: that of the model if the volume is a serpentine
/// tape, that of the tape otherwise. Files of a bundle follow each other.
pub(super) fn order(volume: &VolumeView, work: &[&Work], chosen: &[RequestId]) -> Vec<RequestId> {
    let chosen: HashSet<_> = chosen.iter().copied().collect();
    let mut files: Vec<_> = work.iter().copied().filter(|work| chosen.contains(&work.id)).collect();
    let place = |work: &Work| work.target.as_ref().map(|target| (target.block, target.offset));
    files.sort_by_key(|work| place(work));
    let block = |work: &Work| work.target.as_ref().map(|target| target.block);
    let tape_files: Vec<&[&Work]> = files.chunk_by(|one, next| block(one) == block(next)).collect();
    let ids = |files: &[&Work]| files.iter().map(|work| work.id).collect::<Vec<_>>();
    let Some(model) = Serpentine::new(volume.used_bytes.saturating_add(volume.free_bytes)) else {
        return ids(&files);
    };
    // Objects are numbered, not measured: on the average each takes as much.
    let bytes_per_object = volume.used_bytes as f64 / volume.end_block.max(1) as f64;
    let extents: Vec<_> = tape_files
        .iter()
        .map(|files| {
            let start = block(files[0]).map_or(0, |block| (block as f64 * bytes_per_object) as u64);
            let bytes = files.iter().map(|work| work.size).fold(0, u64::saturating_add);
            Extent { start, end: start.saturating_add(bytes) }
        })
        .collect();
    let order = model.order(&extents, COMPARISONS_MAX);
    order.into_iter().flat_map(|place| ids(tape_files[place])).collect()
}
