//! What breaks, and how it comes back.

use super::{DAY, Event, HOUR, Year, site::Truth};
use base::Millis;
use head::pool::decide::view::{PartitionState, PieceState};

impl Year {
    /// One of the faults of the plan; then the next is awaited.
    pub(super) fn fault(&mut self) {
        if self.now >= self.quiet {
            return;
        }
        let faults = self.plan.faults;
        let rates = [faults.blips, faults.crashes, faults.disk_losses, faults.splits, faults.corruptions];
        let all: u64 = rates.iter().sum();
        let pause = 1000 * DAY.0 as u64 / all.max(1);
        let pause = Millis(self.rng.below(2 * pause) as i64 + 1);
        self.after(pause, Event::Fault);
        let mut number = self.rng.below(all);
        let kind = rates.iter().position(|rate| {
            let is_it = number < *rate;
            number = number.saturating_sub(*rate);
            is_it
        });
        match kind {
            Some(0) => self.blip(),
            Some(1) => self.crash(),
            Some(2) => self.lose_disk(),
            Some(3) => self.split(),
            _ => self.corrupt(),
        }
    }

    /// A server that can be reached and has said what it has.
    fn some_server(&mut self) -> Option<usize> {
        let server = self.rng.below(self.servers.len() as u64) as usize;
        (self.servers[server].is_up && !self.servers[server].is_registering).then_some(server)
    }

    fn blip(&mut self) {
        let Some(server) = self.some_server() else { return };
        self.cut_off(server);
        let span = Millis(60_000 + self.rng.below(50 * 60_000) as i64);
        self.after(span, Event::Return { server, is_restart: false });
    }

    /// A server is down, and some of what it had may be gone.
    fn crash(&mut self) {
        let Some(server) = self.some_server() else { return };
        self.cut_off(server);
        // Mostly hours, up to four days.
        let most = 1 + self.rng.below(4 * DAY.0 as u64);
        let span = Millis(HOUR.0 / 2 + self.rng.below(most) as i64);
        self.after(span, Event::Return { server, is_restart: true });
        // Of ten: seven lose nothing, two a tenth of it, one everything.
        let lost_percent = match self.rng.below(10) {
            0 => 100,
            1 | 2 => 10,
            _ => return,
        };
        for pool in 0..self.pools.len() {
            for at in self.pools[pool].partitions_of(server) {
                self.destroy_at(pool, at, lost_percent);
            }
        }
    }

    fn destroy_at(&mut self, pool: usize, at: usize, percent: u64) {
        for (_, file, object) in self.pools[pool].held[at].clone() {
            if self.rng.chance(percent, 100) && self.pools[pool].destroy(file, object, Truth::Gone) {
                self.report.destroyed += 1;
                self.check_lost(pool, file);
            }
        }
    }

    /// A disk dies and is replaced by an empty one; its server says so at once.
    fn lose_disk(&mut self) {
        let pool = self.rng.below(self.pools.len() as u64) as usize;
        let at = self.rng.below(self.pools[pool].held.len() as u64) as usize;
        let server = self.pools[pool].server_of[at];
        if !self.servers[server].is_up || self.servers[server].is_registering {
            return;
        }
        self.servers[server].down = self.now;
        self.destroy_at(pool, at, 100);
        self.register_partition(pool, at);
        self.poke(pool);
    }

    /// Racks cannot be reached by the head.
    fn split(&mut self) {
        let racks = 1 + self.rng.below(self.plan.racks as u64 * 2 / 3);
        let first = self.rng.below(self.plan.racks as u64);
        let span = Millis(600_000 + self.rng.below(10 * HOUR.0 as u64) as i64);
        for server in 0..self.servers.len() {
            let rack = server as u64 % self.plan.racks as u64;
            let is_behind = (rack + self.plan.racks as u64 - first) % (self.plan.racks as u64) < racks;
            if is_behind && self.servers[server].is_up && !self.servers[server].is_registering {
                self.cut_off(server);
                self.after(span, Event::Return { server, is_restart: false });
            }
        }
    }

