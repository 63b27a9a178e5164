"""Quotes names and text for SQL."""


def literal(text: str) -> str:
    """Return the text as an SQL string."""
    return "'" + text.replace("'", "''") + "'"


def quoted(*names: str) -> str:
    """Return the names as an SQL identifier, with dots between them."""
    return ".".join('"' + name.replace('"', '""') + '"' for name in names)
