"""Text from outside, for messages."""


def one_line(text: str, limit: int = 200) -> str:
    """Return external text as one printable line of at most `limit` characters."""
    head = text[: 4 * limit]
    line = " ".join("".join(char if char.isprintable() else " " for char in head).split())
    return line if len(line) <= limit and len(head) == len(text) else line[: limit - 1] + "…"
