-- When all files of a volume were read and compared last, and the next file of a verification under way; 0: there is none.
ALTER TABLE volume ADD COLUMN verified INTEGER;
ALTER TABLE volume ADD COLUMN verify_next INTEGER NOT NULL DEFAULT 0;
-- Copies that a verification found damaged.
CREATE TABLE damaged_copy (
    vid           TEXT NOT NULL,
    fseq          INTEGER NOT NULL,
    member_offset INTEGER NOT NULL,
    file          INTEGER NOT NULL,
    size          INTEGER NOT NULL,
    found         INTEGER NOT NULL,
    reason        TEXT NOT NULL,
    PRIMARY KEY (vid, fseq, member_offset)
) STRICT, WITHOUT ROWID;
CREATE INDEX damaged_copy_file ON damaged_copy (file);

-- Sessions can be verifications.
CREATE TABLE tape_session_new (
    id      INTEGER PRIMARY KEY,
    drive   TEXT NOT NULL UNIQUE,
    vid     TEXT NOT NULL UNIQUE,
    kind    TEXT NOT NULL CHECK (kind IN ('label', 'archive', 'recall', 'survey', 'verify')),
    owners  TEXT NOT NULL,                -- JSON list: who shares the load
    started INTEGER NOT NULL
) STRICT;
INSERT INTO tape_session_new SELECT id, drive, vid, kind, owners, started FROM tape_session;
DROP TABLE tape_session;
ALTER TABLE tape_session_new RENAME TO tape_session;
