-- Directories that other heads keep, with all that is below them.
CREATE TABLE referral (
    directory INTEGER PRIMARY KEY,
    root      TEXT NOT NULL,              -- XRootD door of that head
    http      TEXT NOT NULL,              -- its HTTP door
    giver     TEXT NOT NULL,
    made      INTEGER NOT NULL
) STRICT;
