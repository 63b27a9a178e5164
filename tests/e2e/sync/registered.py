"""Compare the table `fields` with items: every value of every item must be in a column of the right type."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb

from connectors.warehouse.raw.listed import add_raw_media, listed_parts, mentions_raw_media
from models.schema.mapping_built_in import BUILT_IN
from tests.e2e.processes import Operator
from tests.model import reading
from tests.model.reading import Item

Row = dict[str, Any]


@dataclass(frozen=True)
class Registered:
    """A row of `fields`."""

    resource: str
    path: str
    column: str | None
    type: str | None
    changed: bool
    items: int | None


Registry = dict[tuple[str, str], Registered]


def rows_of(operator: Operator, query: str, parameters: Sequence[object] = ()) -> list[Row]:
    """Return rows as dicts; assert that no two column names differ only in case."""
    with duckdb.connect(str(operator.snapshot), read_only=True) as db:
        if mentions_raw_media(query):
            add_raw_media(db, listed_parts(db))
        found = db.execute(query, parameters)
        names = [column[0] for column in found.description or ()]
        assert len({name.lower() for name in names}) == len(names)
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def registry(operator: Operator) -> Registry:
    rows = operator.ask("SELECT resource, path, column_name, type, last_type_change_at IS NOT NULL, items FROM fields")
    found = {(row[0], row[1]): Registered(*row) for row in rows}
    assert len(found) == len(rows)
    return found


def _check_value(resource: str, path: str, value: object, kind: str, field: Registered, row: Row) -> None:
    mapped = _mapped(resource).get(path)
    if resource == "media" and path in BUILT_IN.media_id:
        assert row["media_id"] == str(value)
    elif mapped is not None and field.column == mapped.column:
        # An object has no column; its values have their own paths.
        assert kind == "object" or reading.read(value, mapped.reading) == row[mapped.column], (path, value)
    elif field.column is None or field.type == "ROWS":
        assert kind in ("object", "rows", "empty list"), (path, value)
    else:
        assert reading.same(row[field.column], value, field.type or ""), (path, value, row[field.column])


def _mapped(resource: str) -> dict[str, Any]:
    columns = {"media": BUILT_IN.columns, "media_children": BUILT_IN.child_columns}.get(resource, ())
    return {path: column for column in columns for path in column.paths}


def json_types_met(resource: str, items: Iterable[Item]) -> dict[str, set[str]]:
    """The JSON kinds of the items' values at each path."""
    kinds: dict[str, set[str]] = defaultdict(set)
    for item in items:
        for path, _, kind in reading.leaves(item, in_element=resource != "media"):
            kinds[path].add(kind)
    return kinds


def assert_every_value_has_its_column(
    resource: str, pairs: Sequence[tuple[Item, Row]], fields: Registry, ever: Mapping[str, set[str]]
) -> set[str]:
    """Compare each item with its row, path by path; return the paths that have their own column.

    `ever` has all kinds found at each path so far, also in items that no longer exist.
    """
    carried: dict[str, int] = defaultdict(int)
    for item, row in pairs:
        for path, value, kind in reading.leaves(item, in_element=resource != "media"):
            carried[path] += 1
            _check_value(resource, path, value, kind, fields[resource, path], row)
    own = set()
    for path, met in ever.items():
        field, mapped = fields[resource, path], _mapped(resource).get(path)
        if (resource == "media" and path in BUILT_IN.media_id) or (
            mapped is not None and field.column == mapped.column
        ):
            continue
        rows = "ROWS" if resource == "media" and "rows" in met else None
        assert field.type == (reading.column_type(met) or rows), (path, met)
        assert (field.column is None) == (field.type is None), path
        if field.column is not None and field.type != "ROWS":
            own.add(path)
            assert field.items == carried[path], path
            assert sum(row[field.column] is not None for _, row in pairs) == carried[path], path
    return own
