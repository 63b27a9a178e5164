"""Options of runs: of the command line, and of the deployments, which Prefect's UI shows as a form."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from cyclopts import Group, Parameter
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from flows.config.environment import variable_of
from flows.config.errors import refuse
from flows.config.settings import Settings, limits
from models.checkpoint import RunKind, SyncMode
from models.feeds import SURFACES
from models.selection import Selection, SelectionError

if TYPE_CHECKING:
    Surface = str
else:
    Surface = Literal[SURFACES]

# The list of options in a command's help that override settings.
ADVANCED = Group("Advanced", sort_key=9)


def describe_setting(name: str) -> str:
    """Return the help of an option that overrides a setting, with the setting's name."""
    return f"{str(Settings.model_fields[name].description).removesuffix('.')} ({variable_of(name)})."


def setting(name: str) -> Any:  # noqa: ANN401 - the type is that of the annotated field
    """Return a field that overrides a setting: with its help and range; None: as configured."""
    return Field(None, description=describe_setting(name), **limits(Settings.model_fields[name]))


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


class _Options(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        field_title_generator=lambda name, _: name.replace("_", " ").capitalize(),
        use_attribute_docstrings=True,
    )


@Parameter(name="*", group=ADVANCED)
class ExpertOptions(_Options):
    """Settings that differ for one run; None: as configured.

    The API key cannot be set here. Neither can the addresses of the service and of the scheduler: anyone who can start
    a run could send the key to another server, or run code on this machine.
    """

    model_config = ConfigDict(title="Expert options")

    credentials: str | None = setting("credentials")
    # Not paths, which would turn s3://bucket into s3:/bucket.
    warehouse: str | None = setting("warehouse")
    snapshot: str | None = setting("snapshot")
    concurrency: int | None = setting("concurrency")
    requests_per_second: float | None = setting("requests_per_second")
    page_size: int | None = setting("page_size")
    max_wait: float | None = setting("max_wait")
    busy_wait: float | None = setting("busy_wait")
    workers: int | None = setting("workers")


Surfaces = Annotated[
    list[Surface],
    Parameter("--surface", metavar="SURFACE"),
    Field(description="Surfaces to scan; may be repeated. Default: all."),
]
Expert = Annotated[ExpertOptions, Field(title="Expert options")]


@Parameter(name="*")
class SyncOptions(_Options):
    """A sync of everything that the API key can read. Empty fields: as configured."""

    model_config = ConfigDict(title="Sync")
    kind: ClassVar[RunKind] = "sync"
    reason: ClassVar[str | None] = None

    surfaces: Surfaces = []
    mode: Annotated[SyncMode | None, Parameter(parse=False)] = setting("sync_mode")
    due: bool = False
    """Scan only what is due, by GRAMHOUSE_FRESH_WITHIN and how often each account has something new."""
    max_requests: int | None = Field(None, ge=1, le=1_000_000_000)
    """Maximum number of requests; remaining scans are deferred."""
    accept_removals: bool = False
    """Mark as removed accounts that the catalogue no longer lists, and media that two scans missed, however many."""
    rebind: bool = False
    """Accept a service address other than the one the warehouse was filled from."""
    expert: Expert = ExpertOptions()

    def selection(self) -> Selection | None:
        """Return None: a sync scans all accounts."""
        return None


@Parameter(name="*")
class BackfillOptions(_Options):
    """A scan from the first page of all accounts selected by any field; history and first_seen_at are kept."""

    model_config = ConfigDict(title="Backfill")
    kind: ClassVar[RunKind] = "backfill"
    mode: ClassVar[SyncMode | None] = "full_refresh"
    due: ClassVar[bool] = False
    max_requests: ClassVar[int | None] = None
    accept_removals: ClassVar[bool] = False
    rebind: ClassVar[bool] = False

    accounts: Annotated[list[str], Parameter("--account", metavar="ACCOUNT")] = []
    """Account ids or names, as listed by `gramhouse accounts`, or public ids; may be repeated."""
    surfaces: Surfaces = []
    expired_since: Annotated[Annotated[datetime, BeforeValidator(to_time)] | None, Parameter(parse=False)] = None
    """Accounts whose token was expired at any time since this date (UTC)."""
    reason: str | None = Field(None, max_length=500)
    """Reason, stored with the run."""
    everything: Annotated[bool, Parameter("--all")] = False
    """All accounts in the catalogue."""
    failed: bool = False
    """Unfinished scans: those that failed, were deferred or denied, or whose account was not found."""
    dry_run: bool = False
    """Show what would be scanned and the estimated number of requests, without scanning."""
    expert: Expert = ExpertOptions()

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


def refusals(error: ValidationError) -> list[str]:
    """Return a line for each option whose value is wrong, with the fix."""
    lines = []
    for found in error.errors():
        *_, name = (part for part in found["loc"] if isinstance(part, str))
        # An option for several values, of which one is wrong, is repeated.
        option = name if name == found["loc"][-1] else name.removesuffix("s")
        lines.append(refuse(f"--{option.replace('_', '-')}", dict(found)))
    return lines
