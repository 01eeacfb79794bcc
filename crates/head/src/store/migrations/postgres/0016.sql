-- How many files there are, and what lies on each partition: kept with every change, for ten million rows take seconds to count.
CREATE TABLE census (
    only_row    BIGINT PRIMARY KEY CHECK (only_row = 1),
    files       BIGINT NOT NULL,
    directories BIGINT NOT NULL,
    bytes       BIGINT NOT NULL,
    online      BIGINT NOT NULL,       -- files with a replica that can be read
    nearline    BIGINT NOT NULL        -- files that are on tape only
);
INSERT INTO census
    SELECT 1, count(*) FILTER (WHERE kind = 'file'), count(*) FILTER (WHERE kind = 'directory'), coalesce(sum(size), 0),
        (SELECT count(DISTINCT file) FROM replica WHERE state = 'online'),
        (SELECT count(DISTINCT c.file) FROM copy c
         WHERE NOT EXISTS (SELECT 1 FROM replica r WHERE r.file = c.file AND r.state = 'online'))
    FROM node;
ALTER TABLE partition ADD COLUMN replicas BIGINT NOT NULL DEFAULT 0;       -- that can be read
ALTER TABLE partition ADD COLUMN replica_bytes BIGINT NOT NULL DEFAULT 0;  -- of these
UPDATE partition SET
    replicas = (SELECT count(*) FROM replica r WHERE r.partition = partition.name AND r.state = 'online'),
    replica_bytes = (SELECT coalesce(sum(r.size), 0) FROM replica r
                     WHERE r.partition = partition.name AND r.state = 'online');
