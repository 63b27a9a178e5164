"""The registry of fields, and the mapping rows are read by, as the warehouse keeps them."""

import json
from collections.abc import Iterator
from datetime import datetime

from sqlalchemy import Connection, delete, select, update

from connectors.warehouse.appending import append, as_json
from models.fields import AND_MORE, MEDIA, Field, OwnNames, Registry
from models.kinds import Kind
from models.mapping import READING_TYPES, Mapping
from models.mapping_built_in import BUILT_IN
from models.sheets import CHILDREN, child_table
from models.tables import SNAPSHOT, WAREHOUSE, core_fields, core_quarantine, ops_mapping, own_columns
from models.views import views


def read_mapping(connection: Connection) -> Mapping:
    """Return the mapping that the rows of media are read by."""
    text = connection.execute(select(ops_mapping.c.mapping)).scalar()
    if text is None:
        return BUILT_IN
    return Mapping.from_json(text if isinstance(text, str) else json.dumps(text))


def write_mapping(connection: Connection, mapping: Mapping) -> None:
    """Keep the mapping that the rows of media are read by from now on."""
    connection.execute(delete(ops_mapping))
    append(connection, ops_mapping, [as_json({"mapping": json.loads(mapping.to_json())})])
    # What is no content of a record is the mapping's to say.
    connection.execute(update(core_quarantine).values(digest=None))


def own_names(mapping: Mapping) -> OwnNames:
    """Return the names that no discovered field may have."""
    tables = {table.name for house in (WAREHOUSE, SNAPSHOT) for table in house.sorted_tables}
    tables.update(view.name for view in views())
    declared = {name: own_columns(name) for name in (MEDIA, CHILDREN)}
    declared[MEDIA].update(column.column for column in mapping.columns)
    declared[CHILDREN].update(column.column for column in mapping.child_columns)
    return OwnNames(declared, tables, mapping.children)


def read_registry(connection: Connection) -> Registry:
    """Return what is known of media items and their children."""
    rows = connection.execute(select(core_fields).where(core_fields.c.ordinal.is_not(None))).mappings()
    fields = (
        Field(
            row["resource"],
            row["path"],
            row["name"],
            row["ordinal"],
            {Kind(kind): datetime.fromisoformat(at) for kind, at in json.loads(row["kinds"]).items()},
            row["child_table"],
        )
        for row in rows
    )
    return {(field.resource, field.path): field for field in fields}


def write_registry(connection: Connection, registry: Registry, mapping: Mapping) -> None:
    """Keep what is known of media items and their children."""
    connection.execute(delete(core_fields).where(core_fields.c.ordinal.is_not(None)))
    names = core_fields.columns.keys()
    rows = [as_json(dict(zip(names, row, strict=True))) for row in _rows(registry, mapping)]
    append(connection, core_fields, rows)


# Kinds that fill no canonical column: an object's fields have their own.
_NOTHING = {Kind.NULL, Kind.OBJECT, Kind.EMPTY_LIST, Kind.ROWS}


def _rows(registry: Registry, mapping: Mapping) -> Iterator[tuple[object, ...]]:
    read_into = {
        (resource, path): (column.column, READING_TYPES[column.reading])
        for resource, columns in ((MEDIA, mapping.columns), (CHILDREN, mapping.child_columns))
        for column in reversed(columns)
        for path in column.paths
    }
    read_into |= {(MEDIA, path): ("media_id", "VARCHAR") for path in mapping.media_id}
    for key, field in sorted(registry.items(), key=lambda item: (item[0][0], item[1].ordinal)):
        column: str | None = field.name if field.type is not None else None
        kind = field.type
        if field.path == AND_MORE:
            column = kind = None
        elif Kind.ROWS in field.kinds and field.resource == MEDIA and kind is None:
            column = child_table(field, mapping)
            kind = None if column is None else "ROWS"
        elif key in read_into and Kind.SHADOWED not in field.kinds and Kind.UNREADABLE not in field.kinds:
            column, kind = read_into[key] if set(field.kinds) - _NOTHING else (None, None)
        kinds = json.dumps({kind.value: at.isoformat() for kind, at in sorted(field.kinds.items())})
        yield (
            field.resource,
            field.path,
            column,
            kind,
            field.first_seen_at,
            field.last_type_change_at,
            None,
            field.ordinal,
            field.name,
            field.table,
            kinds,
        )
