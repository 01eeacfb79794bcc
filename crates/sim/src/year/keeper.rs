//! The head's part: what it knows is given to the pure functions, and what they decide is carried out.

use super::{
    Event, Year,
    site::{PoolSite, Truth},
};
use base::{FileId, Millis};
use head::pool::decide::{
    balance,
    budget::{CopyOrder, Reason},
    collection,
    promise::good_pieces,
    repair::{Outlook, repair, risk},
    scrub, silence,
    surplus::surplus,
    view::{FileView, PartitionState, PieceState},
};

/// Least time between two looks at the queue of one pool.
const KEEP_PAUSE: Millis = Millis::from_seconds(60);
/// Files that are looked at for each copy that may still begin.
const LOOKS: usize = 4;

impl PoolSite {
    /// A file has changed: puts it into the queue, or takes it out.
    pub(super) fn enqueue(&mut self, file: u64, view: &FileView) {
        self.dequeue(file);
        if let Some(risk) = risk(&self.snapshot, view) {
            self.queue.insert(risk);
            self.queued.insert(file, risk);
        }
    }

    /// The most urgent files, so many for repairs and so many for moves.
    fn first_of_queue(&self, mut repairs: usize, mut moves: usize) -> Vec<u64> {
        let mut files = Vec::new();
        for risk in &self.queue {
            if repairs + moves == 0 {
                break;
            }
            let left = if risk.reason.is_repair() { &mut repairs } else { &mut moves };
            if *left > 0 {
                *left -= 1;
                files.push(risk.file.0);
            }
        }
        files
    }

    pub(super) fn dequeue(&mut self, file: u64) {
        if let Some(old) = self.queued.remove(&file) {
            self.queue.remove(&old);
        }
    }
}

impl Year {
    /// Something about a file has changed: what is surplus goes, what is missing is queued.
    pub(super) fn touch(&mut self, pool: usize, file: u64) {
        let Some(row) = self.pools[pool].files.get(&file) else { return };
        if !row.is_acknowledged {
            return;
        }
        let mut view = self.pools[pool].view(file);
        let removals = surplus(&self.pools[pool].snapshot, &view);
        if !removals.is_empty() {
            self.check_removals(pool, file, &removals);
            for removal in &removals {
                let servers = &self.servers;
                self.pools[pool].remove_piece(file, removal.object.0, |server| servers[server].is_up);
            }
            self.report.surplus += removals.len() as u64;
            view = self.pools[pool].view(file);
            assert_eq!(surplus(&self.pools[pool].snapshot, &view), [], "surplus is asked for once");
            self.check_lost(pool, file);
        }
        if !removals.is_empty() && !self.pools[pool].files.contains_key(&file) {
            return;
        }
        self.pools[pool].enqueue(file, &view);
        let was_whole = self.pools[pool].files[&file].was_whole;
        if !was_whole && good_pieces(&self.pools[pool].snapshot, &view) >= view.layout.pieces() {
            self.pools[pool].files.get_mut(&file).expect("the file is there").was_whole = true;
        }
    }

    pub(super) fn touch_all(&mut self, pool: usize, partition: usize) {
        for file in self.pools[pool].files_at(partition) {
            self.touch(pool, file);
        }
    }

    /// Gives up whom nobody heard of.
    pub(super) fn give_up(&mut self, pool: usize) {
        for name in silence::to_give_up(&self.pools[pool].snapshot) {
            self.check_given_up(pool, &name);
            let at = self.pools[pool].number(&name);
            self.pools[pool].at(at).is_given_up = true;
            self.pools[pool].needed += self.pools[pool].held[at].len() as u64;
            self.report.given_up += 1;
            self.touch_all(pool, at);
        }
    }

    /// Begins copies, if there is something to do and it was not asked a moment ago.
    pub(super) fn poke(&mut self, pool: usize) {
        if !self.pools[pool].queue.is_empty() && self.now - self.pools[pool].kept >= KEEP_PAUSE {
            self.keep(pool);
        }
    }

