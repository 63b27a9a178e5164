"""The contents of a snapshot: each public table as a query over the tables of the copied warehouse."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from connectors.warehouse.merge import run_counts
from connectors.warehouse.schema.field_registry import read_mapping, read_registry
from connectors.warehouse.storage.connection import Connection, value
from connectors.warehouse.storage.quoting import literal, quoted
from connectors.warehouse.storage.statements import statements
from models.partition import SURFACES
from models.schema.fields import MEDIA, Registry
from models.schema.mapping import Mapping as MediaMapping
from models.schema.table_schemas import HISTORY, ColumnSchema, TableSchema, history, table_schemas
from models.tables import SNAPSHOT, WAREHOUSE
from models.tables.table import Table

# All values that the views look up by account, in one table: each further join would add its full cost to every query
# on media.
_LOOKUP = "core.account_lookup"
_COMPLETE_AT = {surface: f"{surface}_complete_at" for surface in SURFACES}
_LOOKUP_SELECT = f"""
WITH listed AS (SELECT account_id, any_value(ig_username) AS ig_username FROM core.accounts GROUP BY account_id),
missing AS (SELECT account_id, min(missing_since) AS missing_since FROM ops.missing_accounts GROUP BY account_id),
scanned AS (
    SELECT account_id,
        {", ".join(f"max(complete_at) FILTER (surface = '{each}') AS {name}" for each, name in _COMPLETE_AT.items())},
        max(recent_at) FILTER (surface = 'posts') AS posts_recent_at,
        max(covered_from) FILTER (surface = 'posts') AS posts_covered_from
    FROM core.completed_scans WHERE resource = 'media' GROUP BY account_id
)
SELECT account_id, ig_username, missing_since, {", ".join(_COMPLETE_AT.values())}, posts_recent_at, posts_covered_from
FROM listed FULL JOIN missing USING (account_id) FULL JOIN scanned USING (account_id)
"""  # noqa: S608 - constant names

# Items whose removal awaits confirmation.
_MISSING = "core.missing_items"
_MISSING_SELECT = """
SELECT account_id, surface, media_id, min(missing_since) AS missing_since, min(last_seen_at) AS last_seen_at
FROM ops.missing GROUP BY account_id, surface, media_id
"""

# Scans that stopped before they reached known posts, and began after the last closed scan of their partition. (That
# scan has read what an older one left out.) The reason is from the last run that scanned the partition.
_GAPS = "core.open_gaps"
_GAPS_SELECT = statements(__name__)["gaps"]

# The tables of the snapshot that the views need and the warehouse does not have, with their queries.
LOOKUPS: Mapping[str, str] = {_LOOKUP: _LOOKUP_SELECT, _GAPS: _GAPS_SELECT, _MISSING: _MISSING_SELECT}

_SELECTS: Mapping[str, str] = {
    "accounts": f"""
SELECT
    gh_account.account_id, gh_account.ig_username, public_id, status,
    CASE WHEN status = 'token_expired' THEN status_since END AS token_expired_since,
    first_seen_at, last_seen_at, removed_at, gh_lookup.missing_since
FROM core.accounts AS gh_account LEFT JOIN {_LOOKUP} AS gh_lookup ON gh_lookup.account_id = gh_account.account_id
""",  # noqa: S608
    "runs": run_counts.LISTED,
    "gaps": f"FROM {_GAPS}",
    "completed_scans": f"""
SELECT w.*, coalesce(m.items, 0)::BIGINT AS items_missing
FROM core.completed_scans AS w
LEFT JOIN (SELECT account_id, surface, count(missing_since) AS items FROM {_MISSING} GROUP BY ALL) AS m
    USING (account_id, surface)
""",  # noqa: S608
}

_KEY = ("account_id", "surface", "media_id")

# When a recent scan last saw a post: only posts within the scan's covered range count.
_RECENT = (
    "CASE WHEN gh_item.surface = 'posts' AND gh_item.published_at > gh_lookup.posts_covered_from"
    " THEN gh_lookup.posts_recent_at END"
)


def _media(*, is_any_missing: bool, is_any_recent: bool) -> str:
    """Return the query for media, with `last_seen_at`.

    A present item was last seen by the last full scan, unless its removal awaits confirmation. If recent scans
    followed, they have seen the items published since `covered_from`.
    """
    seen = " ".join(f"WHEN '{each}' THEN gh_lookup.{name}" for each, name in _COMPLETE_AT.items())
    recent = f", {_RECENT}" if is_any_recent else ""
    last_seen_at = f"greatest(gh_item.written_at, CASE gh_item.surface {seen} END{recent})"
    missing = ""
    if is_any_missing:
        last_seen_at = f"coalesce(gh_missing.last_seen_at, {last_seen_at})"
        keys = " AND ".join(f"gh_missing.{name} = gh_item.{name}" for name in _KEY)
        missing = f"LEFT JOIN {_MISSING} AS gh_missing ON {keys}"
    return f"""
SELECT
    gh_item.*, gh_lookup.ig_username,
    CASE WHEN gh_item.removed_at IS NOT NULL THEN gh_item.written_at ELSE {last_seen_at} END AS last_seen_at
FROM core.media AS gh_item
LEFT JOIN {_LOOKUP} AS gh_lookup ON gh_lookup.account_id = gh_item.account_id
{missing}
"""  # noqa: S608


def _history(columns: Iterable[str]) -> str:
    """Return the query for all versions. `columns` begins with the item's key, valid_from and valid_to."""
    content = ", ".join(f"gh_version.{quoted(name)}" for name in list(columns)[len(_KEY) + 2 :])
    key = ", ".join(f"gh_version.{name}" for name in _KEY)
    return f"""
SELECT {key}, gh_version.valid_from, gh_version.valid_to, {content} FROM core.{HISTORY} AS gh_version
UNION ALL
SELECT {key}, gh_version.content_changed_at, NULL, {content} FROM core.media AS gh_version
"""  # noqa: S608 - quoted names


