-- Signals, messages and changed limits that a worker has not carried out yet.
CREATE TABLE job_delivery (
    number  BIGINT PRIMARY KEY,
    worker  TEXT COLLATE "C" NOT NULL,
    job     BIGINT NOT NULL,
    attempt BIGINT NOT NULL,
    what    TEXT COLLATE "C" NOT NULL
);
CREATE INDEX job_delivery_worker ON job_delivery (worker, number);
