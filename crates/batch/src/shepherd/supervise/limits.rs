//! Limits that nobody but the shepherd watches, and what the kernel did about memory.

use super::Supervisor;
use crate::{
    cgroup::Cgroup,
    scratch::{Scratch, measure},
};
use base::units::Size;
use std::{
    fs::File,
    time::{Duration, Instant},
};

/// Pause before scratch is measured again: a job cannot fill much in it, and a look at a big one costs reads.
pub(super) const MEASURE_EVERY: Duration = Duration::from_secs(5);
/// Times that a measurement took are waited until the next one: it never costs more than a twentieth of a CPU.
const MEASURE_SHARE: u32 = 20;

impl Supervisor<'_> {
    /// What it used too much of.
    pub(super) fn exceeded(&mut self) -> Option<String> {
        let limits = self.confinement.limits;
        let long = self.long_output();
        if long.is_some() || Instant::now() < self.measure_at {
            return long;
        }
        let began = Instant::now();
        let [tmp, var_tmp] = self.dir.temporary();
        let found = measure(&[self.dir.scratch(), tmp, var_tmp], limits.scratch_bytes);
        self.measure_at = Instant::now() + MEASURE_EVERY.max(began.elapsed() * MEASURE_SHARE);
        match found {
            Scratch::Within => None,
            Scratch::TooLarge => Some(format!(
                "its scratch and temporary directories hold more than {} ([batch] scratch)",
                Size(limits.scratch_bytes)
            )),
            Scratch::TooMany(entries) => {
                Some(format!("its scratch and temporary directories have more than {entries} entries"))
            }
            Scratch::TooDeep => {
                Some("its directories are nested too deeply to measure their size".to_owned())
            }
        }
    }

    /// Which output is longer than it may be.
    pub(super) fn long_output(&self) -> Option<String> {
        let bytes_max = self.confinement.limits.output_bytes;
        let names = ["standard output", "standard error"];
        let wish = [&self.order.files.stdout, &self.order.files.stderr];
        // Files of the host are the user's own: whatever limits those, limits these.
        let ours = self.outputs.iter().zip(names).zip(wish).filter(|(_, wish)| wish.is_none());
        let is_long = |file: &File| file.metadata().is_ok_and(|about| about.len() > bytes_max);
        let ((_, name), _) = ours.into_iter().find(|((file, _), _)| is_long(file))?;
        Some(format!("{name} is longer than {} ([batch] output)", Size(bytes_max)))
    }

    /// What to say if the kernel has killed a process of the job for its memory. A child is enough: whatever it was to do is not
    /// done, and few programs look.
    pub(super) fn out_of_memory(&self) -> Option<String> {
        let killed = self.group.as_ref().map_or(0, Cgroup::killed_for_memory);
        let limit = Size(self.order.memory_bytes);
        match (killed, self.order.memory_bytes) {
            (0, _) => None,
            (_, 0) => Some(
                "memory: the kernel killed one of its processes, because the host was out of memory"
                    .to_owned(),
            ),
            _ => Some(format!(
                "memory: the kernel killed one of its processes, because the job used more than {limit} (`bp \
                    submit --memory`)"
            )),
        }
    }
}
