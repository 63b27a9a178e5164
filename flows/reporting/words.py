"""Formatting of numbers, durations, sizes, changes, and text from outside."""

from collections.abc import Iterable, Mapping
from datetime import date, datetime, time, timedelta

from models.runs import one_line


def count(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with a noun: `1 account`, `2,000 accounts`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def span(seconds: float) -> str:
    """Return a duration as text: `0.9 s`, `42 s`, `3 min 5 s`, `2 h 10 min`, `3 d 4 h`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = timedelta(seconds=round(seconds))
    hours, rest = divmod(whole.seconds, 3600)
    minutes, left = divmod(rest, 60)
    parts = [(whole.days, "d"), (hours, "h"), (minutes, "min"), (left, "s")]
    shown = [f"{value} {unit}" for value, unit in parts if value]
    return " ".join(shown[:2]) or "0 s"


def per_second(requests: float) -> str:
    """Return an estimated rate as text: `about 60 requests/s`, `about 0.5 requests/s`."""
    return f"about {requests:.1f} requests/s" if requests < 10 else f"about {requests:,.0f} requests/s"


def moment(at: datetime | None, *, seconds: bool = False) -> str:
    """Return a time to the minute or to the second, UTC; empty for None."""
    return "" if at is None else at.strftime("%Y-%m-%d %H:%M:%S" if seconds else "%Y-%m-%d %H:%M")


def run_title(kind: str, selection: str | None) -> str:
    """Return a run's kind and selection: `sync`, `sync of stories`, `backfill --failed (posts, stories)`."""
    if not selection or kind != "sync":
        return join(" ", (kind, selection))
    return f"{kind} of {'what is due' if selection == 'due' else selection}"


def json_value(value: object) -> str:
    """Return a value that JSON does not support as text, times in ISO 8601. For `default` of json.dumps."""
    return value.isoformat() if isinstance(value, date | time) else str(value)


def join(separator: str, parts: Iterable[object]) -> str:
    """Return the joined texts of those parts that are not empty, zero or None."""
    return separator.join(str(part) for part in parts if part)


def tally(numbers: Mapping[str, int]) -> str:
    """Return the numbers that are not zero, with their names: `98 complete, 2 not found`."""
    return ", ".join(f"{number:,} {name.replace('_', ' ')}" for name, number in numbers.items() if number)


def changes(media: Mapping[str, int]) -> str:
    """Return the changes of media items as text."""
    words = {"added": "new", "changed": "changed or counted"}
    names = ("added", "changed", "removed", "expired", "returned")
    return tally({words.get(name, name): media[name] for name in names}) or "nothing changed"


# Prefect's two UIs treat escapes differently: one shows entities literally, the other turns an escaped address into a
# link. Both show a code span literally, if no character in it ends the span or the cell of a table.
_IN_CODE = str.maketrans({"`": "'", "|": "¦"})

# Chats use these characters for mentions, links and formatting; custom webhooks use braces for templates.
_IN_A_MESSAGE = str.maketrans(
    {"`": "'", "|": "¦", "<": "«", ">": "»", "{": "(", "}": ")", "[": "(", "]": ")", "@": "(at)", "*": "·", "~": "-"}
)

LIMIT = 80


def code(text: str, limit: int = LIMIT) -> str:
    """Return one line of text as a Markdown code span that the text cannot end."""
    return f"`{one_line(text, limit).translate(_IN_CODE) or ' '}`"


def plain(text: str, limit: int = LIMIT) -> str:
    """Return one line of text for a chat or mail message, without mentions, links and templates."""
    return one_line(text, limit).replace("://", ": //").translate(_IN_A_MESSAGE)
