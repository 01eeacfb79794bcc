//! The active head. Only a database can have a second one; ages go by its clock, never by those of hosts.

use crate::store::{
    Catalogue, Store, StoreError, StoreResult,
    engine::{Engine, Postgres, has_table},
};
use base::{Failure, Millis, Result};

/// The clock of a database, in milliseconds since 1970.
const CLOCK: &str = "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)";
/// Any standby may follow.
const ANYBODY: &str = "*";

/// The addresses of a head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeadAddress {
    /// Name of its host.
    pub host: String,
    /// Its XRootD door, `host:port`.
    pub root: String,
    /// Its HTTP door with TLS, `host:port`.
    pub https: String,
}

/// A head that is or was active.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActiveHead {
    /// Its number.
    pub incarnation: u64,
    /// Where it is.
    pub address: HeadAddress,
    /// How long ago it was heard, by the clock of the database.
    pub age: Millis,
    /// An operator wants this host to follow it.
    pub successor: Option<String>,
}

impl ActiveHead {
    /// Whether `host` may take over from a head that must be silent for `silence` first.
    #[must_use]
    pub fn may_follow(&self, host: &str, silence: Millis) -> bool {
        let is_ordered = self.successor.as_deref().is_some_and(|named| named == host || named == ANYBODY);
        is_ordered || self.age > silence
    }
}

fn active(engine: &dyn Engine) -> StoreResult<Option<ActiveHead>> {
    let sql = format!("SELECT incarnation, host, root, https, {CLOCK} - beat, successor FROM head_now");
    let mut found = None;
    engine.query(&sql, &[], &mut |row| {
        let address = HeadAddress { host: row.get(1)?, root: row.get(2)?, https: row.get(3)? };
        let (incarnation, age, successor) = (row.get(0)?, Millis(row.get(4)?), row.get(5)?);
        found = Some(ActiveHead { incarnation, address, age, successor });
        Ok(())
    })?;
    Ok(found)
}

impl Store {
    /// Whether there can be several heads.
    pub(crate) fn has_standbys(&self) -> bool {
        self.engine.is_remote()
    }

    /// Whether the group under way failed because another head has taken over, whoever was told.
    pub(crate) fn is_fenced(&self) -> bool {
        self.engine.is_fenced()
    }

    /// The head that is active says that it lives.
    pub(crate) fn beat(&self, incarnation: u64, address: &HeadAddress) -> StoreResult<()> {
        let sql = format!(
            "INSERT INTO head_now (only_row, incarnation, host, root, https, beat) VALUES (1, ?1, ?2, ?3, ?4, {CLOCK})
             ON CONFLICT (only_row) DO UPDATE SET incarnation = ?1, host = ?2, root = ?3, https = ?4, beat = {CLOCK},
             successor = CASE WHEN head_now.incarnation = ?1 THEN head_now.successor END"
        );
        // It is no change that disk servers would have to know.
        let changes = self.changes.get();
        self.run(&sql, (incarnation, &address.host, &address.root, &address.https))?;
        self.changes.set(changes);
        Ok(())
    }

    /// An operator wants a standby to take over: this one, or any.
    pub(crate) fn order_successor(&self, host: Option<&str>) -> StoreResult<()> {
        self.run("UPDATE head_now SET successor = ?1", (host.unwrap_or(ANYBODY),))
    }
}

/// Looks at the active head from another host.
pub struct Watch {
    engine: Box<dyn Engine>,
}

impl Watch {
    /// Watches the heads of a catalogue in a database.
    pub fn new(catalogue: &Catalogue) -> Result<Self> {
        let Catalogue::Database(url) = catalogue else {
            return Err(Failure::unsupported(format!("{catalogue} can have one head only"))
                .hint("`bpd migrate --to postgresql://…` moves it to a database"));
        };
        let attached = Postgres::attach(url);
        let engine = attached.map_err(|error| Failure::from(error).during(format!("open {catalogue}")))?;
        Ok(Self { engine: Box::new(engine) })
    }

    /// The head that is or was active; `None`: there was none.
    pub fn look(&self) -> Result<Option<ActiveHead>> {
        // Older releases knew of one head only.
        Ok(if has_table(&*self.engine, "head_now")? { active(&*self.engine)? } else { None })
    }

    /// Takes over from the head that was seen, if it may still be followed. From then on that head commits nothing. Of several
    /// who try one succeeds.
    pub fn claim(&self, seen: Option<&ActiveHead>, address: &HeadAddress, silence: Millis) -> Result<bool> {
        self.engine.begin()?;
        let outcome = self.try_claim(seen, address, silence).and_then(|is_ours| {
            self.engine.commit()?;
            Ok(is_ours)
        });
        // What is wrong was said already.
        Ok(outcome.inspect_err(|_| drop(self.engine.rollback()))?)
    }

    fn try_claim(
        &self,
        seen: Option<&ActiveHead>,
        address: &HeadAddress,
        silence: Millis,
    ) -> StoreResult<bool> {
        use crate::store::engine::{Params, ToCell};
        let run = |sql: &str, params: &[crate::store::engine::Cell<'_>]| self.engine.count(sql, params);
        let claimed = match seen {
            Some(seen) => {
                let sql = format!(
                    "UPDATE head_now SET host = ?1, root = ?2, https = ?3, beat = {CLOCK}, successor = NULL,
                     incarnation = incarnation + 1
                     WHERE incarnation = ?4 AND ({CLOCK} - beat > ?5 OR successor = ?1 OR successor = '{ANYBODY}')"
                );
                (&address.host, &address.root, &address.https, seen.incarnation, silence.0)
                    .with(|params| run(&sql, params))?
            }
            None => {
                let sql = format!(
                    "INSERT INTO head_now (only_row, incarnation, host, root, https, beat)
                     VALUES (1, 0, ?1, ?2, ?3, {CLOCK}) ON CONFLICT DO NOTHING"
                );
                run(&sql, &[address.host.cell(), address.root.cell(), address.https.cell()])?
            }
        };
        if claimed == 1 {
            // It waits here for the group that the old head has under way.
            run("UPDATE facility SET incarnation = incarnation + 1", &[])?;
        }
        Ok::<_, StoreError>(claimed == 1)
    }
}
