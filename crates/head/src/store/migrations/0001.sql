-- The facility itself: one row.
CREATE TABLE facility (
    only_row    INTEGER PRIMARY KEY CHECK (only_row = 1),
    id          TEXT NOT NULL,
    name        TEXT NOT NULL,
    owner       TEXT NOT NULL,
    created     INTEGER NOT NULL,
    incarnation INTEGER NOT NULL          -- starts of the head
) STRICT;

-- Files and directories. The root is 1 and its own parent. Ids are never used twice: they stand in tape labels.
CREATE TABLE node (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    parent   INTEGER NOT NULL,
    name     TEXT NOT NULL,
    kind     TEXT NOT NULL CHECK (kind IN ('directory', 'file')),
    owner    TEXT NOT NULL,
    grp      TEXT NOT NULL,
    mode     INTEGER NOT NULL,
    size     INTEGER NOT NULL DEFAULT 0,
    modified INTEGER NOT NULL,
    adler32  INTEGER,                     -- both NULL until the first write is committed
    crc32c   INTEGER
) STRICT;
CREATE UNIQUE INDEX node_name ON node (parent, name);

-- Disk servers' partitions.
CREATE TABLE partition (
    name  TEXT PRIMARY KEY,
    pool  TEXT NOT NULL,
    total INTEGER NOT NULL,
    free  INTEGER NOT NULL
) STRICT;

-- Objects. Ids are never used twice: a removal that comes late must not hit a newer object.
CREATE TABLE replica (
    object    INTEGER PRIMARY KEY AUTOINCREMENT,
    file      INTEGER NOT NULL,
    partition TEXT NOT NULL,
    state     TEXT NOT NULL CHECK (state IN ('writing', 'recalling', 'online', 'removing')),
    owner     TEXT NOT NULL,              -- who pays for the space
    size      INTEGER NOT NULL,           -- expected size until it is online
    created   INTEGER NOT NULL,           -- when it came online
    used      INTEGER NOT NULL            -- last open
) STRICT;
CREATE INDEX replica_file ON replica (file);
CREATE INDEX replica_unsettled ON replica (partition, state) WHERE state <> 'online';

-- Who keeps a replica from being evicted.
CREATE TABLE pin (
    file    INTEGER NOT NULL,
    holder  TEXT NOT NULL,                -- 'job 7', 'user alice'
    expires INTEGER,                      -- NULL: until the holder lets go
    PRIMARY KEY (file, holder)
) STRICT, WITHOUT ROWID;
CREATE INDEX pin_holder ON pin (holder);

CREATE TABLE drive (
    name    TEXT PRIMARY KEY,
    library TEXT NOT NULL,
    trouble TEXT                          -- why it is out of use
) STRICT;

CREATE TABLE volume (
    vid        TEXT PRIMARY KEY,
    library    TEXT NOT NULL,
    state      TEXT NOT NULL CHECK (state IN ('blank', 'appendable', 'full', 'suspect')),
    reason     TEXT,
    capacity   INTEGER NOT NULL,
    used       INTEGER NOT NULL DEFAULT 0,
    next_fseq  INTEGER NOT NULL DEFAULT 1,
    end_block  INTEGER NOT NULL DEFAULT 1, -- VOL1 is block 0
    leftover   INTEGER NOT NULL DEFAULT 0, -- an append was begun and not reported to its end
    loads      INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE copy (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    file    INTEGER NOT NULL,
    vid     TEXT NOT NULL,
    fseq    INTEGER NOT NULL,
    block   INTEGER NOT NULL,
    size    INTEGER NOT NULL,
    created INTEGER NOT NULL,
    UNIQUE (vid, fseq)
) STRICT;
CREATE INDEX copy_file ON copy (file);

-- The tape queue: one row per file and direction; later askers wait on the same row.
CREATE TABLE request (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    kind       TEXT NOT NULL CHECK (kind IN ('archive', 'recall')),
    file       INTEGER NOT NULL,
    state      TEXT NOT NULL CHECK (state IN ('queued', 'active', 'failed')),
    owner      TEXT NOT NULL,
    attempts   INTEGER NOT NULL DEFAULT 0,
    not_before INTEGER NOT NULL,
    reason     TEXT,                      -- what went wrong last
    session    INTEGER,
    object     INTEGER,                   -- what is being copied, or the reserved object
    created    INTEGER NOT NULL,
    UNIQUE (kind, file)
) STRICT;
CREATE INDEX request_session ON request (session) WHERE session IS NOT NULL;

-- Sessions under way.
CREATE TABLE tape_session (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    drive   TEXT NOT NULL UNIQUE,
    vid     TEXT NOT NULL UNIQUE,
    kind    TEXT NOT NULL CHECK (kind IN ('label', 'archive', 'recall')),
    owners  TEXT NOT NULL,                -- JSON list: who shares the load
    started INTEGER NOT NULL
) STRICT;

CREATE TABLE worker (
    name         TEXT PRIMARY KEY,
    cpus         INTEGER NOT NULL,
    memory       INTEGER NOT NULL,
    not_enforced TEXT NOT NULL            -- JSON list
) STRICT;

CREATE TABLE job (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    owner     TEXT NOT NULL,
    spec      TEXT NOT NULL,              -- JSON
    state     TEXT NOT NULL CHECK (state IN ('held','queued','running','archiving','done','failed','cancelled')),
    cpus      INTEGER NOT NULL,
    memory    INTEGER NOT NULL,
    reason    TEXT,
    worker    TEXT,
    has_begun INTEGER NOT NULL DEFAULT 0, -- the current run has a shepherd
    is_cancelled INTEGER NOT NULL DEFAULT 0,
    attempt   INTEGER NOT NULL DEFAULT 0,
    exit      TEXT,                       -- JSON
    usage     TEXT,                       -- JSON
    stdout    TEXT NOT NULL DEFAULT '',
    stderr    TEXT NOT NULL DEFAULT '',
    submitted INTEGER NOT NULL,
    started   INTEGER,
    ended     INTEGER
) STRICT;
CREATE INDEX job_active ON job (state) WHERE state IN ('held','queued','running','archiving');

CREATE TABLE job_file (
    job  INTEGER NOT NULL,
    role TEXT NOT NULL CHECK (role IN ('input', 'output')),
    idx  INTEGER NOT NULL,
    file INTEGER NOT NULL,
    PRIMARY KEY (job, role, idx)
) STRICT, WITHOUT ROWID;
CREATE INDEX job_file_file ON job_file (file);

-- The bill, per owner, since the facility was made.
CREATE TABLE account (
    owner         TEXT PRIMARY KEY,
    jobs          INTEGER NOT NULL DEFAULT 0,
    cpu_ms        INTEGER NOT NULL DEFAULT 0,
    slot_wall_ms  INTEGER NOT NULL DEFAULT 0,
    tape_loads    REAL NOT NULL DEFAULT 0,
    tape_written  INTEGER NOT NULL DEFAULT 0,
    tape_read     INTEGER NOT NULL DEFAULT 0,
    bytes_in      INTEGER NOT NULL DEFAULT 0,
    bytes_out     INTEGER NOT NULL DEFAULT 0,
    disk_byte_ms  REAL NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
