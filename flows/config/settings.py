"""The settings: read once, from the environment and gramhouse.toml, and passed on as values."""

import json
import os
import re
from collections.abc import Iterator
from collections.abc import Mapping as Map
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    TypeAdapter,
    ValidationError,
)

from connectors.buckets import check_url, is_cloud
from connectors.source.base_url import check_api_key, check_base_url
from connectors.warehouse.storage.paths import database, local, real
from flows.config.errors import SettingsError
from flows.config.mapping import ColumnSetting, MappingSettings
from flows.config.setting_sources import AROUND, no_such, origin, read_file, read_text, read_variables, refuse
from models.api import PagePaths
from models.cadence import DAY, FRESH_WITHIN, Goals, read_goals
from models.checkpoint import FULL_REFRESH_EVERY, LOOKBACK_WINDOW, SyncMode
from models.mapping import Mapping
from models.text import one_line

if TYPE_CHECKING:
    from connectors.source.network import Network

# A hundred years, so that no date before them is invalid; a year in seconds.
_MOST_DAYS = 36_525
_LONGEST_WAIT = 366 * 24 * 3600

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
    """Return a cron expression of five fields unchanged. Raises ValueError if it is invalid or never due."""
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


def _from_json(value: object) -> object:
    try:
        return json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        raise ValueError("it must be a table, as JSON") from None


def _hidden(names: tuple[str, ...]) -> tuple[str, ...]:
    columns = [name.removesuffix(":hash") for name in names]
    if wrong := [name for name in columns if not name or ":" in name]:
        raise ValueError(f"{wrong[0]!r} is not the name of a column; write one such as caption, or ig_username:hash")
    if twice := [name for name in columns if columns.count(name) > 1]:
        raise ValueError(f"{twice[0]} is named twice; name each column once")
    return names


File = Annotated[Path, AfterValidator(local)]
DatabaseFile = Annotated[Path, AfterValidator(database)]
Cron = Annotated[str, AfterValidator(lambda text: text if text == OFF else check_cron(text))]
# Not a Path, which would turn s3://bucket into s3:/bucket.
SnapshotPlace = Annotated[
    str, BeforeValidator(lambda value: str(value) if isinstance(value, Path) else value), AfterValidator(_snapshot)
]
Words = Annotated[tuple[str, ...], BeforeValidator(_words)]
Days = Annotated[int, Field(ge=1, le=_MOST_DAYS)]
Wait = Annotated[float, Field(ge=0, le=_LONGEST_WAIT)]


