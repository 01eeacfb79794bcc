-- Rooms of hosts that joined; empty: those in the head's own process.
ALTER TABLE worker ADD COLUMN host TEXT NOT NULL DEFAULT '';
ALTER TABLE drive ADD COLUMN host TEXT NOT NULL DEFAULT '';

-- Groups that were proven when the job was submitted: a JSON list.
ALTER TABLE job ADD COLUMN owner_groups TEXT NOT NULL DEFAULT '[]';
