//! What is done to runs: reruns, signals, messages.

use crate::{Apply, Context, Core};
use base::{Failure, Result};
use wire::control::{JobOutcomes, MessageJobs, RerunJobs, SignalJobs};

macro_rules! not_yet {
    ($call:ident) => {
        impl Apply for $call {
            fn apply(self, _: &mut Core, _: &Context) -> Result<JobOutcomes> {
                Err(Failure::invalid(concat!(stringify!($call), " is not there yet")))
            }
        }
    };
}
not_yet!(MessageJobs);
not_yet!(RerunJobs);
not_yet!(SignalJobs);
