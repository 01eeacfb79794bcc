//! `bp operator`: what operators are asked to do with volumes, and their answers.

use crate::{
    context::{Context, Run},
    output::Tone,
    table::{Cell, Column, Table},
    words::span,
};
use base::Timestamp;
use clap::Subcommand;
use wire::control::{AnswerOperatorRequest, GetStatus, OperatorAnswer, OperatorRequest, OperatorRequestId};

/// Show and answer requests to load volumes that are in no library
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Show what is open; `bp operator` does the same
    #[command(visible_alias = "ls")]
    List {
        /// Also what was answered lately
        #[arg(long)]
        all: bool,
    },
    /// Say that a volume was loaded: libraries take their inventory again
    Done {
        /// The request
        id: u64,
        /// What to say to those who look
        #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
        message: String,
    },
    /// Say that a volume cannot be loaded: what waits for it fails with the message
    Cancel {
        /// The request
        id: u64,
        /// What to say to those who wait
        #[arg(long, value_name = "TEXT")]
        message: String,
    },
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    match args.verb.unwrap_or(Verb::List { all: false }) {
        Verb::List { all } => list(context, all),
        Verb::Done { id, message } => answer(context, id, OperatorAnswer::Done, message),
        Verb::Cancel { id, message } => answer(context, id, OperatorAnswer::Cancelled, message),
    }
}

fn answer(context: &mut Context, id: u64, answer: OperatorAnswer, message: String) -> Run {
    context.done(&AnswerOperatorRequest { id: OperatorRequestId(id), answer, message })?;
    Ok(0)
}

fn list(context: &mut Context, all: bool) -> Run {
    let status = context.call(&GetStatus {})?;
    let mut requests = status.operator_requests;
    requests.retain(|request| all || request.answer == OperatorAnswer::Open);
    if context.output.is_json() {
        context.output.json(&requests)?;
    } else if requests.is_empty() {
        context.output.news("no volume is to be loaded by hand")?;
    } else {
        context.output.table(&table(&requests, status.now))?;
    }
    Ok(0)
}

/// Requests as a table.
fn table(requests: &[OperatorRequest], now: Timestamp) -> Table {
    let mut table = Table::new([
        Column::Right("id"),
        Column::Left("volume"),
        Column::Left("into"),
        Column::Right("since"),
        Column::Left("answer"),
        Column::Left("operator"),
        Column::Text("reason"),
        Column::Text("message"),
    ]);
    for request in requests {
        let place = if request.place.is_empty() { "a library" } else { &request.place };
        let tone = if request.answer == OperatorAnswer::Open { Tone::Wait } else { Tone::Plain };
        if request.answer == OperatorAnswer::Open {
            table.next_step("load the volume, then `bp operator done ID`; if you cannot: `bp operator cancel ID --message TEXT`");
        }
        table.row([
            Cell::from(request.id.to_string()),
            request.vid.as_str().into(),
            place.into(),
            span(now - request.created).into(),
            Cell::toned(request.answer.as_str(), tone),
            request.operator.as_str().into(),
            request.reason.as_str().into(),
            request.message.as_str().into(),
        ]);
    }
    table
}
