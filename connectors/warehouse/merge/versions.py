"""The superseded versions of items whose content changed. No IO.

The content of a version is read from its stored columns, by the same rule as that of a record.
"""

from collections.abc import Collection, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

import msgspec

from connectors.warehouse.merge.columns import Column
from models.item import changed_columns, content_of
from models.mapping import FieldType, Reading
from models.mapping import Mapping as MediaMapping
from models.values import READ, as_count, time_of

Row = dict[str, Any]

# What a row of core.media_versions has of the stored row, and of the listing that supersedes it.
_OF_VERSION = (
    "account_id", "surface", "media_id", "valid_from", "valid_to", "raw_landed", "raw_position", "run_seq",
)  # fmt: skip
_decode = msgspec.json.Decoder().decode


def superseded_versions(
    stored: Sequence[Row], listed: Sequence[Row], columns: Sequence[Column], mapping: MediaMapping
) -> Sequence[Row]:
    """Return rows of core.media_versions: the content of stored rows, and what differs in their items as listed now."""
    before, after = ([content_of(_values_of(row, columns), mapping) for row in rows] for rows in (stored, listed))
    return [
        {
            **{name: row[name] for name in _OF_VERSION},
            "content": before[n].decode(),
            "changed": changed_columns(before[n], after[n]),
        }
        for n, row in enumerate(stored)
    ]


def _values_of(row: Row, columns: Sequence[Column]) -> Row:
    """Return the values of a row as those of an item: by the name of a mapped column, or the path of a field."""
    values = {column.key: _by_value(row[column.name], column.kinds) for column in columns}
    left = _decode(row["overflow"] or "{}")
    values |= {path: _by_value(value, {FieldType.LIST}) for path, value in left.items()}
    return {key: value for key, value in values.items() if value is not None}


def _by_value(value: Any, kinds: Collection[FieldType]) -> Any:  # noqa: ANN401 - JSON
    """Return the value of a field with these types: that of a time or a list, which a column has in another form.

    In a column of texts for several types, also the number or the time that a text spells, because its spelling depends
    on when the column became one of texts.
    """
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, str) and FieldType.LIST in kinds and value.startswith(("[", "{")):
        with suppress(msgspec.DecodeError):
            return _decode(value)
    if isinstance(value, str) and len(kinds) > 1:
        for read in (as_count, READ[Reading.NUMBER], time_of):
            if (found := read(value)) is not None:
                return _by_value(found, ())
    return value
