"""The superseded versions of items whose content changed. No IO.

The content of a version is read from its stored columns, by the same rule as that of a record.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from connectors.warehouse.merge.columns import Column
from models.item import changed_columns, read_decoded
from models.mapping import Mapping as MediaMapping
from models.mapping import Reading, to_keys
from models.record import READ, as_count
from models.times import time_of

_decode = msgspec.json.Decoder().decode


class Version(NamedTuple):
    """A row of core.media_versions."""

    account_id: str
    surface: str
    media_id: str
    valid_from: datetime
    valid_to: datetime
    content: str
    changed: Sequence[str]
    raw_landed: int
    raw_position: int
    run_seq: int


def superseded_versions(
    rows: Sequence[Mapping[str, Any]], columns: Sequence[Column], mapping: MediaMapping
) -> Sequence[Version]:
    """Return the version that each row with `is_content` supersedes: the row before, of the same item.

    `rows` are the stored rows of items that changed, each followed by what the batch listed, in order. They have
    `is_changed` if their bytes are in the raw store.
    """
    versions = []
    before: Mapping[str, Any] | None = None
    content_before, began_at, place = b"", datetime.min.replace(tzinfo=UTC), (0, 0)
    contents = read_decoded({n: _record_of(row, columns, mapping) for n, row in enumerate(rows)}, mapping).contents
    for n, row in enumerate(rows):
        is_first = before is None or any(row[name] != before[name] for name in ("account_id", "surface", "media_id"))
        content = contents[n]
        if row["is_content"] and not is_first:
            changed = changed_columns(content_before, content)
            key = row["account_id"], row["surface"], row["media_id"]
            times = began_at, row["received_at"]
            versions.append(Version(*key, *times, content_before.decode(), changed, *place, row["run_seq"]))
        if is_first or row["is_content"]:
            began_at = row["received_at"]
        if is_first or row["is_changed"]:
            place = row["raw_landed"], row["raw_position"]
        before, content_before = row, content
    return versions


def _record_of(row: Mapping[str, Any], columns: Sequence[Column], mapping: MediaMapping) -> dict[str, Any]:
    first_paths = {column.column: column.paths[0] for column in mapping.columns}
    record: dict[str, Any] = {}
    for column in columns:
        if (value := row[column.name]) is None:
            continue
        if isinstance(value, datetime):
            value = value.isoformat()
        path = first_paths[column.name] if column.path is None else column.path
        if column.path is not None and isinstance(value, str):
            value = _by_value(value)
        _put(record, path, value)
    for path, value in _decode(row["overflow"] or "{}").items():
        _put(record, path, _by_value(value) if isinstance(value, str) else value)
    _put(record, mapping.media_id[0], row["media_id"])
    return record


def _by_value(text: str) -> Any:  # noqa: ANN401 - JSON
    """Return the list, the number or the time that the text of a field spells.

    If its column was one of numbers or times before it became one of texts, the spelling depends on when that was.
    """
    if text.startswith(("[", "{")):
        with suppress(msgspec.DecodeError):
            return _decode(text)
    for read in (as_count, READ[Reading.NUMBER]):
        if (number := read(text)) is not None:
            return number
    at = time_of(text)
    return text if at is None else at.isoformat()


def _put(record: dict[str, Any], path: str, value: Any) -> None:  # noqa: ANN401 - JSON
    *above, last = to_keys(path)
    for key in above:
        record = record.setdefault(key, {})
    record[last] = value
