-- The last comparison of each partition with the catalogue.
CREATE TABLE scan (
    partition TEXT PRIMARY KEY,
    document  TEXT NOT NULL             -- JSON
) STRICT, WITHOUT ROWID;

-- What it has found.
CREATE TABLE finding (
    partition TEXT NOT NULL,
    object    INTEGER NOT NULL,
    document  TEXT NOT NULL,            -- JSON
    outcome   TEXT NOT NULL DEFAULT '', -- what was done about it; nothing yet if it is empty
    PRIMARY KEY (partition, object)
) STRICT, WITHOUT ROWID;
