//! A connection, and what was prepared on it.

use crate::store::{StoreResult, engine::Address};
use std::collections::HashMap;
use tokio::runtime::Runtime;
use tokio_postgres::{Client, Statement};

/// A runtime that may be dropped on the threads of another one.
pub(super) struct OwnRuntime(pub(super) Option<Runtime>);

impl OwnRuntime {
    pub(super) fn block_on<F: Future>(&self, work: F) -> F::Output {
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
pub(super) struct Session {
    pub(super) client: Client,
    statements: HashMap<String, Statement>,
}

impl Session {
    pub(super) fn start(runtime: &OwnRuntime, address: &Address) -> StoreResult<Self> {
        let tls = address.tls()?;
        let client = runtime.block_on(address.connect(tls))?;
        Ok(Self { client, statements: HashMap::new() })
    }

    /// Prepares a statement once. Parameters are written `?1` everywhere but here.
    pub(super) async fn prepare(&mut self, sql: &str) -> StoreResult<Statement> {
        if let Some(statement) = self.statements.get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(&sql.replace('?', "$")).await?;
        self.statements.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }
}
