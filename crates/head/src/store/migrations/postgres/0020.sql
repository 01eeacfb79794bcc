-- Directories that other heads keep, with all that is below them.
CREATE TABLE referral (
    directory BIGINT PRIMARY KEY,
    root      TEXT COLLATE "C" NOT NULL,              -- XRootD door of that head
    http      TEXT COLLATE "C" NOT NULL,              -- its HTTP door
    giver     TEXT COLLATE "C" NOT NULL,
    made      BIGINT NOT NULL
);
