-- Volumes can be read-only, broken, disabled and exported.
CREATE TABLE volume_new (
    vid         TEXT PRIMARY KEY,
    library     TEXT NOT NULL,
    state       TEXT NOT NULL CHECK (state IN ('blank', 'appendable', 'read_only', 'full', 'unread', 'suspect', 'broken', 'disabled',
                                          'exported')),
    reason      TEXT,
    capacity    INTEGER NOT NULL,
    used        INTEGER NOT NULL DEFAULT 0,
    next_fseq   INTEGER NOT NULL DEFAULT 1,
    end_block   INTEGER NOT NULL DEFAULT 1, -- VOL1 is block 0
    leftover    INTEGER NOT NULL DEFAULT 0, -- an append was begun and not reported to its end
    loads       INTEGER NOT NULL DEFAULT 0,
    was_full    INTEGER NOT NULL DEFAULT 0, -- before it became unread
    expected_in TEXT NOT NULL DEFAULT ''    -- the library that has still to take in its cartridge; empty: none
) STRICT;
INSERT INTO volume_new SELECT vid, library, state, reason, capacity, used, next_fseq, end_block, leftover, loads,
    was_full, expected_in FROM volume;
DROP TABLE volume;
ALTER TABLE volume_new RENAME TO volume;

-- Whether an operator has taken the drive out of use: it gives its volume back.
ALTER TABLE drive ADD COLUMN is_down INTEGER NOT NULL DEFAULT 0;

-- What users have staged: a request of many files that is looked at later.
CREATE TABLE stage_request (
    id        INTEGER PRIMARY KEY,
    owner     TEXT NOT NULL,
    created   INTEGER NOT NULL,
    files     INTEGER NOT NULL,
    completed INTEGER                     -- NULL: some file is not over
) STRICT;
CREATE INDEX stage_request_completed ON stage_request (completed) WHERE completed IS NOT NULL;
INSERT INTO sequence VALUES ('stage_request', 1);
CREATE TABLE stage_file (
    request  INTEGER NOT NULL,
    number   INTEGER NOT NULL,
    path     TEXT NOT NULL,               -- as the user wrote it
    file     INTEGER NOT NULL,            -- 0: it was refused
    state    TEXT NOT NULL,
    error    TEXT,
    metadata TEXT,                        -- JSON
    lifetime INTEGER NOT NULL,            -- how long it is pinned, in ms
    started  INTEGER,
    finished INTEGER,
    PRIMARY KEY (request, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX stage_file_open ON stage_file (file) WHERE state IN ('submitted', 'started');

-- What operators are asked to do with volumes that are in no library.
CREATE TABLE operator_request (
    id       INTEGER PRIMARY KEY,
    vid      TEXT NOT NULL,
    place    TEXT NOT NULL,
    reason   TEXT NOT NULL,
    created  INTEGER NOT NULL,
    answer   TEXT NOT NULL,
    answered INTEGER,
    operator TEXT NOT NULL,
    message  TEXT NOT NULL
) STRICT;
INSERT INTO sequence VALUES ('operator_request', 1);
