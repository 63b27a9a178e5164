"""Text from outside, made harmless for the place where it is shown."""

from models.api import one_line

# What Prefect's two UIs make of escapes differs: the one shows entities as they are, the other makes a link of an
# escaped address. Both leave a code span alone, as long as nothing in it ends the span, or the cell of a table.
_IN_CODE = str.maketrans({"`": "'", "|": "¦"})

# Chats mention, link and format by these; custom webhooks take braces for templates of theirs.
_IN_A_MESSAGE = str.maketrans(
    {"`": "'", "|": "¦", "<": "«", ">": "»", "{": "(", "}": ")", "[": "(", "]": ")", "@": "(at)", "*": "·", "~": "-"}
)

LIMIT = 80


def code(text: str, limit: int = LIMIT) -> str:
    """Return one line of text as a Markdown code span, which nothing in it can leave."""
    return f"`{one_line(text, limit).translate(_IN_CODE) or ' '}`"


def plain(text: str, limit: int = LIMIT) -> str:
    """Return one line of text for a message to a chat or a mailbox: no mention, no link, no template."""
    return one_line(text, limit).replace("://", ": //").translate(_IN_A_MESSAGE)
