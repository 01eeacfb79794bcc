//! The operator console: one page that shows the whole facility and keeps itself up to date.
//!
//! [`page`] is served at `/console`. It listens to `/console/events`, a stream of server-sent events whose data is
//! [`event_data`]. Send one after each change and at least every [`EVENT_INTERVAL_MAX`], because the page takes a
//! silent stream for lost. Everything is a pure function of [`Shown`]; maud escapes all text.

mod batch;
mod disk;
mod events;
#[cfg(test)]
pub(crate) mod example;
pub mod listing;
mod overview;
mod share;
mod tape;
#[cfg(test)]
mod tests;
mod words;

use base::Millis;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use wire::control::{Bill, Event, Mounts, Status};

/// Events to show on the page: a screen has no room for more.
pub const EVENTS_SHOWN: usize = events::SHOWN;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("live.js");

/// Longest pause between two events; the page waits three times as long before it shows "disconnected".
pub const EVENT_INTERVAL_MAX: Millis = Millis::from_seconds(5);

/// `Content-Security-Policy` to send with the page: nothing is loaded, nothing is sent elsewhere.
pub const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
                                           connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; \
                                           frame-ancestors 'none'";

/// A drive bay, drawn: the page needs no second request.
const ICON: &str = "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Crect width='16' \
                    height='16' rx='3' fill='%232563eb'/%3E%3Cg fill='white'%3E%3Crect x='3' y='3' width='10' height='2.4' \
                    rx='1'/%3E%3Crect x='3' y='6.8' width='10' height='2.4' rx='1'/%3E%3Crect x='3' y='10.6' width='6' \
                    height='2.4' rx='1'/%3E%3C/g%3E%3C/svg%3E";

/// What the page shows.
#[derive(Debug)]
pub struct Shown {
    /// Pools, tape, jobs, hosts.
    pub status: Status,
    /// What was used.
    pub bill: Bill,
    /// Sessions of mounts.
    pub mounts: Mounts,
    /// The newest events.
    pub events: Vec<Event>,
}

/// The whole page.
#[must_use]
pub fn page(shown: &Shown) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (shown.status.name) " · Backplane" }
                link rel="icon" href=(ICON);
                style { (PreEscaped(STYLE)) }
            }
            body {
                div #lost role="alert" hidden { "disconnected; this page shows the facility as of " time #seen { "the start" } }
                main #live { (fragment(shown)) }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    }
}

/// What changes: everything inside the page's `main`.
#[must_use]
pub fn fragment(shown: &Shown) -> Markup {
    let Shown { status, bill, mounts, events } = shown;
    html! {
        (overview::header(status))
        (overview::tiles(status))
        (overview::attention(status))
        div.columns {
            (tape::drives(status))
            div {
                (disk::pools(status))
                (batch::workers(status))
            }
        }
        (events::events(status, events))
        (tape::queue(status))
        (batch::jobs(status))
        (share::mounts(status, mounts))
        (tape::volumes(status))
        (batch::bill(bill))
    }
}

/// The fragment as data of a server-sent event: a carriage return, which would end the line, is a space.
#[must_use]
pub fn event_data(shown: &Shown) -> String {
    fragment(shown).into_string().replace('\r', " ")
}
