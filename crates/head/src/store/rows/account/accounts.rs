//! Rows of accounts.

use crate::store::{
    Store, StoreResult, TRASH,
    engine::{Cell, Params, Row, ToCell},
    rows::account::ledger::{Account, AccountKey, AccountUsage, Ledger, Payer, spread},
};
use base::{Millis, Month, Timestamp};
use std::{ops::Add, sync::Arc};

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
    pub(crate) transfers_in: u64,
    pub(crate) transfers_out: u64,
    pub(crate) disk_byte_ms: f64,
    pub(crate) memory_byte_ms: f64,
}

impl Add for Charge {
    type Output = Self;

    fn add(self, more: Self) -> Self {
        Self {
            jobs: self.jobs.saturating_add(more.jobs),
            cpu: Millis(self.cpu.0.saturating_add(more.cpu.0)),
            slot_wall: Millis(self.slot_wall.0.saturating_add(more.slot_wall.0)),
            tape_loads: self.tape_loads + more.tape_loads,
            tape_written: self.tape_written.saturating_add(more.tape_written),
            tape_read: self.tape_read.saturating_add(more.tape_read),
            bytes_in: self.bytes_in.saturating_add(more.bytes_in),
            bytes_out: self.bytes_out.saturating_add(more.bytes_out),
            transfers_in: self.transfers_in.saturating_add(more.transfers_in),
            transfers_out: self.transfers_out.saturating_add(more.transfers_out),
            disk_byte_ms: self.disk_byte_ms + more.disk_byte_ms,
            memory_byte_ms: self.memory_byte_ms + more.memory_byte_ms,
        }
    }
}

/// The columns that [`account`] reads, of a table alias `a`.
macro_rules! account_columns {
    () => {
        "a.id, a.owner, a.grp, a.project, a.pool, a.month, a.files, a.bytes, a.replicas, a.disk_bytes, a.since, a.jobs,
         a.cpu_ms, a.slot_wall_ms, a.tape_loads, a.tape_written, a.tape_read, a.bytes_in, a.bytes_out, a.transfers_in,
         a.transfers_out, a.disk_byte_ms, a.memory_byte_ms"
    };
}

fn account(row: &Row<'_>) -> StoreResult<Account> {
    let month = Month::from_number(row.get(5)?).unwrap_or(Month::EARLIER);
    Ok(Account {
        row: Some(row.get(0)?),
        key: Arc::new(AccountKey {
            user: row.get(1)?,
            group: row.get(2)?,
            project: row.get(3)?,
            pool: row.get(4)?,
        }),
        month,
        held: AccountUsage {
            files: row.get(6)?,
            bytes: row.get(7)?,
            reserved: 0,
            replicas: row.get(8)?,
            disk_bytes: row.get(9)?,
        },
        since: Timestamp(row.get(10)?),
        spent: Charge {
            jobs: row.get(11)?,
            cpu: Millis(row.get(12)?),
            slot_wall: Millis(row.get(13)?),
            tape_loads: row.get(14)?,
            tape_written: row.get(15)?,
            tape_read: row.get(16)?,
            bytes_in: row.get(17)?,
            bytes_out: row.get(18)?,
            transfers_in: row.get(19)?,
            transfers_out: row.get(20)?,
            disk_byte_ms: row.get(21)?,
            memory_byte_ms: row.get(22)?,
        },
        is_changed: false,
    })
}

/// An account as the parameters of a statement.
struct Cells<'a>([Cell<'a>; 23]);

