"""The types of settings. A message of theirs is one line; what follows a semicolon is the fix."""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError
from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import from_json

from connectors.buckets import check_url
from connectors.source.network import check_base_url
from connectors.warehouse.storage.files import database, local
from models.selection import read_goals

# A hundred years, so that no date before them is invalid; a year in seconds.
MOST_DAYS = 36_525
LONGEST_WAIT = 366 * 24 * 3600

OFF = "off"

# An address without characters that Markdown, in which it is shown as a link, interprets.
_WEB_ADDRESS = re.compile(r"https?://[A-Za-z0-9.-]+(:\d+)?(/[\w.~%/?&=+:@,-]*)?", re.ASCII)
_SCHEDULER = re.compile(r"(tls://[^/]+|tcp://(127\.0\.0\.1|\[::1\]|localhost)(:\d+)?)/?")

# Without the forms that only some programs know, such as L and W.
_CRON_PART = re.compile(r"(\*|(\d+|[A-Za-z]{3})(-(\d+|[A-Za-z]{3}))?)(/\d+)?")
_CRON_FIELDS = 5


def _only(is_right: Callable[[str], object], problem: str) -> AfterValidator:
    """Return the validator of a text that is kept as it is; what is wrong with another one."""

    def check(text: str) -> str:
        try:
            found = is_right(text)
        except (KeyError, ValueError, OSError, CronSimError):
            found = None
        if not found:
            raise ValueError(problem)
        return text

    return AfterValidator(check)


def fires(expression: str, time_zone: str, after: datetime) -> Iterator[datetime]:
    """Yield the times at which a schedule fires, in its time zone, beginning with the first one after `after`."""
    return CronSim(expression, after.astimezone(ZoneInfo(time_zone)))


def _is_schedule(text: str) -> bool:
    """Return whether it is `off`, or five fields that are due some day."""
    fields = text.split()
    is_plain = len(fields) == _CRON_FIELDS and all(map(_CRON_PART.fullmatch, ",".join(fields).split(",")))
    return text == OFF or (is_plain and any(CronSim(text, datetime.now(UTC))))


def _snapshot(place: str) -> str:
    if "://" not in place:
        return str(database(Path(place)))
    url = check_url(place)
    folder, _, name = url.rpartition("/")
    if folder.endswith("/"):
        raise ValueError(f"it names no file; write one such as {url}/analytics.duckdb")
    database(Path(name))
    return url


def _words(value: object) -> object:
    return tuple(word.strip() for word in value.split(",") if word.strip()) if isinstance(value, str) else value


def _hidden(names: tuple[str, ...]) -> tuple[str, ...]:
    columns = [name.removesuffix(":hash") for name in names]
    for name in columns:
        if not name or ":" in name:
            raise ValueError(f"{name!r} is not the name of a column; write one such as caption, or ig_username:hash")
        if columns.count(name) > 1:
            raise ValueError(f"{name} is named twice; name each column once")
    return names


File = Annotated[Path, AfterValidator(local)]
DatabaseFile = Annotated[Path, AfterValidator(database)]
# Not a Path, which would turn s3://bucket into s3:/bucket.
SnapshotPlace = Annotated[str, AfterValidator(_snapshot)]
ServiceAddress = Annotated[str, AfterValidator(lambda text: check_base_url(text.strip()))]
WebAddress = Annotated[
    str, _only(_WEB_ADDRESS.fullmatch, "it is not a web address; use one such as https://reports.example.com/page.html")
]
SchedulerAddress = Annotated[
    str,
    _only(
        _SCHEDULER.fullmatch,
        "it is not the address of a scheduler, which needs TLS on another machine, because any process that reaches it"
        " can run code on the workers; use one such as tls://host:8786 (docs/scale.md)",
    ),
]
Cron = Annotated[str, _only(_is_schedule, "it is not a valid cron expression; use five fields, such as 15 2 * * *")]
# Not pydantic's own type, whose message repeats the value.
TimeZone = Annotated[str, _only(ZoneInfo, "it is not a time zone; use one such as Europe/Berlin")]
FreshnessGoals = Annotated[str, AfterValidator(lambda text: read_goals(text) and text)]
Words = Annotated[tuple[str, ...], BeforeValidator(_words)]
HiddenColumns = Annotated[Words, AfterValidator(_hidden)]
Days = Annotated[int, Field(ge=1, le=MOST_DAYS)]
Wait = Annotated[float, Field(ge=0, le=LONGEST_WAIT)]
# A variable's value is JSON.
FromJson = BeforeValidator(lambda value: from_json(value) if isinstance(value, str) else value)
