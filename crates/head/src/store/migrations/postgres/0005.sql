-- The last comparison of each partition with the catalogue.
CREATE TABLE scan (
    partition TEXT COLLATE "C" PRIMARY KEY,
    document  TEXT COLLATE "C" NOT NULL             -- JSON
);

-- What it has found.
CREATE TABLE finding (
    partition TEXT COLLATE "C" NOT NULL,
    object    BIGINT NOT NULL,
    document  TEXT COLLATE "C" NOT NULL,            -- JSON
    outcome   TEXT COLLATE "C" NOT NULL DEFAULT '', -- what was done about it; nothing yet if it is empty
    PRIMARY KEY (partition, object)
);