class Settings(BaseModel):
    """All settings: from the variable `GRAMHOUSE_<NAME>`, or else the file's key `<name>`, or else the default.

    The text after a setting is its description: in docs/settings.md, in the help of options, and in Prefect's form.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, use_attribute_docstrings=True)

    base_url: Annotated[str, AfterValidator(lambda text: check_base_url(text.strip()))] | None = None
    """Address of the service, such as https://api.example.com; https, except on this machine."""
    api_key: SecretStr | None = None
    """The API key. It is never written to a file, a log or a database."""
    api_key_file: File | None = None
    """A file that contains only the API key."""
    warehouse: DatabaseFile = Path("data/warehouse.duckdb")
    """The writer's DuckDB file."""
    snapshot: SnapshotPlace = "data/analytics.duckdb"
    """The analysts' DuckDB file: a path, or its address in a bucket (s3://, gs://, az://)."""
    report: File | None = None
    """The HTML report that each publish renews. By default only runs of `up` renew one: report.html beside the
    snapshot."""
    report_url: Annotated[str, AfterValidator(_web_address)] | None = None
    """Address at which people open the report, such as https://reports.example.com/gramhouse.html; a run's page in
    Prefect links to it."""
    raw: File | None = None
    """Folder of the raw store, with every version of every media item; by default raw in the warehouse's folder."""
    hide: Annotated[Words, AfterValidator(_hidden)] = ()
    """Columns that the snapshot, the report and exports do not show, separated by commas, such as
    caption,ig_username:hash; with :hash, salted hashes replace the values."""
    concurrency: int = Field(16, ge=1, le=256)
    """Maximum number of concurrent requests for media."""
    requests_per_second: float | None = Field(None, gt=0, le=10_000)
    """Requests per second that a run sends at most; by default it measures what the service allows."""
    page_size: int = Field(50, ge=1, le=50)
    """Records per page."""
    max_wait: Wait = 3600
    """Longest wait in seconds of a run for one rate-limited account, or for the account list."""
    resume_within: Wait = 12 * 3600
    """Seconds within which an interrupted run is resumed instead of restarted."""
    scan_expired: bool = False
    """Also scan the media of accounts whose token is expired. What such a scan misses is not marked as removed."""
    busy_wait: Wait = 0
    """Seconds that a run waits for the lock while another process holds the warehouse; 0: exit with code 4. Runs of
    `up` wait six hours by default."""
    fresh_within: Annotated[str, AfterValidator(_goals)] = FRESH_WITHIN
    """Age that the last scan of a feed may reach, such as 1d, or posts=7d,stories=6h. `sync --due` scans a feed as
    often as it has something new, and within this age."""
    requests_per_day: int | None = Field(None, ge=1, le=10**9)
    """Maximum number of requests of syncs in 24 hours; the most overdue scans come first. By default no limit."""
    stale_after: float | None = Field(None, gt=0, le=_LONGEST_WAIT)
    """Seconds after which an account's posts or stories are stale; by default one and a half times the longest goal of
    GRAMHOUSE_FRESH_WITHIN, at least 36 hours."""
    sync_mode: SyncMode = "full_refresh"
    """full_refresh: a sync fetches all posts; incremental: only new and recent posts, for accounts whose posts are
    known to be listed newest first."""
    lookback_window: int = Field(LOOKBACK_WINDOW.days, ge=0, le=3660)
    """Days for which an incremental sync fetches posts again, to update counts, edits and deletions."""
    full_refresh_every: int = Field(FULL_REFRESH_EVERY.days, ge=1, le=366)
    """Days after which an incremental sync fetches all posts of an account again."""
    scheduler: Annotated[str, AfterValidator(_scheduler)] | None = None
    """Address of a Dask scheduler, such as tls://host:8786, whose workers make the requests."""
    workers: int = Field(0, ge=0, le=256)
    """Worker processes that make the requests, which a run starts on this machine; 0: none."""
    keep_runs: Days = 400
    """Days for which runs, their outcomes and quarantined records are kept; repeated outcomes are deleted earlier."""
    keep_raw: int | None = Field(None, ge=1, le=_MOST_DAYS)
    """Days for which the raw store keeps rows that a newer row of the same version replaced, such as rows with older
    counts. `gramhouse compact` deletes such rows when they are older. By default all are kept."""
    nightly: Cron = "15 2 * * *"
    """When `up` syncs everything, a cron expression; off: never."""
    due: Cron = "15 0-1,3-23 * * *"
    """When `up` syncs what is due, a cron expression; off: never. By default every hour but that of the nightly
    sync."""
    time_zone: Annotated[str, AfterValidator(_time_zone)] = "UTC"
    """Time zone of the schedules."""
    prefect_home: File = Path("data/prefect")
    """Folder for the data of the Prefect server of `up`."""
    prefect_port: int = Field(4200, ge=1, le=65535)
    """Port of the Prefect UI on 127.0.0.1."""
    notify: Words = ()
    """Prefect blocks to notify, such as slack-webhook/on-call, separated by commas."""
    credentials: str | None = None
    """Prefect block with the service's address and API key; only runs tracked by Prefect use it."""
    mapping: Annotated[MappingSettings | None, BeforeValidator(_from_json)] = None
    """How media items are read; best written as [mapping] in gramhouse.toml."""

    def snapshot_url(self) -> str | None:
        """Return the address of the snapshot in a bucket; None if it is a file on this machine."""
        return self.snapshot if is_cloud(self.snapshot) else None

    def snapshot_file(self) -> Path:
        """Return the snapshot's file on this machine: for one in a bucket, a copy next to the warehouse."""
        if self.snapshot_url() is None:
            return Path(self.snapshot)
        return self.warehouse.parent / self.snapshot.rpartition("/")[2]

    def report_file(self) -> Path:
        """Return the HTML report's file; by default it is next to the snapshot."""
        return self.report or self.snapshot_file().with_name("report.html")

    def raw_folder(self) -> Path:
        """Return the folder of the raw store."""
        return real(self.warehouse).parent / "raw" if self.raw is None else self.raw

    def media_mapping(self) -> Mapping:
        """Return the mapping with which media items are read."""
        return (self.mapping or MappingSettings()).mapping()

    def page_paths(self) -> PagePaths:
        """Return the configured paths of the list of items and the cursor of a media page."""
        return (self.mapping or MappingSettings()).page_paths()

    def goals(self) -> Goals:
        """Return the freshness goal of each feed."""
        return read_goals(self.fresh_within)

    def stale_age(self) -> timedelta:
        """Return the age from which a scan is stale: it allows for one that fails, also of daily ones."""
        if self.stale_after is not None:
            return timedelta(seconds=self.stale_after)
        return 1.5 * max(DAY, *self.goals().values())

    def schedules(self) -> Map[str, str]:
        """Return the cron expression of each deployment of `up` that has a schedule."""
        return {name: cron for name in ("nightly", "due") if (cron := getattr(self, name)) != OFF}

    def next_runs(self, now: datetime) -> Map[str, datetime]:
        """Return when each of these deployments runs next, in the time zone of the schedules."""
        return {name: next(fires(cron, self.time_zone, now)) for name, cron in self.schedules().items()}

    def key(self) -> SecretStr:
        """Return the API key. Raises SettingsError if there is none, or it cannot be read or sent."""
        if self.api_key is None and self.api_key_file is None:
            raise SettingsError(
                "No API key. Fix: set GRAMHOUSE_API_KEY, or GRAMHOUSE_API_KEY_FILE to a file that contains it, or"
                " api_key_file in gramhouse.toml."
            )
        try:
            key = read_text(self.api_key_file or Path()) if self.api_key is None else self.api_key.get_secret_value()
            secret = SecretStr(key.strip(AROUND))
            check_api_key(secret)
        except OSError as error:
            problem = f"the file cannot be read ({error.strerror})"
        except UnicodeDecodeError:
            problem = "the file cannot be read (it is not text in UTF-8)"
        except ValueError as error:
            problem = str(error)
        else:
            return secret
        source, what = ("api_key", "") if self.api_key is not None else ("api_key_file", " a text file with")
        fix = f"set it to{what} the key alone, as the service displayed it"
        raise SettingsError(f"{origin(source)}: {problem}. Fix: {fix}.")

    def network(self) -> "Network":
        """Return how the service is reached, according to HTTPS_PROXY, SSL_CERT_FILE and similar variables.

        Raises SettingsError if one of them cannot be used, or there is no base URL.
        """
        # Imported here, because most commands send nothing, and need no TLS.
        from connectors.source.network import read_network  # noqa: PLC0415

        try:
            return read_network(self.address(), os.environ)
        except ValueError as error:
            raise SettingsError(f"{error}.") from None

    def address(self) -> str:
        """Return the base URL. Raises SettingsError if there is none."""
        if self.base_url is None:
            raise SettingsError(
                "No API address. Fix: set GRAMHOUSE_BASE_URL, or base_url in gramhouse.toml, for example to"
                " https://api.example.com."
            )
        return self.base_url


