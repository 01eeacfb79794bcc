-- Volumes whose files are copied to others.
CREATE TABLE repack (
    vid         TEXT PRIMARY KEY,
    owner       TEXT NOT NULL,
    reclaims    INTEGER NOT NULL,              -- whether the volume is written from its beginning afterwards
    started     INTEGER NOT NULL,
    finished    INTEGER,                       -- NULL: it goes on
    moved_files INTEGER NOT NULL DEFAULT 0,
    moved_bytes INTEGER NOT NULL DEFAULT 0
) STRICT;
-- What a request is for: 'user', 'repack', or 'staged': for a repack that has recalled the file, too.
ALTER TABLE request ADD COLUMN purpose TEXT NOT NULL DEFAULT 'user';
CREATE INDEX request_purpose ON request (purpose) WHERE purpose <> 'user';
