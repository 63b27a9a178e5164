"""`gramhouse describe --format dbt`: the snapshot as a dbt source, with its keys and joins as tests."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import yaml

from connectors.warehouse.queries.reader import Record, Snapshot
from models.views import CHILDREN, Relation, views

SOURCE = "gramhouse"

_HEAD = (
    f"# Written by `gramhouse describe --format dbt`. In profiles.yml, attach the snapshot as {SOURCE}, read-only.\n"
)

# dbt renders descriptions; names from the API must not be interpreted as templates.
_TEMPLATE = re.compile(r"(?<=\{)(?=[{%#])")


def _plain(text: str | None) -> str:
    return _TEMPLATE.sub(" ", text or "")


def _row(columns: Sequence[str]) -> str:
    return columns[0] if len(columns) == 1 else f"row({', '.join(columns)})"


def _table_tests(relation: Relation) -> Iterator[Record]:
    if relation.key:
        severity = {} if relation.is_unique else {"config": {"severity": "warn"}}
        yield {"unique": {"arguments": {"column_name": _row(relation.key)}} | severity}
    for join in relation.joins:
        if join.always:
            to, columns = f"source('{SOURCE}', '{join.table}')", _row(join.columns)
            yield {"relationships": {"arguments": {"column_name": columns, "to": to, "field": columns}}}


def _table(table: Record, columns: Sequence[Record]) -> Record:
    relation = _relation(table["name"], columns)
    described = []
    for each in columns:
        column = {"name": each["name"], "data_type": each["type"], "description": _plain(each["comment"])}
        if each["name"] in relation.key and each["name"] not in relation.nullable:
            column["data_tests"] = ["not_null"]
        described.append(column)
    tests = list(_table_tests(relation))
    return {
        "name": table["name"],
        "description": _plain(table["comment"]),
        "data_tests": tests,
        "columns": described,
    }


def _relation(name: str, columns: Sequence[Record]) -> Relation:
    if name in views():
        return views()[name].relation
    # Tables that are not declared are child tables of other arrays of objects, named after the items.
    child = views()[CHILDREN].relation
    if not {column["name"] for column in columns} >= set(child.key):
        return Relation()
    joins = (join for join in child.joins if "media_id" not in join.columns or name.startswith(f"{join.table}_"))
    return replace(child, joins=tuple(joins))


def sources(snapshot: Snapshot) -> str:
    """Return a sources.yml for dbt 1.10.5 or newer, with all tables and views. Raises SnapshotUnreadable."""
    relations = [each for each in snapshot.relations() if each["kind"] != "macro"]
    described = {each["name"]: _table(each, snapshot.columns(each["name"])) for each in relations}
    [published] = snapshot.query("SELECT stale_after FROM published")
    warn_after = {"count": max(1, round(published["stale_after"] / 3600)), "period": "hour"}
    described["published"]["config"] = {"loaded_at_field": "snapshot_at", "freshness": {"warn_after": warn_after}}
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
