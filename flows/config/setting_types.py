"""The types of settings. A message of theirs is one line; what follows a semicolon is the fix."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError
from pydantic import AfterValidator, BeforeValidator, Field

from connectors.buckets import check_url
from connectors.source.base_url import check_base_url
from connectors.warehouse.storage.paths import database, local
from models.cadence import read_goals

# A hundred years, so that no date before them is invalid; a year in seconds.
MOST_DAYS = 36_525
LONGEST_WAIT = 366 * 24 * 3600

# An address without characters that Markdown, in which it is shown as a link, interprets.
_WEB_ADDRESS = re.compile(r"https?://[A-Za-z0-9.-]+(:\d+)?(/[\w.~%/?&=+:@,-]*)?", re.ASCII)

_CRON_FIELDS = 5

OFF = "off"


def _web_address(text: str) -> str:
    if not _WEB_ADDRESS.fullmatch(text):
        raise ValueError("it is not a web address; use one such as https://reports.example.com/gramhouse.html")
    return text


def _scheduler(address: str) -> str:
    parts = urlsplit(address)
    if parts.scheme not in ("tls", "tcp") or not parts.hostname:
        raise ValueError("it is not the address of a Dask scheduler; use one such as tls://host:8786")
    if parts.scheme == "tcp" and parts.hostname not in ("127.0.0.1", "::1", "localhost"):
        raise ValueError(
            "a scheduler on another machine needs TLS, because any process that reaches it can run code on the workers;"
            " use tls:// and certificates (docs/scale.md)"
        )
    return address


def check_cron(expression: str) -> str:
    """Return a cron expression of five fields unchanged, or `off`. Raises ValueError if it is invalid or never due."""
    if expression == OFF:
        return OFF
    try:
        is_due = len(expression.split()) == _CRON_FIELDS and next(CronSim(expression, datetime.now(UTC)), None)
    except CronSimError:
        is_due = None
    if not is_due:
        raise ValueError("it is not a valid cron expression; use five fields, such as 15 2 * * *")
    return expression


def fires(expression: str, time_zone: str, after: datetime) -> Iterator[datetime]:
    """Yield the times at which a schedule fires, in its time zone, beginning with the first one after `after`."""
    return CronSim(expression, after.astimezone(ZoneInfo(time_zone)))


def _time_zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        # Not pydantic's own type, whose message repeats the value.
        raise ValueError("it is not a time zone; use one such as Europe/Berlin") from None
    return name


def _goals(text: str) -> str:
    read_goals(text)
    return text


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
    if wrong := [name for name in columns if not name or ":" in name]:
        raise ValueError(f"{wrong[0]!r} is not the name of a column; write one such as caption, or ig_username:hash")
    if twice := [name for name in columns if columns.count(name) > 1]:
        raise ValueError(f"{twice[0]} is named twice; name each column once")
    return names


def read_json(value: object) -> object:
    """Return a variable's value, which is JSON; that of the file as it is. Raises ValueError."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        raise ValueError("it must be a table, as JSON") from None


File = Annotated[Path, AfterValidator(local)]
DatabaseFile = Annotated[Path, AfterValidator(database)]
# Not a Path, which would turn s3://bucket into s3:/bucket.
SnapshotPlace = Annotated[str, AfterValidator(_snapshot)]
ServiceAddress = Annotated[str, AfterValidator(lambda text: check_base_url(text.strip()))]
WebAddress = Annotated[str, AfterValidator(_web_address)]
SchedulerAddress = Annotated[str, AfterValidator(_scheduler)]
Cron = Annotated[str, AfterValidator(check_cron)]
TimeZone = Annotated[str, AfterValidator(_time_zone)]
FreshnessGoals = Annotated[str, AfterValidator(_goals)]
Words = Annotated[tuple[str, ...], BeforeValidator(_words)]
HiddenColumns = Annotated[Words, AfterValidator(_hidden)]
Days = Annotated[int, Field(ge=1, le=MOST_DAYS)]
Wait = Annotated[float, Field(ge=0, le=LONGEST_WAIT)]
