-- Appends the outcomes of partitions. Writes core.run_outcomes.
INSERT INTO core.run_outcomes BY NAME
SELECT * RENAME (kind AS outcome) FROM ({rows});
