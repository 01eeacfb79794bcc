-- Objects that their disk server is to delete. They belong to no file any more.
CREATE TABLE removal (
    object    INTEGER PRIMARY KEY,
    partition TEXT NOT NULL
) STRICT;
CREATE INDEX removal_partition ON removal (partition, object);
INSERT INTO removal SELECT object, partition FROM replica WHERE state = 'removing';
DELETE FROM replica WHERE state = 'removing';

-- The head gives ids itself. What is below `next` has been set aside: none is ever used twice, also those that were never used.
CREATE TABLE sequence (
    name TEXT PRIMARY KEY,
    next INTEGER NOT NULL
) STRICT;
INSERT INTO sequence
    SELECT s.name, coalesce((SELECT q.seq FROM sqlite_sequence q WHERE q.name = s.name), s.used) + 1
    FROM (SELECT 'node' AS name, 1 AS used UNION ALL SELECT 'replica', 0 UNION ALL SELECT 'copy', 0
          UNION ALL SELECT 'request', 0 UNION ALL SELECT 'tape_session', 0 UNION ALL SELECT 'job', 0) s;
