"""Comments of tables and columns in plain terms; the columns themselves do not change."""

from alembic import op

revision = "0019"
down_revision = "0018"

_OF_TABLES = {
    "core.media_metrics": "Every count of an item, one row per change.",
    "core.fields": "Fields received that the contract does not know.",
    "core.run_outcomes": "The outcomes of partitions in runs, one row each.",
}

_OF_COLUMNS = {
    "core.media": {
        "media_type": "Kind of media as the API names it, such as IMAGE, VIDEO, CAROUSEL_ALBUM.",
        "written_at": "When what last wrote this row was received.",
        "written_seq": "The landing that last wrote this row; NULL where that is older than all that count.",
        "changed_at": "When its content or a count last changed.",
        "content_changed_at": "When its content, without counts, last changed.",
    },
    "core.media_superseded": {"media_type": "Kind of media as the API names it, such as IMAGE, VIDEO, CAROUSEL_ALBUM."},
    "core.media_metrics": {"value": "The count from then on; NULL when the API stopped sending it."},
    "core.media_children": {"media_type": "Kind of media as the API names it."},
    "core.quarantine": {
        "run_id": "The run that first received it.",
        "seen_at": "When it was first received.",
        "last_seen_at": "When it was last received.",
    },
    "core.fields": {
        "resource": "Where it was found: media, a child table (media_children), account, account_page or media_page.",
        "first_seen_at": "When the field was first received.",
        "last_type_change_at": "When values of another type were last found there for the first time.",
        "ordinal": "Order in which its resource's fields were found, from 0; NULL where that decides nothing.",
        "json_types": "JSON object: each JSON type found there, and when first.",
    },
    "core.runs": {
        "seq": "Order in which runs began, from 1; it does not depend on the clock.",
        "reason": "The reason given for it.",
        "partitions": "Its partitions: the catalogue, and each account x surface.",
        "error_code": "The error that stopped it, or else the one that most of its partitions had.",
        "published_at": "When its snapshot was published; NULL before.",
    },
    "core.run_outcomes": {
        "error_code": "The API's error code, or gramhouse's own where there was no answer.",
        "started_at": "When the run began it.",
    },
    "ops.checkpoints": {"run_kind": "sync or backfill: each has checkpoints of its own."},
}


def upgrade() -> None:
    """Replace the comments."""
    for table, comment in _OF_TABLES.items():
        op.execute(f"COMMENT ON TABLE {table} IS '{comment}'".replace(":", r"\:"))
    for table, comments in _OF_COLUMNS.items():
        for column, comment in comments.items():
            text = comment.replace("'", "''")
            # SQLAlchemy would take a colon as the beginning of a parameter.
            op.execute(f"COMMENT ON COLUMN {table}.{column} IS '{text}'".replace(":", r"\:"))
