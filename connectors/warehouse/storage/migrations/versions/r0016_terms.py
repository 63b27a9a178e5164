"""Tables and columns are renamed to the current terms: scan, run kind, cooldown, rejected."""

from alembic import op

revision = "0016"
down_revision = "0015"

_TABLES = (("core.walks", "completed_scans"), ("ops.holds", "cooldowns"))

_COLUMNS = (
    ("core.accounts", "walk_id", "scan_id"),
    ("core.completed_scans", "walk_id", "scan_id"),
    ("core.fields", "kinds", "json_types"),
    ("core.runs", "carries_on", "resumes"),
    ("ops.checkpoints", "walk_id", "scan_id"),
    ("ops.checkpoints", "lane", "run_kind"),
    ("ops.seen", "walk_id", "scan_id"),
    ("ops.staging", "walk_id", "scan_id"),
    ("ops.staging", "set_aside", "rejected"),
)

_OF_TABLES = {
    "ops.checkpoints": "Progress of scans, appended with each landed page; the merge keeps the last row of each.",
    "ops.cooldowns": "Cooldowns, kept over a restart.",
    "ops.staging": "Landed pages that are not merged yet.",
}

_SCANNED = {
    "resource": "What was scanned: accounts (the catalogue) or media.",
    "account_id": "The account scanned; empty for the catalogue.",
}

_OF_COLUMNS = {
    "core.accounts": {
        "removed_at": "When a complete scan of the catalogue no longer listed it; NULL while it does.",
        "scan_id": "The scan of the catalogue that last listed it.",
    },
    "core.completed_scans": {**_SCANNED, "scan_id": "The last complete scan that was merged."},
    "core.fields": {"json_types": "JSON object: each JSON type met there, and when first."},
    "core.media": {"removed_at": "When a complete scan first missed it; NULL while it is there."},
    "core.media_children": {"position": "Position in the item's list, from 0."},
    "core.quarantine": {
        "page": "Page of the scan, from 1.",
        "position": "Position in the page, from 0; NULL when the whole page was rejected.",
    },
    "core.run_outcomes": _SCANNED,
    "core.runs": {
        "selection": "What it was asked to scan; NULL: everything.",
        "resumes": "The interrupted run that it resumes.",
    },
    "ops.checkpoints": {
        **_SCANNED,
        "seq": "Order of landing; the last row of a partition and run kind counts.",
        "run_kind": "Whose progress it is: sync or backfill; neither disturbs the other's.",
        "scan_id": "The scan.",
        "pages": "Pages of the scan landed so far.",
        "items": "Records of the scan landed so far.",
        "state": "scanning, complete, recent or abandoned.",
        "started_at": "When the scan began.",
        "began_seq": "The landing of the first page of a scan that is not complete; filled in by the merge.",
        "repeated_pages": "Pages in a row, up to this one, whose items the scan had seen before.",
    },
    "ops.missing": {"last_seen_at": "When a scan last saw it."},
    "ops.seen": {"scan_id": "The scan, not complete yet."},
    "ops.staging": {
        **_SCANNED,
        "scan_id": "The scan it belongs to.",
        "page": "Page of the scan, from 1.",
        "rejected": "JSON list of {position, reason, payload} that must not become rows.",
    },
}


def upgrade() -> None:
    """Rename in place. Only the checkpoints of unfinished scans are rewritten, because their state is renamed too."""
    for table, new in _TABLES:
        op.execute(f"ALTER TABLE {table} RENAME TO {new}")
    for table, old, new in _COLUMNS:
        op.execute(f"ALTER TABLE {table} RENAME COLUMN {old} TO {new}")
    op.execute("UPDATE ops.checkpoints SET state = 'scanning' WHERE state = 'walking'")
    for table, comment in _OF_TABLES.items():
        op.execute(f"COMMENT ON TABLE {table} IS '{comment}'".replace(":", r"\:"))
    for table, comments in _OF_COLUMNS.items():
        for column, comment in comments.items():
            text = comment.replace("'", "''")
            # SQLAlchemy would take a colon as the beginning of a parameter.
            op.execute(f"COMMENT ON COLUMN {table}.{column} IS '{text}'".replace(":", r"\:"))
