-- What operators and hosts say of workers.
ALTER TABLE worker ADD COLUMN labels TEXT NOT NULL DEFAULT '[]';
ALTER TABLE worker ADD COLUMN architecture TEXT NOT NULL DEFAULT '';
ALTER TABLE worker ADD COLUMN is_draining INTEGER NOT NULL DEFAULT 0;       -- takes no more jobs
