"""GRAMHOUSE_HIDE: the columns that a snapshot leaves out, or replaces by salted hashes.

A snapshot with hidden columns is a new file, so that no freed block of a copy keeps a value. Its tables have NULL in
the columns that are left out. Schema `padded` has the usual views of them, which the commands and the report read; the
views of schema `main` are these without the columns that are left out.
"""

import difflib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from secrets import token_hex

from duckdb import DuckDBPyConnection

from connectors.warehouse.merge.comparing import comparable
from connectors.warehouse.raw.listed import PADDED
from connectors.warehouse.schema.field_registry import read_mapping, read_registry
from connectors.warehouse.snapshot.contents import lookups
from connectors.warehouse.snapshot.ownership import Refusal
from connectors.warehouse.snapshot.stored_views import creating
from connectors.warehouse.storage.connection import Connection
from connectors.warehouse.storage.declared import ITEM_TABLES, TABLES
from connectors.warehouse.storage.quoting import literal, quoted
from models.fields import safe_name
from models.mapping import Mapping as MediaMapping
from models.pointer import Keys, to_keys
from models.schema.json_types import JsonType
from models.schema.table_schemas import ColumnSchema, TableSchema, table_schemas
from models.views import View, views

_HASH = ":hash"

# Of accounts: what they are found and scanned by, and what gramhouse records itself. The API sends all other columns.
_KEPT = """
account_id listed_as status status_since unknown_status first_seen_at last_seen_at removed_at scan_id seen_seq run_seq
"""
_OF_ACCOUNTS = {name: type_ for name, type_ in TABLES["core.accounts"].types.items() if name not in _KEPT.split()}

# Columns of media that gramhouse derives.
_DERIVED = ("kind",)

# Scans are planned and judged by it, so that it is also in tables without items.
_NEEDED = "published_at"

# As the API calls the name of an account; items may have a column of this name, which is hidden with it.
_SYNONYMS = {"username": "ig_username"}

# Keys, in snake case, whose columns are hidden with another one: an item's address and fields may have the name.
_WITH = {"ig_username": re.compile(r"permalink|.*user_?name")}

# JSON types of a field whose column may have JSON of objects, with keys that are no fields: objects in a list within an
# element of a list, for example.
_WITH_KEYS = {JsonType.MIXED, JsonType.OBJECT, JsonType.ROWS}

# What a table has in place of texts that may quote any value: as it came, or as a person typed it.
_MASK = "'(hidden)'"
_NEVER = ("overflow", "payload_hash")

_COLUMNS = """
SELECT table_name, list(column_name) FROM duckdb_columns()
WHERE database_name = current_database() AND schema_name = 'core'
    AND table_name IN (SELECT table_name FROM duckdb_tables() WHERE schema_name = 'core')
GROUP BY table_name ORDER BY table_name
"""


@dataclass(frozen=True, slots=True)
class Hiding:
    """What a snapshot hides: the setting, for each table of `core` whether its hidden columns are hashed, and the salt.

    `everywhere` are the left out columns that views of other tables have under the same name. `in_json` are the
    columns, by table, that may have JSON with keys that match the pattern `keys`: such values are left out.
    """

    setting: tuple[str, ...]
    tables: Mapping[str, Mapping[str, bool]]
    everywhere: frozenset[str]
    in_json: Mapping[str, Sequence[str]]
    keys: str
    salt: str
    mapping: MediaMapping

    def left_out(self, table: str) -> list[str]:
        """Return the names of a table's columns that are left out."""
        return [name for name, is_hashed in self.tables.get(table, {}).items() if not is_hashed]


def _refusal(name: str, schemas: Sequence[TableSchema], *, is_hashed: bool) -> Refusal | None:
    types = {column.name: column.type for schema in schemas for column in schema.columns}
    types |= {metric.name: "a count, recorded as a number" for schema in schemas for metric in schema.metrics}
    types |= _OF_ACCOUNTS | dict.fromkeys(_DERIVED, "computed")
    types.pop(_NEEDED)
    if name in types:
        if not is_hashed or types[name] == "VARCHAR":
            return None
        what = f"GRAMHOUSE_HIDE: {name} cannot be hashed, because it is {types[name]}, not text."
        return Refusal(what, f"write {name} without {_HASH}, to leave it out")
    if any(name in view.columns for view in views().values()):
        return Refusal(f"GRAMHOUSE_HIDE: {name} cannot be hidden, because gramhouse needs it.", "remove it")
    what = f"GRAMHOUSE_HIDE: no table has a column {name!r}."
    near = difflib.get_close_matches(name, types, n=1, cutoff=0.5)
    return Refusal(
        what, f"use {near[0]}" if near else "remove it; docs/data-dictionary.md and `gramhouse describe` list all"
    )


def _is_related(path: str, paths: Sequence[str]) -> bool:
    """Return whether a field is one of these, contains one of them, or is part of one."""
    return any(path == one or path.startswith(f"{one}/") or one.startswith(f"{path}/") for one in paths)


def _is_named(column: ColumnSchema, name: str) -> bool:
    """Return whether a name hides this column: its own, or that of its field, whose column may have a number added."""
    if column.name == name:
        return True
    return _have_name(to_keys(column.field.path) if column.field is not None else (column.name,), name)


