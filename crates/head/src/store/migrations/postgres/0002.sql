-- Who serves a partition, where clients reach it, and which start of the disk server registered it.
ALTER TABLE partition ADD COLUMN server TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE partition ADD COLUMN root TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE partition ADD COLUMN https TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE partition ADD COLUMN boot BIGINT NOT NULL DEFAULT 0;

-- Hosts that joined, and those that were turned away again. Keys and certificates are known by their SHA-256 in hex.
CREATE TABLE host (
    name    TEXT COLLATE "C" PRIMARY KEY,
    roles   TEXT COLLATE "C" NOT NULL,                -- JSON list
    key     TEXT COLLATE "C" NOT NULL,                -- with which it joined
    current TEXT COLLATE "C" NOT NULL,                -- the certificate that it shows
    next    TEXT COLLATE "C",                         -- the one that it was given since
    joined  BIGINT NOT NULL,
    removed BIGINT                       -- when it was turned away
);

-- Invitations. Only a hash of what must be shown is kept.
CREATE TABLE invitation (
    hash    TEXT COLLATE "C" PRIMARY KEY,
    roles   TEXT COLLATE "C" NOT NULL,                -- JSON list
    expires BIGINT NOT NULL,
    host    TEXT COLLATE "C"                          -- who has used it
);
