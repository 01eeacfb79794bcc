-- The library that has still to take in the cartridge of a volume that an operator added; empty: none.
ALTER TABLE volume ADD COLUMN expected_in TEXT NOT NULL DEFAULT '';
