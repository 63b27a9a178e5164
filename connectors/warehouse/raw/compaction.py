"""Combines small parts into larger ones, and deletes rows after their retention time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from connectors.warehouse.raw.parts import Part, check_parts, confirm_part, live_parts, sources, write_part
from connectors.warehouse.storage.connection import Connection, value
from connectors.warehouse.storage.declared import of_all_items
from connectors.warehouse.storage.quoting import literal

# Bytes. Parts smaller than `_SMALL` are combined with adjacent parts into parts of at most `_LARGE`.
_SMALL = 32 * 1024 * 1024
_LARGE = 128 * 1024 * 1024

# The zstd level.
_LEVEL = 6

# The newest raw row of each item, and of each version in its history: the rows that these were decoded from.
_REFERRED = f"""
{of_all_items("raw_landed AS landed")} UNION ALL {of_all_items("raw_landed AS landed", "_superseded")}
"""


@dataclass(frozen=True, slots=True)
class CompactedParts:
    """Numbers and bytes of the parts before and after a compaction, and the number of deleted rows."""

    parts_before: int
    parts_after: int
    bytes_before: int
    bytes_after: int
    rows_deleted: int


def groups(
    parts: Sequence[Part], outdated: Mapping[int, int], *, small: int = _SMALL, large: int = _LARGE
) -> list[tuple[Part, ...]]:
    """Return the parts to rewrite; each group becomes one part.

    `parts` are in the order of landing. `outdated` is the number of rows to delete, by part.
    """
    made: list[tuple[Part, ...]] = []
    group: list[Part] = []

    def close() -> None:
        if len(group) > 1 or any(outdated.get(part.number) for part in group):
            made.append(tuple(group))
        group.clear()

    for part in parts:
        is_kept = part.bytes >= small and not outdated.get(part.number)
        if is_kept or sum(each.bytes for each in group) + part.bytes > large:
            close()
        if not is_kept:
            group.append(part)
    close()
    return made


def _outdated(connection: Connection, parts: Sequence[Part], before: datetime) -> dict[int, int]:
    found = {}
    for part in parts:
        if part.oldest_seen_at < before:
            query = (
                f"SELECT count(*) FROM {sources(connection, [part])} AS r ANTI JOIN ({_REFERRED}) AS m USING (landed)"  # noqa: S608
                f" WHERE seen_at < {_instant(before)}"
            )
            found[part.number] = int(value(connection.db, query))
    return found


def _instant(at: datetime) -> str:
    return f"TIMESTAMPTZ {literal(at.isoformat())}"


def compact_parts(connection: Connection, *, now: datetime, before: datetime | None = None) -> CompactedParts:
    """Combine small parts into larger ones, and drop superseded rows that were received `before` that time.

    The newest row of each item, and of each version in its history, is kept. Each new part is committed before the
    next one begins. The old parts are retired; `remove_retired` deletes them later. The connection must not be in a
    transaction. Raises WarehouseUnusable.
    """
    with connection.begin():
        parts = live_parts(connection)
        # The others as well: damage is best found while a backup still has the file.
        check_parts(connection, parts)
        outdated = {} if before is None else _outdated(connection, parts, before)
    for group in groups(parts, outdated):
        with connection.begin():
            query = f"SELECT r.* FROM {sources(connection, group)} AS r"  # noqa: S608
            if before is not None:
                query += (
                    f" LEFT JOIN (SELECT DISTINCT landed FROM ({_REFERRED})) AS m USING (landed)"  # noqa: S608
                    f" WHERE seen_at >= {_instant(before)} OR m.landed IS NOT NULL"
                )
            write_part(connection, f"{query} ORDER BY landed", level=_LEVEL)
            numbers = [part.number for part in group]
            connection.db.execute(
                "UPDATE ops.raw_parts SET retired_at = ? WHERE list_contains(?, number)", [now, numbers]
            )
        confirm_part(connection)
    after = live_parts(connection)
    return CompactedParts(
        len(parts),
        len(after),
        sum(part.bytes for part in parts),
        sum(part.bytes for part in after),
        sum(part.rows for part in parts) - sum(part.rows for part in after),
    )
