//! The tape server: a thread for each drive, and one that watches them.
//!
//! A drive's thread registers the drive, asks the head what to do, does it, and asks again. The supervisor tells the
//! head every second how far each session is, and the operator when a drive hangs. No state outlives a thread: what
//! is loaded where, the library knows; what is to be done, the head.

mod supervisor;

use crate::{
    activity::Activity,
    changer::Element,
    copier::Disk,
    devices::Devices,
    drive::{Identity, TapeDrive},
    loading::{self, Robot},
    session::{self, Bay, Head, LabelStyle},
    watchdog::{Deadlines, Watchdog, WatchedDrive},
};
use base::{Failure, Millis, Result, Vid};
use client::{Stop, control::WAIT_MAX};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread,
    time::{Duration, Instant},
};
use supervisor::{Exit, Supervisor, WatchedSession};
use tracing::{error, info, warn};
use wire::control::{
    Cartridge, CartridgeRefused, DriveContent, DriveDevice, NextTapeSession, RegisterLibrary, TapeOrders,
};

/// First and longest wait after the head or the library could not be asked.
const RETRY_WAIT: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(15));

/// The settings of the tape server.
#[derive(Debug, Clone)]
pub struct RoomConfig {
    /// What goes into the labels.
    pub labels: LabelStyle,
    /// Bytes that a cartridge can hold of which the library does not know more.
    pub cartridge_bytes: u64,
    /// How long one question for work may wait for an answer. A stop does not wait for it.
    pub poll: Millis,
    /// How long a drive without work keeps its volume: others may want it, and it wears.
    pub idle_unload: Duration,
    /// How long a drive may take.
    pub deadlines: Deadlines,
}

impl RoomConfig {
    /// The usual times.
    #[must_use]
    pub fn new(labels: LabelStyle, cartridge_bytes: u64) -> Self {
        Self {
            labels,
            cartridge_bytes,
            poll: WAIT_MAX,
            idle_unload: Duration::from_secs(120),
            deadlines: Deadlines::default(),
        }
    }
}

/// A running tape server. Dropping it tells the threads to stop without waiting for them.
pub struct TapeRoom {
    stop: Stop,
    /// Closed when the last thread has ended.
    ended: Receiver<()>,
}

impl TapeRoom {
    /// Starts the threads of a library whose devices are open.
    pub fn start<H: Head, D: Disk>(config: RoomConfig, devices: Devices, head: H, disk: D) -> Result<Self> {
        let (ending, ended) = channel();
        // Dropped if a thread cannot be started, and then tells those that run.
        let room = Self { stop: Stop::default(), ended };
        launch(config, devices, head, disk, &room.stop, ending)?;
        Ok(room)
    }

    /// Starts the library that `open` opens, as soon as that can be done: what cannot be reached now is tried again.
    pub fn start_when_reached<H: Head, D: Disk>(
        library: String,
        config: RoomConfig,
        open: impl Fn() -> Result<Devices> + Send + Sync + 'static,
        head: H,
        disk: D,
    ) -> Result<Self> {
        let (ending, ended) = channel();
        let room = Self { stop: Stop::default(), ended };
        let stop = room.stop.clone();
        let open = Arc::new(open);
        start_thread(format!("tape-open-{library}"), move || {
            let Some(devices) = open_at_last(&library, &open, &stop) else { return };
            if let Err(failure) = launch(config, devices, head, disk, &stop, ending) {
                error!(%library, cause = %failure, "cannot start the tape library; restart the tape server");
                // Nobody watches the drives whose threads have been started.
                stop.set();
            }
        })?;
        Ok(room)
    }

    /// Tells the threads to stop, without waiting.
    pub fn tell(&self) {
        self.stop.set();
    }

    /// Tells the threads to stop and waits until they have; `Timeout` if they have not within `deadline`.
    ///
    /// A session ends at the next block; its unfinished requests go back to the queue. Media stay in the drives.
    pub fn stop(self, deadline: Duration) -> Result<()> {
        self.tell();
        match self.ended.recv_timeout(deadline) {
            Err(RecvTimeoutError::Timeout) => {
                Err(Failure::timeout("a tape drive is still working at shutdown")
                    .hint("data that it had not flushed will be written again"))
            }
            _ => Ok(()),
        }
    }
}

impl Drop for TapeRoom {
    fn drop(&mut self) {
        self.tell();
    }
}

