-- What pools promise. A pool without a row promises one replica.
CREATE TABLE pool (
    name   TEXT PRIMARY KEY,
    policy TEXT NOT NULL                  -- JSON
) STRICT, WITHOUT ROWID;

-- What may be done with a partition, and since when its replicas do not count because nothing was heard of it.
ALTER TABLE partition ADD COLUMN state TEXT NOT NULL DEFAULT 'in_use';
ALTER TABLE partition ADD COLUMN given_up INTEGER;

-- Replicas can be mirrors of a write under way, copies under way, and lost.
CREATE TABLE replica_new (
    object    INTEGER PRIMARY KEY,
    file      INTEGER NOT NULL,
    partition TEXT NOT NULL,
    state     TEXT NOT NULL CHECK (state IN ('writing', 'mirroring', 'copying', 'recalling', 'online', 'lost')),
    owner     TEXT NOT NULL,              -- who pays for the space
    size      INTEGER NOT NULL,           -- expected size until it is online
    created   INTEGER NOT NULL,           -- when it came online
    used      INTEGER NOT NULL            -- last open
) STRICT;
INSERT INTO replica_new SELECT object, file, partition, state, owner, size, created, used FROM replica;
DROP TABLE replica;
ALTER TABLE replica_new RENAME TO replica;
CREATE INDEX replica_file ON replica (file);
CREATE INDEX replica_unsettled ON replica (partition, state) WHERE state <> 'online';

-- Files that have fewer replicas than their pool promises, those with the fewest first.
CREATE TABLE shortage (
    file     INTEGER PRIMARY KEY,
    pool     TEXT NOT NULL,
    good     INTEGER NOT NULL,            -- replicas that can be read now
    since    INTEGER NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    due      INTEGER NOT NULL,            -- not tried before
    reason   TEXT                         -- why the last copy failed
) STRICT;
CREATE INDEX shortage_risk ON shortage (good, since);
