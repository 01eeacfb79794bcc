-- Memory times the wall time of jobs.
ALTER TABLE account ADD COLUMN memory_byte_ms REAL NOT NULL DEFAULT 0;
-- What runs of a job cost beside processor time.
CREATE TABLE job_cost (
    job            INTEGER PRIMARY KEY,
    in_bytes       INTEGER NOT NULL,
    out_bytes      INTEGER NOT NULL,
    disk_byte_ms   REAL NOT NULL,
    memory_byte_ms REAL NOT NULL
) STRICT;
-- What was read from tape for a job, or for all elements of an array.
CREATE TABLE job_tape (
    job     INTEGER NOT NULL,
    session INTEGER NOT NULL,
    bytes   INTEGER NOT NULL,
    loads   REAL NOT NULL,
    PRIMARY KEY (job, session)
) STRICT, WITHOUT ROWID;
CREATE INDEX job_tape_session ON job_tape (session);
