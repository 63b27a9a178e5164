"""What tells one item of a page from another, while its scan is under way."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic_core import from_json, to_json

from models.schema.mapping import Mapping as MediaMapping
from models.schema.pointer import to_keys


def id_in(item: Mapping[str, Any], paths: Sequence[Sequence[str]]) -> str | None:
    """Return the first id at these paths of keys: text or a number, as text; None where there is none."""
    for keys in paths:
        value: Any = item
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        if value not in (None, "") and not isinstance(value, (dict, list)):
            return str(value)
    return None


def ids_of(body: str, mapping: MediaMapping) -> Iterator[str]:
    """Yield for each item of a media page its id by the mapping, or its JSON text where it has none."""
    paths = [to_keys(path) for path in mapping.media_id]
    for item in from_json(body)["items"]:
        found = id_in(item, paths) if isinstance(item, dict) else None
        yield found or to_json(item, inf_nan_mode="strings").decode()
