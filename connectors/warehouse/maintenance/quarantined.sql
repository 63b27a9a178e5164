-- name: last
-- The time of the last record of the next batch. All records of the same time are in one batch, so that versions of an
-- item with the same time are compared.
SELECT max(seen_at) FROM (
    SELECT seen_at FROM (
        SELECT seen_at, sum(strlen(payload)) AS size FROM core.quarantine
        WHERE resource = $resource AND position IS NOT NULL AND seen_at > coalesce($after, '-infinity'::TIMESTAMPTZ)
        GROUP BY seen_at
    )
    QUALIFY sum(size) OVER (ORDER BY seen_at) <= $most OR row_number() OVER (ORDER BY seen_at) = 1
)

-- name: identified
-- The records of the batch that have an id. They are outdated if their stored item was seen at the same time or later.
CREATE OR REPLACE TEMP TABLE identified AS
WITH ids AS (SELECT unnest($records) AS record, unnest($ids) AS media_id),
records AS (SELECT ids.*, q.* FROM core.quarantine AS q JOIN ids ON ids.record = q.rowid),
seen AS (
    SELECT s.account_id, s.surface, s.media_id, max(c.updated_at) AS updated_at
    FROM ops.seen AS s JOIN ops.open_scans AS c USING (scan_id) GROUP BY ALL
),
known AS (
    SELECT
        m.account_id, m.surface, m.media_id,
        CASE
            WHEN m.removed_at IS NOT NULL THEN m.written_at
            ELSE greatest(
                coalesce(
                    p.last_seen_at,
                    greatest(
                        m.written_at, w.complete_at, CASE WHEN m.published_at > w.covered_from THEN w.recent_at END
                    )
                ),
                s.updated_at
            )
        END AS last_seen_at
    FROM {items} AS m
    SEMI JOIN records USING (account_id, surface, media_id)
    LEFT JOIN core.completed_scans AS w
        ON w.account_id = m.account_id AND w.surface = m.surface
    LEFT JOIN ops.missing AS p USING (account_id, surface, media_id)
    LEFT JOIN seen AS s USING (account_id, surface, media_id)
)
SELECT r.*, coalesce(k.last_seen_at >= r.seen_at, false) AS outdated
FROM records AS r LEFT JOIN known AS k USING (account_id, surface, media_id)

-- name: missing
-- Scans that were closed after these records were last received neither saw nor missed the items, because they had no
-- rows. They were last seen when the record was.
INSERT INTO ops.missing BY NAME
SELECT
    r.account_id, r.surface, r.media_id, NULL::TIMESTAMPTZ AS missing_since, max(r.last_seen_at) AS last_seen_at
FROM temp.identified AS r
JOIN core.completed_scans AS w ON w.account_id = r.account_id AND w.surface = r.surface
WHERE NOT r.outdated AND (r.account_id, r.surface, r.media_id) IN (
    SELECT (account_id, surface, media_id) FROM {items}
)
GROUP BY r.account_id, r.surface, r.media_id, w.complete_at, w.recent_at
HAVING max(r.last_seen_at) < greatest(w.complete_at, w.recent_at)
