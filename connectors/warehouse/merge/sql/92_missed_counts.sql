-- How many items each scan missed. Writes nothing.
SELECT
    n, run_seq, count(*) AS missed, count(*) FILTER (is_first AND decides) AS first_missed,
    count(*) FILTER (is_expired AND decides) AS expired
FROM missed
GROUP BY n, run_seq
