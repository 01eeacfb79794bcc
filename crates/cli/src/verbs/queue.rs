//! `bp queue`: shows the tape queue and why requests wait.

use crate::{
    context::{Context, Run},
    output::Tone,
    table::{Cell, Column, Table},
    words::{request_state, span},
};
use base::{Timestamp, units::human_bytes};
use wire::control::{GetStatus, RequestInfo, RequestState};

/// Show the tape queue and why each request waits
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_args: Args, context: &mut Context) -> Run {
    let status = context.call(&GetStatus {})?;
    if context.output.is_json() {
        context.output.json(&status.requests)?;
        return Ok(0);
    }
    if status.requests.is_empty() {
        context.output.news("the tape queue is empty")?;
        return Ok(0);
    }
    context.output.table(&table(&status.requests, status.now))?;
    let left = status.requests_len.saturating_sub(status.requests.len() as u64);
    if left > 0 {
        context.output.toned(Tone::Faint, &format!("and {left} more"))?;
    }
    Ok(0)
}

/// Tape requests as a table.
pub(crate) fn table(requests: &[RequestInfo], now: Timestamp) -> Table {
    let mut table = Table::new([
        Column::Right("id"),
        Column::Left("kind"),
        Column::Left("state"),
        Column::Path("file"),
        Column::Right("size"),
        Column::Left("volume"),
        Column::Left("owner"),
        Column::Right("waits"),
        Column::Right("tries"),
        Column::Text("why"),
    ]);
    for request in requests {
        table.next_step(match request.state {
            RequestState::Failed => "`bp admin request retry ID` tries a failed request again",
            RequestState::Queued | RequestState::Active => "`bp why ID` says more of a request",
        });
        table.row([
            Cell::from(format!("r{}", request.id)),
            request.kind.as_str().into(),
            request_state(request),
            request.path.as_str().into(),
            human_bytes(request.size).into(),
            request.vid.as_ref().map(ToString::to_string).unwrap_or_default().into(),
            request.owner.as_str().into(),
            span(now - request.created).into(),
            request.attempts.to_string().into(),
            request.reason.as_str().into(),
        ]);
    }
    table
}