    /// Bits flip, and nobody notices.
    fn corrupt(&mut self) {
        for _ in 0..=self.rng.below(5) {
            let pool = self.rng.below(self.pools.len() as u64) as usize;
            let Some(file) = self.some_file(pool) else { continue };
            let pieces = &self.pools[pool].files[&file].pieces;
            if pieces.is_empty() {
                continue;
            }
            let object = pieces[self.rng.below(pieces.len() as u64) as usize].object;
            if self.pools[pool].destroy(file, object, Truth::Corrupt) {
                self.report.destroyed += 1;
                self.report.corrupted += 1;
                self.check_lost(pool, file);
            }
        }
    }

    /// A server can be reached again. One that was restarted or given up has to say what it has.
    pub(super) fn come_back(&mut self, server: usize, is_restart: bool) {
        self.reach(server);
        let mut is_given_up = false;
        for pool in 0..self.pools.len() {
            for at in self.pools[pool].partitions_of(server) {
                is_given_up |= self.pools[pool].snapshot.partitions()[at].is_given_up;
            }
        }
        let must_register = is_restart || is_given_up;
        self.servers[server].is_registering = must_register;
        for pool in 0..self.pools.len() {
            for at in self.pools[pool].partitions_of(server) {
                // In one step: who is not given up any more must be suspect.
                self.pools[pool].at(at).is_given_up = false;
                if must_register {
                    for file in self.pools[pool].files_at(at) {
                        self.set_states(pool, file, at, PieceState::Suspect, self.now);
                    }
                }
                self.touch_all(pool, at);
            }
            self.poke(pool);
        }
        if must_register {
            let span = Millis(60_000 + self.rng.below(20 * 60_000) as i64);
            self.after(span, Event::Registered { server });
        }
    }

    /// A server has said what it has.
    pub(super) fn registered(&mut self, server: usize) {
        self.servers[server].is_registering = false;
        for pool in 0..self.pools.len() {
            for at in self.pools[pool].partitions_of(server) {
                self.register_partition(pool, at);
            }
            self.poke(pool);
        }
    }

    fn register_partition(&mut self, pool: usize, at: usize) {
        // What the catalogue does not know is deleted.
        let orphans = std::mem::take(&mut self.pools[pool].orphan_bytes[at]);
        self.pools[pool].at(at).free_bytes += orphans;
        let now = self.now;
        let bound = self.pools[pool].policy().silence_bound;
        for (_, file, object) in self.pools[pool].held[at].clone() {
            let row = self.pools[pool].files.get_mut(&file).expect("pieces belong to files that are there");
            let piece = row.pieces.iter_mut().find(|piece| piece.object == object);
            let piece = piece.expect("partitions hold pieces of their files");
            let state = match piece.truth {
                Truth::Coming => continue,
                Truth::Gone => PieceState::Lost,
                Truth::Good | Truth::Corrupt if piece.state == PieceState::Lost => continue,
                Truth::Good | Truth::Corrupt => PieceState::Verified,
            };
            if piece.state != state {
                // Who takes longer to say what it has than silence is borne is repaired meanwhile.
                let was_missed = piece.state == PieceState::Suspect && now - piece.since > bound;
                (piece.state, piece.since) = (state, now);
                if state == PieceState::Lost {
                    row.since = now;
                }
                if state == PieceState::Lost || was_missed {
                    self.pools[pool].needed += 1;
                }
            }
        }
        self.touch_all(pool, at);
    }

    /// Some servers are bought, and some disks become larger.
    pub(super) fn grow(&mut self) {
        let more = (self.plan.servers / 20).max(1);
        for _ in 0..more {
            let number = self.servers.len();
            self.servers.push(super::site::Server::new(number, self.plan.racks));
            for pool in &mut self.pools {
                let server = &self.servers[number];
                pool.add_partition(number, server);
            }
        }
        for pool in 0..self.pools.len() {
            let at = self.rng.below(self.pools[pool].held.len() as u64) as usize;
            let partition = self.pools[pool].at(at);
            let more = partition.capacity_bytes / 4;
            partition.capacity_bytes += more;
            partition.free_bytes += more;
        }
    }

    /// A partition is to be emptied.
    pub(super) fn drain(&mut self) {
        let pool = self.rng.below(self.pools.len() as u64) as usize;
        let at = self.rng.below(self.pools[pool].held.len() as u64) as usize;
        if self.pools[pool].snapshot.partitions()[at].state == PartitionState::InUse {
            self.pools[pool].at(at).state = PartitionState::Draining;
            self.touch_all(pool, at);
            self.poke(pool);
        }
    }
}
