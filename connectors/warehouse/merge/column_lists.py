"""The lists of columns in the steps of a merge, by the name of their placeholder. No IO."""

from collections.abc import Iterable, Mapping

from connectors.warehouse.ingest.columns import columns_select, counts_of, names_of
from connectors.warehouse.ingest.layout import Cell
from connectors.warehouse.merge.comparing import content_of, counts_hash
from connectors.warehouse.storage.quoting import quoted
from models.schema.mapping import Mapping as MediaMapping
from models.schema.table_schemas import TableSchema, history


def of_media(media: TableSchema, mapping: MediaMapping, cells: Mapping[str, Cell], media_id: str) -> Mapping[str, str]:
    """Return the lists for the steps that read or write items; `media_id` is the expression of an item's id."""
    kept = [column.name for column in history(media, mapping).columns]
    return {
        "media_id": media_id,
        "decoded_columns": columns_select(media, cells),
        "media_columns": _of_row(column.name for column in media.columns),
        "history_columns": _of_row([*kept, "overflow"]),
        "content": content_of(media, mapping, "r", "coalesce(c.content, 0)"),
        "counts": counts_hash(media, mapping, "r", "coalesce(c.counts, 0)"),
        "metric_names": names_of(media.metrics),
        "metric_values": counts_of(media.metrics, "r"),
        "no_values": f"[{', '.join('NULL::BIGINT' for _ in media.metrics)}]",
    }


def of_children(number: int, schema: TableSchema, mapping: MediaMapping, rows: str) -> Mapping[str, str]:
    """Return those for a child table, the one of this number; `rows` is a query for its decoded rows."""
    return {
        "table": quoted(schema.table),
        "decoded": decoded_table(schema),
        "rows": rows,
        "content": content_of(schema, mapping, "r", str(number), "r.position"),
        "counts": counts_hash(schema, mapping, "r", str(number), "r.position"),
    }


def decoded_table(schema: TableSchema) -> str:
    """Return the name of the table with the decoded rows of a child table."""
    return quoted(f"decoded_{schema.table}")


def _of_row(names: Iterable[str]) -> str:
    return "".join(f", r.{quoted(name)}" for name in names)
