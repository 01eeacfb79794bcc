-- Volumes can be read-only, broken, disabled and exported.
ALTER TABLE volume DROP CONSTRAINT IF EXISTS volume_state_check;
ALTER TABLE volume ADD CONSTRAINT volume_state_check
    CHECK (state IN ('blank', 'appendable', 'read_only', 'full', 'unread', 'suspect', 'broken', 'disabled',
        'exported'));

-- Whether an operator has taken the drive out of use: it gives its volume back.
ALTER TABLE drive ADD COLUMN is_down BIGINT NOT NULL DEFAULT 0;

-- What users have staged: a request of many files that is looked at later.
CREATE TABLE stage_request (
    id        BIGINT PRIMARY KEY,
    owner     TEXT NOT NULL,
    created   BIGINT NOT NULL,
    files     BIGINT NOT NULL,
    completed BIGINT                     -- NULL: some file is not over
);
CREATE INDEX stage_request_completed ON stage_request (completed) WHERE completed IS NOT NULL;
INSERT INTO sequence VALUES ('stage_request', 1);
CREATE TABLE stage_file (
    request  BIGINT NOT NULL,
    number   BIGINT NOT NULL,
    path     TEXT NOT NULL,               -- as the user wrote it
    file     BIGINT NOT NULL,            -- 0: it was refused
    state    TEXT NOT NULL,
    error    TEXT,
    metadata TEXT,                        -- JSON
    lifetime BIGINT NOT NULL,            -- how long it is pinned, in ms
    started  BIGINT,
    finished BIGINT,
    PRIMARY KEY (request, number)
);
CREATE INDEX stage_file_open ON stage_file (file) WHERE state IN ('submitted', 'started');

-- What operators are asked to do with volumes that are in no library.
CREATE TABLE operator_request (
    id       BIGINT PRIMARY KEY,
    vid      TEXT NOT NULL,
    place    TEXT NOT NULL,
    reason   TEXT NOT NULL,
    created  BIGINT NOT NULL,
    answer   TEXT NOT NULL,
    answered BIGINT,
    operator TEXT NOT NULL,
    message  TEXT NOT NULL
);
INSERT INTO sequence VALUES ('operator_request', 1);
