//! Delivers to a running job what the room has put into its run directory: signals, messages, another wall limit.

use super::Supervisor;
use crate::{run_dir::DeliveryReader, tree};
use rustix::process::Signal;
use std::{
    collections::VecDeque,
    fs::{self, File},
    io::Write,
};
use wire::control::Delivered;

/// Signals that wait for the program to begin: more are dropped, for no program counts them.
const WAITING_MAX: usize = 64;
/// The ends of the command lines of what is about to become the job: that stage, and before it a copy of the one that starts it.
const STARTING: [&[u8]; 2] = [b"--stage\0job\0", b"--stage\0init\0"];

/// What is to be delivered.
#[derive(Default)]
pub(super) struct Deliveries {
    reader: DeliveryReader,
    signals: VecDeque<i32>,
}

impl Supervisor<'_> {
    /// Delivers what is new.
    pub(super) fn deliver(&mut self) {
        for delivery in self.deliveries.reader.next(self.dir) {
            match delivery.what {
                Delivered::Signal(signal) if self.deliveries.signals.len() < WAITING_MAX => {
                    self.deliveries.signals.push_back(signal);
                }
                Delivered::Signal(_) => {}
                Delivered::ToStdout(text) => write_line(&self.outputs[0], &text),
                Delivered::ToStderr(text) => write_line(&self.outputs[1], &text),
                Delivered::Wall(wall) => self.wall = wall,
            }
        }
        if !self.deliveries.signals.is_empty() {
            self.send_signals();
        }
    }

    /// Sends signals to all processes of the job, once its program has begun: before that it would meet one of our stages.
    fn send_signals(&mut self) {
        let main = self.main.as_raw_nonzero().get();
        let mut processes = self.processes();
        processes.retain(|process| process.pid != main && process.parent != main);
        let is_starting = |pid: i32| {
            let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            STARTING.iter().any(|end| words.ends_with(end))
        };
        if processes.is_empty() || processes.iter().any(|process| is_starting(process.pid)) {
            return;
        }
        for signal in self.deliveries.signals.drain(..) {
            let Some(signal) = Signal::from_named_raw(signal) else { continue };
            for process in &processes {
                let _ = tree::send(*process, signal);
            }
        }
    }
}

/// Adds a line to an output. A pipe or a terminal gets none: if nobody reads it, the job would have no shepherd any more.
fn write_line(mut file: &File, text: &str) {
    if file.metadata().is_ok_and(|about| about.is_file()) {
        // The job's own file: if it is full or gone, so is what the job prints.
        let _ = file.write_all(format!("{text}\n").as_bytes());
    }
}
