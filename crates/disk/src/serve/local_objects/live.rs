//! Opens objects that change in place, by capability.

use super::Objects;
use crate::{
    ObjectReader,
    serve::{live_file::LiveFile, traffic::Traffic},
};
use base::{Failure, Result};
use net::blocking;
use share::Generation;
use std::sync::Arc;
use wire::{
    auth::capability::{Access, Cap},
    control::{BeginLive, LiveBase},
};

impl Objects {
    /// Opens an object that changes in place. One that nobody has begun begins with what the head says; to a reader it is empty if
    /// that is nothing.
    pub(super) async fn live_cap(&self, cap: &Cap, door: Arc<Traffic>) -> Result<LiveFile> {
        let (partition, object) = (self.partition(&cap.partition)?, cap.object);
        let kept = Arc::clone(&partition);
        let live = blocking(move || kept.live(object)).await?;
        // A removal that comes later finds the object open.
        self.withdrawn.refuse(object)?;
        let grant = (cap.access == Access::Live).then_some(Generation(cap.generation));
        let is_begun = live.is_begun();
        if is_begun && grant.is_some() {
            // The head knows no more of one that is sealed.
            live.check_open()?;
        }
        if !is_begun || (grant.is_some() && !live.is_told()) {
            let start = Some(live.start()?);
            let told = self.head.insist(BeginLive { object, start }).await?;
            let LiveBase { object: base, size, label, floor } = told;
            let told = Arc::clone(&live);
            blocking(move || {
                told.tell(floor);
                Ok(())
            })
            .await?;
            if !is_begun && (base.is_some() || grant.is_some()) {
                let begun = Arc::clone(&live);
                blocking(move || {
                    let base = base.map(|base| partition.open_object(base)).transpose()?;
                    check_base(base.as_deref(), size)?;
                    begun.begin(base.as_deref(), label.as_ref())
                })
                .await?;
            }
        }
        if grant.is_some() {
            live.check_open()?;
        }
        let meter = self.meter(&cap.user, object, Arc::clone(&door));
        Ok(LiveFile::new(live, cap, grant, meter, door))
    }
}

/// Refuses an object that is not the one with which the head wants to begin.
fn check_base(base: Option<&ObjectReader>, size: u64) -> Result<()> {
    match base {
        Some(base) if base.size() != size => {
            let info = base.info();
            let what = format!("object {} has {} bytes, the catalogue says {size}", info.object, info.size);
            Err(Failure::corrupt(what).hint("run `bp scan` on its partition"))
        }
        _ => Ok(()),
    }
}
