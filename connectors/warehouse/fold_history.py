"""Folding history, which is only appended to: versions of content that were superseded, and counts that changed."""

from collections.abc import Sequence

from sqlalchemy import Connection

from connectors.warehouse.quoting import literal
from connectors.warehouse.readings import content_text, counts_stored, digest
from models.mapping import Mapping
from models.sheets import Metric

# Every new sighting of an item beside the one before it; the row that was stored stands at the head of its own.
_LINE = """
CREATE OR REPLACE TEMP TABLE media_line AS
WITH line AS (
    SELECT
        account_id, surface, media_id, _seq AS seq, _position AS position, _received_at AS seen_at, content_digest,
        _counts AS counts
    FROM media_read
    WHERE _seq > getvariable('slice_begin') AND _seq <= getvariable('slice_end')
    UNION ALL
    SELECT m.account_id, m.surface, m.media_id, -1, -1, m.content_changed_at, t.content_digest, {counts}
    FROM core.media AS m JOIN media_touched AS t USING (account_id, surface, media_id)
    WHERE t.news > 0 AND t.content_digest IS NOT NULL
    UNION ALL
    -- Rows of an older gramhouse. By themselves, because payloads are read for them, and most of the time for none.
    SELECT m.account_id, m.surface, m.media_id, -1, -1, m.content_changed_at, {digest}, {counts}
    FROM core.media AS m JOIN media_touched AS t USING (account_id, surface, media_id)
    WHERE t.news > 0 AND NOT t.is_new AND t.content_digest IS NULL
)
SELECT
    *, content_digest IS DISTINCT FROM lag(content_digest) OVER item AS begins, lag(counts) OVER item AS counts_before,
    count(*) OVER (PARTITION BY account_id, surface, media_id) AS items
FROM line
WINDOW item AS (PARTITION BY account_id, surface, media_id ORDER BY seq, position)
"""

_SUPERSEDED = """
INSERT INTO core.media_superseded BY NAME
WITH versioned AS (
    SELECT *, count(*) FILTER (begins) OVER (
        PARTITION BY account_id, surface, media_id ORDER BY seq, position ROWS UNBOUNDED PRECEDING
    ) AS version
    FROM media_line WHERE items > 1
),
versions AS (
    SELECT
        account_id, surface, media_id, version, arg_min(seen_at, (seq, position)) AS valid_from,
        arg_max(seq, (seq, position)) AS seq, arg_max(position, (seq, position)) AS position
    FROM versioned GROUP BY account_id, surface, media_id, version
),
closed AS (
    SELECT *, lead(valid_from) OVER (PARTITION BY account_id, surface, media_id ORDER BY version) AS valid_to
    FROM versions QUALIFY valid_to IS NOT NULL
)
SELECT c.account_id, c.surface, c.media_id, c.valid_from, c.valid_to, r.payload
FROM closed AS c JOIN media_read AS r ON r._seq = c.seq AND r._position = c.position
UNION ALL
SELECT c.account_id, c.surface, c.media_id, c.valid_from, c.valid_to, m.payload
FROM closed AS c JOIN core.media AS m USING (account_id, surface, media_id) WHERE c.seq = -1
ORDER BY ALL
"""

_METRICS = """
INSERT INTO core.media_metrics BY NAME
SELECT account_id, surface, media_id, metric, value, seen_at AS observed_at
FROM (
    SELECT
        account_id, surface, media_id, seen_at, unnest({names}) AS metric, unnest(counts) AS value,
        unnest(coalesce(counts_before, {nothing})) AS before
    FROM media_line WHERE seq >= 0
)
WHERE value IS DISTINCT FROM before
ORDER BY account_id, surface, media_id, observed_at, metric
"""


def fold_history(connection: Connection, mapping: Mapping, metrics: Sequence[Metric]) -> None:
    """Append what the news among `media_read` has made past. Needs `media_touched`, and the rows not yet rewritten."""
    stored = digest(content_text(mapping))
    line = _LINE.format(digest=stored, counts=counts_stored(metrics, "m"))
    names = "[" + ", ".join(literal(metric.name) for metric in metrics) + "]"
    nothing = "[" + ", ".join("NULL::BIGINT" for _ in metrics) + "]"
    for statement in (line, _SUPERSEDED, _METRICS.format(names=names, nothing=nothing)):
        connection.exec_driver_sql(statement)
