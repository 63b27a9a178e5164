-- Warnings of runs, one row each, in addition to the outcomes of partitions.
-- key: run_id, code
-- join: runs by run_id
SELECT
    run_id,  -- The run.
    code,  -- Kind of warning; a run has at most one of each kind.
    count,  -- How many records, accounts or values it concerns.
    detail,  -- What happened, one line.
    hint,  -- What to do about it, one line; NULL if there is nothing to do.
    makes_partial  -- Whether the run is partial because of it.
FROM core.run_warnings
