-- What pools promise. A pool without a row promises one replica.
CREATE TABLE pool (
    name   TEXT COLLATE "C" PRIMARY KEY,
    policy TEXT COLLATE "C" NOT NULL                  -- JSON
);

-- What may be done with a partition, and since when its replicas do not count because nothing was heard of it.
ALTER TABLE partition ADD COLUMN state TEXT COLLATE "C" NOT NULL DEFAULT 'in_use';
ALTER TABLE partition ADD COLUMN given_up BIGINT;

-- Replicas can be mirrors of a write under way, copies under way, and lost.
ALTER TABLE replica DROP CONSTRAINT IF EXISTS replica_state_check;
ALTER TABLE replica ADD CONSTRAINT replica_state_check
    CHECK (state IN ('writing', 'mirroring', 'copying', 'recalling', 'online', 'lost'));

-- Files that have fewer replicas than their pool promises, those with the fewest first.
CREATE TABLE shortage (
    file     BIGINT PRIMARY KEY,
    pool     TEXT COLLATE "C" NOT NULL,
    good     BIGINT NOT NULL,            -- replicas that can be read now
    since    BIGINT NOT NULL,
    attempts BIGINT NOT NULL DEFAULT 0,
    due      BIGINT NOT NULL,            -- not tried before
    reason   TEXT COLLATE "C"                         -- why the last copy failed
);
CREATE INDEX shortage_risk ON shortage (good, since);
