"""What goes into a snapshot: its tables and columns, declared and discovered, and the query that fills each."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, Table

from connectors.warehouse import run_counts
from connectors.warehouse.field_registry import read_mapping, read_registry
from connectors.warehouse.quoting import literal, quoted
from connectors.warehouse.readings import field_at
from models.fields import MEDIA, Registry
from models.kinds import Kind
from models.sheets import Sheet, SheetColumn, sheets
from models.tables import SNAPSHOT, WAREHOUSE

_SELECTS: Mapping[str, str] = {
    "accounts": """
SELECT
    a.account_id, ig_username, public_id, status,
    CASE WHEN status = 'token_expired' THEN status_since END AS token_expired_since,
    first_seen_at, last_seen_at, removed_at, m.since AS missing_since
FROM core.accounts AS a LEFT JOIN ops.missing_accounts AS m USING (account_id)
""",
    "account_status_history": "SELECT account_id, status, valid_from, valid_to FROM core.account_status_history",
    "media_superseded": "FROM core.media_superseded",
    "media_metrics": "FROM core.media_metrics",
    "quarantine": "SELECT * EXCLUDE (digest) FROM core.quarantine",
    "runs": run_counts.LISTED,
    "run_outcomes": "FROM core.run_outcomes",
    "run_warnings": "FROM core.run_warnings",
    "walks": "SELECT resource, account_id, surface, complete_at FROM core.walks",
}

_ORDERS: Mapping[str, str] = {
    "accounts": "account_id",
    "account_status_history": "account_id, valid_from",
    "media": "account_id, surface, published_at DESC, media_id",
    "media_superseded": "account_id, surface, media_id, valid_from, valid_to",
    "media_metrics": "account_id, surface, media_id, metric, observed_at, value",
    "quarantine": "seen_at",
    "runs": "seq",
    "run_outcomes": "started_at",
    "run_warnings": "run_id, code",
    "walks": "account_id, surface",
}

_GROW_BY: Mapping[str, str] = {"media_superseded": "valid_to", "media_metrics": "observed_at"}

_ITEM = ("account_id", "surface", "media_id")
_CHILD = (*_ITEM, "position")

_KEYS: Mapping[str, tuple[str, ...]] = {MEDIA: _ITEM}
_MOVING: Mapping[str, str] = {MEDIA: "last_seen_at"}

# What is still there was seen by the last complete walk, unless its absence awaits confirmation.
_MEDIA = """
SELECT
    m.* EXCLUDE (digest, content_digest, payload_hash, written_at, written_seq), a.ig_username,
    CASE
        WHEN m.removed_at IS NOT NULL THEN m.written_at
        ELSE coalesce(p.last_seen_at, greatest(m.written_at, w.complete_at))
    END AS last_seen_at
FROM core.media AS m
LEFT JOIN core.accounts AS a USING (account_id)
LEFT JOIN core.walks AS w ON w.resource = 'media' AND w.account_id = m.account_id AND w.surface = m.surface
LEFT JOIN ops.missing AS p
    ON p.account_id = m.account_id AND p.surface = m.surface AND p.media_id = m.media_id
"""


@dataclass(frozen=True, slots=True)
class SnapshotColumn:
    """A column as it is written: `type` is DuckDB's name of it."""

    name: str
    type: str
    comment: str
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class SnapshotTable:
    """A table of the snapshot; `select` fills it from the warehouse, or from tables before it in the snapshot.

    `order` names what its rows are sorted by. From one snapshot to the next most rows of a table with a `key` stay as
    they were, but for the column `moving`; one that `grows_by` an instant is given rows of later instants, and keeps
    the others; any other table is small.
    """

    name: str
    comment: str
    columns: tuple[SnapshotColumn, ...]
    select: str | None
    order: str | None = None
    key: tuple[str, ...] = ()
    moving: str | None = None
    grows_by: str | None = None

    def sorted(self, rows: str) -> str:
        """Return a query for rows like this table's, with its order."""
        return f"{rows} ORDER BY {self.order}" if self.order else rows


def _declared(table: Table, dialect: object) -> Iterator[SnapshotColumn]:
    for column in table.columns:
        kind = column.type.compile(dialect=dialect)  # type: ignore[arg-type]
        yield SnapshotColumn(column.name, kind, column.comment or "", column.nullable is not False)


def _said(column: SheetColumn) -> str:
    if column.field is None:
        return "Mapped in gramhouse.toml."
    return f"Discovered: what items carry at {column.field.path} ({', '.join(sorted(column.field.kinds))})."


def _extra(sheet: Sheet, declared: Sequence[SnapshotColumn]) -> Iterator[SnapshotColumn]:
    there = {column.name for column in declared}
    for column in sheet.columns:
        if column.name not in there:
            yield SnapshotColumn(column.name, column.type, _said(column))


