//! The engine of sites that have outgrown one file: PostgreSQL 15 or newer.
//!
//! A round trip costs as much as ten rows. So a statement whose result is not needed is queued, and sent with the next
//! query or the commit. If it fails, that query or commit reports the error, and the group fails.

mod queue;
mod schema;
mod session;
mod value;

use super::{
    super::{StoreError, StoreResult},
    Address, Cell, Engine, Row, Rows, Shape, Table,
};
use queue::{Health, Mark, Queued};
pub(super) use schema::MIGRATIONS;
pub(in crate::store) use schema::has_table;
use session::{OwnRuntime, Session};
use std::{
    cell::{Cell as Shared, RefCell},
    collections::HashMap,
};
use tokio_postgres::types::ToSql;
use value::Value;

/// Two heads that start at the same time must not both change the schema.
const MIGRATION_LOCK: i64 = 0x6261_636b_706c_616e;
/// Rows of a long answer that are held at a time.
const STREAM_ROWS_MAX: usize = 1000;
/// A snapshot is read as fast as somebody far away takes it; a copy rests while the other side is summed up.
const PATIENCE: &str = "SET idle_in_transaction_session_timeout = '1h'";

/// A catalogue in a database.
pub(in crate::store) struct Postgres {
    runtime: OwnRuntime,
    address: Address,
    session: RefCell<Session>,
    queue: RefCell<Vec<Queued>>,
    /// The head's number, once it has one.
    incarnation: Shared<Option<u64>>,
    is_in_transaction: Shared<bool>,
    is_fenced: Shared<bool>,
    health: Shared<Health>,
    /// A group was given up: why, may be the connection.
    is_doubtful: Shared<bool>,
    mark: Shared<Mark>,
    marks: Shared<u32>,
    /// `table.column` of those that hold texts.
    texts: RefCell<HashMap<String, bool>>,
    /// Long answers that were asked for: each has a name of its own.
    streams: Shared<u32>,
}

impl Postgres {
    /// Connects to the database of a catalogue, and brings its schema up to date. An empty database becomes an empty catalogue.
    pub(in crate::store) fn open(url: &str) -> StoreResult<Self> {
        Self::open_up_to(url, MIGRATIONS.len())
    }

    /// As [`Self::open`], but up to an older schema.
    pub(in crate::store) fn open_up_to(url: &str, schema: usize) -> StoreResult<Self> {
        let engine = Self::attach(url)?;
        engine.migrate(schema)?;
        engine.read_columns()?;
        Ok(engine)
    }

    /// Connects, and leaves the schema as it is, as another head may be using it.
    pub(in crate::store) fn attach(url: &str) -> StoreResult<Self> {
        Self::connect(Address::parse(url).map_err(StoreError::Unreached)?)
    }

    fn connect(address: Address) -> StoreResult<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|cause| StoreError::Unstarted { cause })?;
        let runtime = OwnRuntime(Some(runtime));
        let session = Session::start(&runtime, &address)?;
        Ok(Self {
            runtime,
            address,
            session: RefCell::new(session),
            queue: RefCell::default(),
            incarnation: Shared::new(None),
            is_in_transaction: Shared::new(false),
            is_fenced: Shared::new(false),
            health: Shared::new(Health::Good),
            is_doubtful: Shared::new(false),
            mark: Shared::default(),
            marks: Shared::new(0),
            texts: RefCell::default(),
            streams: Shared::new(0),
        })
    }

    /// Connects again, if the connection is lost, or may be, and nothing is lost with it.
    fn reconnect(&self) -> StoreResult<()> {
        if self.is_in_transaction.get() {
            return Ok(());
        }
        if self.is_doubtful.get() || self.session.borrow().client.is_closed() {
            *self.session.borrow_mut() = Session::start(&self.runtime, &self.address)?;
            self.is_doubtful.set(false);
        }
        Ok(())
    }
}

