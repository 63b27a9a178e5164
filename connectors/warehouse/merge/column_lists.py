"""The lists of columns in the steps of a merge, by the name of their placeholder. No IO."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from connectors.warehouse.ingest.columns import columns_select, counts_of, names_of
from connectors.warehouse.ingest.layout import Cell
from connectors.warehouse.merge.comparing import content_of, counts_hash, is_compared
from connectors.warehouse.storage.quoting import literal, quoted
from models.mapping import Mapping as MediaMapping
from models.schema.table_schemas import TableSchema, history

_SAME_CHILD = (
    "m.account_id = r.account_id AND m.surface = r.surface AND m.media_id = r.media_id AND m.position = d.position"
)


@dataclass(frozen=True, slots=True)
class ChildTable:
    """A child table: the lists in its steps, and whether its rows are compared."""

    lists: Mapping[str, str]
    is_compared: bool


def of_media(media: TableSchema, mapping: MediaMapping, cells: Mapping[str, Cell]) -> Mapping[str, str]:
    """Return the lists for the steps that read or write items."""
    names = [column.name for column in media.columns]
    kept = [column.name for column in history(media, mapping).columns]
    return {
        "table": quoted(media.table),
        "decoded": "decoded",
        "same": "m.rowid = r.stored",
        "differing": _differing([*names, "overflow", "payload_hash"]),
        "decoded_columns": columns_select(media, cells),
        "media_columns": _of_row(names),
        "history_columns": _of_row([*kept, "overflow"]),
        "content": content_of(media, mapping, "r", "coalesce(c.content, 0)"),
        "counts": counts_hash(media, mapping, "r", "coalesce(c.counts, 0)"),
        "metric_names": names_of(media.metrics),
        "metric_values": counts_of(media.metrics, "r"),
        "no_values": f"[{', '.join('NULL::BIGINT' for _ in media.metrics)}]",
    }


def of_children(number: int, schema: TableSchema, mapping: MediaMapping, rows: str) -> ChildTable:
    """Return those for a child table, the one of this number; `rows` is a query for its decoded rows."""
    lists = {
        "table": quoted(schema.table),
        "decoded": quoted(f"decoded_{schema.table}"),
        "same": _SAME_CHILD,
        "differing": _differing(["position", *(column.name for column in schema.columns)]),
        "rows": rows,
        "content": content_of(schema, mapping, "r", str(number), "r.position"),
        "counts": counts_hash(schema, mapping, "r", str(number), "r.position"),
    }
    return ChildTable(lists, is_compared(schema, mapping))


def _of_row(names: Iterable[str]) -> str:
    return "".join(f", r.{quoted(name)}" for name in names)


def _differing(names: Iterable[str]) -> str:
    """Return expressions of the assignments to columns that differ between `m` and `d` in any row, otherwise NULL."""
    columns = map(quoted, names)
    found = ((f"bool_or(m.{one} IS DISTINCT FROM d.{one})", literal(f"{one} = d.{one}")) for one in columns)
    return ", ".join(f"CASE WHEN {differs} THEN {assignment} END" for differs, assignment in found)
