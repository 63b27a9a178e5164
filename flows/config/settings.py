"""The settings: read once, from the environment and gramhouse.toml, and passed on as values."""

import os
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, ValidationInfo, field_validator
from pydantic.fields import FieldInfo

from connectors.buckets import is_cloud
from connectors.source.network import check_api_key
from connectors.warehouse.storage.files import real
from flows.config import setting_types as types
from flows.config.environment import AROUND, PREFIX, origin, read_file, read_given, variable_of
from flows.config.errors import SettingsError, refuse
from flows.config.mapping import ColumnSetting, MappingSettings
from models.api import PagePaths
from models.checkpoint import FULL_REFRESH_EVERY, LOOKBACK_WINDOW, SyncMode
from models.mapping import MediaMapping
from models.runs import nearest, one_line
from models.selection import DAY, FRESH_WITHIN, Goals, read_goals

if TYPE_CHECKING:
    from connectors.source.network import Network


class Settings(BaseModel):
    """All settings: from the variable `GRAMHOUSE_<NAME>`, or else the file's key `<name>`, or else the default.

    The text after a setting is its description: in docs/settings.md, in the help of options, and in Prefect's form.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, use_attribute_docstrings=True)

    base_url: types.ServiceAddress | None = None
    """Address of the service, such as https://api.example.com; https, except on this machine."""
    api_key: SecretStr | None = None
    """The API key. It is never written to a file, a log or a database."""
    api_key_file: types.File | None = None
    """A file that contains only the API key."""
    warehouse: types.DatabaseFile = Path("data/warehouse.duckdb")
    """The writer's DuckDB file."""
    snapshot: types.SnapshotPlace = "data/analytics.duckdb"
    """The analysts' DuckDB file: a path, or its address in a bucket (s3://, gs://, az://)."""
    report: types.File | None = None
    """The HTML report that each publish renews. By default only runs of `up` renew one: report.html beside the
    snapshot."""
    report_url: types.WebAddress | None = None
    """Address at which people open the report, such as https://reports.example.com/gramhouse.html; a run's page in
    Prefect links to it."""
    raw: types.File | None = None
    """Folder of the raw store, with every version of every media item; by default raw in the warehouse's folder."""
    hide: types.HiddenColumns = ()
    """Columns that the snapshot, the report and exports do not show, separated by commas, such as
    caption,ig_username:hash; with :hash, salted hashes replace the values."""
    concurrency: int = Field(16, ge=1, le=256)
    """Maximum number of concurrent requests for media."""
    requests_per_second: float | None = Field(None, gt=0, le=10_000)
    """Requests per second that a run sends at most; by default it measures what the service allows."""
    page_size: int = Field(50, ge=1, le=50)
    """Records per page."""
    max_wait: types.Wait = 3600
    """Longest wait in seconds of a run for one rate-limited account, or for the account list."""
    resume_within: types.Wait = 12 * 3600
    """Seconds within which an interrupted run is resumed instead of restarted."""
    scan_expired: bool = False
    """Also scan the media of accounts whose token is expired. What such a scan misses is not marked as removed."""
    busy_wait: types.Wait = 0
    """Seconds that a run waits for the lock while another process holds the warehouse; 0: exit with code 4. Runs of
    `up` wait six hours by default."""
    fresh_within: types.FreshnessGoals = FRESH_WITHIN
    """Age that the last scan of a feed may reach, such as 1d, or posts=7d,stories=6h. `sync --due` scans a feed as
    often as it has something new, and within this age."""
    requests_per_day: int | None = Field(None, ge=1, le=10**9)
    """Maximum number of requests of syncs in a day; the most overdue scans come first. By default no limit."""
    stale_after: float | None = Field(None, gt=0, le=types.LONGEST_WAIT)
    """Seconds after which an account's posts or stories are stale; by default one and a half times the longest goal of
    GRAMHOUSE_FRESH_WITHIN, at least 36 hours."""
    sync_mode: SyncMode = "full_refresh"
    """full_refresh: a sync fetches all posts; incremental: only new and recent posts, for accounts whose posts are
    known to be listed newest first."""
    lookback_window: int = Field(LOOKBACK_WINDOW.days, ge=0, le=3660)
    """Days for which an incremental sync fetches posts again, to update counts, edits and deletions."""
    full_refresh_every: int = Field(FULL_REFRESH_EVERY.days, ge=1, le=366)
    """Days after which an incremental sync fetches all posts of an account again."""
    scheduler: types.SchedulerAddress | None = None
    """Address of a Dask scheduler, such as tls://host:8786, whose workers make the requests."""
    workers: int = Field(0, ge=0, le=256)
    """Worker processes that make the requests, which a run starts on this machine; 0: none."""
    keep_runs: types.Days = 400
    """Days for which runs, their outcomes and quarantined records are kept; repeated outcomes are deleted earlier."""
    keep_raw: int | None = Field(None, ge=1, le=types.MOST_DAYS)
    """Days for which the raw store keeps rows that a newer row of the same version replaced, such as rows with older
    counts. `gramhouse compact` deletes such rows when they are older. By default all are kept."""
    nightly: types.Cron = "15 2 * * *"
    """When `up` syncs everything, a cron expression; off: never."""
    due: types.Cron = "15 0-1,3-23 * * *"
    """When `up` syncs what is due, a cron expression; off: never. By default every hour but that of the nightly
    sync."""
    time_zone: types.TimeZone = "UTC"
    """Time zone of the schedules."""
    prefect_home: types.File = Path("data/prefect")
    """Folder for the data of the Prefect server of `up`."""
    prefect_port: int = Field(4200, ge=1, le=65535)
    """Port of the Prefect UI on 127.0.0.1."""
    notify: types.Words = ()
    """Prefect blocks to notify, such as slack-webhook/on-call, separated by commas."""
    credentials: str | None = None
    """Prefect block with the service's address and API key; only runs tracked by Prefect use it."""
    mapping: Annotated[MappingSettings | None, types.FromJson] = None
    """How media items are read; best written as [mapping] in gramhouse.toml."""

    @field_validator("*", mode="before")
    @classmethod
    def _is_no_flag(cls, value: object, info: ValidationInfo) -> object:
        # Pydantic would read it as 1 or 0.
        if isinstance(value, bool) and cls.model_fields[str(info.field_name)].annotation is not bool:
            raise ValueError("it must not be true or false; write its value, or remove it")
        return value

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
        return real(self.warehouse).parent / "raw" if self.raw is None else real(self.raw)

    def media_mapping(self) -> MediaMapping:
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

    def schedules(self) -> Mapping[str, str]:
        """Return the cron expression of each deployment of `up` that has a schedule."""
        return {name: cron for name in ("nightly", "due") if (cron := getattr(self, name)) != types.OFF}

    def next_runs(self, now: datetime) -> Mapping[str, datetime]:
        """Return when each of these deployments runs next, in the time zone of the schedules."""
        return {name: next(types.fires(cron, self.time_zone, now)) for name, cron in self.schedules().items()}

    def key(self) -> SecretStr:
        """Return the API key. Raises SettingsError if there is none, or it cannot be read or sent."""
        name = "api_key_file" if self.api_key is None else "api_key"
        try:
            if self.api_key is not None:
                text = self.api_key.get_secret_value()
            elif self.api_key_file is not None:
                # What is not UTF-8 is refused as no header of a request may have it.
                text = self.api_key_file.read_text(encoding="utf-8", errors="replace")
            else:
                raise SettingsError(
                    "No API key. Fix: set GRAMHOUSE_API_KEY, or GRAMHOUSE_API_KEY_FILE to a file that contains it, or"
                    " api_key_file in gramhouse.toml."
                )
            key = SecretStr(text.strip(AROUND))
            check_api_key(key)
        except OSError as error:
            raise SettingsError(f"{origin(name)}: {error.strerror}. Fix: set it to a text file with the key.") from None
        except ValueError as error:
            raise SettingsError(f"{origin(name)}: {error}. Fix: give the key alone, as it was shown.") from None
        return key

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


