-- Queues of jobs.
CREATE TABLE queue (
    name       TEXT PRIMARY KEY,
    document   TEXT NOT NULL,             -- its settings: JSON
    is_enabled BIGINT NOT NULL,
    is_started BIGINT NOT NULL,
    is_default BIGINT NOT NULL
);
INSERT INTO queue VALUES ('batch', '{}', 1, 1, 1);

-- Numbers that operators set for the whole facility.
CREATE TABLE setting (
    name  TEXT PRIMARY KEY,
    value BIGINT NOT NULL
);

ALTER TABLE job ADD COLUMN queue TEXT NOT NULL DEFAULT 'batch';
ALTER TABLE job ADD COLUMN priority BIGINT NOT NULL DEFAULT 0;
ALTER TABLE job ADD COLUMN grp TEXT NOT NULL DEFAULT '';          -- whose share it is counted to, with the owner
ALTER TABLE job ADD COLUMN name TEXT NOT NULL DEFAULT '';
ALTER TABLE job ADD COLUMN wall BIGINT NOT NULL DEFAULT 86400000;
ALTER TABLE job ADD COLUMN labels TEXT NOT NULL DEFAULT '';       -- that its worker must have, with commas between them
ALTER TABLE job ADD COLUMN holds TEXT NOT NULL DEFAULT '';        -- u: user, o: operator, s: system
-- Elements of an array: the id of the first one, and the index. `spec` is empty but in the first one.
ALTER TABLE job ADD COLUMN array_of BIGINT;
ALTER TABLE job ADD COLUMN idx BIGINT;
ALTER TABLE job ADD COLUMN begins BIGINT;                        -- not before
ALTER TABLE job ADD COLUMN deadline BIGINT;
ALTER TABLE job ADD COLUMN failures BIGINT NOT NULL DEFAULT 0;   -- runs that failed and were tried again
ALTER TABLE job ADD COLUMN submit_key TEXT;                       -- names the submission among those of its owner
UPDATE job SET name = coalesce(spec::json->>'name', ''),
    wall = coalesce((spec::json->'resources'->>'wall')::bigint, 86400000),
    grp = coalesce(owner_groups::json->>0, owner);

CREATE INDEX job_of_array ON job (array_of, state) WHERE array_of IS NOT NULL;
CREATE UNIQUE INDEX job_key ON job (owner, submit_key) WHERE submit_key IS NOT NULL;
CREATE INDEX job_name ON job (owner, name) WHERE state IN ('held','queued','running','archiving');
CREATE INDEX job_begins ON job (begins) WHERE begins IS NOT NULL AND state = 'held';
CREATE INDEX job_deadline ON job (deadline)
    WHERE deadline IS NOT NULL AND state IN ('held','queued','running');

-- Arrays of jobs.
CREATE TABLE job_array (
    id          BIGINT PRIMARY KEY,      -- of the first element
    indices     TEXT NOT NULL,            -- 1-10:2,20
    count       BIGINT NOT NULL,
    index_min   BIGINT NOT NULL,
    index_max   BIGINT NOT NULL,
    running_max BIGINT                   -- NULL: no limit
);

-- What jobs wait for. The rows of an array stand at its first element.
CREATE TABLE job_dependency (
    job    BIGINT NOT NULL,
    idx    BIGINT NOT NULL,
    kind   TEXT NOT NULL,
    on_job BIGINT,                       -- NULL: any of the same name
    whole  BIGINT NOT NULL,              -- all elements of the array of that number
    state  TEXT NOT NULL CHECK (state IN ('waiting', 'met', 'never')),
    PRIMARY KEY (job, idx)
);
CREATE INDEX job_dependency_on ON job_dependency (on_job) WHERE state = 'waiting';
