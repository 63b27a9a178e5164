-- The last checkpoints of the partitions that have one in this batch. Writes no table.
CREATE OR REPLACE TEMP TABLE last_checkpoints AS FROM ({rows});
