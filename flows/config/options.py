"""Parameters of the deployments, which Prefect's UI shows as a form."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, WithJsonSchema
from pydantic.fields import FieldInfo

from flows.config.errors import SettingsError
from flows.config.settings import Settings
from flows.config.wrong_value import default_fix, limits, refusal, why
from models.feeds import SURFACES
from models.incremental import SyncMode
from models.selection import Selection, SelectionError


def _title(name: str, _: object) -> str:
    return name.replace("_", " ").capitalize()


def setting(name: str) -> Any:  # noqa: ANN401 - the type is that of the annotated field
    """Return a field that overrides a setting: with its title, help and range; None: as configured."""
    field = Settings.model_fields[name]
    return Field(None, title=field.title, description=field.description, **limits(field))


def _known(surface: str) -> str:
    if surface not in SURFACES:
        raise ValueError(f"{surface!r} is not a surface; use {' or '.join(sorted(SURFACES))}")
    return surface


_Surface = Annotated[str, AfterValidator(_known), WithJsonSchema({"type": "string", "enum": sorted(SURFACES)})]


def to_time(value: object) -> datetime:
    """Return a time, which is in UTC unless it says otherwise. Raises ValueError.

    Pydantic would read digits alone, such as 20260301, as seconds since 1970.
    """
    try:
        at = value if isinstance(value, datetime) else datetime.fromisoformat(str(value).strip())
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError("it is not a time; use a date such as 2026-03-01") from None


def in_order(surfaces: list[str]) -> tuple[str, ...]:
    """Return the surfaces in the order in which they are scanned; all of them for an empty list."""
    return tuple(surface for surface in SURFACES if surface in surfaces) or SURFACES


class ExpertOptions(BaseModel):
    """Settings that differ for one run; None: as configured.

    The API key cannot be set here. Neither can the addresses of the service and of the scheduler: anyone who can start
    a run could send the key to another server, or run code on this machine.
    """

    model_config = ConfigDict(extra="forbid", title="Expert options", field_title_generator=_title)

    credentials: str | None = setting("credentials")
    warehouse: Path | None = setting("warehouse")
    # Not a Path, which would turn s3://bucket into s3:/bucket.
    snapshot: str | None = setting("snapshot")
    concurrency: int | None = setting("concurrency")
    requests_per_second: float | None = setting("requests_per_second")
    page_size: int | None = setting("page_size")
    max_wait: float | None = setting("max_wait")
    busy_wait: float | None = setting("busy_wait")
    workers: int | None = setting("workers")


class RunOptions(BaseModel):
    """Options of one run."""

    model_config = ConfigDict(extra="forbid", field_title_generator=_title, use_attribute_docstrings=True)


_NAMES: Any = Field([], description=f"{' or '.join(sorted(SURFACES))}. Default: all.")
_EXPERT: Any = Field(ExpertOptions(), title="Expert options")


class SyncOptions(RunOptions):
    """A sync of everything that the API key can read. Empty fields: as configured."""

    model_config = ConfigDict(title="Sync")

    surfaces: list[_Surface] = _NAMES
    mode: SyncMode | None = setting("sync_mode")
    max_requests: int | None = Field(None, ge=1, le=1_000_000_000, title="Maximum requests")
    """Maximum number of requests; remaining scans are deferred."""
    accept_removals: bool = False
    """Mark all accounts as removed that the catalogue no longer lists, even if there are many."""
    rebind: bool = False
    """Accept a service address other than the one the warehouse was filled from."""
    expert: ExpertOptions = _EXPERT


class BackfillOptions(RunOptions):
    """A scan from the first page of all accounts selected by any field; history and first_seen_at are kept."""

    model_config = ConfigDict(title="Backfill")

    accounts: list[str] = []
    """Account ids or names, as listed by `gramhouse accounts`, or public ids."""
    surfaces: list[_Surface] = _NAMES
    expired_since: Annotated[datetime, BeforeValidator(to_time)] | None = None
    """Accounts whose token was expired at any time since this date (UTC)."""
    reason: str | None = Field(None, max_length=500)
    """Reason, stored with the run."""
    everything: bool = Field(default=False, title="All accounts")
    """All accounts in the catalogue."""
    failed: bool = Field(default=False, title="Unfinished scans")
    """Unfinished scans: those that failed, were denied or were deferred."""
    dry_run: bool = False
    """Show what would be scanned and the estimated number of requests, without scanning."""
    expert: ExpertOptions = _EXPERT

    def selection(self) -> Selection:
        """Return the selection to scan; raises SelectionError if nothing is selected."""
        names = tuple(name.strip() for name in self.accounts if name.strip())
        if not (names or self.everything or self.expired_since or self.failed):
            raise SelectionError(
                "Nothing is selected. Fix: use --account, --all (all accounts), --expired-since (accounts whose token"
                " was expired) or --failed (unfinished scans)."
            )
        return Selection(
            accounts=names,
            everything=self.everything,
            expired_since=self.expired_since,
            failed=self.failed,
            surfaces=in_order(self.surfaces),
        )


Options = TypeVar("Options", SyncOptions, BackfillOptions)


def parse_options(kind: type[Options], given: Mapping[str, object]) -> Options:
    """Return the options given on the command line, expert ones included; raises SettingsError, a line per error."""
    expert = ExpertOptions.model_fields
    own = {name: value for name, value in given.items() if name not in expert}
    try:
        return kind.model_validate(own | {"expert": {name: value for name, value in given.items() if name in expert}})
    except ValidationError as error:
        fields = {**kind.model_fields, **expert}
        raise SettingsError(*(_line(dict(found), fields) for found in error.errors())) from None


def _line(error: dict[str, Any], fields: Mapping[str, FieldInfo]) -> str:
    name = next(str(part) for part in error["loc"] if part != "expert")
    field = fields.get(name)
    # An option for several values is repeated.
    option = name.replace("_", "-").removesuffix("s" if field and field.default == [] else "")
    return f"--{option}: {refusal(why(error, field), fix=default_fix(field))}"
