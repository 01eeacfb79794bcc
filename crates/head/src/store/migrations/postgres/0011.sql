-- Volumes can be unread: what lies on them is to be surveyed.
ALTER TABLE volume DROP CONSTRAINT IF EXISTS volume_state_check;
ALTER TABLE volume ADD CONSTRAINT volume_state_check
    CHECK (state IN ('blank', 'appendable', 'full', 'unread', 'suspect'));
ALTER TABLE volume ADD COLUMN was_full BIGINT NOT NULL DEFAULT 0; -- before it became unread

-- Sessions can be surveys.
ALTER TABLE tape_session DROP CONSTRAINT IF EXISTS tape_session_kind_check;
ALTER TABLE tape_session ADD CONSTRAINT tape_session_kind_check
    CHECK (kind IN ('label', 'archive', 'recall', 'survey'));
