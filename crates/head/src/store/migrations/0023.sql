-- What a disk server should have, for its roll call: otherwise each of hundreds would have the head go through all replicas. No
-- other question says it in these words, so that none takes this index for a better one.
CREATE INDEX replica_here ON replica (partition, object) WHERE state IN ('online', 'lost');