/// Opens the devices of a library; tries again while they cannot be reached. `None`: it is time to stop.
fn open_at_last(
    library: &str,
    open: &Arc<impl Fn() -> Result<Devices> + Send + Sync + 'static>,
    stop: &Stop,
) -> Option<Devices> {
    let (mut wait, mut told) = (RETRY_WAIT.0, String::new());
    loop {
        let open = Arc::clone(open);
        // A stop does not wait for a target that does not answer.
        match stop.ask("tape-open", move || open())? {
            Ok(devices) => {
                info!(%library, drives = devices.drives.len(), "tape library opened");
                return Some(devices);
            }
            Err(failure) => {
                let cause = failure.to_string();
                if cause != told {
                    error!(%library, %cause, hint = failure.hint, "cannot open the tape library; trying again");
                    told = cause;
                }
            }
        }
        if stop.wait(wait) {
            return None;
        }
        wait = (wait * 2).min(RETRY_WAIT.1);
    }
}

/// Starts the threads of a library. `ending` is dropped when the last of them has ended.
fn launch<H: Head, D: Disk>(
    config: RoomConfig,
    devices: Devices,
    head: H,
    disk: D,
    stop: &Stop,
    ending: Sender<()>,
) -> Result<()> {
    let Devices { drives, changer } = devices;
    let (robot, head, disk) = (Robot::new(changer), Arc::new(head), Arc::new(disk));
    let (exit, exits) = channel();
    let mut watched = Vec::new();
    let is_library_known = Arc::new(Mutex::new(false));
    let known: Arc<[KnownDrive]> = drives.iter().map(|drive| KnownDrive::of(drive.as_ref())).collect();
    for drive in drives {
        let (watchdog, activity) = (Watchdog::new(config.deadlines), Activity::default());
        let name = drive.name().to_owned();
        watched.push(WatchedSession {
            name: name.clone(),
            watchdog: watchdog.clone(),
            activity: activity.clone(),
        });
        let bay = Bay {
            drive: WatchedDrive::new(drive, watchdog.clone()),
            watchdog,
            robot: robot.clone(),
            head: Arc::clone(&head),
            disk: Arc::clone(&disk),
            style: config.labels.clone(),
            activity,
            stop: stop.clone(),
        };
        let thread = DriveThread {
            bay,
            config: config.clone(),
            registered: None,
            idle_since: Instant::now(),
            drives: Arc::clone(&known),
            is_library_known: Arc::clone(&is_library_known),
        };
        let exit = Exit { drive: name.clone(), exit: exit.clone() };
        start_thread(format!("tape-{name}"), move || {
            let _exit = exit;
            thread.run();
        })?;
    }
    let supervisor = Supervisor { watched, head, stop: stop.clone(), exits };
    start_thread("tape-supervisor".to_owned(), move || {
        let _ending: Sender<()> = ending;
        supervisor.run();
    })?;
    Ok(())
}

fn start_thread(name: String, body: impl FnOnce() + Send + 'static) -> Result<()> {
    let started = thread::Builder::new().name(name.clone()).spawn(body);
    started.map(|_| ()).map_err(|cause| Failure::io(format!("start thread {name}"), &cause))
}

/// What the head is told of a drive.
struct KnownDrive {
    name: String,
    device: DriveDevice,
}

impl KnownDrive {
    fn of(drive: &dyn TapeDrive) -> Self {
        let Identity { vendor, model, serial } = drive.identity();
        let device = DriveDevice {
            vendor: vendor.to_string(),
            model: model.to_string(),
            serial: serial.to_string(),
            address: drive.address(),
        };
        Self { name: drive.name().to_owned(), device }
    }
}

/// The life of one drive.
struct DriveThread<H, D> {
    bay: Bay<H, D>,
    config: RoomConfig,
    /// The cartridges that the head was told of; `None` if it must be told.
    registered: Option<BTreeMap<Vid, u64>>,
    idle_since: Instant,
    /// All drives of the room.
    drives: Arc<[KnownDrive]>,
    /// Whether all of them were registered once. Held during that call; the robot's lock is taken under it.
    is_library_known: Arc<Mutex<bool>>,
}

