-- Most bytes of replicas that the operator wants on a partition; NULL: as much as its disk server says.
ALTER TABLE partition ADD COLUMN size_max INTEGER;