def limits(field: FieldInfo) -> dict[str, Any]:
    """Return the limits of a number, by the name of their parameter of pydantic's Field: ge, gt, le."""
    names = ("ge", "gt", "le")
    return {name: getattr(each, name) for each in field.metadata for name in names if hasattr(each, name)}


def _describe(field: FieldInfo) -> str:
    """Return a setting's description in one line, with the range of a number."""
    text, bounds = " ".join(str(field.description).split()), limits(field)
    if not bounds:
        return text
    least = f"above {bounds['gt']}, at most" if "gt" in bounds else f"from {bounds['ge']} to"
    return f"{text} A number {least} {bounds['le']}."


for _field in Settings.model_fields.values():
    _field.description = _describe(_field)

# What pydantic asks for, by the type of its error; the description of the setting says in which unit.
_NUMBERS = {"int_parsing": "a whole number", "float_parsing": "a number"}

# The values of these settings are not shown: the key may be in them, by mistake or in an address.
_UNSHOWN = {"api_key", "api_key_file", "base_url", "snapshot", "report_url"}


def _explain(error: Mapping[str, Any], chosen: Mapping[str, object], given: Mapping[str, tuple[str, Any]]) -> str:
    """Return why a value is refused, in one line that does not contain the key."""
    path, value = error["loc"], error["input"]
    name = str(path[0])
    where = f"--{name.replace('_', '-')}" if name in chosen else ".".join([origin(name), *map(str, path[1:])])
    if error["type"] == "extra_forbidden":
        known = (Settings, MappingSettings, ColumnSetting)[min(len(path), 3) - 1].model_fields
        is_variable = len(path) == 1 and where.upper().startswith(PREFIX)
        meant = nearest(str(path[-1]), known, shown=variable_of if is_variable else str)
        return f"{where}: unknown setting. {meant}Fix: correct or remove it (docs/settings.md)."
    if (number := _NUMBERS.get(error["type"])) is not None and len(path) == 1:
        error = {"msg": f"it must be {number}; write one. {Settings.model_fields[name].description}".rstrip(".")}
    key = str(given.get("api_key", ("", ""))[1])
    is_shown = isinstance(value, str | int | float | Path) and name not in _UNSHOWN and not (key and key in str(value))
    return refuse(where, error, f" (got {one_line(repr(str(value)), 80)})" if is_shown else "")


def load(**chosen: object) -> Settings:
    """Read the settings from the environment and gramhouse.toml; the environment has precedence.

    Values of `chosen` (from the command line) that are not None have precedence over both.

    Raises SettingsError with a line for each error, including variables with the prefix that are not settings. No line
    contains the key.
    """
    given, overrides = read_given(), {name: value for name, value in chosen.items() if value is not None}
    try:
        return Settings.model_validate({name: value for name, (_, value) in given.items()} | overrides)
    except ValidationError as error:
        raise SettingsError(*(_explain(dict(each), overrides, given) for each in error.errors())) from None


def find_warehouse(chosen: object) -> Path:
    """Return the warehouse's path, `chosen` or configured, although other settings are wrong; or else the default."""
    with suppress(SettingsError, ValidationError):
        named = os.environ.get("GRAMHOUSE_WAREHOUSE", "").strip(AROUND)
        found = chosen or named or read_file().get("warehouse")
        return Settings.model_validate({"warehouse": found} if found else {}).warehouse
    return Settings().warehouse
