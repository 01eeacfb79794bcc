-- Memory times the wall time of jobs.
ALTER TABLE account ADD COLUMN memory_byte_ms DOUBLE PRECISION NOT NULL DEFAULT 0;
-- What runs of a job cost beside processor time.
CREATE TABLE job_cost (
    job            BIGINT PRIMARY KEY,
    in_bytes       BIGINT NOT NULL,
    out_bytes      BIGINT NOT NULL,
    disk_byte_ms   DOUBLE PRECISION NOT NULL,
    memory_byte_ms DOUBLE PRECISION NOT NULL
);
-- What was read from tape for a job, or for all elements of an array.
CREATE TABLE job_tape (
    job     BIGINT NOT NULL,
    session BIGINT NOT NULL,
    bytes   BIGINT NOT NULL,
    loads   DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (job, session)
);
CREATE INDEX job_tape_session ON job_tape (session);
