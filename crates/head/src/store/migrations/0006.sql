-- To which project a file or directory is counted; empty: none. What is made in a directory inherits it.
ALTER TABLE node ADD COLUMN project TEXT NOT NULL DEFAULT '';

-- Accounts: a user in a group, in a project, on a pool (empty: names, jobs, tape), with a row for each month in which something changed.
-- The newest row says what the account holds.
ALTER TABLE account RENAME TO account_before;
CREATE TABLE account (
    id            INTEGER PRIMARY KEY,
    owner         TEXT NOT NULL,
    grp           TEXT NOT NULL,
    project       TEXT NOT NULL,
    pool          TEXT NOT NULL,
    month         INTEGER NOT NULL,       -- 202611; 0: before accounts were kept by month
    files         INTEGER NOT NULL,       -- in the namespace, at the end of the month or now
    bytes         INTEGER NOT NULL,
    replicas      INTEGER NOT NULL,       -- on disk
    disk_bytes    INTEGER NOT NULL,
    since         INTEGER NOT NULL,       -- until then is what it holds in disk_byte_ms
    jobs          INTEGER NOT NULL,
    cpu_ms        INTEGER NOT NULL,
    slot_wall_ms  INTEGER NOT NULL,
    tape_loads    REAL NOT NULL,
    tape_written  INTEGER NOT NULL,
    tape_read     INTEGER NOT NULL,
    bytes_in      INTEGER NOT NULL,
    bytes_out     INTEGER NOT NULL,
    transfers_in  INTEGER NOT NULL,
    transfers_out INTEGER NOT NULL,
    disk_byte_ms  REAL NOT NULL,
    UNIQUE (owner, grp, project, pool, month)
) STRICT;
INSERT INTO account
    SELECT row_number() OVER (ORDER BY x.owner, x.grp, x.pool), x.owner, x.grp, '', x.pool, 0,
        CAST(sum(x.files) AS INTEGER), CAST(sum(x.bytes) AS INTEGER), CAST(sum(x.replicas) AS INTEGER),
        CAST(sum(x.disk_bytes) AS INTEGER), max(x.since), CAST(sum(x.jobs) AS INTEGER), CAST(sum(x.cpu_ms) AS INTEGER),
        CAST(sum(x.slot_wall_ms) AS INTEGER), sum(x.tape_loads), CAST(sum(x.tape_written) AS INTEGER),
        CAST(sum(x.tape_read) AS INTEGER), CAST(sum(x.bytes_in) AS INTEGER), CAST(sum(x.bytes_out) AS INTEGER), 0, 0,
        -- What replicas have cost until the last of them was made.
        sum(x.disk_byte_ms) + CAST(sum(x.disk_bytes) AS REAL) * max(x.since)
            - sum(CAST(x.disk_bytes AS REAL) * x.since)
    FROM (
        SELECT owner, owner AS grp, '' AS pool, 0 AS files, 0 AS bytes, 0 AS replicas, 0 AS disk_bytes,
            (SELECT created FROM facility) AS since, jobs, cpu_ms, slot_wall_ms, tape_loads, tape_written, tape_read,
            bytes_in, bytes_out, disk_byte_ms
        FROM account_before
        UNION ALL
        SELECT n.owner, n.grp, '', 1, n.size, 0, 0, (SELECT created FROM facility), 0, 0, 0, 0.0, 0, 0, 0, 0, 0.0
        FROM node n WHERE n.kind = 'file'
        UNION ALL
        SELECT r.owner, n.grp, coalesce(p.pool, ''), 0, 0, 1, r.size, r.created, 0, 0, 0, 0.0, 0, 0, 0, 0, 0.0
        FROM replica r JOIN node n ON n.id = r.file LEFT JOIN partition p ON p.name = r.partition
        WHERE r.state = 'online'
    ) x
    GROUP BY x.owner, x.grp, x.pool;
DROP TABLE account_before;

-- What users, groups and projects may hold at most; NULL: no limit.
CREATE TABLE quota (
    kind  TEXT NOT NULL CHECK (kind IN ('user', 'group', 'project')),
    name  TEXT NOT NULL,
    bytes INTEGER,
    files INTEGER,
    PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;
