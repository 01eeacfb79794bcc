-- The facility itself: one row.
CREATE TABLE facility (
    only_row    BIGINT PRIMARY KEY CHECK (only_row = 1),
    id          TEXT COLLATE "C" NOT NULL,
    name        TEXT COLLATE "C" NOT NULL,
    owner       TEXT COLLATE "C" NOT NULL,
    created     BIGINT NOT NULL,
    incarnation BIGINT NOT NULL          -- starts of the head
);

-- Files and directories. The root is 1 and its own parent. Ids are never used twice: they stand in tape labels.
CREATE TABLE node (
    id       BIGINT PRIMARY KEY,
    parent   BIGINT NOT NULL,
    name     TEXT COLLATE "C" NOT NULL,
    kind     TEXT COLLATE "C" NOT NULL CHECK (kind IN ('directory', 'file')),
    owner    TEXT COLLATE "C" NOT NULL,
    grp      TEXT COLLATE "C" NOT NULL,
    mode     BIGINT NOT NULL,
    size     BIGINT NOT NULL DEFAULT 0,
    modified BIGINT NOT NULL,
    adler32  BIGINT,                     -- both NULL until the first write is committed
    crc32c   BIGINT
);
CREATE UNIQUE INDEX node_name ON node (parent, name);

-- Disk servers' partitions.
CREATE TABLE partition (
    name  TEXT COLLATE "C" PRIMARY KEY,
    pool  TEXT COLLATE "C" NOT NULL,
    total BIGINT NOT NULL,
    free  BIGINT NOT NULL
);

-- Objects. Ids are never used twice: a removal that comes late must not hit a newer object.
CREATE TABLE replica (
    object    BIGINT PRIMARY KEY,
    file      BIGINT NOT NULL,
    partition TEXT COLLATE "C" NOT NULL,
    state     TEXT COLLATE "C" NOT NULL CHECK (state IN ('writing', 'recalling', 'online')),
    owner     TEXT COLLATE "C" NOT NULL,              -- who pays for the space
    size      BIGINT NOT NULL,           -- expected size until it is online
    created   BIGINT NOT NULL,           -- when it came online
    used      BIGINT NOT NULL            -- last open
);
CREATE INDEX replica_file ON replica (file);
CREATE INDEX replica_unsettled ON replica (partition, state) WHERE state <> 'online';

-- Who keeps a replica from being evicted.
CREATE TABLE pin (
    file    BIGINT NOT NULL,
    holder  TEXT COLLATE "C" NOT NULL,                -- 'job 7', 'user alice'
    expires BIGINT,                      -- NULL: until the holder lets go
    PRIMARY KEY (file, holder)
);
CREATE INDEX pin_holder ON pin (holder);

CREATE TABLE drive (
    name    TEXT COLLATE "C" PRIMARY KEY,
    library TEXT COLLATE "C" NOT NULL,
    trouble TEXT COLLATE "C"                          -- why it is out of use
);

CREATE TABLE volume (
    vid        TEXT COLLATE "C" PRIMARY KEY,
    library    TEXT COLLATE "C" NOT NULL,
    state      TEXT COLLATE "C" NOT NULL CHECK (state IN ('blank', 'appendable', 'full', 'suspect')),
    reason     TEXT COLLATE "C",
    capacity   BIGINT NOT NULL,
    used       BIGINT NOT NULL DEFAULT 0,
    next_fseq  BIGINT NOT NULL DEFAULT 1,
    end_block  BIGINT NOT NULL DEFAULT 1, -- VOL1 is block 0
    leftover   BIGINT NOT NULL DEFAULT 0, -- an append was begun and not reported to its end
    loads      BIGINT NOT NULL DEFAULT 0
);

CREATE TABLE copy (
    id      BIGINT PRIMARY KEY,
    file    BIGINT NOT NULL,
    vid     TEXT COLLATE "C" NOT NULL,
    fseq    BIGINT NOT NULL,
    block   BIGINT NOT NULL,
    size    BIGINT NOT NULL,
    created BIGINT NOT NULL,
    UNIQUE (vid, fseq)
);
CREATE INDEX copy_file ON copy (file);

-- The tape queue: one row per file and direction; later askers wait on the same row.
CREATE TABLE request (
    id         BIGINT PRIMARY KEY,
    kind       TEXT COLLATE "C" NOT NULL CHECK (kind IN ('archive', 'recall')),
    file       BIGINT NOT NULL,
    state      TEXT COLLATE "C" NOT NULL CHECK (state IN ('queued', 'active', 'failed')),
    owner      TEXT COLLATE "C" NOT NULL,
    attempts   BIGINT NOT NULL DEFAULT 0,
    not_before BIGINT NOT NULL,
    reason     TEXT COLLATE "C",                      -- what went wrong last
    session    BIGINT,
    object     BIGINT,                   -- what is being copied, or the reserved object
    created    BIGINT NOT NULL,
    UNIQUE (kind, file)
);
CREATE INDEX request_session ON request (session) WHERE session IS NOT NULL;