impl Engine for Postgres {
    fn execute(&self, sql: &str, params: &[Cell<'_>]) -> StoreResult<()> {
        self.enqueue(sql, params.iter().copied().map(Value::of).collect())
    }

    fn count(&self, sql: &str, params: &[Cell<'_>]) -> StoreResult<u64> {
        self.reconnect()?;
        self.send_queue()?;
        let values: Vec<_> = params.iter().copied().map(Value::of).collect();
        let mut session = self.session.borrow_mut();
        let outcome = self.runtime.block_on(async {
            let statement = session.prepare(sql).await?;
            Ok(session.client.execute_raw(&statement, &values).await?)
        });
        outcome.inspect_err(|_| self.refused(self.mark.get()))
    }

    fn query(
        &self,
        sql: &str,
        params: &[Cell<'_>],
        each: &mut dyn FnMut(&Row<'_>) -> StoreResult<()>,
    ) -> StoreResult<()> {
        self.reconnect()?;
        self.send_queue()?;
        let values: Vec<_> = params.iter().copied().map(Value::of).collect();
        let values: Vec<_> = values.iter().map(|value| value as &(dyn ToSql + Sync)).collect();
        let mut session = self.session.borrow_mut();
        let rows = self.runtime.block_on(async {
            let statement = session.prepare(sql).await?;
            Ok::<_, StoreError>(session.client.query(&statement, &values).await?)
        });
        let rows = rows.inspect_err(|_| self.refused(self.mark.get()))?;
        drop(session);
        rows.iter().try_for_each(|row| each(&Row(row)))
    }

    fn insert(&self, rows: &Rows<'_>) -> StoreResult<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let table = rows.table;
        let columns = table.columns.join(", ");
        let arrays = self.arrays(table);
        let sql = format!("INSERT INTO {} ({columns}) SELECT * FROM unnest({arrays})", table.name);
        self.enqueue(sql, self.transpose(rows))
    }

    fn update(&self, rows: &Rows<'_>) -> StoreResult<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let Table { name, columns } = rows.table;
        let sets: Vec<_> = columns[1..].iter().map(|column| format!("{column} = v.{column}")).collect();
        let (sets, key, all) = (sets.join(", "), columns[0], columns.join(", "));
        let arrays = self.arrays(rows.table);
        let sql =
            format!("UPDATE {name} t SET {sets} FROM unnest({arrays}) AS v ({all}) WHERE t.{key} = v.{key}");
        self.enqueue(sql, self.transpose(rows))
    }

    fn delete(&self, table: &'static Table, keys: &[i64]) -> StoreResult<()> {
        if keys.is_empty() {
            return Ok(());
        }
        let sql = format!("DELETE FROM {} WHERE {} = ANY (?1::bigint[])", table.name, table.columns[0]);
        self.enqueue(sql, vec![Value::Integers(keys.iter().copied().map(Some).collect())])
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn is_in_transaction(&self) -> bool {
        self.is_in_transaction.get() && self.health.get() == Health::Good
    }

    fn begin(&self) -> StoreResult<()> {
        self.reconnect()?;
        self.is_in_transaction.set(true);
        self.is_fenced.set(false);
        self.health.set(Health::Good);
        self.mark.set(Mark::default());
        self.marks.set(0);
        self.enqueue("BEGIN", Vec::new())?;
        match self.incarnation.get() {
            Some(mine) => self.enqueue("SELECT fence(?1)", vec![Value::Integer(mine as i64)]),
            None => Ok(()),
        }
    }

    fn commit(&self) -> StoreResult<()> {
        // A commit after a refusal is no error to the server, which keeps nothing.
        if self.health.get() != Health::Good {
            return Err(StoreError::RolledBack);
        }
        self.enqueue("COMMIT", Vec::new())?;
        self.send_queue()?;
        self.is_in_transaction.set(false);
        Ok(())
    }

    fn rollback(&self) -> StoreResult<()> {
        self.queue.borrow_mut().clear();
        // The end of the connection is the end of what was not committed on it.
        if self.is_in_transaction.replace(false) {
            self.is_doubtful.set(true);
        }
        Ok(())
    }

    fn mark(&self) -> StoreResult<()> {
        self.enqueue("SAVEPOINT mark", Vec::new())?;
        self.marks.set(self.marks.get() + 1);
        self.mark.set(Mark(self.marks.get()));
        Ok(())
    }

    fn release_mark(&self) -> StoreResult<()> {
        self.enqueue("RELEASE mark", Vec::new())?;
        self.mark.set(Mark::default());
        Ok(())
    }

    fn return_to_mark(&self) -> StoreResult<()> {
        // What is queued may yet be refused, and it matters whether that was before the mark.
        drop(self.send_queue());
        if self.health.get() == Health::Lost {
            return Err(StoreError::RolledBack);
        }
        self.health.set(Health::Good);
        self.enqueue("ROLLBACK TO mark", Vec::new())?;
        self.release_mark()
    }

    fn shapes(&self) -> StoreResult<Vec<Shape>> {
        Shape::collect(
            self,
            "SELECT CAST(t.table_name AS TEXT), CAST(c.column_name AS TEXT) FROM information_schema.tables t
             JOIN information_schema.columns c ON c.table_schema = t.table_schema AND c.table_name = t.table_name
             WHERE t.table_schema = current_schema() AND t.table_type = 'BASE TABLE' AND t.table_name <> 'schema'
             ORDER BY CAST(t.table_name AS TEXT) COLLATE \"C\", c.ordinal_position",
        )
    }

    fn stream(&self, sql: &str, each: &mut dyn FnMut(&Row<'_>) -> StoreResult<()>) -> StoreResult<()> {
        let name = format!("stream{}", self.streams.replace(self.streams.get() + 1));
        self.execute(&format!("DECLARE {name} NO SCROLL CURSOR FOR {sql}"), &[])?;
        let fetch = format!("FETCH {STREAM_ROWS_MAX} FROM {name}");
        loop {
            let mut rows = 0;
            self.query(&fetch, &[], &mut |row| {
                rows += 1;
                each(row)
            })?;
            if rows < STREAM_ROWS_MAX {
                return self.execute(&format!("CLOSE {name}"), &[]);
            }
        }
    }

    fn limit_cache(&self, _: usize) -> StoreResult<usize> {
        // The database has its own.
        Ok(0)
    }

    fn be_patient(&self) -> StoreResult<()> {
        self.execute(PATIENCE, &[])
    }

    fn snapshot(&self) -> StoreResult<Box<dyn Engine>> {
        let reader = Self::connect(self.address.clone())?;
        reader.be_patient()?;
        reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY", &[])?;
        // The first query fixes what is seen.
        reader.query("SELECT 1 FROM facility", &[], &mut |_| Ok(()))?;
        reader.is_in_transaction.set(true);
        Ok(Box::new(reader))
    }

    fn is_fenced(&self) -> bool {
        self.is_fenced.get()
    }

    fn set_incarnation(&self, mine: u64) {
        self.incarnation.set(Some(mine));
    }
}
