-- Several files may lie in one tape file: the number of their bundle, and where in it the data of each begin. 0: it lies alone.
ALTER TABLE copy ADD COLUMN bundle BIGINT NOT NULL DEFAULT 0;
ALTER TABLE copy ADD COLUMN member_offset BIGINT NOT NULL DEFAULT 0;
ALTER TABLE copy DROP CONSTRAINT copy_vid_fseq_key;
ALTER TABLE copy ADD UNIQUE (vid, fseq, member_offset);
