"""The contents of a snapshot: tables with what its views look up, and the views of `models/views` with all columns."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from connectors.warehouse.merge.comparing import changed_columns
from connectors.warehouse.schema.field_registry import read_mapping, read_registry
from connectors.warehouse.storage.connection import Connection, value
from connectors.warehouse.storage.declared import ITEM_TABLES, of_all_items
from connectors.warehouse.storage.quoting import literal, quoted
from connectors.warehouse.storage.statements import statements
from models.feeds import FEEDS
from models.fields import unique
from models.mapping import Mapping as MediaMapping
from models.schema.fields import MEDIA, Registry
from models.schema.kinds import kind, type_columns
from models.schema.table_schemas import CHILDREN, ColumnSchema, TableSchema, history, table_schemas
from models.views import View, views

_PUBLISHED = ("snapshot_at", "version", "stale_after", "warehouse_id", "full_refresh_every", "hidden")

# Of the last closed scans of an account's feeds. Recent ones saw only items published after `covered_from`.
_ORDERED = tuple(name for name, feed in FEEDS.items() if feed.may_be_ordered)
_TIMES = [(each, "complete_at") for each in FEEDS]
_TIMES += [(each, time) for each in _ORDERED for time in ("recent_at", "covered_from")]
_CLOSED = ", ".join(f"max({time}) FILTER (surface = '{each}') AS {each}_{time}" for each, time in _TIMES)
_COMPLETE_AT = " ".join(f"WHEN '{each}' THEN gh_lookup.{each}_complete_at" for each in FEEDS)
_RECENT_AT = " ".join(
    f"WHEN gh_row.surface = '{each}' AND gh_row.published_at > gh_lookup.{each}_covered_from"
    f" THEN gh_lookup.{each}_recent_at"
    for each in _ORDERED
)

# A part of a view that is left out if it would have no effect: a join, for example, costs time in every query.
_OPTIONAL = re.compile(r"\{(\w+): ([^}]*)\}")

_ANY_MISSING = "SELECT EXISTS (FROM ops.missing)"
_ANY_RECENT = "SELECT EXISTS (FROM core.completed_scans WHERE recent_at IS NOT NULL)"

_NOT_COUNTED = "SELECT NULL::MAP(VARCHAR[], BIGINT) AS items"


def lookups(published: Mapping[str, object]) -> Mapping[str, str]:
    """Return the tables of the snapshot that the views need and the warehouse does not have, with their queries.

    `published` is the row of that table, by column; columns that it lacks are NULL.
    """
    row = {name: literal(str(published[name])) if name in published else "NULL" for name in _PUBLISHED}
    return {
        f"core.{name}": query.format(
            **row, closed=_CLOSED, items=of_all_items("account_id, surface, published_at, written_seq")
        )
        for name, query in statements(__name__).items()
    }


def _origin(column: ColumnSchema) -> str:
    if column.field is None:
        return "Mapped in gramhouse.toml."
    return f"Inferred from {column.field.path} ({', '.join(sorted(column.field.json_types))})."


def _inferring(view: View, schema: TableSchema) -> View:
    """Return a view with the columns of its schema that it does not declare.

    An older version may have given a field's column a name that the view uses for something else now.
    """
    added = [column for column in schema.columns if column.field or column.name not in view.columns]
    names = [unique(column.name, view.columns) for column in added]
    inferred = "".join(
        f", gh_row.{quoted(column.name)} AS {quoted(name)}" for column, name in zip(added, names, strict=True)
    )
    columns = {**view.columns, **dict(zip(names, map(_origin, added), strict=True))}
    return replace(view, columns=columns, select=view.select.replace("{inferred}", inferred))


def _of_children(schema: TableSchema) -> View:
    """Return the view of a child table that is not declared, with the key of `media_children`."""
    children = views()[CHILDREN]
    columns = {name: children.columns[name] for name in (*children.relation.key, "run_seq")}
    return View(
        schema.table,
        children.relation,
        f"Inferred from the list at {', '.join(schema.lists)}, one row each.",
        columns,
        f"SELECT {', '.join(columns)}{{inferred}} FROM core.{quoted(schema.table)} AS gh_row",  # noqa: S608 - quoted
    )


def _counts(
    found: Sequence[TableSchema], mapping: MediaMapping, registry: Registry
) -> Iterator[tuple[str, str, str, str]]:
    """Yield table, resource, path and a counting expression for each field that fills a column alone.

    If several paths fill a column, the number of items with each of them cannot be counted.
    """
    counted: set[tuple[str, str]] = set()
    items = mapping.table
    ids = [path for path in mapping.media_id if (items, path) in registry]
    if len(ids) == 1:
        counted.add((items, ids[0]))
        yield items, items, ids[0], "count(*)"
    for schema in found:
        # Inferred columns first: a mapped column lacks the values that could not be converted.
        for column in sorted(schema.columns, key=lambda column: column.field is None):
            path = column.paths[0] if len(column.paths) == 1 else None
            if path is not None and (schema.table, path) not in counted:
                counted.add((schema.table, path))
                yield schema.table, schema.table, path, f"count({quoted(column.name)})"
        if len(schema.lists) == 1 and (items, schema.lists[0]) not in counted:
            counted.add((items, schema.lists[0]))
            yield schema.table, items, schema.lists[0], "count(DISTINCT (account_id, surface, media_id))"


def _counted(counts: Iterable[tuple[str, str, str, str]]) -> str:
    """Return the query for the number of items of each field, as one map of resource and path.

    One value that is joined to every field: DuckDB does not compute it unless the column `items` is selected.
    """
    by_table: dict[str, list[str]] = {}
    for table, resource, path, items in counts:
        carrier = f"[{literal(resource)}, {literal(path)}]"
        by_table.setdefault(table, []).append(f"struct_pack(k := {carrier}, v := {items})")
    if not by_table:
        return _NOT_COUNTED
    of_tables = ", ".join(
        f"(SELECT [{', '.join(entries)}] AS entries FROM core.{quoted(table)}) AS gh_{number}"  # noqa: S608 - quoted
        for number, (table, entries) in enumerate(by_table.items())
    )
    entries = ", ".join(f"gh_{number}.entries" for number in range(len(by_table)))
    return f"SELECT map_from_entries(flatten([{entries}])) AS items FROM {of_tables}"  # noqa: S608 - quoted


def _changes(select: str, versions: TableSchema, mapping: MediaMapping) -> str:
    """Return the query of the view `changes` for the items of one table."""
    parts = {
        "resource": mapping.table,
        "items": f"core.{mapping.table}",
        "versions": f"core.{versions.table}",
        "metrics": f"core.{mapping.table}_metrics",
        "content": "".join(f", {quoted(column.name)}" for column in versions.columns),
        "changed_columns": changed_columns(versions, mapping, "_old", "_new"),
    }
    return re.sub(r"\{(\w+)\}", lambda part: parts[part[1]], select)


def snapshot_views(connection: Connection) -> tuple[View, ...]:
    """Return the views of this warehouse's snapshot, in the order in which they can be created.

    Call it within a transaction.
    """
    of_media, registry = read_mapping(connection), read_registry(connection)
    schemas: dict[str, TableSchema] = {}
    changes: list[str] = []
    counts: list[tuple[str, str, str, str]] = []
    for mapping in map(of_media.of, ITEM_TABLES):
        found = table_schemas(mapping, registry)
        versions = history(found[0], mapping)
        schemas |= {schema.table: schema for schema in found}
        schemas |= {versions.table: versions, f"{mapping.table}_history": versions}
        counts += _counts(found, mapping, registry)
        changes.append(_changes(views()["changes"].select, versions, mapping))
    wanted = {"missing": value(connection.db, _ANY_MISSING)}
    recent_at = f"CASE {_RECENT_AT} END," if value(connection.db, _ANY_RECENT) else ""

    def filled(view: View) -> View:
        select = _OPTIONAL.sub(lambda part: part[2] if wanted[part[1]] else "", view.select)
        select = select.replace("{complete_at}", _COMPLETE_AT).replace("{recent_at}", recent_at)
        if view.name == MEDIA:
            words = [f"gh_row.{quoted(name)}" for name in type_columns(schemas[MEDIA])]
            select = select.replace("{kind}", kind(words))
        if view.name == "changes":
            select = " UNION ALL ".join(f"({each})" for each in changes)
        if view.name == "fields":
            select = select.replace("{counts}", _counted(counts))
        view = replace(view, select=select)
        return view if view.name not in schemas else _inferring(view, schemas[view.name])

    undeclared = [_of_children(schema) for name, schema in schemas.items() if schema.lists and name not in views()]
    return tuple(map(filled, (*views().values(), *undeclared)))
