"""The tables of the first version."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_INSTANT = sa.TIMESTAMP(timezone=True)


def upgrade() -> None:
    """Create all schemas and tables."""
    for schema in ("core", "ops"):
        op.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
    _core_items()
    _core_runs()
    _ops()


def _core_items() -> None:
    op.create_table(
        "accounts",
        sa.Column("account_id", sa.VARCHAR, nullable=False, comment="The account's id, a UUID as the API writes it."),
        sa.Column("ig_username", sa.VARCHAR, nullable=False, comment="The account's name on the social network."),
        sa.Column("public_id", sa.VARCHAR, nullable=False, comment="The account's short public id."),
        sa.Column(
            "status", sa.VARCHAR, nullable=False, comment="active, or token_expired: its access token must be renewed."
        ),
        sa.Column("status_since", _INSTANT, nullable=False, comment="When a sync first saw the present status."),
        sa.Column("first_seen_at", _INSTANT, nullable=False, comment="When a sync first saw the account."),
        sa.Column("last_seen_at", _INSTANT, nullable=False, comment="When a sync last saw the account."),
        sa.Column(
            "removed_at",
            _INSTANT,
            comment="When a complete walk of the catalogue no longer listed it; NULL while it does.",
        ),
        sa.Column("walk_id", sa.VARCHAR, nullable=False, comment="The walk of the catalogue that last listed it."),
        schema="core",
        comment="Accounts, one row each.",
    )
    op.create_table(
        "account_status_history",
        sa.Column("account_id", sa.VARCHAR, nullable=False, comment="The account's id, a UUID as the API writes it."),
        sa.Column("status", sa.VARCHAR, nullable=False, comment="active or token_expired."),
        sa.Column("valid_from", _INSTANT, nullable=False, comment="When a sync first saw this status."),
        sa.Column("valid_to", _INSTANT, comment="When a sync first saw the next status; NULL for the present one."),
        schema="core",
        comment="Every status an account has had, one row per period.",
    )
    op.create_table(
        "media",
        sa.Column("account_id", sa.VARCHAR, nullable=False, comment="The account's id, a UUID as the API writes it."),
        sa.Column("surface", sa.VARCHAR, nullable=False, comment="Where the item was listed: posts or stories."),
        sa.Column("media_id", sa.VARCHAR, nullable=False, comment="The item's own id, always text."),
        sa.Column(
            "media_type", sa.VARCHAR, comment="Kind of media as the API says it, such as IMAGE, VIDEO, CAROUSEL_ALBUM."
        ),
        sa.Column("caption", sa.VARCHAR, comment="The caption as published."),
        sa.Column("permalink", sa.VARCHAR, comment="Address of the item on the social network."),
        sa.Column(
            "media_url",
            sa.VARCHAR,
            comment="Address of the picture or film when the item last changed; a signature in it expires.",
        ),
        sa.Column("published_at", _INSTANT, comment="When the item was published."),
        sa.Column("like_count", sa.BIGINT, comment="Likes when last seen; NULL where the account hides them."),
        sa.Column("comments_count", sa.BIGINT, comment="Comments when last seen."),
        sa.Column(
            "payload", sa.JSON, nullable=False, comment="The whole item as the API sent it when it last changed, JSON."
        ),
        sa.Column("digest", sa.BIGINT, comment="Digest of the payload without volatile URL parameters."),
        sa.Column("first_seen_at", _INSTANT, nullable=False, comment="When a sync first saw it."),
        sa.Column("written_at", _INSTANT, nullable=False, comment="The sighting that last wrote this row."),
        sa.Column("changed_at", _INSTANT, nullable=False, comment="When what it says last changed."),
        sa.Column("removed_at", _INSTANT, comment="When a complete walk first missed it; NULL while it is there."),
        sa.Column("removal", sa.VARCHAR, comment="Why it is gone: removed, or expired (a story past its 24 hours)."),
        schema="core",
        comment="Media items as last seen, one row each. Rows that did not change are not rewritten.",
    )
    op.create_table(
        "walks",
        sa.Column(
            "resource", sa.VARCHAR, nullable=False, comment="What was walked: accounts (the catalogue) or media."
        ),
        sa.Column("account_id", sa.VARCHAR, nullable=False, comment="The account walked; empty for the catalogue."),
        sa.Column("surface", sa.VARCHAR, nullable=False, comment="posts or stories; empty for the catalogue."),
        sa.Column("walk_id", sa.VARCHAR, nullable=False, comment="The last complete walk that was folded."),
        sa.Column("complete_at", _INSTANT, nullable=False, comment="When its last page was received."),
        schema="core",
        comment="The last complete walk of each partition: what it saw was there at complete_at.",
    )
    op.create_table(
        "quarantine",
        sa.Column("reason", sa.VARCHAR, nullable=False, comment="Why the record could not become a row."),
        sa.Column("resource", sa.VARCHAR, nullable=False, comment="accounts or media."),
        sa.Column(
            "account_id",
            sa.VARCHAR,
            nullable=False,
            comment="The account whose page carried it; empty for the catalogue.",
        ),
        sa.Column("surface", sa.VARCHAR, nullable=False, comment="posts or stories; empty for the catalogue."),
        sa.Column("page", sa.INTEGER, comment="Page of the walk, from 1."),
        sa.Column("position", sa.INTEGER, comment="Place in the page, from 0; NULL when the whole page was set aside."),
        sa.Column("payload", sa.VARCHAR, nullable=False, comment="The record as the API sent it."),
        sa.Column("run_id", sa.VARCHAR, nullable=False, comment="The run that first met it."),
        sa.Column("correlation_id", sa.VARCHAR, comment="X-Correlation-ID of the response that carried it."),
        sa.Column("seen_at", _INSTANT, nullable=False, comment="When it was first met."),
        schema="core",
        comment="Records set aside, with their request.",
    )
    op.create_table(
        "fields",
        sa.Column(
            "resource", sa.VARCHAR, nullable=False, comment="Where it was met: account, account_page or media_page."
        ),
        sa.Column("path", sa.VARCHAR, nullable=False, comment="Path of the field in the JSON."),
        sa.Column("column_name", sa.VARCHAR, comment="The column that holds it; NULL while only the payload does."),
        sa.Column("type", sa.VARCHAR, comment="The column's type."),
        sa.Column("first_seen_at", _INSTANT, nullable=False, comment="When the field was first met."),
        sa.Column("last_type_change_at", _INSTANT, comment="When its type last widened."),
        sa.Column("items", sa.BIGINT, comment="How many records carried it when last counted."),
        schema="core",
        comment="Fields met that the contract does not know.",
    )


def _core_runs() -> None:
    op.create_table(
        "runs",
        sa.Column("run_id", sa.VARCHAR, nullable=False, comment="The run's id."),
        sa.Column("kind", sa.VARCHAR, nullable=False, comment="sync or backfill."),
        sa.Column("state", sa.VARCHAR, nullable=False, comment="running, complete, partial, failed or interrupted."),
        sa.Column("started_at", _INSTANT, nullable=False, comment="When it began."),
        sa.Column("ended_at", _INSTANT, comment="When it ended."),
        sa.Column("carries_on", sa.VARCHAR, comment="The run, cut short, that it took over."),
        sa.Column("accounts", sa.BIGINT, comment="Accounts listed."),
        sa.Column(
            "partitions", sa.BIGINT, comment="Partitions it owed an outcome: the catalogue, and each account x surface."
        ),
        sa.Column("pages", sa.BIGINT, comment="Pages landed."),
        sa.Column("items", sa.BIGINT, comment="Records landed, accounts and media."),
        sa.Column("added", sa.BIGINT, comment="Media items never seen before."),
        sa.Column("changed", sa.BIGINT, comment="Media items whose content or counts changed."),
        sa.Column("removed", sa.BIGINT, comment="Media items marked removed."),
        sa.Column("expired", sa.BIGINT, comment="Stories marked expired."),
        sa.Column("returned", sa.BIGINT, comment="Media items that came back."),
        sa.Column("quarantined", sa.BIGINT, comment="Records set aside."),
        sa.Column(
            "error_code",
            sa.VARCHAR,
            comment="The error that stopped it, or else the one that most of its partitions met.",
        ),
        sa.Column("detail", sa.VARCHAR, comment="What a person should know of it, one line."),
        sa.Column("version", sa.VARCHAR, nullable=False, comment="The gramhouse that ran it."),
        sa.Column("published_at", _INSTANT, comment="When analysts were given what it left; NULL while they were not."),
        schema="core",
        comment="Runs, one row each.",
    )
    op.create_table(
        "run_outcomes",
        sa.Column("run_id", sa.VARCHAR, nullable=False, comment="The run."),
        sa.Column(
            "resource", sa.VARCHAR, nullable=False, comment="What was walked: accounts (the catalogue) or media."
        ),
        sa.Column("account_id", sa.VARCHAR, nullable=False, comment="The account walked; empty for the catalogue."),
        sa.Column("surface", sa.VARCHAR, nullable=False, comment="posts or stories; empty for the catalogue."),
        sa.Column(
            "outcome", sa.VARCHAR, nullable=False, comment="complete, skipped, deferred, denied, not_found or failed."
        ),
        sa.Column("pages", sa.BIGINT, comment="Pages this run landed of it."),
        sa.Column("items", sa.BIGINT, comment="Records this run landed of it."),
        sa.Column(
            "error_code",
            sa.VARCHAR,
            comment="The API's error code, or gramhouse's own for what never became an answer.",
        ),
        sa.Column("http_status", sa.INTEGER, comment="HTTP status of the last answer."),
        sa.Column(
            "correlation_id", sa.VARCHAR, comment="X-Correlation-ID of the last answer: name it to the API's support."
        ),
        sa.Column("resume_after", _INSTANT, comment="Not to be asked for again before this."),
        sa.Column("detail", sa.VARCHAR, comment="What a person should know of it, one line."),
        sa.Column("started_at", _INSTANT, nullable=False, comment="When the run turned to it."),
        sa.Column("ended_at", _INSTANT, nullable=False, comment="When its outcome was known."),
        schema="core",
        comment="What became of each partition in each run: exactly one row.",
    )


def _ops() -> None:
    op.create_table(
        "staging",
        sa.Column("seq", sa.BIGINT, comment="Order of landing."),
        sa.Column(
            "resource", sa.VARCHAR, nullable=False, comment="What was walked: accounts (the catalogue) or media."
        ),
        sa.Column("account_id", sa.VARCHAR, nullable=False, comment="The account walked; empty for the catalogue."),
        sa.Column("surface", sa.VARCHAR, nullable=False, comment="posts or stories; empty for the catalogue."),
        sa.Column("run_id", sa.VARCHAR, nullable=False, comment="The run that landed it."),
        sa.Column("walk_id", sa.VARCHAR, nullable=False, comment="The walk it belongs to."),
        sa.Column("page", sa.INTEGER, comment="Page of the walk, from 1."),
        sa.Column("received_at", _INSTANT, nullable=False, comment="When the response was received."),
        sa.Column("correlation_id", sa.VARCHAR, comment="X-Correlation-ID of the response."),
        sa.Column("body", sa.VARCHAR, nullable=False, comment="The page as the API sent it."),
        sa.Column(
            "set_aside", sa.VARCHAR, comment="JSON list of {position, reason, payload} that must not become rows."
        ),
        sa.Column("unknown_fields", sa.VARCHAR, comment="JSON list of field paths that the contract does not know."),
        schema="ops",
        comment="Landed pages that are not folded yet.",
    )
    op.create_table(
        "checkpoints",
        sa.Column("seq", sa.BIGINT, comment="Order of landing; the last row of a partition counts."),
        sa.Column(
            "resource", sa.VARCHAR, nullable=False, comment="What was walked: accounts (the catalogue) or media."
        ),
        sa.Column("account_id", sa.VARCHAR, nullable=False, comment="The account walked; empty for the catalogue."),
        sa.Column("surface", sa.VARCHAR, nullable=False, comment="posts or stories; empty for the catalogue."),
        sa.Column("walk_id", sa.VARCHAR, nullable=False, comment="The walk."),
        sa.Column("run_id", sa.VARCHAR, nullable=False, comment="The last run that took part in it."),
        sa.Column("cursor", sa.VARCHAR, comment="Cursor of the page to ask for next, unchanged."),
        sa.Column("pages", sa.BIGINT, comment="Pages of the walk landed so far."),
        sa.Column("items", sa.BIGINT, comment="Records of the walk landed so far."),
        sa.Column("state", sa.VARCHAR, nullable=False, comment="walking, complete or abandoned."),
        sa.Column("started_at", _INSTANT, nullable=False, comment="When the walk began."),
        sa.Column("updated_at", _INSTANT, nullable=False, comment="When its last page was received."),
        schema="ops",
        comment="Progress of walks, appended with each landed page; the fold keeps the last row of each.",
    )
    op.create_table(
        "seen",
        sa.Column("walk_id", sa.VARCHAR, nullable=False, comment="The walk, not complete yet."),
        sa.Column("account_id", sa.VARCHAR, nullable=False, comment="The account's id, a UUID as the API writes it."),
        sa.Column("surface", sa.VARCHAR, nullable=False, comment="Where the item was listed: posts or stories."),
        sa.Column("media_id", sa.VARCHAR, nullable=False, comment="The item's own id, always text."),
        schema="ops",
        comment="What walks that are not complete have seen in pages already folded.",
    )
    op.create_table(
        "missing",
        sa.Column("account_id", sa.VARCHAR, nullable=False, comment="The account's id, a UUID as the API writes it."),
        sa.Column("surface", sa.VARCHAR, nullable=False, comment="Where the item was listed: posts or stories."),
        sa.Column("media_id", sa.VARCHAR, nullable=False, comment="The item's own id, always text."),
        sa.Column("since", _INSTANT, nullable=False, comment="When a complete walk first missed it."),
        sa.Column("last_seen_at", _INSTANT, nullable=False, comment="When a walk last saw it."),
        schema="ops",
        comment="Items of a mass disappearance that a second complete walk has yet to confirm.",
    )
    op.create_table(
        "holds",
        sa.Column("scope", sa.VARCHAR, nullable=False, comment="Tenant scope that was limited."),
        sa.Column("resume_after", _INSTANT, nullable=False, comment="Not to be asked again before this."),
        schema="ops",
        comment="Promises to wait, kept over a restart.",
    )
