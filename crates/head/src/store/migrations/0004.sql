-- Who serves a partition, where clients reach it, and which start of the disk server registered it.
ALTER TABLE partition ADD COLUMN server TEXT NOT NULL DEFAULT '';
ALTER TABLE partition ADD COLUMN root TEXT NOT NULL DEFAULT '';
ALTER TABLE partition ADD COLUMN https TEXT NOT NULL DEFAULT '';
ALTER TABLE partition ADD COLUMN boot INTEGER NOT NULL DEFAULT 0;

-- Hosts that joined, and those that were turned away again. Keys and certificates are known by their SHA-256 in hex.
CREATE TABLE host (
    name    TEXT PRIMARY KEY,
    roles   TEXT NOT NULL,                -- JSON list
    key     TEXT NOT NULL,                -- with which it joined
    current TEXT NOT NULL,                -- the certificate that it shows
    next    TEXT,                         -- the one that it was given since
    joined  INTEGER NOT NULL,
    removed INTEGER                       -- when it was turned away
) STRICT, WITHOUT ROWID;

-- Invitations. Only a hash of what must be shown is kept.
CREATE TABLE invitation (
    hash    TEXT PRIMARY KEY,
    roles   TEXT NOT NULL,                -- JSON list
    expires INTEGER NOT NULL,
    host    TEXT                          -- who has used it
) STRICT, WITHOUT ROWID;
