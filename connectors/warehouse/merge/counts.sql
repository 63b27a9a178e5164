-- Adds the batch's changes to the counts of its runs. Writes core.run_counts.
CREATE OR REPLACE TEMP TABLE counted AS SELECT run_id{counts_of_events} FROM run_numbers GROUP BY run_id;

MERGE INTO core.run_counts AS c USING counted AS n ON c.run_id = n.run_id
WHEN MATCHED THEN UPDATE SET {counts_added}
WHEN NOT MATCHED THEN INSERT BY NAME;

SELECT {counts_in_all} FROM counted;