    /// Begins the most urgent copies.
    pub(super) fn keep(&mut self, pool: usize) {
        let random = self.rng.next_u64();
        let site = &mut self.pools[pool];
        site.kept = self.now;
        let (repairs, moves) = (site.budget.under_way(true).copies, site.budget.under_way(false).copies);
        let repairs = site.policy().repair.pool_copies.saturating_sub(repairs) as usize;
        let moves = site.policy().moves.pool_copies.saturating_sub(moves) as usize;
        let first = site.first_of_queue(LOOKS * repairs, LOOKS * moves);
        if first.is_empty() {
            return;
        }
        let views: Vec<_> = first.iter().map(|file| site.view(*file)).collect();
        let decided = repair(&site.snapshot, &views, &mut site.budget, random);
        for order in &decided.orders {
            self.begin_copy(pool, order);
        }
        for (FileId(file), outlook) in decided.outlooks {
            match outlook {
                Outlook::Postponed | Outlook::NoRoom(_) => {}
                Outlook::Recall => self.recall(pool, file),
                Outlook::Whole | Outlook::Waits | Outlook::Begun => self.pools[pool].dequeue(file),
                Outlook::Lost => {
                    self.pools[pool].dequeue(file);
                    let row = &self.pools[pool].files[&file];
                    assert!(!row.is_readable(), "file {file} is not lost");
                }
            }
        }
        if !decided.orders.is_empty() {
            self.check_bounds(pool);
        }
    }

    fn begin_copy(&mut self, pool: usize, order: &CopyOrder) {
        let object = self.object();
        let site = &mut self.pools[pool];
        let at = site.number(&order.target);
        site.add_piece(order.file.0, object, at, order.index);
        site.begin_copy(object, order);
        let span = self.duration(order.size_bytes);
        self.after(span, Event::Copied { pool, object });
    }

    /// A copy has ended.
    pub(super) fn copied(&mut self, pool: usize, object: u64) {
        // Its file was deleted meanwhile.
        let Some((order, begun)) = self.pools[pool].end_copy(object) else { return };
        let file = order.file.0;
        let mut is_whole = true;
        let ends = order.sources.iter().map(|source| &source.partition).chain([&order.target]);
        for name in ends {
            let at = self.pools[pool].number(name);
            let server = &self.servers[self.pools[pool].server_of[at]];
            is_whole &= server.is_up && server.down < begun;
        }
        for source in &order.sources {
            let row = &self.pools[pool].files[&file];
            let piece = row.pieces.iter().find(|piece| piece.object == source.object.0);
            let truth = piece.map(|piece| piece.truth);
            if truth == Some(Truth::Corrupt) && is_whole {
                // Who copies compares checksums: this is how the damage is noticed.
                self.found_damage(pool, file, source.object.0);
            }
            is_whole &= truth == Some(Truth::Good);
        }
        if is_whole {
            self.pools[pool].complete_piece(file, object);
            if order.reason == Reason::Repair {
                self.report.repairs += 1;
                self.report.repair_bytes += order.size_bytes;
                self.pools[pool].repairs += 1;
            } else {
                self.report.moves += 1;
            }
        } else {
            self.report.cut_off += 1;
            let servers = &self.servers;
            self.pools[pool].remove_piece(file, object, |server| servers[server].is_up);
        }
        self.touch(pool, file);
        self.poke(pool);
    }

    /// A piece was read and is not what it was.
    pub(super) fn found_damage(&mut self, pool: usize, file: u64, object: u64) {
        let now = self.now;
        let row = self.pools[pool].files.get_mut(&file).expect("the file is there");
        let piece = row.pieces.iter_mut().find(|piece| piece.object == object).expect("the piece is there");
        if piece.state != PieceState::Lost {
            (piece.state, piece.since) = (PieceState::Lost, now);
            row.since = now;
            self.report.found += 1;
            self.pools[pool].needed += 1;
        }
    }

    /// Room is made, fill is balanced, pieces are looked at, what is drained is retired.
    pub(super) fn every_hour(&mut self) {
        for pool in 0..self.pools.len() {
            self.collect(pool);
            self.balance(pool);
            for partition in 0..self.pools[pool].held.len() {
                self.look(pool, partition);
                let is_empty = self.pools[pool].held[partition].is_empty();
                let at = self.pools[pool].at(partition);
                if at.state == PartitionState::Draining && is_empty {
                    at.state = PartitionState::Retired;
                    self.report.drained += 1;
                }
            }
            self.poke(pool);
        }
    }

