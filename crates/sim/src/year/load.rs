//! What users do: they write, delete, pin, archive and read.

use super::{
    DAY, Event, HOUR, Year,
    site::{FileRow, Truth},
};
use base::{Millis, Timestamp};
use head::pool::decide::{
    collection,
    placement::{PlacementRequest, Purpose, place},
    promise::{Acknowledgement, acknowledge, promised_pieces},
    reading::{Reader, readable},
    view::{Layout, PieceState},
};

impl Year {
    /// A user writes a new file; others delete, pin and read.
    pub(super) fn write(&mut self, pool: usize) {
        if self.now >= self.quiet {
            return;
        }
        let per_day = self.pools[pool].plan.files_per_day;
        let pause = Millis(DAY.0 / per_day as i64);
        // Between nothing and twice the average.
        let pause = Millis(self.rng.below(2 * pause.0 as u64) as i64 + 1);
        self.after(pause, Event::Write { pool });
        if !self.begin_write(pool) {
            self.report.failed += 1;
        }
        if self.rng.chance(self.pools[pool].plan.deleted_percent, 100) {
            self.delete(pool);
        }
        if self.rng.chance(1, 10) {
            self.pin(pool);
        }
        if self.rng.chance(1, 4) {
            self.read(pool);
        }
    }

    fn begin_write(&mut self, pool: usize) -> bool {
        let average = self.pools[pool].plan.file_bytes;
        let bytes = average / 2 + self.rng.below(average);
        let layout = Layout::of(self.pools[pool].policy());
        let piece_bytes = bytes / u64::from(layout.needed());
        let promised = promised_pieces(self.pools[pool].policy(), layout);
        let wish = PlacementRequest {
            pieces: layout.pieces(),
            pieces_min: promised,
            bytes: piece_bytes,
            beside: &[],
            purpose: Purpose::Write,
        };
        let random = self.rng.next_u64();
        let placed = place(&self.pools[pool].snapshot, &wish, random).ok();
        let placed = placed.or_else(|| {
            self.make_room(pool, piece_bytes);
            place(&self.pools[pool].snapshot, &wish, random).ok()
        });
        let Some(placed) = placed else { return false };
        self.file_next += 1;
        let file = self.file_next;
        let row = FileRow {
            layout,
            piece_bytes,
            created: self.now,
            used: self.now,
            since: self.now,
            is_acknowledged: false,
            is_pinned: false,
            was_whole: false,
            tape_copies: 0,
            pending: placed.partitions.len() as u32,
            pieces: Vec::new(),
            destroyed: Vec::new(),
        };
        self.pools[pool].files.insert(file, row);
        self.pools[pool].needed += u64::from(layout.pieces()) - placed.partitions.len() as u64;
        for (name, number) in placed.partitions.iter().zip(0..) {
            let object = self.object();
            let at = self.pools[pool].number(name);
            let index = if matches!(layout, Layout::Copies(_)) { 0 } else { number };
            self.pools[pool].add_piece(file, object, at, index);
            let span = self.duration(piece_bytes);
            self.after(span, Event::Written { pool, file, object });
        }
        true
    }

    /// A write that finds no room evicts what it may.
    fn make_room(&mut self, pool: usize, bytes: u64) {
        if self.pools[pool].policy().collection.is_none() {
            return;
        }
        let Some(shortage) = collection::shortage_for(&self.pools[pool].snapshot, bytes) else { return };
        let at = self.pools[pool].number(&shortage.partition);
        let views: Vec<_> =
            self.pools[pool].files_at(at).iter().map(|file| self.pools[pool].view(*file)).collect();
        let evicted = collection::collect(&self.pools[pool].snapshot, &views, &[shortage]);
        for file in evicted {
            self.check_evicted(pool, file.0);
            self.drop_pieces(pool, file.0);
            self.report.evicted += 1;
        }
    }

    /// A piece of a write is durable, unless its server went away.
    pub(super) fn written(&mut self, pool: usize, file: u64, object: u64) {
        let Some(row) = self.pools[pool].files.get_mut(&file) else { return };
        let Some(piece) = row.pieces.iter().find(|piece| piece.object == object) else { return };
        row.pending = row.pending.saturating_sub(1);
        let (at, since, is_coming) = (piece.at, piece.since, piece.truth == Truth::Coming);
        let server = &self.servers[self.pools[pool].server_of[at]];
        if is_coming && server.is_up && server.down < since {
            self.pools[pool].complete_piece(file, object);
        } else if is_coming {
            self.pools[pool].needed += 1;
            let servers = &self.servers;
            self.pools[pool].remove_piece(file, object, |server| servers[server].is_up);
        }
        let view = self.pools[pool].view(file);
        let may_acknowledge = acknowledge(&self.pools[pool].snapshot, &view) == Acknowledgement::Now;
        let row = self.pools[pool].files.get_mut(&file).expect("the file is there");
        if !row.is_acknowledged && may_acknowledge {
            row.is_acknowledged = true;
            row.since = self.now;
            self.report.written += 1;
            if self.rng.chance(self.pools[pool].plan.archived_percent, 100) {
                let delay = Millis(HOUR.0 + self.rng.below(DAY.0 as u64) as i64);
                self.after(delay, Event::Archived { pool, file });
            }
            self.check_acknowledged(pool, file);
        }
        let row = &self.pools[pool].files[&file];
        if !row.is_acknowledged && row.pending == 0 {
            // The promise cannot be kept any more: the writer is told, and nothing is left.
            self.drop_pieces(pool, file);
            self.pools[pool].files.remove(&file);
            self.report.failed += 1;
            return;
        }
        self.touch(pool, file);
        self.poke(pool);
    }

