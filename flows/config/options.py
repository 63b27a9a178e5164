"""Options of runs: of the command line, and of the deployments, which Prefect's UI shows as a form."""

from datetime import UTC, datetime
from typing import Annotated, Any

from cyclopts import Group, Parameter
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic import ValidationError as Invalid

from flows.config.setting_sources import PREFIX
from flows.config.settings import Settings
from flows.config.wrong_value import limits, refusal, why
from models.feeds import SURFACES
from models.incremental import SyncMode
from models.selection import Selection, SelectionError

# The list of options in a command's help that override settings.
ADVANCED = Group("Advanced", sort_key=9)


def _title(name: str, _: object) -> str:
    return name.replace("_", " ").capitalize()


def setting(name: str) -> Any:  # noqa: ANN401 - the type is that of the annotated field
    """Return a field that overrides a setting: with its title, help and range; None: as configured."""
    field = Settings.model_fields[name]
    text = f"{str(field.description).removesuffix('.')} ({PREFIX}{name.upper()})."
    return Field(None, title=field.title, description=text, **limits(field))


def check_surface(surface: str) -> str:
    """Return a surface unchanged. Raises ValueError if there is no such surface."""
    if surface not in SURFACES:
        raise ValueError(f"{surface!r} is not a surface; use {' or '.join(sorted(SURFACES))}")
    return surface


_Surface = Annotated[str, AfterValidator(check_surface), WithJsonSchema({"type": "string", "enum": sorted(SURFACES)})]


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


def _word(word: str) -> Parameter:
    return Parameter(metavar=word)


@Parameter(name="*", group=ADVANCED)
class ExpertOptions(BaseModel):
    """Settings that differ for one run; None: as configured.

    The API key cannot be set here. Neither can the addresses of the service and of the scheduler: anyone who can start
    a run could send the key to another server, or run code on this machine.
    """

    model_config = ConfigDict(extra="forbid", title="Expert options", field_title_generator=_title)

    credentials: Annotated[str | None, _word("BLOCK")] = setting("credentials")
    # Not a Path, which would turn s3://bucket into s3:/bucket.
    warehouse: Annotated[str | None, _word("PATH")] = setting("warehouse")
    snapshot: Annotated[str | None, _word("PATH")] = setting("snapshot")
    concurrency: Annotated[int | None, _word("NUMBER")] = setting("concurrency")
    requests_per_second: Annotated[float | None, _word("NUMBER")] = setting("requests_per_second")
    page_size: Annotated[int | None, _word("NUMBER")] = setting("page_size")
    max_wait: Annotated[float | None, _word("SECONDS")] = setting("max_wait")
    busy_wait: Annotated[float | None, _word("SECONDS")] = setting("busy_wait")
    workers: Annotated[int | None, _word("NUMBER")] = setting("workers")


class RunOptions(BaseModel):
    """Options of one run."""

    model_config = ConfigDict(extra="forbid", field_title_generator=_title, use_attribute_docstrings=True)


Surfaces = Annotated[list[_Surface], Parameter("--surface", metavar="|".join(sorted(SURFACES)))]
_NAMES: Any = Field([], description=f"{' or '.join(sorted(SURFACES))}; may be repeated. Default: all.")
_EXPERT: Any = Field(ExpertOptions(), title="Expert options")


@Parameter(name="*")
class SyncOptions(RunOptions):
    """A sync of everything that the API key can read. Empty fields: as configured."""

    model_config = ConfigDict(title="Sync")

    surfaces: Surfaces = _NAMES
    mode: Annotated[SyncMode | None, Parameter(parse=False)] = setting("sync_mode")
    max_requests: Annotated[int | None, _word("NUMBER")] = Field(None, ge=1, le=1_000_000_000, title="Maximum requests")
    """Maximum number of requests; remaining scans are deferred."""
    accept_removals: bool = False
    """Mark all accounts as removed that the catalogue no longer lists, even if there are many."""
    rebind: bool = False
    """Accept a service address other than the one the warehouse was filled from."""
    expert: ExpertOptions = _EXPERT


@Parameter(name="*")
class BackfillOptions(RunOptions):
    """A scan from the first page of all accounts selected by any field; history and first_seen_at are kept."""

    model_config = ConfigDict(title="Backfill")

    accounts: Annotated[list[str], Parameter("--account", metavar="ACCOUNT")] = []
    """Account ids or names, as listed by `gramhouse accounts`, or public ids; may be repeated."""
    surfaces: Surfaces = _NAMES
    expired_since: Annotated[Annotated[datetime, BeforeValidator(to_time)] | None, Parameter(parse=False)] = None
    """Accounts whose token was expired at any time since this date (UTC)."""
    reason: Annotated[str | None, _word("TEXT")] = Field(None, max_length=500)
    """Reason, stored with the run."""
    everything: Annotated[bool, Parameter("--all")] = Field(default=False, title="All accounts")
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


def refusals(error: Invalid) -> list[str]:
    """Return a line for each option whose value is wrong, with the fix."""
    fields = {**SyncOptions.model_fields, **BackfillOptions.model_fields, **ExpertOptions.model_fields}

    def line(found: dict[str, Any]) -> str:
        name = next(str(part) for part in found["loc"] if part != "expert")
        field = fields.get(name)
        # An option for several values is repeated.
        option = name.replace("_", "-").removesuffix("s" if field and field.default == [] else "")
        reason, value = why(found, field), repr(str(found["input"]))
        given = "" if value in reason else f" (got {value})"
        return f"--{option}: {refusal(reason, given, field)}"

    return [line(dict(found)) for found in error.errors()]
