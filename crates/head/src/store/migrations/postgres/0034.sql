-- When all files of a volume were read and compared last, and the next file of a verification under way; 0: there is none.
ALTER TABLE volume ADD COLUMN verified BIGINT;
ALTER TABLE volume ADD COLUMN verify_next BIGINT NOT NULL DEFAULT 0;
-- Copies that a verification found damaged.
CREATE TABLE damaged_copy (
    vid           TEXT COLLATE "C" NOT NULL,
    fseq          BIGINT NOT NULL,
    member_offset BIGINT NOT NULL,
    file          BIGINT NOT NULL,
    size          BIGINT NOT NULL,
    found         BIGINT NOT NULL,
    reason        TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (vid, fseq, member_offset)
);
CREATE INDEX damaged_copy_file ON damaged_copy (file);

-- Sessions can be verifications.
ALTER TABLE tape_session DROP CONSTRAINT IF EXISTS tape_session_kind_check;
ALTER TABLE tape_session ADD CONSTRAINT tape_session_kind_check
    CHECK (kind IN ('label', 'archive', 'recall', 'survey', 'verify'));
