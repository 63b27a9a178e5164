-- name: gaps
WITH open_scans AS (
    SELECT c.*, w.seq AS closed_seq
    FROM ops.checkpoints AS c LEFT JOIN core.completed_scans AS w USING (resource, account_id, surface)
    WHERE c.resource = 'media' AND c.state IN ('scanning', 'abandoned') AND c.pages > 0 AND coalesce(c.began_seq > w.seq, true)
    QUALIFY row_number() OVER (PARTITION BY account_id, surface ORDER BY c.began_seq DESC) = 1
),
last_outcomes AS (
    SELECT o.account_id, o.surface, arg_max(coalesce(o.error_code, 'interrupted'), r.seq) AS reason
    FROM core.run_outcomes AS o JOIN core.runs AS r USING (run_id)
    SEMI JOIN open_scans AS s ON s.run_id = o.run_id AND s.account_id = o.account_id AND s.surface = o.surface
    GROUP BY o.account_id, o.surface
)
SELECT
    s.account_id, s.surface, s.started_at AS since, s.cursor, s.pages, s.read_to AS read_down_to,
    (
        SELECT max(m.published_at) FROM core.media AS m
        WHERE m.account_id = s.account_id AND m.surface = s.surface AND coalesce(m.written_seq, 0) <= s.closed_seq
    ) AS known_from,
    coalesce(o.reason, 'interrupted') AS reason
FROM open_scans AS s LEFT JOIN last_outcomes AS o USING (account_id, surface)
