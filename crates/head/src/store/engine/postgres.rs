//! The engine of sites that have outgrown one file: PostgreSQL 15 or newer.
//!
//! A round trip costs as much as ten rows. Statements whose result nobody waits for are therefore queued and sent
//! together with the next query, or with the commit; what went wrong with one is told then, and fails the group.

use super::{
    super::{StoreError, StoreResult},
    Address, Cell, Cells, Engine, Row, Rows, Shape, Table,
};
use bytes::BytesMut;
use futures_util::future::join_all;
use std::{
    cell::{Cell as Shared, RefCell},
    collections::HashMap,
    error::Error,
};
use tokio::runtime::Runtime;
use tokio_postgres::{
    Client, Statement,
    types::{IsNull, ToSql, Type, to_sql_checked},
};

/// Schema changes in order; the table `schema` counts those that were applied.
pub(super) const MIGRATIONS: &[&str] = &[
    include_str!("../migrations/postgres/0001.sql"),
    include_str!("../migrations/postgres/0002.sql"),
    include_str!("../migrations/postgres/0003.sql"),
    include_str!("../migrations/postgres/0004.sql"),
    include_str!("../migrations/postgres/0005.sql"),
    include_str!("../migrations/postgres/0006.sql"),
    include_str!("../migrations/postgres/0007.sql"),
    include_str!("../migrations/postgres/0008.sql"),
    include_str!("../migrations/postgres/0009.sql"),
    include_str!("../migrations/postgres/0011.sql"),
    include_str!("../migrations/postgres/0012.sql"),
    include_str!("../migrations/postgres/0013.sql"),
    include_str!("../migrations/postgres/0014.sql"),
    include_str!("../migrations/postgres/0015.sql"),
    include_str!("../migrations/postgres/0016.sql"),
    include_str!("../migrations/postgres/0017.sql"),
    include_str!("../migrations/postgres/0018.sql"),
    include_str!("../migrations/postgres/0019.sql"),
    include_str!("../migrations/postgres/0020.sql"),
    include_str!("../migrations/postgres/0021.sql"),
    include_str!("../migrations/postgres/0022.sql"),
    include_str!("../migrations/postgres/0023.sql"),
    include_str!("../migrations/postgres/0024.sql"),
    include_str!("../migrations/postgres/0025.sql"),
    include_str!("../migrations/postgres/0026.sql"),
];
/// Two heads that start at the same time must not both change the schema.
const MIGRATION_LOCK: i64 = 0x6261_636b_706c_616e;
/// Statements that wait to be sent: a group of calls makes fewer.
const QUEUE_MAX: usize = 4096;
/// Rows of a long answer that are held at a time.
const STREAM_ROWS_MAX: usize = 1000;
/// A snapshot is read as fast as somebody far away takes it; a copy rests while the other side is summed up.
const PATIENCE: &str = "SET idle_in_transaction_session_timeout = '1h'";

/// A value of a queued statement.
#[derive(Debug, Clone)]
enum Value {
    Null,
    Integer(i64),
    Real(f64),
    Text(String),
    Blob(Vec<u8>),
    Integers(Vec<Option<i64>>),
    Texts(Vec<Option<String>>),
}

impl Value {
    fn of(cell: Cell<'_>) -> Self {
        match cell {
            Cell::Null => Self::Null,
            Cell::Integer(value) => Self::Integer(value),
            Cell::Real(value) => Self::Real(value),
            Cell::Text(text) => Self::Text(text.to_owned()),
            Cell::Blob(bytes) => Self::Blob(bytes.to_vec()),
            Cell::Integers(values) => Self::Integers(values.iter().copied().map(Some).collect()),
            Cell::Texts(texts) => Self::Texts(texts.iter().map(|text| Some((*text).to_owned())).collect()),
        }
    }
}

