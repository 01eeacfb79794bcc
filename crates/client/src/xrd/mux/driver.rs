//! The thread that receives while tasks wait, because tasks must not.

use super::{Mux, table::Table};
use crate::xrd::process::lock;
use base::Failure;
use std::{sync::Arc, thread, time::Duration};

/// How long the thread stays when no task waits: the next one is often near.
const LINGER: Duration = Duration::from_secs(2);
/// Longest sleep while another thread receives.
const TICK: Duration = Duration::from_secs(1);

impl Mux {
    /// Sees to it that somebody receives for tasks.
    pub(super) fn drive(mux: &Arc<Self>, table: &mut Table) {
        if let Some(driver) = &table.driver {
            if !table.is_led {
                driver.unpark();
            }
            return;
        }
        let own = Arc::clone(mux);
        let builder = thread::Builder::new().name("xrd-driver".to_owned());
        match builder.spawn(move || own.receive_for_tasks()) {
            Ok(handle) => table.driver = Some(handle.thread().clone()),
            Err(cause) => {
                table.break_off(Failure::io("start a thread that receives", &cause));
            }
        }
    }

    fn receive_for_tasks(&self) {
        let mut has_lingered = false;
        let mut table = lock(&self.table);
        loop {
            if table.broken.is_some() || (table.tasks == 0 && has_lingered) {
                table.driver = None;
                table.hand_on();
                return;
            }
            has_lingered = table.tasks == 0;
            if table.is_led || table.tasks == 0 {
                let pause = if table.tasks == 0 { LINGER } else { TICK };
                drop(table);
                thread::park_timeout(pause);
                table = lock(&self.table);
                continue;
            }
            table.is_led = true;
            drop(table);
            let led = self.lead(&|table| table.tasks == 0 || table.broken.is_some(), &mut []);
            table = lock(&self.table);
            table.is_led = false;
            if let Err(failure) = led {
                table.break_off(failure);
                self.transport.shut();
            }
            table.hand_on();
        }
    }
}
