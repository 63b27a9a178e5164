"""What a flow run may be asked for: the parameters of the deployments, as Prefect's UI shows them in its form."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from flows.config.errors import SettingsError
from flows.config.wrong_value import why
from models.incremental import SyncMode
from models.partition import SURFACES, Surface
from models.selection import Selection, SelectionError

Surfaces = Annotated[
    list[Surface],
    Field(title="Surfaces", description="Posts, stories, or both; none means both.", max_length=2),
]
WarehouseFile = Annotated[Path | None, Field(title="Warehouse file", description="The writer's DuckDB file.")]
SnapshotFile = Annotated[Path | None, Field(title="Snapshot file", description="The analysts' DuckDB file.")]
BusyWait = Annotated[
    float | None,
    Field(title="Wait for the turn", description="Seconds to wait while another run holds the warehouse.", ge=0),
]


def in_order(surfaces: list[Surface]) -> tuple[Surface, ...]:
    """Return the surfaces in the order they are scanned; all of them for an empty list."""
    return tuple(surface for surface in SURFACES if surface in surfaces) or SURFACES


class RunOptions(BaseModel):
    """What one run does otherwise than the settings say.

    The API key is none of it; nor are the addresses of service and scheduler, or whoever can start a run could have
    the key sent to theirs, or run code here.
    """

    model_config = ConfigDict(extra="forbid")

    credentials: Annotated[
        str | None,
        Field(title="Credentials block", description="Name of a block that holds the service's address and key."),
    ] = None
    warehouse: WarehouseFile = None
    snapshot: SnapshotFile = None
    concurrency: Annotated[
        int | None, Field(title="Concurrency", description="Requests in flight at once.", ge=1, le=256)
    ] = None
    page_size: Annotated[int | None, Field(title="Page size", description="Records per page.", ge=1, le=50)] = None
    max_wait: Annotated[
        float | None,
        Field(title="Longest wait", description="Seconds one limited account may make the run wait.", ge=0),
    ] = None
    busy_wait: BusyWait = None
    engine: Annotated[
        Literal["local", "dask"] | None,
        Field(title="Engine", description="Scan in the process of the run (local), or on Dask workers (dask)."),
    ] = None

    def chosen(self) -> dict[str, object]:
        """Return what is said here of the settings; None where they hold as they are."""
        return self.model_dump(include=set(RunOptions.model_fields))


class _Restarted(BaseModel):
    # Counted by the automation that starts a crashed run again; Prefect refuses a run beyond the limit.
    restarts: Annotated[
        int,
        Field(title="Restarts", description="How often this run crashed and was started again, 3 at most.", ge=0, le=3),
    ] = 0


class _Surfaces(BaseModel):
    surfaces: Surfaces = []


class _Choice(BaseModel):
    accounts: Annotated[
        list[str], Field(title="Accounts", description="Account ids or names, as `gramhouse accounts` lists them.")
    ] = []
    surfaces: Surfaces = []
    everything: Annotated[bool, Field(title="All accounts", description="Every account that is listed.")] = False
    expired_since: Annotated[
        datetime | None,
        Field(title="Expired since", description="Accounts whose token was expired at any time since then (UTC)."),
    ] = None
    failed: Annotated[
        bool, Field(title="Incomplete scans", description="Scans that failed, were denied or deferred.")
    ] = False
    reason: Annotated[
        str | None, Field(title="Reason", description="Why; it is kept with the run.", max_length=500)
    ] = None
    dry_run: Annotated[
        bool, Field(title="Dry run", description="Only show what would be scanned, and about how many requests.")
    ] = False


# The last base comes first in the form: what one is asked there, and only then what the settings say anyway.
class SyncOptions(_Restarted, RunOptions, _Surfaces):
    """A sync of everything the key can see. What is left empty is as the settings say."""

    model_config = ConfigDict(extra="forbid", title="Sync")

    accept_removals: Annotated[
        bool,
        Field(
            title="Accept removals",
            description="Mark accounts removed that the catalogue does not list, however many they are.",
        ),
    ] = False
    mode: Annotated[
        SyncMode | None,
        Field(
            title="Sync mode",
            description="full_refresh reads all posts; incremental down to those it knows, where that is safe.",
        ),
    ] = None
    max_requests: Annotated[
        int | None,
        Field(title="Most requests", description="After so many the run defers what is left.", ge=1),
    ] = None
    rebind: Annotated[
        bool,
        Field(
            title="Rebind",
            description="Accept the configured address, though the warehouse was filled from another one.",
        ),
    ] = False


class BackfillOptions(_Restarted, RunOptions, _Choice):
    """A scan from the first page of the accounts that any of these choose; history and first_seen_at are kept."""

    model_config = ConfigDict(extra="forbid", title="Backfill")

    def selection(self) -> Selection:
        """Return what is to be scanned; raises SelectionError when that is not said."""
        since = self.expired_since
        names = tuple(name.strip() for name in self.accounts if name.strip())
        if not (names or self.everything or since or self.failed):
            message = (
                "Nothing is chosen: name accounts (--account), or take all of them (--all), those whose token was"
                " expired (--expired-since), or incomplete scans (--failed)."
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


def _line(error: dict[str, Any], kind: type[BaseModel]) -> str:
    name = str(error["loc"][0])
    return f"--{name.replace('_', '-')}: {why(error, kind.model_fields.get(name))}."


def asked(kind: type[Options], given: dict[str, object]) -> Options:
    """Return options as they were typed; raises SettingsError with a line for each that cannot be."""
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        lines = [_line(dict(found), kind) for found in error.errors()]
        raise SettingsError(*lines) from None
