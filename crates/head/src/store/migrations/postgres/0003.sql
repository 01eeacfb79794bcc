-- What users and groups may do in a directory and below it, beside what modes allow.
CREATE TABLE directory_grant (
    directory BIGINT NOT NULL,
    subject   TEXT COLLATE "C" NOT NULL,              -- user:NAME or group:NAME
    rights    TEXT COLLATE "C" NOT NULL,              -- r, w or rw
    giver     TEXT COLLATE "C" NOT NULL,
    made      BIGINT NOT NULL,
    PRIMARY KEY (directory, subject)
);
