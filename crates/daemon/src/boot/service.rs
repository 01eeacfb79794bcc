//! Reports to the service manager: sd_notify(3), and log lines with priorities for the journal.

use sd_notify::NotifyState;
use std::{fmt, io, os::fd::AsFd};
use tracing::{Event, Level, Subscriber, debug};
use tracing_subscriber::{
    fmt::{
        FmtContext, FormatEvent, FormatFields,
        format::{self, Format, Full, Writer},
    },
    registry::LookupSpan,
};

/// The log, on standard error: a line for each event, in which nothing stands that a terminal would obey. Fields hold names and
/// reasons that others chose.
#[derive(Debug)]
pub struct SafeLines;

impl SafeLines {
    /// The log.
    #[must_use]
    pub fn new() -> Self {
        Self
    }
}

impl Default for SafeLines {
    fn default() -> Self {
        Self::new()
    }
}

impl io::Write for SafeLines {
    /// Writes one event, which comes as a whole.
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        io::Write::write_all(&mut io::stderr(), safe(&String::from_utf8_lossy(event)).as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::Write::flush(&mut io::stderr())
    }
}

/// An event without anything that a terminal would obey, but the end of its line.
fn safe(event: &str) -> String {
    let (text, end) = event.strip_suffix('\n').map_or((event, ""), |text| (text, "\n"));
    format!("{}{end}", base::shown(text))
}

/// Tells that the start is over, and what is done now.
pub(crate) fn ready(status: &str) {
    tell(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// Tells that the doors are being closed.
pub(crate) fn stopping() {
    tell(&[NotifyState::Stopping]);
}

/// Tells again and again that tasks still run, if the manager wants to hear it. Ends with the process.
pub(crate) async fn keep_watchdog() {
    let Some(patience) = sd_notify::watchdog_enabled() else { return };
    loop {
        tell(&[NotifyState::Watchdog]);
        tokio::time::sleep(patience / 3).await;
    }
}

/// Without a manager nobody is told; one that does not listen changes nothing for the facility.
fn tell(state: &[NotifyState<'_>]) {
    if let Err(failure) = sd_notify::notify(state) {
        debug!(%failure, "could not notify the service manager");
    }
}

/// Whether what is printed to standard error goes to the journal: systemd names the device and the inode of its socket.
#[must_use]
pub fn is_logged_by_journal() -> bool {
    let Ok(stream) = std::env::var("JOURNAL_STREAM") else { return false };
    rustix::fs::fstat(io::stderr().as_fd())
        .is_ok_and(|stat| stream == format!("{}:{}", stat.st_dev, stat.st_ino))
}

/// Lines for the journal, which adds time and process itself and wants to know how serious each is (sd-daemon(3)).
#[derive(Debug)]
pub struct JournalLines(Format<Full, ()>);

impl Default for JournalLines {
    fn default() -> Self {
        Self(format::format().without_time().with_level(false).with_ansi(false))
    }
}

impl<S, N> FormatEvent<S, N> for JournalLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        write!(writer, "<{}>", priority(*event.metadata().level()))?;
        self.0.format_event(context, writer, event)
    }
}

/// The priorities of syslog(3).
fn priority(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        _ => 7,
    }
}