impl Params for Cells<'_> {
    fn with<R>(&self, give: impl FnOnce(&[Cell<'_>]) -> R) -> R {
        give(&self.0)
    }
}

impl<'a> Cells<'a> {
    fn of(account: &'a Account) -> Self {
        let Account { key, held, spent, .. } = account;
        Self([
            account.row.map_or(Cell::Null, Cell::id),
            key.user.cell(),
            key.group.cell(),
            key.project.cell(),
            key.pool.cell(),
            Cell::Integer(account.month.number().into()),
            Cell::Integer(held.files),
            Cell::Integer(held.bytes),
            Cell::Integer(held.replicas),
            Cell::Integer(held.disk_bytes),
            Cell::Integer(account.since.0),
            spent.jobs.cell(),
            Cell::Integer(spent.cpu.0),
            Cell::Integer(spent.slot_wall.0),
            Cell::Real(spent.tape_loads),
            spent.tape_written.cell(),
            spent.tape_read.cell(),
            spent.bytes_in.cell(),
            spent.bytes_out.cell(),
            spent.transfers_in.cell(),
            spent.transfers_out.cell(),
            Cell::Real(spent.disk_byte_ms),
            Cell::Real(spent.memory_byte_ms),
        ])
    }
}

impl Store {
    /// Says when the call under way is made: by that accounts are charged.
    pub(crate) fn set_time(&self, now: Timestamp) {
        self.pending.borrow_mut().set_time(now);
    }

    /// When the call under way is made.
    pub(crate) fn time(&self) -> Timestamp {
        self.pending.borrow().time()
    }

    /// Reads the accounts, if that was not done.
    pub(in crate::store) fn load_ledger(&self) -> StoreResult<()> {
        if self.pending.borrow().ledger().is_some() {
            return Ok(());
        }
        const NEWEST: &str = concat!(
            "SELECT ",
            account_columns!(),
            " FROM account a WHERE NOT EXISTS (SELECT 1 FROM account b WHERE b.owner = a.owner AND b.grp = a.grp
              AND b.project = a.project AND b.pool = a.pool AND b.month > a.month)"
        );
        let mut accounts = self.all_now(NEWEST, (), account)?;
        // A file counts once, however many rows of room are reserved for its mirrors. The sign keeps SQLite from going through
        // the index of all files to have them in order: few are being written. Nobody pays for what is in the trash.
        const RESERVED: &str = "SELECT n.owner, n.grp, n.project,
            CAST(sum(CASE WHEN w.size > n.size THEN w.size - n.size ELSE 0 END) AS BIGINT)
            FROM (SELECT +file AS file, max(size) AS size FROM replica WHERE state = 'writing' AND state <> 'online'
                  GROUP BY 1) w
            JOIN node n ON n.id = w.file WHERE n.parent <> ?1 GROUP BY n.owner, n.grp, n.project";
        let reserved = self.all_now(RESERVED, (TRASH.0,), |row| {
            Ok((row.get::<String>(0)?, row.get::<String>(1)?, row.get::<String>(2)?, row.get::<i64>(3)?))
        })?;
        for (user, group, project, bytes) in &reserved {
            let payer = Payer { user, group, project, pool: "" };
            if let Some(account) = accounts.iter_mut().find(|account| account.key.payer() == payer) {
                account.held.reserved = *bytes;
            }
        }
        let next = self.one_now("SELECT coalesce(max(id), 0) + 1 FROM account", (), |row| row.get(0))?;
        let mut ledger = Ledger::new(accounts, next);
        for (kind, name, quota) in self.read_quotas()? {
            drop(ledger.set_quota(kind, &name, quota));
        }
        self.pending.borrow_mut().set_ledger(ledger);
        Ok(())
    }

    pub(crate) fn charge(&self, payer: Payer<'_>, charge: &Charge) -> StoreResult<()> {
        self.load_ledger()?;
        self.count_change();
        self.pending.borrow_mut().post(payer, AccountUsage::default(), *charge);
        Ok(())
    }

    pub(in crate::store) fn write_account(&self, account: &Account) -> StoreResult<()> {
        self.run(
            "INSERT INTO account (id, owner, grp, project, pool, month, files, bytes, replicas, disk_bytes, since, jobs, cpu_ms,
             slot_wall_ms, tape_loads, tape_written, tape_read, bytes_in, bytes_out, transfers_in, transfers_out, disk_byte_ms,
             memory_byte_ms)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23)
             ON CONFLICT (id) DO UPDATE SET files = ?7, bytes = ?8, replicas = ?9, disk_bytes = ?10, since = ?11, jobs = ?12,
             cpu_ms = ?13, slot_wall_ms = ?14, tape_loads = ?15, tape_written = ?16, tape_read = ?17, bytes_in = ?18,
             bytes_out = ?19, transfers_in = ?20, transfers_out = ?21, disk_byte_ms = ?22,
             memory_byte_ms = ?23",
            Cells::of(account),
        )
    }

    /// Gives each month of each account until now to `each`.
    pub(crate) fn each_account_month(
        &self,
        now: Timestamp,
        mut each: impl FnMut(&AccountKey, Month, Charge, AccountUsage),
    ) -> StoreResult<()> {
        const SQL: &str = concat!(
            "SELECT ",
            account_columns!(),
            " FROM account a ORDER BY a.owner, a.grp, a.project, a.pool, a.month"
        );
        let mut rows: Vec<Account> = Vec::new();
        let mut close = |rows: &mut Vec<Account>| {
            if let Some(key) = rows.first().map(|row| Arc::clone(&row.key)) {
                spread(rows, now, |month, charge, held| each(&key, month, charge, held));
            }
            rows.clear();
        };
        self.all(SQL, (), |row| {
            let row = account(row)?;
            if rows.first().is_some_and(|first| first.key != row.key) {
                close(&mut rows);
            }
            rows.push(row);
            Ok(())
        })?;
        close(&mut rows);
        Ok(())
    }
}
