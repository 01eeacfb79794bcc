//! Running a facility: every role in one process, wired together, until it is told to stop.

use crate::{
    boot::{
        facility::FacilityHandle,
        head_host, member,
        rooms::Rooms,
        service,
        standby::{self, Start},
    },
    hosts::presence,
};
use base::{Clock, Failure, Result, Timestamp};
use disk::remote::threads::PEER_THREADS_MAX;
use net::{shutdown::Shutdown, xrd::PEER_MOVERS_MAX};
use std::{future::Future, net::IpAddr, path::Path, pin::pin, sync::Arc, time::Duration};
use tokio::signal::unix::{SignalKind, signal};
use tracing::{error, info, warn};

/// How long transfers and calls that are under way may go on after the signal to stop.
const DRAIN: Duration = Duration::from_secs(30);
/// Threads that may block at a time: those that serve files of this host, and those that wait for other servers.
const BLOCKING_THREADS_MAX: usize = 128 + PEER_MOVERS_MAX + PEER_THREADS_MAX;

/// What the command line says about the doors; the configuration says the rest.
#[derive(Debug, Clone, Default)]
pub struct Doors {
    /// Address.
    pub bind: Option<IpAddr>,
    /// Port of `root://`, 0 for any.
    pub root_port: Option<u16>,
    /// Port of `http://`, 0 for any.
    pub http_port: Option<u16>,
    /// Port of `https://`, 0 for any; any if only `http_port` is given.
    pub https_port: Option<u16>,
    /// How it starts where another head may be active.
    pub start: Start,
}

/// Runs the facility in `directory` until SIGTERM or SIGINT.
pub fn run(directory: &Path, doors: &Doors) -> Result<()> {
    let mut handle = FacilityHandle::take(directory)?;
    let config = &mut handle.config.doors;
    config.bind = doors.bind.unwrap_or(config.bind);
    config.root_port = doors.root_port.unwrap_or(config.root_port);
    // Whoever moves the one port has a reason not to use the usual ones.
    config.https_port = doors.https_port.or(doors.http_port.map(|_| 0)).unwrap_or(config.https_port);
    config.http_port = doors.http_port.unwrap_or(config.http_port);
    handle.config.check()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .thread_name("bpd")
        .enable_all()
        .build()
        .map_err(|cause| Failure::io("start the runtime", &cause))?;
    let outcome = runtime.block_on(serve(handle, doors.start));
    // A recall that a client waits for, or a stuck device, must not keep the process.
    runtime.shutdown_timeout(Duration::from_secs(1));
    outcome
}

async fn serve(handle: FacilityHandle, how: Start) -> Result<()> {
    tokio::spawn(service::keep_watchdog());
    // Signals first: one that comes during the start must not be lost.
    let mut terminate =
        signal(SignalKind::terminate()).map_err(|cause| Failure::io("catch SIGTERM", &cause))?;
    let mut interrupt =
        signal(SignalKind::interrupt()).map_err(|cause| Failure::io("catch SIGINT", &cause))?;
    let told = pin!(async {
        tokio::select! {
            _ = terminate.recv() => info!("received SIGTERM; finishing open requests"),
            _ = interrupt.recv() => info!("received SIGINT; finishing open requests"),
        }
        service::stopping();
    });
    match &*handle.config.host.head {
        "" => serve_head(handle, how, told).await,
        _ => serve_member(handle, told).await,
    }
}

/// Runs the head's host until it is `told` to stop, or another head has taken over.
async fn serve_head(
    handle: FacilityHandle,
    how: Start,
    mut told: impl Future<Output = ()> + Unpin,
) -> Result<()> {
    tokio::select! {
        turn = standby::await_turn(&handle, how) => turn?,
        () = &mut told => return Ok(()),
    }
    handle.begin()?;
    let running = head_host::start(&handle, system_clock()).await?;
    service::ready("the doors are open");
    let head = running.head.clone();
    let is_replaced = tokio::select! {
        () = told => false,
        () = head.superseded() => true,
    };
    drop(head);
    stop(&handle, running).await;
    if is_replaced {
        return Err(standby::replaced(&handle).await);
    }
    Ok(())
}

/// Runs a host that joined until it is `told` to stop.
async fn serve_member(handle: FacilityHandle, told: impl Future<Output = ()>) -> Result<()> {
    let running = member::start(&handle.layout, &handle.config, system_clock()).await?;
    handle.announce(&running.endpoints)?;
    service::ready("the doors are open");
    told.await;
    let (link, host, boot) = running.leave;
    presence::say_goodbye(link, host, boot).await;
    close(running.rooms, [running.doors, running.chores]).await;
    handle.withdraw();
    info!("host is down");
    Ok(())
}

fn system_clock() -> Clock {
    Arc::new(|| Timestamp::from_system(std::time::SystemTime::now()))
}

/// Lets transfers and calls that are under way end.
async fn drain(parts: [Shutdown; 2]) {
    for part in parts {
        if let Err(failure) = part.stop(DRAIN).await {
            warn!(%failure, "some tasks did not stop in time; no acknowledged data is lost");
        }
    }
}

/// Rooms first, so that they can still report; then the doors; then what the doors left to do.
async fn close(rooms: Rooms, [doors, chores]: [Shutdown; 2]) {
    rooms.tell();
    doors.tell();
    let joined = tokio::task::spawn_blocking(move || rooms.join(DRAIN)).await;
    let rooms = joined.unwrap_or_else(|cause| {
        Err(Failure::internal(format!(
            "the services failed unexpectedly: \
        {cause}"
        )))
    });
    if let Err(failure) = rooms {
        warn!(%failure, "some services did not stop in time; no acknowledged data is lost");
    }
    drain([doors, chores]).await;
}

/// The head last.
async fn stop(handle: &FacilityHandle, running: head_host::Running) {
    let head_host::Running { doors, chores, rooms, audit, head, head_thread } = running;
    close(rooms, [doors, chores]).await;
    audit.stop();
    handle.withdraw();
    drop(head);
    if tokio::task::spawn_blocking(move || head_thread.join()).await.is_err() {
        error!("the head's thread panicked");
    }
    info!("facility is down");
}
