//! Writing what a group of calls has changed.

use crate::store::{
    Node, Replica, Store, StoreResult,
    cache::pending::{Batch, Changed},
    engine::{Cell, Engine, Rows, Table, ToCell},
    rows::pool::partitions::Partition,
};

static NODE: Table = Table {
    name: "node",
    columns: &[
        "id",
        "parent",
        "name",
        "kind",
        "owner",
        "grp",
        "mode",
        "size",
        "modified",
        "adler32",
        "crc32c",
        "project",
        "generation",
        "label",
        "source_modified",
        "live",
        "hard_link",
        "further_links",
        "accessed",
        "changed",
        "modified_nanos",
    ],
};
/// Nodes that get another name: nobody may meet them under either while that happens.
static PARKED: Table = Table { name: "node", columns: &["id", "parent"] };
static REPLICA: Table = Table {
    name: "replica",
    columns: &[
        "object",
        "file",
        "partition",
        "state",
        "owner",
        "size",
        "created",
        "used",
        "parity",
        "needed",
        "piece",
        "cell",
        "adler32",
        "crc32c",
    ],
};
static REMOVAL: Table = Table { name: "removal", columns: &["object", "partition", "size"] };

/// The type of what is neither file nor directory.
fn special_bits(node: &Node) -> u32 {
    if node.is_directory() || node.is_file() { 0 } else { node.kind.type_bits() }
}

fn push_node<'a>(rows: &mut Rows<'a>, node: &'a Node) {
    let sums = node.checksums.as_ref();
    rows.push([
        Cell::id(node.id.0),
        Cell::id(node.parent.0),
        node.name.cell(),
        Cell::Text(if node.is_directory() { "directory" } else { "file" }),
        node.owner.cell(),
        node.group.cell(),
        Cell::Integer((node.mode | special_bits(node)).into()),
        node.size.cell(),
        Cell::Integer(node.modified.0),
        sums.map_or(Cell::Null, |sums| Cell::Integer(sums.adler32.0.into())),
        sums.map_or(Cell::Null, |sums| Cell::Integer(sums.crc32c.0.into())),
        node.project.cell(),
        Cell::id(node.generation),
        Cell::id(node.label.0),
        node.source_modified.map_or(Cell::Null, |then| Cell::Integer(then.0)),
        Cell::id(node.live.0),
        Cell::id(node.hard_link.0),
        Cell::Integer(node.posix.further_links.into()),
        node.posix.accessed.map_or(Cell::Null, |time| Cell::Integer(time.0)),
        node.posix.changed.map_or(Cell::Null, |time| Cell::Integer(time.0)),
        Cell::Integer(node.posix.modified_nanos.into()),
    ]);
}

fn push_replica<'a>(rows: &mut Rows<'a>, replica: &'a Replica) {
    let piece = replica.piece.as_ref();
    let sums = piece.and_then(|piece| piece.checksums);
    let of_piece = |value: Option<i64>| value.map_or(Cell::Null, Cell::Integer);
    rows.push([
        Cell::id(replica.object.0),
        Cell::id(replica.file.0),
        replica.partition.cell(),
        Cell::Text(replica.state.as_str()),
        replica.owner.cell(),
        replica.size.cell(),
        Cell::Integer(replica.created.0),
        Cell::Integer(replica.used.0),
        of_piece(piece.map(|piece| piece.coding.parity.into())),
        Cell::Integer(piece.map_or(1, |piece| piece.coding.data.into())),
        Cell::Integer(piece.map_or(0, |piece| piece.index.into())),
        of_piece(piece.map(|piece| piece.cell_bytes.into())),
        of_piece(sums.map(|sums| sums.adler32.0.into())),
        of_piece(sums.map(|sums| sums.crc32c.0.into())),
    ]);
}

/// Rows of files, sorted by what happens to them.
struct SortedRows<'a> {
    nodes_gone: Vec<i64>,
    parked: Rows<'a>,
    nodes_changed: Rows<'a>,
    nodes_new: Rows<'a>,
    replicas_gone: Vec<i64>,
    replicas_changed: Rows<'a>,
    replicas_new: Rows<'a>,
}

