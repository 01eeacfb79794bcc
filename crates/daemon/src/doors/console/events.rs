//! What happened lately: the newest events.

use super::words::{clock, more, nothing, section};
use maud::{Markup, html};
use wire::control::{EVENTS_KEPT_MAX, Event, Status};

/// Events on the page.
pub(super) const SHOWN: usize = 20;

/// The newest events first, so that the next one appears where people look.
pub(super) fn events(status: &Status, events: &[Event]) -> Markup {
    if events.is_empty() {
        return section("Events", "", nothing("nothing has happened since the head started"));
    }
    let shown = &events[events.len().saturating_sub(SHOWN)..];
    let total = events.last().map_or(0, |newest| newest.number).min(EVENTS_KEPT_MAX as u64);
    let body = html! {
        table {
            thead { tr { th { "UTC" } th { "type" } th.stretch { "what happened" } } }
            tbody {
                @for event in shown.iter().rev() {
                    tr {
                        td.n.faint { (clock(status.now, event.at)) }
                        td { code { (event.kind) } }
                        td.why.stretch.trouble[event.kind.is_trouble()] title=(event.what) { (event.what) }
                    }
                }
            }
        }
        (more(shown.len(), total, "bp events"))
    };
    section("Events", "newest first", body)
}
