-- Volumes can be unread: what lies on them is to be surveyed.
CREATE TABLE volume_new (
    vid        TEXT PRIMARY KEY,
    library    TEXT NOT NULL,
    state      TEXT NOT NULL CHECK (state IN ('blank', 'appendable', 'full', 'unread', 'suspect')),
    reason     TEXT,
    capacity   INTEGER NOT NULL,
    used       INTEGER NOT NULL DEFAULT 0,
    next_fseq  INTEGER NOT NULL DEFAULT 1,
    end_block  INTEGER NOT NULL DEFAULT 1, -- VOL1 is block 0
    leftover   INTEGER NOT NULL DEFAULT 0, -- an append was begun and not reported to its end
    loads      INTEGER NOT NULL DEFAULT 0,
    was_full   INTEGER NOT NULL DEFAULT 0  -- before it became unread
) STRICT;
INSERT INTO volume_new SELECT vid, library, state, reason, capacity, used, next_fseq, end_block, leftover, loads, 0
    FROM volume;
DROP TABLE volume;
ALTER TABLE volume_new RENAME TO volume;

-- Sessions can be surveys.
CREATE TABLE tape_session_new (
    id      INTEGER PRIMARY KEY,
    drive   TEXT NOT NULL UNIQUE,
    vid     TEXT NOT NULL UNIQUE,
    kind    TEXT NOT NULL CHECK (kind IN ('label', 'archive', 'recall', 'survey')),
    owners  TEXT NOT NULL,                -- JSON list: who shares the load
    started INTEGER NOT NULL
) STRICT;
INSERT INTO tape_session_new SELECT id, drive, vid, kind, owners, started FROM tape_session;
DROP TABLE tape_session;
ALTER TABLE tape_session_new RENAME TO tape_session;