impl ToSql for Value {
    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match (self, kind) {
            (Self::Null, _) => Ok(IsNull::Yes),
            (Self::Integer(value), &Type::INT4) => i32::try_from(*value)?.to_sql(kind, out),
            (Self::Integer(value), &Type::FLOAT8) => (*value as f64).to_sql(kind, out),
            (Self::Integer(value), _) => value.to_sql(kind, out),
            (Self::Real(value), _) => value.to_sql(kind, out),
            (Self::Text(text), _) => text.to_sql(kind, out),
            (Self::Blob(bytes), _) => bytes.to_sql(kind, out),
            (Self::Integers(values), _) => values.to_sql(kind, out),
            (Self::Texts(texts), _) => texts.to_sql(kind, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        // The server says what it expects of each parameter; what does not fit is its error.
        true
    }

    to_sql_checked!();
}

impl Cells for tokio_postgres::Row {
    fn cell(&self, column: usize) -> StoreResult<Cell<'_>> {
        let kind = self.columns().get(column).map(tokio_postgres::Column::type_);
        let cell = match kind {
            Some(&Type::INT8) => self.try_get::<_, Option<i64>>(column)?.map(Cell::Integer),
            Some(&Type::INT4) => {
                self.try_get::<_, Option<i32>>(column)?.map(|value| Cell::Integer(value.into()))
            }
            Some(&Type::BOOL) => {
                self.try_get::<_, Option<bool>>(column)?.map(|value| Cell::Integer(value.into()))
            }
            Some(&Type::FLOAT8) => self.try_get::<_, Option<f64>>(column)?.map(Cell::Real),
            Some(&Type::BYTEA) => self.try_get::<_, Option<&[u8]>>(column)?.map(Cell::Blob),
            _ => self.try_get::<_, Option<&str>>(column)?.map(Cell::Text),
        };
        Ok(cell.unwrap_or(Cell::Null))
    }
}

/// A runtime that may be dropped on the threads of another one.
struct OwnRuntime(Option<Runtime>);

impl OwnRuntime {
    fn block_on<F: Future>(&self, work: F) -> F::Output {
        self.0.as_ref().expect("it is there until the drop").block_on(work)
    }
}

impl Drop for OwnRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// A connection, and what was prepared on it.
struct Session {
    client: Client,
    statements: HashMap<String, Statement>,
}

/// A statement that was not sent yet.
struct Queued {
    sql: String,
    values: Vec<Value>,
    /// The mark in force.
    mark: Mark,
}

/// A mark by its number in the transaction; 0: none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Mark(u32);

