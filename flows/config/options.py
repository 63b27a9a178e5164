"""Parameters of the deployments, which Prefect's UI shows as a form."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo

from flows.config.errors import SettingsError
from flows.config.wrong_value import default_fix, refusal, why
from models.incremental import SyncMode
from models.partition import SURFACES, Surface
from models.selection import Selection, SelectionError

Surfaces = Annotated[
    list[Surface],
    Field(title="Surfaces", description="Posts, stories or both. Default: both.", max_length=2),
]
WarehouseFile = Annotated[Path | None, Field(title="Warehouse file", description="The writer's DuckDB file.")]
SnapshotFile = Annotated[
    # Not a Path, which would turn s3://bucket into s3:/bucket.
    str | None,
    Field(title="Snapshot file", description="The analysts' DuckDB file: a path, or one in s3://, gs:// or az://."),
]
BusyWait = Annotated[
    float | None,
    Field(title="Wait for the lock", description="Seconds to wait while another process holds the warehouse.", ge=0),
]


def in_order(surfaces: list[Surface]) -> tuple[Surface, ...]:
    """Return the surfaces in the order in which they are scanned; all of them for an empty list."""
    return tuple(surface for surface in SURFACES if surface in surfaces) or SURFACES


class ExpertOptions(BaseModel):
    """Settings that differ for one run; None: as configured.

    The API key cannot be set here. Neither can the addresses of the service and of the scheduler: anyone who can start
    a run could send the key to another server, or run code on this machine.
    """

    model_config = ConfigDict(extra="forbid", title="Expert options")

    credentials: Annotated[
        str | None,
        Field(title="Credentials block", description="Name of a block with the service's address and API key."),
    ] = None
    warehouse: WarehouseFile = None
    snapshot: SnapshotFile = None
    concurrency: Annotated[
        int | None, Field(title="Concurrency", description="Maximum number of concurrent requests.", ge=1, le=256)
    ] = None
    page_size: Annotated[int | None, Field(title="Page size", description="Records per page.", ge=1, le=50)] = None
    max_wait: Annotated[
        float | None,
        Field(title="Longest wait", description="Longest wait in seconds for one rate-limited account.", ge=0),
    ] = None
    busy_wait: BusyWait = None
    engine: Annotated[
        Literal["local", "dask"] | None,
        Field(
            title="Engine",
            description="Scan in the process of the run (local) or on Dask workers (dask).",
        ),
    ] = None


class RunOptions(BaseModel):
    """Options of one run. Prefect's form shows the expert options as a group."""

    model_config = ConfigDict(extra="forbid")

    expert: Annotated[ExpertOptions, Field(title="Expert options")] = ExpertOptions()

    def chosen(self) -> dict[str, object]:
        """Return the settings of this run by name; None: as configured."""
        return self.expert.model_dump(include=set(ExpertOptions.model_fields))


class _Sync(BaseModel):
    surfaces: Surfaces = []
    mode: Annotated[
        SyncMode | None,
        Field(
            title="Sync mode",
            description="full_refresh fetches all posts; incremental only new and recent posts, for accounts whose"
            " posts are known to be listed newest first.",
        ),
    ] = None
    max_requests: Annotated[
        int | None,
        Field(title="Maximum requests", description="Remaining scans are deferred.", ge=1),
    ] = None
    accept_removals: Annotated[
        bool,
        Field(
            title="Accept removals",
            description="Mark all accounts as removed that the catalogue no longer lists, even if there are many.",
        ),
    ] = False
    rebind: Annotated[
        bool,
        Field(
            title="Rebind",
            description="Accept a service address other than the one the warehouse was filled from.",
        ),
    ] = False


class _Backfill(BaseModel):
    accounts: Annotated[
        list[str], Field(title="Accounts", description="Account ids or names, as listed by `gramhouse accounts`.")
    ] = []
    surfaces: Surfaces = []
    everything: Annotated[bool, Field(title="All accounts", description="All accounts in the catalogue.")] = False
    failed: Annotated[
        bool, Field(title="Unfinished scans", description="Scans that failed, were denied or were deferred.")
    ] = False
    dry_run: Annotated[
        bool,
        Field(title="Dry run", description="Show the scans and the estimated number of requests, without scanning."),
    ] = False


class BackfillExpertOptions(ExpertOptions):
    """The expert options of a backfill."""

    expired_since: Annotated[
        datetime | None,
        Field(title="Expired since", description="Accounts whose token was expired at any time since this date (UTC)."),
    ] = None
    reason: Annotated[str | None, Field(title="Reason", description="Reason, stored with the run.", max_length=500)] = (
        None
    )


# Prefect's form shows the fields of the last base first.
class SyncOptions(RunOptions, _Sync):
    """A sync of everything that the API key can read. Empty fields: as configured."""

    model_config = ConfigDict(extra="forbid", title="Sync")


class BackfillOptions(RunOptions, _Backfill):
    """A scan from the first page of all accounts selected by any field; history and first_seen_at are kept."""

    model_config = ConfigDict(extra="forbid", title="Backfill")

    expert: Annotated[BackfillExpertOptions, Field(title="Expert options")] = BackfillExpertOptions()

    @property
    def reason(self) -> str | None:
        """Return the reason that the user gave for the backfill."""
        return self.expert.reason

    def selection(self) -> Selection:
        """Return the selection to scan; raises SelectionError if nothing is selected."""
        since = self.expert.expired_since
        names = tuple(name.strip() for name in self.accounts if name.strip())
        if not (names or self.everything or since or self.failed):
            message = (
                "Nothing is selected. Fix: use --account, --all (all accounts), --expired-since (accounts whose token"
                " was expired) or --failed (unfinished scans)."
            )
            raise SelectionError(message)
        return Selection(
            accounts=names,
            everything=self.everything,
            expired_since=since.replace(tzinfo=UTC) if since and since.tzinfo is None else since,
            failed=self.failed,
            surfaces=in_order(self.surfaces),
        )


Options = TypeVar("Options", bound=RunOptions)


_EXPERT: Mapping[type[RunOptions], type[ExpertOptions]] = {
    SyncOptions: ExpertOptions,
    BackfillOptions: BackfillExpertOptions,
}


def _line(error: dict[str, Any], fields: Mapping[str, FieldInfo]) -> str:
    name = next((part for part in error["loc"] if part in fields and part != "expert"), error["loc"][0])
    field = fields.get(name)
    return f"--{str(name).replace('_', '-')}: {refusal(why(error, field), fix=default_fix(field))}"


def parse_options(kind: type[Options], given: dict[str, object]) -> Options:
    """Return the options given on the command line, expert ones included; raises SettingsError, a line per error."""
    expert = _EXPERT[kind].model_fields
    nested = {"expert": {name: value for name, value in given.items() if name in expert}}
    try:
        return kind.model_validate({name: value for name, value in given.items() if name not in expert} | nested)
    except ValidationError as error:
        fields = {**kind.model_fields, **expert}
        lines = [_line(dict(found), fields) for found in error.errors()]
        raise SettingsError(*lines) from None
