//! What is done to jobs that exist: holds, moves, changes.

use crate::{Apply, Context, Core};
use base::{Failure, Result};
use wire::control::{AlterJobs, CancelJobs, HoldJobs, JobOutcomes, MoveJobs, ReleaseJobs};

macro_rules! not_yet {
    ($call:ident) => {
        impl Apply for $call {
            fn apply(self, _: &mut Core, _: &Context) -> Result<JobOutcomes> {
                Err(Failure::invalid(concat!(stringify!($call), " is not there yet")))
            }
        }
    };
}
not_yet!(AlterJobs);
not_yet!(CancelJobs);
not_yet!(HoldJobs);
not_yet!(MoveJobs);
not_yet!(ReleaseJobs);