/// How a transaction is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Health {
    Good,
    /// Something was refused since the mark that is in force: good again after the return to it.
    Hurt,
    /// Something was refused before: the server keeps nothing of it.
    Lost,
}

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

    /// Whether there is no facility in a database. Changes nothing there.
    pub(in crate::store) fn is_vacant(url: &str) -> StoreResult<bool> {
        let engine = Self::attach(url)?;
        if !has_table(&engine, "facility")? {
            return Ok(true);
        }
        let mut is_vacant = true;
        engine.query("SELECT 1 FROM facility", &[], &mut |_| {
            is_vacant = false;
            Ok(())
        })?;
        Ok(is_vacant)
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

    /// Brings the schema up to date.
    fn migrate(&self, known: usize) -> StoreResult<()> {
        let session = self.session.borrow();
        let client = &session.client;
        self.runtime.block_on(async {
            client.batch_execute(&format!("SELECT pg_advisory_lock({MIGRATION_LOCK})")).await?;
            client.batch_execute("CREATE TABLE IF NOT EXISTS schema (version BIGINT NOT NULL)").await?;
            let found = client.query_opt("SELECT version FROM schema", &[]).await?;
            let found = found.map_or(0, |row| row.get::<_, i64>(0)) as usize;
            if found > known {
                return Err(StoreError::Newer { found, known });
            }
            for (number, sql) in MIGRATIONS.iter().enumerate().take(known).skip(found) {
                let version = number + 1;
                let mark = format!("DELETE FROM schema; INSERT INTO schema VALUES ({version})");
                client.batch_execute(&format!("BEGIN; {sql}; {mark}; COMMIT")).await?;
            }
            client.batch_execute(&format!("SELECT pg_advisory_unlock({MIGRATION_LOCK})")).await?;
            Ok(())
        })
    }

    /// Learns which columns hold texts: arrays of rows have to say so.
    fn read_columns(&self) -> StoreResult<()> {
        const SQL: &str =
            "SELECT CAST(table_name AS TEXT), CAST(column_name AS TEXT), CAST(data_type AS TEXT)
             FROM information_schema.columns WHERE table_schema = current_schema()";
        let mut texts = HashMap::new();
        self.query(SQL, &[], &mut |row| {
            let (table, column, kind): (&str, &str, &str) = (row.get(0)?, row.get(1)?, row.get(2)?);
            texts.insert(format!("{table}.{column}"), kind == "text");
            Ok(())
        })?;
        *self.texts.borrow_mut() = texts;
        Ok(())
    }

    fn is_text(&self, table: &Table, column: &str) -> bool {
        self.texts.borrow().get(&format!("{}.{column}", table.name)).copied().unwrap_or(false)
    }

    /// The parts of `unnest` for all columns of a table: `$1::bigint[], $2::text[]`.
    fn arrays(&self, table: &Table) -> String {
        let part = |(at, column): (usize, &&str)| {
            let kind = if self.is_text(table, column) { "text" } else { "bigint" };
            format!("?{}::{kind}[]", at + 1)
        };
        table.columns.iter().enumerate().map(part).collect::<Vec<_>>().join(", ")
    }

    /// Rows as one array for each column.
    fn transpose(&self, rows: &Rows<'_>) -> Vec<Value> {
        let column = |(at, name): (usize, &&str)| {
            let cells = rows.iter().map(|row| row[at]);
            if self.is_text(rows.table, name) {
                Value::Texts(cells.map(|cell| text(cell).map(str::to_owned)).collect())
            } else {
                Value::Integers(cells.map(integer).collect())
            }
        };
        rows.table.columns.iter().enumerate().map(column).collect()
    }

    fn enqueue(&self, sql: impl Into<String>, values: Vec<Value>) -> StoreResult<()> {
        self.queue.borrow_mut().push(Queued { sql: sql.into(), values, mark: self.mark.get() });
        if self.queue.borrow().len() >= QUEUE_MAX { self.send_queue() } else { Ok(()) }
    }

    /// Notes that something was refused which was asked under `mark`.
    fn refused(&self, mark: Mark) {
        let can_return = mark != Mark::default() && mark == self.mark.get();
        if !can_return {
            self.health.set(Health::Lost);
        } else if self.health.get() == Health::Good {
            self.health.set(Health::Hurt);
        }
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

    /// Sends what is queued, all at once, and waits for what comes of it.
    fn send_queue(&self) -> StoreResult<()> {
        let queue = std::mem::take(&mut *self.queue.borrow_mut());
        if queue.is_empty() {
            return Ok(());
        }
        let mut session = self.session.borrow_mut();
        let outcomes = self.runtime.block_on(async {
            let mut prepared = Vec::with_capacity(queue.len());
            for queued in &queue {
                prepared.push(session.prepare(&queued.sql).await?);
            }
            let client = &session.client;
            // Each is sent when it is first looked at, in this order.
            let sent = prepared
                .iter()
                .zip(&queue)
                .map(|(statement, queued)| client.execute_raw(statement, &queued.values));
            Ok::<_, StoreError>(join_all(sent).await)
        });
        let outcomes = outcomes.inspect_err(|_| self.health.set(Health::Lost))?;
        // The first refusal is the reason of all that follow.
        for (outcome, queued) in outcomes.into_iter().zip(&queue) {
            outcome.inspect_err(|error| {
                // Whoever is told first may be a call of the group: the group must know, too.
                let is_fence = error.code().is_some_and(|code| code.code() == super::FENCED);
                self.is_fenced.set(self.is_fenced.get() || is_fence);
                self.refused(queued.mark);
            })?;
        }
        Ok(())
    }
}

/// Whether the schema has a table.
pub(in crate::store) fn has_table(engine: &dyn Engine, table: &str) -> StoreResult<bool> {
    Ok(engine.shapes()?.iter().any(|shape| shape.name == table))
}

fn integer(cell: Cell<'_>) -> Option<i64> {
    match cell {
        Cell::Integer(value) => Some(value),
        _ => None,
    }
}

fn text(cell: Cell<'_>) -> Option<&str> {
    match cell {
        Cell::Text(text) => Some(text),
        _ => None,
    }
}

impl Session {
    fn start(runtime: &OwnRuntime, address: &Address) -> StoreResult<Self> {
        let tls = address.tls()?;
        let client = runtime.block_on(address.connect(tls))?;
        Ok(Self { client, statements: HashMap::new() })
    }

    /// Prepares a statement once. Parameters are written `?1` everywhere but here.
    async fn prepare(&mut self, sql: &str) -> StoreResult<Statement> {
        if let Some(statement) = self.statements.get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(&sql.replace('?', "$")).await?;
        self.statements.insert(sql.to_owned(), statement.clone());
        Ok(statement)
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