def _children(sheet: Sheet, declared: Sequence[SnapshotColumn], comment: str) -> SnapshotTable:
    columns = (*declared, *_extra(sheet, declared))
    select = f"FROM core.{quoted(sheet.table)}"
    return SnapshotTable(sheet.table, comment, columns, select, ", ".join(_CHILD), key=_CHILD)


@dataclass(frozen=True, slots=True)
class _Count:
    """How many items carry a field: an expression over one of the snapshot's tables."""

    table: str
    resource: str
    path: str
    expression: str


def _counts(registry: Registry, all_sheets: Sequence[Sheet]) -> Iterator[_Count]:
    """Yield the cheapest way to count each field: in its own column, in one nothing else fills, in the payloads."""
    told: set[tuple[str, str]] = set()
    for sheet in all_sheets:
        # A canonical column leaves out what it cannot read: a path's own column knows better.
        for column in sorted(sheet.columns, key=lambda column: column.field is None):
            path = column.paths[0] if len(column.paths) == 1 else None
            if path is not None and (sheet.table, path) not in told:
                told.add((sheet.table, path))
                yield _Count(sheet.table, sheet.table, path, f"count({quoted(column.name)})")
        if len(sheet.lists) == 1 and (MEDIA, sheet.lists[0]) not in told:
            told.add((MEDIA, sheet.lists[0]))
            items = "count(DISTINCT (account_id, surface, media_id))"
            yield _Count(sheet.table, MEDIA, sheet.lists[0], items)
    for field in registry.values():
        carried = field.kinds.keys() - {Kind.NULL, Kind.OBJECT, Kind.EMPTY_LIST}
        if field.resource == MEDIA and carried and (MEDIA, field.path) not in told:
            yield _Count(MEDIA, MEDIA, field.path, f"count(json_extract_string(payload, {field_at(field.path)}))")


def _fields_select(counts: Iterable[_Count], home: str) -> str:
    by_table: dict[str, list[_Count]] = {}
    for count in counts:
        by_table.setdefault(count.table, []).append(count)
    parts = ["SELECT NULL::VARCHAR[] AS carrier, NULL::BIGINT AS items WHERE false"]
    for table, some in by_table.items():
        carriers = ", ".join(f"[{literal(count.resource)}, {literal(count.path)}]" for count in some)
        items = ", ".join(count.expression for count in some)
        parts.append(f"SELECT unnest([{carriers}]), unnest([{items}]) FROM {home}.{quoted(table)}")  # noqa: S608
    counted = " UNION ALL ".join(parts)
    return f"""
SELECT
    f.resource, f.path, f.column_name, f.type, f.first_seen_at, f.last_type_change_at, c.items
FROM core.fields AS f
LEFT JOIN ({counted}) AS c ON c.carrier = [f.resource, f.path]
ORDER BY f.resource, f.ordinal, f.path
"""  # noqa: S608 - made of declarations and quoted names


def snapshot_tables(connection: Connection, home: str) -> tuple[SnapshotTable, ...]:
    """Return the tables of a snapshot that is attached under the name `home`, in the order of their filling."""
    mapping, registry = read_mapping(connection), read_registry(connection)
    found = sheets(mapping, registry)
    by_name = {sheet.table: sheet for sheet in found}
    selects = {**_SELECTS, MEDIA: _MEDIA, "fields": _fields_select(_counts(registry, found), home)}
    tables: list[SnapshotTable] = []
    for table in SNAPSHOT.sorted_tables:
        declared = tuple(_declared(table, connection.dialect))
        sheet = by_name.pop(table.name, None)
        comment = table.comment or ""
        if sheet is not None and table.name != MEDIA:
            tables.append(_children(sheet, declared, comment))
        else:
            extra = tuple(_extra(sheet, declared)) if sheet is not None else ()
            tables.append(
                SnapshotTable(
                    table.name,
                    comment,
                    (*declared, *extra),
                    selects.get(table.name),
                    _ORDERS.get(table.name),
                    key=_KEYS.get(table.name, ()),
                    moving=_MOVING.get(table.name),
                    grows_by=_GROW_BY.get(table.name),
                )
            )
    key = tuple(_declared(WAREHOUSE.tables["core.media_children"], connection.dialect))[:4]
    for sheet in by_name.values():
        comment = f"Discovered: the objects in the list that items carry at {', '.join(sheet.lists)}, one row each."
        tables.append(_children(sheet, key, comment))
    # The fields are counted in the other tables.
    return tuple(sorted(tables, key=lambda table: table.name == "fields"))
