"""Quotes names and text for SQL."""


def literal(text: str) -> str:
    """Return the text as an SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


def quoted(*names: str) -> str:
    """Return the names as a quoted SQL identifier, separated by dots."""
    return ".".join('"' + name.replace('"', '""') + '"' for name in names)