-- Sessions under way.
CREATE TABLE tape_session (
    id      BIGINT PRIMARY KEY,
    drive   TEXT COLLATE "C" NOT NULL UNIQUE,
    vid     TEXT COLLATE "C" NOT NULL UNIQUE,
    kind    TEXT COLLATE "C" NOT NULL CHECK (kind IN ('label', 'archive', 'recall')),
    owners  TEXT COLLATE "C" NOT NULL,                -- JSON list: who shares the load
    started BIGINT NOT NULL
);

CREATE TABLE worker (
    name         TEXT COLLATE "C" PRIMARY KEY,
    cpus         BIGINT NOT NULL,
    memory       BIGINT NOT NULL,
    not_enforced TEXT COLLATE "C" NOT NULL            -- JSON list
);

CREATE TABLE job (
    id        BIGINT PRIMARY KEY,
    owner     TEXT COLLATE "C" NOT NULL,
    spec      TEXT COLLATE "C" NOT NULL,              -- JSON
    state     TEXT COLLATE "C" NOT NULL CHECK (state IN ('held','queued','running','archiving','done','failed','cancelled')),
    cpus      BIGINT NOT NULL,
    memory    BIGINT NOT NULL,
    reason    TEXT COLLATE "C",
    worker    TEXT COLLATE "C",
    has_begun BIGINT NOT NULL DEFAULT 0, -- the current run has a shepherd
    is_cancelled BIGINT NOT NULL DEFAULT 0,
    attempt   BIGINT NOT NULL DEFAULT 0,
    exit      TEXT COLLATE "C",                       -- JSON
    usage     TEXT COLLATE "C",                       -- JSON
    stdout    TEXT COLLATE "C" NOT NULL DEFAULT '',
    stderr    TEXT COLLATE "C" NOT NULL DEFAULT '',
    submitted BIGINT NOT NULL,
    started   BIGINT,
    ended     BIGINT
);
CREATE INDEX job_active ON job (state) WHERE state IN ('held','queued','running','archiving');

CREATE TABLE job_file (
    job  BIGINT NOT NULL,
    role TEXT COLLATE "C" NOT NULL CHECK (role IN ('input', 'output')),
    idx  BIGINT NOT NULL,
    file BIGINT NOT NULL,
    PRIMARY KEY (job, role, idx)
);
CREATE INDEX job_file_file ON job_file (file);

-- The bill, per owner, since the facility was made.
CREATE TABLE account (
    owner         TEXT COLLATE "C" PRIMARY KEY,
    jobs          BIGINT NOT NULL DEFAULT 0,
    cpu_ms        BIGINT NOT NULL DEFAULT 0,
    slot_wall_ms  BIGINT NOT NULL DEFAULT 0,
    tape_loads    DOUBLE PRECISION NOT NULL DEFAULT 0,
    tape_written  BIGINT NOT NULL DEFAULT 0,
    tape_read     BIGINT NOT NULL DEFAULT 0,
    bytes_in      BIGINT NOT NULL DEFAULT 0,
    bytes_out     BIGINT NOT NULL DEFAULT 0,
    disk_byte_ms  DOUBLE PRECISION NOT NULL DEFAULT 0
);
-- What users keep with files and directories.
CREATE TABLE attribute (
    file  BIGINT NOT NULL,
    name  TEXT COLLATE "C" NOT NULL,
    value BYTEA NOT NULL,
    PRIMARY KEY (file, name)
);

-- Objects that their disk server is to delete. They belong to no file any more.
CREATE TABLE removal (
    object    BIGINT PRIMARY KEY,
    partition TEXT COLLATE "C" NOT NULL
);
CREATE INDEX removal_partition ON removal (partition, object);

-- The head gives ids itself. What is below `next` has been set aside: none is ever used twice, also those that were never used.
CREATE TABLE sequence (
    name TEXT COLLATE "C" PRIMARY KEY,
    next BIGINT NOT NULL
);
INSERT INTO sequence VALUES ('node', 2), ('replica', 1), ('copy', 1), ('request', 1), ('tape_session', 1), ('job', 1);

-- A head that another one has taken over from must not write any more. The row stays locked until the group ends, so that whoever
-- takes over waits for it, and what begins later finds the number changed.
CREATE FUNCTION fence(mine BIGINT) RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM facility WHERE incarnation = mine FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'another head has taken over' USING ERRCODE = 'BPF01';
    END IF;
END
$$;