def _have_name(keys: Keys, name: str) -> bool:
    """Return whether a name hides the field with these keys."""
    if (also := _WITH.get(name)) is None:
        return safe_name(keys) == name
    return any(also.fullmatch(safe_name((key,))) for key in keys)


def _of_table(schema: TableSchema, wanted: Mapping[str, bool], lists: Sequence[str]) -> dict[str, bool]:
    """Return the hidden columns of a table of items or children, each with whether it is hashed."""
    hidden: dict[str, bool] = {}
    for name, is_hashed in wanted.items():
        found = [column for column in schema.columns if _is_named(column, name)]
        hidden |= {column.name: is_hashed and column.type == "VARCHAR" for column in found}
        paths = [path for column in found for path in column.paths] + [*lists]
        for column in schema.columns:
            if column.field is not None and column not in found and _is_related(column.field.path, paths):
                hidden[column.name] = False
        hidden |= {metric.name: False for metric in schema.metrics if _is_named(metric, name)}
    return hidden | {column.name: wanted[column.name] for column in schema.columns if column.name in wanted}


def _tables(schemas: Sequence[TableSchema], wanted: Mapping[str, bool]) -> dict[str, dict[str, bool]]:
    children = {schema.table: _of_table(schema, wanted, ()) for schema in schemas if schema.lists}
    tables = {"accounts": {name: wanted[name] for name in _OF_ACCOUNTS if name in wanted}, **children}
    if (is_hashed := wanted.get("ig_username")) is not None:
        tables["events"] = {"ig_username": is_hashed}
        tables["account_changes"] = {f"{age}_ig_username": is_hashed for age in ("old", "new")}
    named = [path for each in schemas for path in each.lists if any(_have_name(to_keys(path), name) for name in wanted)]
    for schema in (schema for schema in schemas if not schema.lists):
        # A column with a whole list has the values that a child table hides.
        lists = [path for each in schemas if children.get(each.table) for path in each.lists]
        hidden = _of_table(schema, wanted, lists)
        if "kind" in wanted:
            hidden["kind"] = False
        tables |= {f"{schema.table}{suffix}": hidden for suffix in ("", "_superseded", "_history", "_metrics")}
        paths = named + [p for column in schema.columns if column.name in hidden for p in column.paths]
        for child in (each for each in schemas if each.lists and any(_is_related(p, paths) for p in each.lists)):
            tables[child.table] = {column.name: False for column in child.columns}
    return tables


def _in_json(schemas: Sequence[TableSchema]) -> dict[str, list[str]]:
    """Return the columns of each table that may have JSON of objects."""
    found: dict[str, list[str]] = {}
    for schema in schemas:
        names = [
            column.name
            for column in schema.columns
            if column.type == "VARCHAR" and column.field and not _WITH_KEYS.isdisjoint(column.field.json_types)
        ]
        found |= {f"{schema.table}{suffix}": names for suffix in ("", "_superseded")}
    return found


def _keys(schemas: Sequence[TableSchema], names: Collection[str]) -> str:
    """Return the pattern of keys in JSON text that have the names of hidden columns or of their fields."""
    found = {_WITH[name].pattern if name in _WITH else name.rpartition("__")[2] for name in names}
    for column in (column for schema in schemas for column in schema.columns):
        if column.field is not None and any(_is_named(column, name) for name in names):
            found.add(safe_name(to_keys(column.field.path)[-1:]))
    # In snake case, a name has `_` for all other characters, and none at its ends.
    other = r'[^\pL\pN"]*'
    spelled = "|".join(sorted(found)).replace(".*", '[^"]*').replace("_", other)
    return rf'"{other}(?:{spelled}){other}"\s*:'


def _salt(connection: Connection) -> str:
    """Return the warehouse's salt, which is generated once: equal values have equal hashes in all of its snapshots."""
    if (found := connection.db.execute("SELECT salt FROM ops.hide_salt").fetchone()) is not None:
        return str(found[0])
    salt = token_hex(32)
    connection.db.execute("INSERT INTO ops.hide_salt VALUES (?)", [salt])
    return salt


def _schemas(connection: Connection, mapping: MediaMapping) -> list[TableSchema]:
    registry = read_registry(connection)
    return [schema for table in ITEM_TABLES for schema in table_schemas(mapping.of(table), registry)]


def _wanted(hide: Sequence[str]) -> dict[str, bool]:
    """Return the names of the setting, each with whether its values are hashed."""
    named = {each.removesuffix(_HASH): each.endswith(_HASH) for each in hide}
    return {_SYNONYMS.get(name, name): is_hashed for name, is_hashed in named.items()}


def hide_refusal(connection: Connection, hide: Sequence[str]) -> Refusal | None:
    """Return why a name of the setting cannot be hidden; None if all can. Call it within a transaction."""
    schemas = _schemas(connection, read_mapping(connection))
    found = (_refusal(name, schemas, is_hashed=is_hashed) for name, is_hashed in _wanted(hide).items())
    return next(filter(None, found), None)


