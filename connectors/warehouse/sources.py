"""SQL that takes a list of objects within an item apart: one row per element, with its place."""

from collections.abc import Sequence

from connectors.warehouse.readings import field_at


def _list(path: str) -> str:
    at = field_at(path)
    elements = f"from_json(json_extract(payload, {at}), '[\"JSON\"]')"
    others = f"list_filter({elements}, lambda element: json_type(element) NOT IN ('OBJECT', 'NULL'))"
    return f"CASE WHEN json_type(payload, {at}) = 'ARRAY' AND len({others}) = 0 THEN {elements} ELSE [] END"


def elements_sql(relation: str, paths: Sequence[str], keep: str) -> str:
    """Return a query of the objects in the lists at these paths: `keep` columns, position from 0, payload.

    The lists of one item follow one another; a null in them has a place, and no row. A list that holds anything else
    is none of objects: a column has its JSON.
    """
    lists = f"list_concat({', '.join(_list(path) for path in paths)})" if len(paths) > 1 else _list(paths[0])
    return f"""
SELECT {keep}, position, payload FROM (
    SELECT {keep}, unnest(elements) AS payload, unnest(range(len(elements)))::INTEGER AS position
    FROM (SELECT {keep}, {lists} AS elements FROM ({relation}))
) WHERE json_type(payload) = 'OBJECT'
"""  # noqa: S608 - paths are quoted
