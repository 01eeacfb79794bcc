-- To which project a file or directory is counted; empty: none. What is made in a directory inherits it.
ALTER TABLE node ADD COLUMN project TEXT COLLATE "C" NOT NULL DEFAULT '';

-- Accounts: a user in a group, in a project, on a pool (empty: names, jobs, tape), with a row for each month in which something changed.
-- The newest row says what the account holds.
ALTER TABLE account RENAME TO account_before;
CREATE TABLE account (
    id            BIGINT PRIMARY KEY,
    owner         TEXT COLLATE "C" NOT NULL,
    grp           TEXT COLLATE "C" NOT NULL,
    project       TEXT COLLATE "C" NOT NULL,
    pool          TEXT COLLATE "C" NOT NULL,
    month         BIGINT NOT NULL,       -- 202611; 0: before accounts were kept by month
    files         BIGINT NOT NULL,       -- in the namespace, at the end of the month or now
    bytes         BIGINT NOT NULL,
    replicas      BIGINT NOT NULL,       -- on disk
    disk_bytes    BIGINT NOT NULL,
    since         BIGINT NOT NULL,       -- until then is what it holds in disk_byte_ms
    jobs          BIGINT NOT NULL,
    cpu_ms        BIGINT NOT NULL,
    slot_wall_ms  BIGINT NOT NULL,
    tape_loads    DOUBLE PRECISION NOT NULL,
    tape_written  BIGINT NOT NULL,
    tape_read     BIGINT NOT NULL,
    bytes_in      BIGINT NOT NULL,
    bytes_out     BIGINT NOT NULL,
    transfers_in  BIGINT NOT NULL,
    transfers_out BIGINT NOT NULL,
    disk_byte_ms  DOUBLE PRECISION NOT NULL,
    UNIQUE (owner, grp, project, pool, month)
);
INSERT INTO account
    SELECT row_number() OVER (ORDER BY x.owner, x.grp, x.pool), x.owner, x.grp, '', x.pool, 0,
        CAST(sum(x.files) AS BIGINT), CAST(sum(x.bytes) AS BIGINT), CAST(sum(x.replicas) AS BIGINT),
        CAST(sum(x.disk_bytes) AS BIGINT), max(x.since), CAST(sum(x.jobs) AS BIGINT), CAST(sum(x.cpu_ms) AS BIGINT),
        CAST(sum(x.slot_wall_ms) AS BIGINT), sum(x.tape_loads), CAST(sum(x.tape_written) AS BIGINT),
        CAST(sum(x.tape_read) AS BIGINT), CAST(sum(x.bytes_in) AS BIGINT), CAST(sum(x.bytes_out) AS BIGINT), 0, 0,
        -- What replicas have cost until the last of them was made.
        sum(x.disk_byte_ms) + CAST(sum(x.disk_bytes) AS DOUBLE PRECISION) * max(x.since)
            - sum(CAST(x.disk_bytes AS DOUBLE PRECISION) * x.since)
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
    kind  TEXT COLLATE "C" NOT NULL CHECK (kind IN ('user', 'group', 'project')),
    name  TEXT COLLATE "C" NOT NULL,
    bytes BIGINT,
    files BIGINT,
    PRIMARY KEY (kind, name)
);
