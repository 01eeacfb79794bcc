//! `bp bill`: shows the resources that each user has used.

use crate::{
    context::{Context, Run},
    table::{Cell, Column, Table},
    words::span,
};
use base::units::human_bytes;
use wire::control::GetBill;

/// Show the total usage of each user
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_args: Args, context: &mut Context) -> Run {
    let bill = context.call(&GetBill {})?;
    if context.output.is_json() {
        context.output.json(&bill)?;
        return Ok(0);
    }
    let mut table = Table::new([
        Column::Left("owner"),
        Column::Right("jobs"),
        Column::Right("CPU"),
        Column::Right("slot time"),
        Column::Right("loads"),
        Column::Right("to tape"),
        Column::Right("from tape"),
        Column::Right("in"),
        Column::Right("out"),
        Column::Right("disk GB·h"),
    ]);
    for line in &bill.lines {
        table.row([
            Cell::from(line.owner.as_str()),
            line.jobs.to_string().into(),
            span(line.cpu).into(),
            span(line.slot_wall).into(),
            format!("{:.2}", line.tape_loads).into(),
            human_bytes(line.tape_written_bytes).into(),
            human_bytes(line.tape_read_bytes).into(),
            human_bytes(line.in_bytes).into(),
            human_bytes(line.out_bytes).into(),
            format!("{:.2}", line.disk_gb_hours).into(),
        ]);
    }
    if table.is_empty() {
        context.output.news("no usage yet")?;
    } else {
        context.output.table(&table)?;
    }
    Ok(0)
}