impl<'a> SortedRows<'a> {
    fn of(files: &'a [Changed]) -> Self {
        let mut sorted = Self {
            nodes_gone: Vec::new(),
            parked: Rows::new(&PARKED),
            nodes_changed: Rows::new(&NODE),
            nodes_new: Rows::new(&NODE),
            replicas_gone: Vec::new(),
            replicas_changed: Rows::new(&REPLICA),
            replicas_new: Rows::new(&REPLICA),
        };
        for changed in files {
            sorted.add_node(changed.stored.as_deref(), changed.now.as_deref());
            let replicas = |node: Option<&'a Node>| node.map_or(&[][..], |node| &node.replicas);
            sorted.add_replicas(replicas(changed.stored.as_deref()), replicas(changed.now.as_deref()));
        }
        sorted
    }

    fn add_node(&mut self, stored: Option<&'a Node>, now: Option<&'a Node>) {
        match (stored, now) {
            (Some(stored), None) => self.nodes_gone.push(stored.id.0 as i64),
            (None, Some(now)) => push_node(&mut self.nodes_new, now),
            (Some(stored), Some(now)) if !stored.has_row_of(now) => {
                if (stored.parent, &stored.name) != (now.parent, &now.name) {
                    // No directory has a number below zero.
                    self.parked.push([Cell::id(now.id.0), Cell::Integer(-(now.id.0 as i64))]);
                }
                push_node(&mut self.nodes_changed, now);
            }
            _ => {}
        }
    }

    fn add_replicas(&mut self, stored: &'a [Replica], now: &'a [Replica]) {
        for old in stored {
            if !now.iter().any(|new| new.object == old.object) {
                self.replicas_gone.push(old.object.0 as i64);
            }
        }
        for new in now {
            match stored.iter().find(|old| old.object == new.object) {
                None => push_replica(&mut self.replicas_new, new),
                Some(old) if old != new => push_replica(&mut self.replicas_changed, new),
                Some(_) => {}
            }
        }
    }

    /// Names are free before they are taken: first what goes, then what moves, then what comes.
    fn write(&self, engine: &dyn Engine) -> StoreResult<()> {
        engine.delete(&REPLICA, &self.replicas_gone)?;
        engine.delete(&NODE, &self.nodes_gone)?;
        engine.update(&self.parked)?;
        engine.update(&self.nodes_changed)?;
        engine.insert(&self.nodes_new)?;
        engine.update(&self.replicas_changed)?;
        engine.insert(&self.replicas_new)
    }
}

impl Store {
    /// Writes what was changed and is not written yet. It is durable when the group is.
    pub(in crate::store) fn flush(&self) -> StoreResult<()> {
        let batch = self.pending.borrow_mut().take_batch();
        if batch.is_empty() {
            return Ok(());
        }
        self.enter()?;
        self.write(&batch)
    }

    fn write(&self, batch: &Batch) -> StoreResult<()> {
        SortedRows::of(&batch.files).write(&*self.engine)?;
        let mut removals = Rows::new(&REMOVAL);
        for removal in &batch.removals {
            removals.push([Cell::id(removal.object.0), removal.partition.cell(), removal.size.cell()]);
        }
        self.engine.insert(&removals)?;
        for (name, partition) in &batch.partitions {
            self.write_partition(name, partition)?;
        }
        for account in &batch.accounts {
            self.write_account(account)?;
        }
        if let Some(census) = batch.census {
            self.write_census(census)?;
        }
        Ok(())
    }

    fn write_partition(&self, name: &str, partition: &Partition) -> StoreResult<()> {
        self.run(
            "INSERT INTO partition (name, pool, total, free, server, root, https, boot, state, given_up,
              replicas, replica_bytes, size_max)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
             ON CONFLICT (name) DO UPDATE SET pool = ?2, total = ?3, free = ?4, server = ?5, root = ?6, https = ?7,
             boot = ?8, state = ?9, given_up = ?10, replicas = ?11, replica_bytes = ?12, size_max = ?13",
            (
                name,
                &partition.pool,
                partition.total,
                partition.free,
                &partition.server.name,
                &partition.server.root,
                &partition.server.https,
                partition.boot,
                partition.state.as_str(),
                partition.given_up.map(|at| at.0),
                partition.replicas,
                partition.replica_bytes,
                partition.size_max,
            ),
        )
    }
}