for _field in Settings.model_fields.values():
    # A description is one line.
    _field.description = " ".join((_field.description or "").split())

# The values of these settings are not shown: the key may be in them, by mistake or in an address.
_UNSHOWN = {"api_key", "api_key_file", "base_url", "snapshot", "report_url"}


def _line(error: Map[str, Any], chosen: Map[str, object]) -> str:
    path, given, variables = error["loc"], error["input"], read_variables()
    name = str(path[0])
    where = f"--{name.replace('_', '-')}" if name in chosen else origin(*path)
    if error["type"] == "extra_forbidden":
        known = (Settings, MappingSettings, ColumnSetting)[min(len(path), 3) - 1].model_fields
        return f"{where}: {no_such(str(path[-1]), known, is_variable=len(path) == 1 and name in variables)}"
    _, key = variables.get("api_key", ("", None))
    is_shown = isinstance(given, str | int | float | Path) and name not in _UNSHOWN and not (key and key in str(given))
    default = Settings.model_fields[name].default if len(path) == 1 else None
    return refuse(where, error, default, f" (got {one_line(repr(str(given)), 80)})" if is_shown else "")


def load(**chosen: object) -> Settings:
    """Read the settings from the environment and gramhouse.toml; the environment has precedence.

    Values of `chosen` (from the command line) that are not None have precedence over both.

    Raises SettingsError with a line for each error, including variables with the prefix that are not settings. No line
    contains the key.
    """
    overrides = {name: value for name, value in chosen.items() if value is not None}
    variables = {name: value for name, (_, value) in read_variables().items()}
    try:
        return Settings.model_validate({**read_file(), **variables, **overrides})
    except ValidationError as error:
        raise SettingsError(*(_line(dict(found), overrides) for found in error.errors(include_url=False))) from None


def find_warehouse(chosen: Map[str, object]) -> Path:
    """Return the warehouse's path in `chosen` or the settings, although others are wrong; the default if it is, too."""
    default = Settings.model_fields["warehouse"].default
    try:
        _, variable = read_variables().get("warehouse", ("", None))
        found = chosen.get("warehouse") or variable or read_file().get("warehouse", default)
        return TypeAdapter(DatabaseFile).validate_python(found)
    except (SettingsError, ValidationError):
        return Path(default)
