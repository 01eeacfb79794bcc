-- Whose jobs a worker runs, JSON; empty: it did not say so, and runs those of everybody.
ALTER TABLE worker ADD COLUMN users TEXT NOT NULL DEFAULT '{}';

-- Whether the facility's owner submitted it, as was proven then. Of older jobs nobody knows, and nobody believes it.
ALTER TABLE job ADD COLUMN by_facility_owner INTEGER NOT NULL DEFAULT 0;
-- User of the worker's host whom it runs as.
ALTER TABLE job ADD COLUMN run_as TEXT;
-- What the worker cannot enforce for it, JSON list.
ALTER TABLE job ADD COLUMN not_enforced TEXT NOT NULL DEFAULT '[]';
