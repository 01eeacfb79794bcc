-- Signals, messages and changed limits that a worker has not carried out yet.
CREATE TABLE job_delivery (
    number  INTEGER PRIMARY KEY,
    worker  TEXT NOT NULL,
    job     INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    what    TEXT NOT NULL                 -- JSON
) STRICT;
CREATE INDEX job_delivery_worker ON job_delivery (worker, number);
