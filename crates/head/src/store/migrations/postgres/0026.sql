-- The live object that has what a file holds, while the file changes in place; 0: none.
ALTER TABLE node ADD COLUMN live BIGINT NOT NULL DEFAULT 0;

-- Sessions of mounts.
CREATE TABLE mount (
    id       BIGINT PRIMARY KEY,
    document TEXT NOT NULL               -- JSON
);
INSERT INTO sequence VALUES ('mount', 1);

-- Files that mounts use: live objects, opens, grants, locks.
CREATE TABLE shared_file (
    file     BIGINT PRIMARY KEY,
    document TEXT NOT NULL               -- JSON
);

-- What groups and users are entitled to of the CPU slots, have used and use; a row without a member is that of the group.
CREATE TABLE fair_share (
    grp      TEXT NOT NULL,
    member   TEXT NOT NULL,
    document TEXT NOT NULL,              -- JSON
    PRIMARY KEY (grp, member)
);