def find_hidden(connection: Connection, hide: Sequence[str]) -> Hiding:
    """Return what the names of the setting hide; `hide_refusal` must be None. Call it within a transaction.

    Each is a column of a snapshot's tables, followed by `:hash` if a salted hash replaces its values.
    """
    mapping, wanted = read_mapping(connection), _wanted(hide)
    schemas = _schemas(connection, mapping)
    declared = {*_OF_ACCOUNTS, *(column.column for column in mapping.columns)}
    tables = _tables(schemas, wanted)
    everywhere = {name for columns in tables.values() for name, is_hashed in columns.items() if not is_hashed}
    salt = _salt(connection) if any(wanted.values()) else ""
    return Hiding(
        tuple(hide), tables, frozenset(everywhere & declared), _in_json(schemas), _keys(schemas, wanted), salt, mapping
    )


def _selected(hiding: Hiding, table: str, columns: Sequence[str]) -> str:
    """Return the columns of a table of `core`, with those that are hidden replaced."""
    hidden = hiding.tables.get(table, {})
    replaced = {name: f"if(false, {name}, NULL)" for name in _NEVER}
    for name in hiding.in_json.get(table, ()):
        replaced[name] = f"if(regexp_matches({quoted(name)}, {literal(hiding.keys)}, 'i'), NULL, {quoted(name)})"
    for name, is_hashed in hidden.items():
        # Of the form that is compared, so that texts which are no change of each other have equal hashes.
        compared = f"{comparable(f'[{quoted(name)}]', hiding.mapping)}[1]"
        salted = f"left(sha256({literal(hiding.salt)} || {compared}), 32)"
        replaced[name] = salted if is_hashed else f"if(false, {quoted(name)}, NULL)"
    if hidden.get("ig_username") is False and table == "accounts":
        # In commands and the report, which name accounts.
        replaced["ig_username"] = "account_id"
    if table == "quarantine":
        replaced["payload"] = _MASK
    if table == "runs" and "ig_username" in hiding.tables["accounts"]:
        # A person may have typed an account's name.
        replaced["selection"] = f"if(kind = 'backfill', {_MASK}, selection)"
        replaced["reason"] = f"if(reason IS NULL, NULL, {_MASK})"
    chosen = ", ".join(f"{sql} AS {quoted(name)}" for name, sql in replaced.items() if name in columns)
    return f"* REPLACE ({chosen})" if chosen else "*"


def _rows(hiding: Hiding, table: str) -> str:
    """Return the condition that leaves out rows about columns that are left out."""
    if table == "fields":
        gone = ", ".join(literal(f"{each}.{name}") for each in hiding.tables for name in hiding.left_out(each))
        return f" WHERE NOT coalesce(list_contains([{gone}], resource || '.' || column_name), false)" if gone else ""
    if table.endswith("_metrics") and (names := hiding.left_out(table)):
        return f" WHERE NOT list_contains([{', '.join(map(literal, names))}], metric)"
    return ""


def _shown(hiding: Hiding, view: View) -> View:
    """Return a view of `padded` without the columns that are left out."""
    hidden = hiding.tables.get(view.name, {})
    gone = [name for name in view.columns if name in hiding.everywhere or hidden.get(name) is False]
    excluded = f" EXCLUDE ({', '.join(map(quoted, gone))})" if gone else ""
    columns = {
        name: f"{about} Hidden: a salted hash." if hidden.get(name) else about
        for name, about in view.columns.items()
        if name not in gone
    }
    return replace(view, columns=columns, select=f"SELECT *{excluded} FROM {PADDED}.{quoted(view.name)}")  # noqa: S608


def core_tables(db: DuckDBPyConnection) -> Mapping[str, Sequence[str]]:
    """Return the columns of each table of `core` in the warehouse."""
    return dict(db.execute(_COLUMNS).fetchall())


def statements(
    source: str,
    tables: Mapping[str, Sequence[str]],
    hiding: Hiding,
    views: Sequence[View],
    published: Mapping[str, object],
) -> Iterator[str]:
    """Yield the statements that write the snapshot to the current database, which is new.

    `source` is the name of the warehouse's database, `tables` the columns of its tables, `published` the row of that
    table, by column.
    """
    made = lookups({**published, "hidden": ", ".join(hiding.setting)})
    yield f"CREATE SCHEMA core; CREATE SCHEMA {PADDED}"
    for table, columns in tables.items():
        wanted = _selected(hiding, table, columns)
        rows = f"{quoted(source, 'core', table)}{_rows(hiding, table)}"
        yield f"CREATE TABLE core.{quoted(table)} AS SELECT {wanted} FROM {rows}"  # noqa: S608 - quoted
    for name, select in made.items():
        yield f"CREATE TABLE {name} AS {select.replace(' ops.', f' {quoted(source)}.ops.')}"
    names = re.compile(rf"\b(FROM|JOIN) ({'|'.join(re.escape(view.name) for view in views)})\b(?!\.)")
    for view in views:
        select = names.sub(rf"\1 {PADDED}.\2", view.select)
        yield f"CREATE VIEW {PADDED}.{quoted(view.name)} AS {select}"
        yield from creating(_shown(hiding, view))
