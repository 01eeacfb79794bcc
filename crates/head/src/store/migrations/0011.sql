-- Bytes of what is to be deleted: its disk server gives them back later.
ALTER TABLE removal ADD COLUMN size INTEGER NOT NULL DEFAULT 0;

-- What is on a partition, least recently used first: for collection and balancing.
CREATE INDEX replica_used ON replica (partition, used, object) WHERE state = 'online';

-- How far the bytes of each partition were compared with their checksums by the pool's interval.
CREATE TABLE scrub (
    partition TEXT PRIMARY KEY,
    begun     INTEGER NOT NULL,         -- when the last one began; until the first, when the partition was seen first
    finished  INTEGER,                  -- when the last one came to its end
    document  TEXT                      -- JSON: the one under way, or the last
) STRICT, WITHOUT ROWID;