    /// Some file of a pool.
    pub(super) fn some_file(&mut self, pool: usize) -> Option<u64> {
        let from = self.rng.below(self.file_next + 1);
        let files = &self.pools[pool].files;
        let found = files.range(from..).next().or_else(|| files.iter().next());
        found.filter(|(_, row)| row.is_acknowledged).map(|(file, _)| *file)
    }

    fn delete(&mut self, pool: usize) {
        let Some(file) = self.some_file(pool) else { return };
        self.forget(pool, file);
        self.report.deleted += 1;
    }

    /// Removes a file with all its pieces.
    pub(super) fn forget(&mut self, pool: usize, file: u64) {
        self.drop_pieces(pool, file);
        self.pools[pool].files.remove(&file);
    }

    fn pin(&mut self, pool: usize) {
        let Some(file) = self.some_file(pool) else { return };
        self.pools[pool].files.get_mut(&file).expect("the file is there").is_pinned = true;
        let span = Millis(self.rng.below(2 * DAY.0 as u64) as i64);
        self.after(span, Event::Unpinned { pool, file });
    }

    pub(super) fn unpinned(&mut self, pool: usize, file: u64) {
        if let Some(row) = self.pools[pool].files.get_mut(&file) {
            row.is_pinned = false;
        }
    }

    pub(super) fn archived(&mut self, pool: usize, file: u64) {
        if let Some(row) = self.pools[pool].files.get_mut(&file)
            && row.is_readable()
        {
            row.tape_copies = 1;
        }
    }

    /// A user opens a file: it is read where it is, or brought back from tape.
    fn read(&mut self, pool: usize) {
        let Some(file) = self.some_file(pool) else { return };
        let view = self.pools[pool].view(file);
        let found = readable(&self.pools[pool].snapshot, &view.pieces, Reader::default(), self.now.0 as u64);
        for piece in &found {
            let at = self.pools[pool].number(&piece.partition);
            let server = self.pools[pool].server_of[at];
            assert!(!self.is_silent(pool, server), "a reader is sent to who does not answer");
        }
        let row = self.pools[pool].files.get_mut(&file).expect("the file is there");
        row.used = self.now;
        if view.pieces.is_empty() && view.tape_copies > 0 {
            self.recall(pool, file);
        }
    }

    /// Brings a file back from tape: all its pieces are made anew.
    pub(super) fn recall(&mut self, pool: usize, file: u64) {
        // What is on disk is lost: the pieces that may come back are in the way of nobody.
        self.drop_pieces(pool, file);
        let row = &self.pools[pool].files[&file];
        let (layout, bytes) = (row.layout, row.piece_bytes);
        let wish = PlacementRequest {
            pieces: layout.pieces(),
            pieces_min: 1,
            bytes,
            beside: &[],
            purpose: Purpose::Write,
        };
        let random = self.rng.next_u64();
        self.make_room(pool, bytes);
        let Ok(placed) = place(&self.pools[pool].snapshot, &wish, random) else { return };
        for (name, number) in placed.partitions.iter().zip(0..) {
            let object = self.object();
            let at = self.pools[pool].number(name);
            let index = if matches!(layout, Layout::Copies(_)) { 0 } else { number };
            self.pools[pool].add_piece(file, object, at, index);
            let row = self.pools[pool].files.get_mut(&file).expect("the file is there");
            row.pending += 1;
            let span = Millis(self.duration(bytes).0 + HOUR.0 / 2);
            self.after(span, Event::Written { pool, file, object });
        }
    }

    /// What a file has on a partition is in another state; what is coming or lost stays so.
    pub(super) fn set_states(
        &mut self,
        pool: usize,
        file: u64,
        at: usize,
        state: PieceState,
        now: Timestamp,
    ) {
        let row = self.pools[pool].files.get_mut(&file).expect("pieces belong to files that are there");
        for piece in row.pieces.iter_mut().filter(|piece| piece.at == at) {
            if piece.state != PieceState::Coming && piece.state != PieceState::Lost {
                (piece.state, piece.since) = (state, now);
            }
        }
    }
}
