"""`gramhouse describe --format dbt`: the snapshot as a dbt source, with its keys and joins as tests."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import yaml

from models.views import CHILDREN, Relation, views

Record = Mapping[str, Any]

SOURCE = "gramhouse"

_HEAD = (
    f"# Written by `gramhouse describe --format dbt`. In profiles.yml, attach the snapshot as {SOURCE}, read-only.\n"
)

# dbt renders descriptions; names from the API must not be interpreted as templates.
_TEMPLATE = re.compile(r"(?<=\{)(?=[{%#])")

# Seconds; for snapshots without their own limit.
_STALE_AFTER = 36 * 3600


def _plain(text: str | None) -> str:
    return _TEMPLATE.sub(" ", text or "")


def _row(columns: Sequence[str]) -> str:
    return columns[0] if len(columns) == 1 else f"row({', '.join(columns)})"


def _table_tests(relation: Relation) -> Iterator[dict[str, Any]]:
    if relation.key:
        severity = {} if relation.is_unique else {"config": {"severity": "warn"}}
        yield {"unique": {"arguments": {"column_name": _row(relation.key)}} | severity}
    for join in relation.joins:
        if join.always:
            to, columns = f"source('{SOURCE}', '{join.table}')", _row(join.columns)
            yield {"relationships": {"arguments": {"column_name": columns, "to": to, "field": columns}}}


def _column(column: Record, relation: Relation) -> dict[str, Any]:
    described = {"name": column["name"], "data_type": column["type"], "description": _plain(column["comment"])}
    required = column["name"] in relation.key and column["name"] not in relation.nullable
    return described | ({"data_tests": ["not_null"]} if required else {})


def _table(table: Record, columns: Sequence[Record]) -> dict[str, Any]:
    relation = _relation(table["name"], columns)
    described = {"name": table["name"], "description": _plain(table["comment"])}
    tests = list(_table_tests(relation))
    return described | {"data_tests": tests, "columns": [_column(each, relation) for each in columns]}


def _relation(name: str, columns: Sequence[Record]) -> Relation:
    if name in views():
        return views()[name].relation
    # Tables that are not declared are child tables of other arrays of objects, named after the items.
    child = views()[CHILDREN].relation
    if not {column["name"] for column in columns} >= set(child.key):
        return Relation()
    joins = (join for join in child.joins if "media_id" not in join.columns or name.startswith(f"{join.table}_"))
    return replace(child, joins=tuple(joins))


def sources(tables: Sequence[Record], columns: Mapping[str, Sequence[Record]], stale_after: float | None) -> str:
    """Return a sources.yml for dbt 1.10.5 or newer.

    `tables` have name, kind and comment, `columns` (by table) name, type and comment; `stale_after` is in seconds.
    """
    described = {each["name"]: _table(each, columns[each["name"]]) for each in tables}
    hours = max(1, round((stale_after or _STALE_AFTER) / 3600))
    freshness = {"loaded_at_field": "snapshot_at", "freshness": {"warn_after": {"count": hours, "period": "hour"}}}
    if "published" in described:
        described["published"]["config"] = freshness
    source = {
        "name": SOURCE,
        "description": "Snapshot by gramhouse: social-media accounts and their media, from a REST API.",
        "database": SOURCE,
        "schema": "main",
        "tables": list(described.values()),
    }
    # In ASCII, so that names from the API cannot contain control sequences for the terminal.
    body: str = yaml.safe_dump({"version": 2, "sources": [source]}, sort_keys=False, width=120)
    return _HEAD + body
