//! Rows of the bill.

use super::{Store, StoreResult};
use base::{Millis, Timestamp};
use std::ops::Add;
use wire::control::BillLine;

/// Something to put on somebody's bill.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Charge {
    pub(crate) jobs: u64,
    pub(crate) cpu: Millis,
    pub(crate) slot_wall: Millis,
    pub(crate) tape_loads: f64,
    pub(crate) tape_written: u64,
    pub(crate) tape_read: u64,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    pub(crate) disk_byte_ms: f64,
}

const MS_PER_HOUR: f64 = 3_600_000.0;

impl Add for Charge {
    type Output = Self;

    fn add(self, more: Self) -> Self {
        Self {
            jobs: self.jobs + more.jobs,
            cpu: Millis(self.cpu.0 + more.cpu.0),
            slot_wall: Millis(self.slot_wall.0 + more.slot_wall.0),
            tape_loads: self.tape_loads + more.tape_loads,
            tape_written: self.tape_written + more.tape_written,
            tape_read: self.tape_read + more.tape_read,
            bytes_in: self.bytes_in + more.bytes_in,
            bytes_out: self.bytes_out + more.bytes_out,
            disk_byte_ms: self.disk_byte_ms + more.disk_byte_ms,
        }
    }
}

impl Store {
    pub(crate) fn charge(&self, owner: &str, charge: &Charge) {
        self.count_change();
        self.pending.borrow_mut().charge(owner, charge);
    }

    /// The bill until now: what was charged, plus the disk space that is in use at this moment.
    pub(crate) fn bill(&self, now: Timestamp) -> StoreResult<Vec<BillLine>> {
        const SQL: &str = "SELECT o.owner, coalesce(jobs, 0), coalesce(cpu_ms, 0), coalesce(slot_wall_ms, 0),
            coalesce(tape_loads, 0.0), coalesce(tape_written, 0), coalesce(tape_read, 0), coalesce(bytes_in, 0),
            coalesce(bytes_out, 0), coalesce(disk_byte_ms, 0.0)
              + coalesce((SELECT sum(CAST(r.size AS DOUBLE PRECISION) * (?1 - r.created)) FROM replica r
                          WHERE r.owner = o.owner AND r.state = 'online'), 0.0)
            FROM (SELECT owner FROM account UNION SELECT owner FROM replica WHERE state = 'online') o
            LEFT JOIN account a ON a.owner = o.owner ORDER BY o.owner";
        self.all(SQL, (now.0,), |row| {
            Ok(BillLine {
                owner: row.get(0)?,
                jobs: row.get(1)?,
                cpu: Millis(row.get(2)?),
                slot_wall: Millis(row.get(3)?),
                tape_loads: row.get(4)?,
                tape_written_bytes: row.get(5)?,
                tape_read_bytes: row.get(6)?,
                in_bytes: row.get(7)?,
                out_bytes: row.get(8)?,
                disk_gb_hours: row.get::<f64>(9)? / 1e9 / MS_PER_HOUR,
            })
        })
    }
}
