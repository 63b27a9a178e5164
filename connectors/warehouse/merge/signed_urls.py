"""SQL that leaves the query out of signed URLs."""

from connectors.warehouse.storage.quoting import literal
from models.schema.mapping import Mapping


def unsigned(text: str, mapping: Mapping) -> str:
    """Return the expression of a text that is a URL, or of JSON text, without the queries of signed URLs."""
    replaced = f"regexp_replace({text}, {literal(mapping.signed_url_pattern)}, '\\1', 'g')"
    # Every URL with a query has both, and searching for them takes a tenth of the time.
    return f"CASE WHEN contains({text}, '?') AND contains({text}, '/') THEN {replaced} ELSE {text} END"