impl<H: Head, D: Disk> DriveThread<H, D> {
    fn run(mut self) {
        let mut wait = RETRY_WAIT.0;
        while !self.bay.stop.is_set() {
            match self.turn() {
                Ok(()) => wait = RETRY_WAIT.0,
                Err(failure) => {
                    self.registered = None;
                    if wait == RETRY_WAIT.0 && !self.bay.stop.is_set() {
                        warn!(drive = self.bay.drive.name(), cause = %failure, "drive could not get work; retrying");
                    }
                    self.bay.stop.wait(wait);
                    wait = (wait * 2).min(RETRY_WAIT.1);
                }
            }
        }
    }

    /// Asks once for work, and does it.
    fn turn(&mut self) -> Result<()> {
        let drive = self.bay.drive.name().to_owned();
        let (inventory, here) = self.bay.robot.look(&drive)?;
        let capacity = |element: &Element| element.capacity_bytes.unwrap_or(self.config.cartridge_bytes);
        let cartridges: BTreeMap<Vid, u64> = inventory
            .into_iter()
            .filter_map(|element| element.vid.clone().map(|vid| (vid, capacity(&element))))
            .collect();
        if self.registered.as_ref() != Some(&cartridges) {
            self.register(&drive, &cartridges)?;
            self.registered = Some(cartridges);
        }
        let has_medium = here.is_full;
        let loaded = here.vid;
        let Some(orders) = self.ask(NextTapeSession { drive: drive.clone(), loaded }) else { return Ok(()) };
        let orders = orders?;
        for vid in orders.insert {
            self.insert(&drive, vid)?;
        }
        if let Some(session) = orders.session {
            session::run(&mut self.bay, &session);
            self.idle_since = Instant::now();
        } else if has_medium && (orders.unload || self.idle_since.elapsed() >= self.config.idle_unload) {
            let Bay { robot, drive, watchdog, .. } = &mut self.bay;
            loading::put_away(robot, drive, watchdog)?;
        }
        Ok(())
    }

    /// Gets a cartridge for a volume that was added, or says why there is none.
    fn insert(&self, drive: &str, vid: Vid) -> Result<()> {
        let inserted = self.bay.robot.lock().insert(std::slice::from_ref(&vid));
        let Err(failure) = inserted else { return Ok(()) };
        let refused = CartridgeRefused { drive: drive.to_owned(), vid, failure };
        self.bay.head.call(&refused, Millis(0)).map(drop)
    }

    /// Asks for work until there is some, the drive is to be unloaded, or it is time to stop: `None`. Work that is given to nobody is
    /// given again, as the head sees that the drive never had it.
    fn ask(&self, call: NextTapeSession) -> Option<Result<TapeOrders>> {
        let until_unload = self.config.idle_unload.saturating_sub(self.idle_since.elapsed());
        let until_unload = Millis(i64::try_from(until_unload.as_millis()).unwrap_or(i64::MAX).max(1));
        let wait = match call.loaded {
            Some(_) => self.config.poll.min(until_unload),
            None => self.config.poll,
        };
        let head = Arc::clone(&self.bay.head);
        self.bay.stop.ask("tape-call", move || head.call(&call, wait))
    }

    /// Registers all drives the first time, before any of them has asked for work, so that none is sent for a volume
    /// that lies in another; later only this one, for a drive that is in a session would lose it.
    fn register(&self, drive: &str, cartridges: &BTreeMap<Vid, u64>) -> Result<()> {
        let mut is_known = self.is_library_known.lock().unwrap_or_else(PoisonError::into_inner);
        let is_wanted = |known: &&KnownDrive| !*is_known || known.name == drive;
        let content = |drive: &KnownDrive| {
            let (_, here) = self.bay.robot.look(&drive.name)?;
            let (drive, device) = (drive.name.clone(), drive.device.clone());
            Ok(DriveContent { drive, loaded: here.vid, device })
        };
        let drives = self.drives.iter().filter(is_wanted).map(content).collect::<Result<Vec<_>>>()?;
        let cartridge = |(vid, bytes): (&Vid, &u64)| Cartridge { vid: vid.clone(), capacity_bytes: *bytes };
        let library = self.bay.robot.library();
        info!(%library, drives = drives.len(), cartridges = cartridges.len(), "tape library registered with the head");
        let register =
            RegisterLibrary { library, drives, cartridges: cartridges.iter().map(cartridge).collect() };
        self.bay.head.call(&register, Millis(0))?;
        *is_known = true;
        Ok(())
    }
}

#[cfg(test)]
#[path = "room_tests.rs"]
mod tests;
