"""Converts page commits to rows of JSON, and loads these into the tables."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from connectors.warehouse.storage.appending import append, as_json
from connectors.warehouse.storage.connection import Connection, value
from models.checkpoint import Checkpoint
from models.page_commit import PageCommit, RejectedRecord, ScopeCooldown, StagedPage
from models.runs import Outcome
from models.tables import core_outcomes, ops_checkpoints, ops_cooldowns, ops_staging

Row = dict[str, Any]

# An item's order key is the landing number of its page, shifted by this, plus its position on the page. A body has at
# most 64 MB and an item at least two bytes, so a page has fewer than 2^26 items.
POSITION_BITS = 26

# The bodies of pages by landing number; views of a segment's data, or bytes.
Bodies = dict[int, bytes | memoryview]


@dataclass(frozen=True, slots=True)
class Record:
    """A page commit as it is stored. Each text is a sequence of JSON objects separated by commas, or empty.

    `seq` is its number in the order of landing. `body` is the page as the API sent it; within JSON it would have to be
    escaped and parsed again.
    """

    seq: int
    page: str = ""
    body: bytes | memoryview = b""
    checkpoint: str = ""
    outcomes: str = ""
    cooldowns: str = ""


def _rejected(record: RejectedRecord) -> Row:
    # Without the account's id, which is in the payload.
    return {
        "position": record.position,
        "reason": record.reason,
        "payload": record.payload,
        "unknown_status": record.unknown_status,
    }


def _staged(seq: int, page: StagedPage) -> Row:
    where = page.partition
    return {
        "seq": seq,
        "resource": where.resource,
        "account_id": where.account_id,
        "surface": where.surface,
        "run_id": page.run_id,
        "scan_id": page.scan_id,
        "page": page.page,
        "received_at": page.received_at,
        "correlation_id": page.correlation_id,
        "rejected": json.dumps(list(map(_rejected, page.rejected))) if page.rejected else None,
        "unknown_fields": json.dumps(page.unknown_fields) if page.unknown_fields else None,
    }


def _checkpoint(seq: int, checkpoint: Checkpoint) -> Row:
    where = checkpoint.partition
    return {
        "seq": seq,
        "resource": where.resource,
        "account_id": where.account_id,
        "surface": where.surface,
        "run_kind": checkpoint.run_kind,
        "scan_id": checkpoint.scan_id,
        "run_id": checkpoint.run_id,
        "cursor": checkpoint.cursor,
        "pages": checkpoint.pages,
        "items": checkpoint.items,
        "state": checkpoint.state.value,
        "started_at": checkpoint.started_at,
        "updated_at": checkpoint.updated_at,
        "repeated_pages": checkpoint.repeated_pages,
        "empty_pages": checkpoint.empty_pages,
        "known_seq": checkpoint.known_seq,
        "known_run": checkpoint.known_run,
        "read_to": checkpoint.read_to,
        "order_broken_by": checkpoint.order_broken_by,
        "full_share": checkpoint.full_share,
        "rejected": checkpoint.rejected,
    }


def _outcome(outcome: Outcome) -> Row:
    where = outcome.partition
    return {
        "run_id": outcome.run_id,
        "resource": where.resource,
        "account_id": where.account_id,
        "surface": where.surface,
        "outcome": outcome.kind.value,
        "pages": outcome.pages,
        "items": outcome.items,
        "error_code": outcome.error_code,
        "http_status": outcome.http_status,
        "correlation_id": outcome.correlation_id,
        "resume_after": outcome.resume_after,
        "detail": outcome.detail,
        "started_at": outcome.started_at,
        "ended_at": outcome.ended_at,
    }


def _cooldown(cooldown: ScopeCooldown) -> Row:
    return {"scope": cooldown.scope, "resume_after": cooldown.resume_after, "asked_at": cooldown.asked_at}


def record(seq: int, landing: PageCommit) -> Record:
    """Convert a page commit to a record."""
    return Record(
        seq,
        page=as_json(_staged(seq, landing.page)) if landing.page else "",
        body=landing.page.body.encode() if landing.page else b"",
        checkpoint=as_json(_checkpoint(seq, landing.checkpoint)) if landing.checkpoint else "",
        outcomes=",".join(as_json(_outcome(outcome)) for outcome in landing.outcomes),
        cooldowns=as_json(_cooldown(landing.cooldown)) if landing.cooldown else "",
    )


def load(connection: Connection, records: Sequence[Record], bodies: Bodies | None = None) -> None:
    """Append records to the tables, in an open transaction.

    With `bodies`, the pages' bodies are added to it, and the table gets empty texts instead.
    """
    paged = [one for one in records if one.page]
    if bodies is None:
        texts = [str(one.body, "utf-8") for one in paged]
    else:
        bodies.update((one.seq, one.body) for one in paged)
        texts = [""] * len(paged)
    append(connection, ops_staging, [one.page for one in paged], body=texts)
    append(connection, ops_checkpoints, [one.checkpoint for one in records if one.checkpoint])
    append(connection, core_outcomes, [one.outcomes for one in records if one.outcomes])
    append(connection, ops_cooldowns, [one.cooldowns for one in records if one.cooldowns])


def numbered(landings: Iterable[PageCommit], *, after: int) -> list[Record]:
    """Convert page commits to records, numbered from `after` + 1."""
    return [record(seq, landing) for seq, landing in enumerate(landings, after + 1)]


# The raw store counts too: its rows have the numbers of landings whose pages and checkpoints are deleted.
_LAST_SEQ = f"""
SELECT max(seq) FROM (
    SELECT seq FROM ops.staging UNION ALL SELECT seq FROM ops.checkpoints
    UNION ALL SELECT last_landed >> {POSITION_BITS} FROM ops.raw_parts WHERE last_landed > 0
)
"""  # noqa: S608 - constants


def last_seq(connection: Connection) -> int:
    """Return the number of the last landing in the tables; 0 in a new warehouse."""
    return int(value(connection.db, _LAST_SEQ) or 0)