@dataclass(frozen=True, slots=True)
class Relation:
    """A public table of the snapshot: its columns in order, each with its comment, and a query that contains them."""

    name: str
    comment: str
    columns: Mapping[str, str]
    source: str

    @property
    def select(self) -> str:
        """Return the query with exactly these columns."""
        return f"SELECT {', '.join(map(quoted, self.columns))} FROM {self.source}"  # noqa: S608


def _declared(table: Table) -> dict[str, str]:
    return {column.name: column.comment for column in table.columns}


def _origin(column: ColumnSchema) -> str:
    if column.field is None:
        return "Mapped in gramhouse.toml."
    return f"Inferred from {column.field.path} ({', '.join(sorted(column.field.json_types))})."


def _with_inferred(declared: Mapping[str, str], schema: TableSchema) -> dict[str, str]:
    return {**declared, **{each.name: _origin(each) for each in schema.columns if each.name not in declared}}


def _counts(
    found: Sequence[TableSchema], mapping: MediaMapping, registry: Registry
) -> Iterator[tuple[str, str, str, str]]:
    """Yield table, resource, path and a counting expression for each field that fills a column alone.

    If several paths fill a column, the number of items with each of them cannot be counted.
    """
    counted: set[tuple[str, str]] = set()
    ids = [path for path in mapping.media_id if (MEDIA, path) in registry]
    if len(ids) == 1:
        counted.add((MEDIA, ids[0]))
        yield MEDIA, MEDIA, ids[0], "count(*)"
    for schema in found:
        # Inferred columns first: a mapped column lacks the values that could not be converted.
        for column in sorted(schema.columns, key=lambda column: column.field is None):
            path = column.paths[0] if len(column.paths) == 1 else None
            if path is not None and (schema.table, path) not in counted:
                counted.add((schema.table, path))
                yield schema.table, schema.table, path, f"count({quoted(column.name)})"
        if len(schema.lists) == 1 and (MEDIA, schema.lists[0]) not in counted:
            counted.add((MEDIA, schema.lists[0]))
            yield schema.table, MEDIA, schema.lists[0], f"count(DISTINCT ({', '.join(_KEY)}))"


def _fields(counts: Iterator[tuple[str, str, str, str]]) -> str:
    """Return the query for fields; items are counted only if the column `items` is selected.

    For that, all counts of a table are one value that is joined to every row: DuckDB does not compute unused values.
    """
    by_table: dict[str, list[str]] = {}
    for table, resource, path, items in counts:
        carrier = f"[{literal(resource)}, {literal(path)}]"
        by_table.setdefault(table, []).append(f"struct_pack(k := {carrier}, v := {items})")
    counted = " ".join(
        f"CROSS JOIN (SELECT [{', '.join(entries)}] AS entries FROM core.{quoted(table)}) AS gh_{number}"  # noqa: S608
        for number, (table, entries) in enumerate(by_table.items())
    )
    items = "NULL::BIGINT"
    if by_table:
        all_entries = ", ".join(f"gh_{number}.entries" for number in range(len(by_table)))
        items = f"map_from_entries(flatten([{all_entries}]))[[gh_field.resource, gh_field.path]]"
    return f"""
SELECT gh_field.* EXCLUDE (items), {items} AS items
FROM core.fields AS gh_field {counted}
ORDER BY gh_field.resource, gh_field.ordinal, gh_field.path
"""  # noqa: S608 - declared or quoted names


def relations(connection: Connection) -> tuple[Relation, ...]:
    """Return the public tables of this warehouse's snapshot, except `published`. Call it within a transaction."""
    mapping, registry = read_mapping(connection), read_registry(connection)
    found = table_schemas(mapping, registry)
    by_name = {schema.table: schema for schema in found}
    versions = history(by_name[MEDIA], mapping)
    every_version = _with_inferred(_declared(SNAPSHOT["media_history"]), versions)
    is_any_missing = bool(value(connection.db, "SELECT EXISTS (FROM ops.missing)"))
    is_any_recent = bool(value(connection.db, "SELECT EXISTS (FROM core.completed_scans WHERE recent_at IS NOT NULL)"))
    selects = {
        **_SELECTS,
        MEDIA: _media(is_any_missing=is_any_missing, is_any_recent=is_any_recent),
        "media_history": _history(every_version),
        "fields": _fields(_counts(found, mapping, registry)),
    }
    by_name |= {HISTORY: versions, "media_history": versions}
    made: list[Relation] = []
    for table in SNAPSHOT.values():
        if table.name == "published":
            continue
        columns, schema = _declared(table), by_name.pop(table.name, None)
        if schema is not None:
            columns = _with_inferred(columns, schema)
        select = selects.get(table.name)
        source = f"core.{quoted(table.name)}" if select is None else f"({select})"
        made.append(Relation(table.name, table.comment, columns, source))
    key = dict(list(_declared(WAREHOUSE["core.media_children"]).items())[:4])
    for schema in by_name.values():
        comment = f"Inferred from the list at {', '.join(schema.lists)}, one row each."
        made.append(Relation(schema.table, comment, _with_inferred(key, schema), f"core.{quoted(schema.table)}"))
    return tuple(made)