    fn collect(&mut self, pool: usize) {
        let shortages = collection::shortages(&self.pools[pool].snapshot);
        let mut files = std::collections::BTreeSet::new();
        for shortage in &shortages {
            files.extend(self.pools[pool].files_at(self.pools[pool].number(&shortage.partition)));
        }
        let views: Vec<_> = files.iter().map(|file| self.pools[pool].view(*file)).collect();
        for FileId(file) in collection::collect(&self.pools[pool].snapshot, &views, &shortages) {
            self.check_evicted(pool, file);
            self.drop_pieces(pool, file);
            self.report.evicted += 1;
        }
    }

    /// Takes all pieces of a file off the disks.
    pub(super) fn drop_pieces(&mut self, pool: usize, file: u64) {
        let objects: Vec<_> = self.pools[pool].files[&file].pieces.iter().map(|piece| piece.object).collect();
        for object in objects {
            self.pools[pool].end_copy(object);
            let servers = &self.servers;
            self.pools[pool].remove_piece(file, object, |server| servers[server].is_up);
        }
        self.pools[pool].dequeue(file);
    }

    fn balance(&mut self, pool: usize) {
        // Files to choose from: some of each partition that is too full, others each time.
        const CANDIDATES: usize = 4;
        const SAME_HOUR: u64 = 100;
        let random = self.rng.next_u64();
        let site = &mut self.pools[pool];
        let under_way = site.budget.under_way(false).copies;
        let mut looks = LOOKS * site.policy().moves.pool_copies.saturating_sub(under_way) as usize;
        let mut views = Vec::new();
        for over in balance::overfull(&site.snapshot, &site.budget) {
            let held = &site.held[site.number(&over.partition)];
            let (Some(first), Some(last)) = (held.first(), held.last()) else { continue };
            let from = first.0 + Millis(self.rng.below(1 + (last.0 - first.0).0 as u64) as i64);
            // Many were looked at in the same hour.
            let skip = self.rng.below(SAME_HOUR) as usize;
            let some = held.range((from, 0, 0)..).chain(held).skip(skip).take(CANDIDATES.min(looks));
            looks -= CANDIDATES.min(looks);
            let some = some.filter(|(_, file, _)| site.files[file].is_acknowledged);
            views.extend(some.map(|(_, file, _)| site.view(*file)));
        }
        let orders = balance::balance(&site.snapshot, &views, &mut site.budget, random);
        for order in &orders {
            self.begin_copy(pool, order);
        }
        self.check_bounds(pool);
    }

    /// Looks at the pieces of a partition whose time has come.
    fn look(&mut self, pool: usize, partition: usize) {
        const PIECES: usize = 200;
        let site = &self.pools[pool];
        if !self.servers[site.server_of[partition]].is_up {
            return;
        }
        let interval = site.policy().verify_interval;
        let oldest = site.held[partition].iter().take(PIECES);
        let oldest = oldest.take_while(|(verified, _, _)| self.now - *verified >= interval);
        let oldest: Vec<_> = oldest.copied().collect();
        let views = oldest.iter().filter_map(|(_, file, object)| {
            let row = &site.files[file];
            let piece = row.pieces.iter().find(|piece| piece.object == *object)?;
            Some(site.piece_view(row, piece))
        });
        let views: Vec<_> = views.collect();
        let due = scrub::due(&site.snapshot, &views, PIECES);
        let due: Vec<_> = due.iter().map(|piece| piece.object.0).collect();
        for (before, file, object) in oldest.into_iter().filter(|(_, _, object)| due.contains(object)) {
            self.pools[pool].held[partition].remove(&(before, file, object));
            self.pools[pool].held[partition].insert((self.now, file, object));
            let row = self.pools[pool].files.get_mut(&file).expect("pieces belong to files");
            let piece = row.pieces.iter_mut().find(|piece| piece.object == object);
            let piece = piece.expect("partitions hold pieces of their files");
            piece.verified = self.now;
            if piece.truth != Truth::Good {
                self.found_damage(pool, file, object);
            }
            // Damaged or not: what had no better place when it was written may have one now.
            self.touch(pool, file);
        }
    }
}
