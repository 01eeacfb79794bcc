//! Rows of the bill.

use super::{Store, StoreResult};
use base::{Millis, Timestamp};
use wire::control::BillLine;

/// Something to put on somebody's bill.
#[derive(Debug, Clone, Copy, Default)]
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

impl Store {
    pub(crate) fn charge(&self, owner: &str, charge: &Charge) -> StoreResult<()> {
        self.run(
            "INSERT INTO account (owner, jobs, cpu_ms, slot_wall_ms, tape_loads, tape_written, tape_read, bytes_in,
             bytes_out, disk_byte_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
             ON CONFLICT (owner) DO UPDATE SET jobs = jobs + ?2, cpu_ms = cpu_ms + ?3, slot_wall_ms = slot_wall_ms + ?4,
             tape_loads = tape_loads + ?5, tape_written = tape_written + ?6, tape_read = tape_read + ?7,
             bytes_in = bytes_in + ?8, bytes_out = bytes_out + ?9, disk_byte_ms = disk_byte_ms + ?10",
            (
                owner,
                charge.jobs,
                charge.cpu.0,
                charge.slot_wall.0,
                charge.tape_loads,
                charge.tape_written,
                charge.tape_read,
                charge.bytes_in,
                charge.bytes_out,
                charge.disk_byte_ms,
            ),
        )?;
        Ok(())
    }

    /// The bill until now: what was charged, plus the disk space that is in use at this moment.
    pub(crate) fn bill(&self, now: Timestamp) -> StoreResult<Vec<BillLine>> {
        const SQL: &str = "SELECT o.owner, coalesce(jobs, 0), coalesce(cpu_ms, 0), coalesce(slot_wall_ms, 0),
            coalesce(tape_loads, 0.0), coalesce(tape_written, 0), coalesce(tape_read, 0), coalesce(bytes_in, 0),
            coalesce(bytes_out, 0), coalesce(disk_byte_ms, 0.0)
              + coalesce((SELECT sum(cast(r.size AS REAL) * (?1 - r.created)) FROM replica r
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
                disk_gb_hours: row.get::<_, f64>(9)? / 1e9 / MS_PER_HOUR,
            })
        })
    }
}
