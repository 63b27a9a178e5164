"""JSON without what a snapshot hides (see hide.py). No IO."""

import re
import unicodedata
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from hashlib import sha256
from typing import Any

import msgspec
import pyarrow as pa

from connectors.warehouse.publish.hide import Hiding, is_hidden_key
from models.fields import FieldType
from models.registry import Registry
from models.views import MEDIA

Pruned = Mapping[str, Mapping[str, Callable[[str], str]]]
"""By table and column, what leaves out the hidden values of its JSON."""


def find_pruned(hiding: Hiding, salt: str, registry: Registry) -> Pruned:
    """Return the columns of JSON, which `hidden_rows` has as they are, and what leaves out their hidden values."""
    is_hidden = lru_cache(maxsize=10_000)(partial(is_hidden_key, re.compile(hiding.key)))
    lists = [
        field.column_name
        for field in registry.values()
        if field.resource == MEDIA and field.column_name is not None and FieldType.LIST in field.kinds
    ]
    return {
        "media": dict.fromkeys(lists, partial(_without_keys, is_hidden)),
        "media_versions": {"content": partial(_without_content, hiding.content, partial(hash_text, salt), is_hidden)},
    }


def prune_batch(batch: pa.RecordBatch, pruned: Mapping[str, Callable[[str], str]]) -> pa.RecordBatch:
    """Return the rows without the hidden values of the columns of JSON."""
    for name, without in pruned.items():
        texts = [None if text is None else without(text) for text in batch[name].to_pylist()]
        batch = batch.set_column(batch.schema.get_field_index(name), name, pa.array(texts, pa.string()))
    return batch


def hash_text(salt: str, text: str) -> str:
    """Return the salted hash of a text, as the expression of hide.py computes it."""
    return sha256((salt + unicodedata.normalize("NFC", text)).encode()).hexdigest()[:32]


def _without_keys(is_hidden: Callable[[str], bool], text: str) -> str:
    """Return JSON text without the hidden keys; text that is not JSON as it is."""
    try:
        return msgspec.json.encode(_pruned(msgspec.json.decode(text), is_hidden)).decode()
    except msgspec.DecodeError:
        return text


def _pruned(value: Any, is_hidden: Callable[[str], bool]) -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, list):
        return [_pruned(one, is_hidden) for one in value]
    if isinstance(value, dict):
        return {key: _pruned(one, is_hidden) for key, one in value.items() if not is_hidden(key)}
    return value


def _without_content(
    hidden: Mapping[str, bool], to_hash: Callable[[str], str], is_hidden: Callable[[str], bool], text: str
) -> str:
    """Return the content of a version without its hidden columns and fields, or with their hashes."""
    kept = {}
    for name, value in msgspec.json.decode(text).items():
        if name not in hidden:
            kept[name] = _pruned(value, is_hidden)
        elif hidden[name] and isinstance(value, str):
            kept[name] = to_hash(value)
    return msgspec.json.encode(kept).decode()
