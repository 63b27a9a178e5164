"""`gramhouse doctor`: checks the requirements of a run one by one; each check is a function that yields findings."""

import asyncio
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from typing import Annotated

from cyclopts import Parameter
from humanize import naturalsize

from connectors.buckets.address import BucketError
from connectors.source.base_url import normalized
from connectors.source.endpoints import CATALOGUE_SCOPE, account_scope
from connectors.warehouse.maintenance.inspection import Inspection, inspect
from connectors.warehouse.publish.replaceable import another_warehouse
from connectors.warehouse.queries.reader import open_snapshot
from connectors.warehouse.storage.errors import SnapshotUnreadable, WarehouseError
from connectors.warehouse.storage.holder import holder
from flows.cli.current import current, current_snapshot
from flows.cli.options import AsJson
from flows.cli.output.terminal import ask, describe_check, print_check, print_json
from flows.clock import SystemClock
from flows.config.errors import ClusterLost, ProcessError, SettingsError, TrackerUnreachable, error_line
from flows.config.prefect_environment import prefect_api_url
from flows.config.setting_sources import exposed, origin
from flows.config.settings import Settings, load
from flows.engine.publishing import publication
from flows.engine.resources import check_clock, check_places, unwritable_folders
from flows.reporting.exit_code import ExitCode
from flows.reporting.findings import LONG_COOLDOWN_FIX, LONG_COOLDOWN_WHY
from flows.reporting.schedules import fires, gap_warning
from flows.reporting.words import count, moment, span
from models.api import AccountPage
from models.checkpoint import mostly_rejected
from models.erasure import OPERATION, UNFINISHED
from models.feeds import FEEDS
from models.findings import Finding, Severity, several
from models.identity import NEW, Identity, service_refusal
from models.runs import LONG_COOLDOWN

_VERDICTS = {Severity.INFORMATION: "ok", Severity.WARNING: "note", Severity.ACTION: "bad"}

# Checks of what the user has set.
_USAGE = {"configuration", "address", "key", "network"}

# Free bytes that a run needs beside a copy of the warehouse.
_ROOM = 100_000_000

ok, note, bad = (
    partial(Finding, severity=severity) for severity in (Severity.INFORMATION, Severity.WARNING, Severity.ACTION)
)


def from_message(check: str, message: str, severity: Severity = Severity.ACTION) -> Finding:
    """Return the finding of a message of one line: by default, of a check that failed."""
    text, _, fix = message.partition(" Fix: ")
    return Finding(check, severity, text.rstrip("."), fix.rstrip("."))


def _address(settings: Settings) -> Iterator[Finding]:
    if settings.base_url is None and settings.credentials is not None:
        yield note("address", text=f"not checked: it is that of the Prefect block {settings.credentials}")
    else:
        yield ok("address", text=settings.address())


def _key(settings: Settings) -> Iterator[Finding]:
    file = settings.api_key_file
    if settings.api_key is None and file is None and settings.credentials is not None:
        yield note("key", text=f"not checked: it is that of the Prefect block {settings.credentials}")
        return
    settings.key()
    yield ok("key", text=f"from {file if settings.api_key is None else origin('api_key')}")
    if settings.api_key is None and file and file.stat().st_mode & 0o077:
        yield note("key", text=f"other users can read {file}", fix=f"chmod 600 {file}")


def _network(settings: Settings) -> Iterator[Finding]:
    network = settings.network() if settings.base_url else None
    if network and network.proxy is not None:
        yield ok("network", text=f"through the proxy {network.proxy.server} ({network.proxy.variable})")
    if network and network.certificates is not None:
        yield ok("network", text=f"trusts the certificates of {network.variables}, not the public ones")


def _configuration(settings: Settings) -> Iterator[Finding]:
    if warning := exposed():
        yield from_message("configuration", warning, Severity.WARNING)
    snapshot = settings.snapshot_file()
    if (snapshot.parent / "first_day").exists() and snapshot.parent != settings.warehouse.parent:
        text = f"{origin('snapshot')}: {snapshot} is left over from `gramhouse demo`, beside another warehouse"
        yield bad("configuration", text=text, fix="unset GRAMHOUSE_SNAPSHOT")
    check_places(settings)


@dataclass(frozen=True, slots=True)
class _Facts:
    """What the state says: the address of the service, and the end of each cooldown."""

    base_url: str | None = None
    cooldowns: Mapping[str, datetime] = field(default_factory=dict)
    is_erasing: bool = False

    def long_cooldown(self, now: datetime) -> tuple[datetime, str] | None:
        """Return the end of the long cooldowns, and the accounts that they concern, as text; None if there are none."""
        long = {scope: until for scope, until in sorted(self.cooldowns.items()) if until - now > LONG_COOLDOWN}
        names = [scope.partition(":")[2] or "the account catalogue" for scope in long]
        return (max(long.values()), several(names)) if long else None


def _inspect(settings: Settings, now: datetime, *, is_whole: bool = False) -> tuple[Inspection, _Facts]:
    """Inspect the warehouse, with every byte of its raw store if `is_whole`, and the state.

    Raises WarehouseUnusable, also if they do not belong together, or if the clock is behind.
    """
    from connectors.state.database import state_path
    from connectors.state.identity import read_identity, read_service
    from connectors.state.inbox import Inbox
    from connectors.state.operations import operation_numbers, read_operations
    from connectors.state.progress import read_cooldowns
    from flows.engine.files import check_pair, open_existing_state

    inspection = partial(inspect, settings.warehouse, "gramhouse doctor", now=now, pause=time.sleep)
    with open_existing_state(settings.warehouse) as state:
        if is_whole:
            inbox = set() if state is None else {landing.seq for landing in Inbox(state).after(0)}
            inbox |= set() if state is None else {*state.read(operation_numbers, "rebuild")}
            inspection = partial(inspection, raw=settings.raw_folder(), snapshot=settings.snapshot_file(), inbox=inbox)
            inspection = partial(inspection, publication=publication(settings, at=now))
        found = inspection()
        of_state = Identity(NEW, 0) if state is None else state.read(read_identity)
        check_pair(state_path(settings.warehouse), of_state, settings.warehouse, found.identity)
        if state is None:
            return found, _Facts()
        state.read(check_clock, now=now)
        cooldowns, operations = state.read(read_cooldowns, now=now), state.read(read_operations)
        return found, _Facts(state.read(read_service), cooldowns, OPERATION in operations)


def check_api(settings: Settings) -> Iterator[Finding]:
    """Request one page of accounts and one of media, once each, except during a cooldown."""
    now = datetime.now(UTC)
    try:
        inspection, facts = _inspect(settings, now)
        address = settings.address()
        settings.key(), settings.network()
    except WarehouseError:
        yield note("API", text="not checked: cooldowns are in the warehouse, which cannot be read; see below")
        return
    except SettingsError:
        yield note("API", text="not checked: see address, key and network above")
        return
    if (long := facts.long_cooldown(now)) is not None:
        text = f"no requests for {long[1]} until {moment(long[0], seconds=True)} UTC: {LONG_COOLDOWN_WHY}"
        yield bad("cooldown", text=text, fix=LONG_COOLDOWN_FIX)
    if until := facts.cooldowns.get(CATALOGUE_SCOPE):
        text = f"not checked: the account catalogue is rate-limited until {moment(until, seconds=True)} UTC"
        yield note("API", text=text)
    else:
        keeps = inspection.is_current and service_refusal(facts.base_url, normalized(address)) is None
        yield from asyncio.run(_request_pages(settings, facts.cooldowns, keeps_cooldown=keeps))


async def _request_pages(
    settings: Settings, cooldowns: Mapping[str, datetime], *, keeps_cooldown: bool
) -> list[Finding]:
    """Request both pages; store the wait that an answer asks for if the warehouse belongs to this service."""
    from connectors.source.client import ApiClient
    from connectors.source.endpoints import accounts_request, feed_request
    from connectors.source.errors import ApiError, Disposition
    from flows.engine.upkeep import keep_cooldown

    found: list[Finding] = []
    check, request = "API", accounts_request(None, 50)
    client = ApiClient(
        settings.address(),
        settings.key(),
        clock=SystemClock(),
        network=settings.network(),
        paths=settings.page_paths(),
    )
    try:
        async with client:
            response = await client.send(request)
            page = response.page
            accounts = page.accounts if isinstance(page, AccountPage) else ()
            some = f"{count(len(accounts), 'account')}{' or more' if page.next_cursor else ''}"
            text = f"answers, and the key reaches {some} (correlation id {response.correlation_id})"
            found.append(ok(check, text=text))
            if isinstance(page, AccountPage) and page.rejected:
                text = f"{len(page.rejected)} of {count(page.items, 'record')} on the first page are malformed"
                fix = "contact the service's support; `gramhouse quarantine` shows them after a sync"
                make = bad if mostly_rejected(len(page.rejected), page.items) else note
                found.append(make("accounts", text=f"{text}: {page.rejected[0].reason}", fix=fix))
            check = "media"
            free = (each for each in accounts if account_scope(each.id) not in cooldowns)
            if (account := next((each for each in free if each.status == "active"), None)) is None:
                text = "not checked: no account on the first page has a valid token and no cooldown"
                return [*found, note(check, text=text)]
            request = feed_request(next(iter(FEEDS.values())), account.id, None, 1)
            await client.send(request)
            return [*found, ok(check, text=f"the key can list media (checked with {account.ig_username})")]
    except ApiError as error:
        if error.failure.disposition is not Disposition.WAIT:
            # An account that no longer exists is not a problem of the key.
            make = note if error.failure.outcome == "not_found" and check == "media" else bad
            return [*found, make(check, text=str(error), fix=error.failure.hint)]
        if (seconds := error.retry_after) is None:
            return [*found, note(check, text=f"{error}. Rate-limited; not retried")]
        text = f"{error}. Rate-limited for {span(seconds)}; not retried"
        if keeps_cooldown and keep_cooldown(settings, request.scope, seconds):
            return [*found, note(check, text=f"{text}. Syncs wait as long")]
        return [*found, note(check, text=text, fix="wait as long before you sync: this wait could not be stored")]


def _disk(settings: Settings) -> Iterator[Finding]:
    file = settings.warehouse.absolute()
    folder = next(each for each in file.parents if each.exists())
    free, size = shutil.disk_usage(folder).free, file.stat().st_size if file.exists() else 0
    if free < size + _ROOM:
        text = f"{naturalsize(free)} are free in {folder}; a snapshot is a copy of the warehouse ({naturalsize(size)})"
        yield bad("disk", text=text, fix="free space")
    else:
        yield ok("disk", text=f"{naturalsize(free)} are free in {folder}")


def _warehouse(settings: Settings) -> Iterator[Finding]:
    file, name = settings.warehouse, "warehouse"
    if writing := holder(file):
        yield note(name, text=f"{file} is locked by {writing}; a sync would wait or exit with code 4")
        return
    if not file.exists():
        snapshot = settings.snapshot_file()
        if settings.snapshot_url() is None and snapshot.exists():
            yield from_message(name, f"{file} does not exist yet, so {another_warehouse(str(snapshot))}")
        else:
            yield note(name, text=f"{file} does not exist yet: the first sync creates it")
        return
    found, facts = _inspect(settings, SystemClock().now(), is_whole=True)
    if facts.is_erasing:
        yield from_message(name, UNFINISHED)
    elif ahead := found.ahead:
        text = f"{ahead.count:,} times stored in {file} lie in the future, up to {moment(ahead.last)} UTC"
        fix = "check this machine's clock, then run `gramhouse doctor --repair`, which moves them to now"
        yield bad(name, text=text, fix=fix)
    elif settings.base_url and (refusal := service_refusal(facts.base_url, normalized(settings.base_url))):
        yield from_message(name, refusal)
    elif found.refused is not None:
        yield from_message(name, f"its data cannot be published: {found.refused}")
    else:
        bound = f"; filled from {facts.base_url}" if facts.base_url else ""
        yield ok(name, text=f"{file} opens ({naturalsize(file.stat().st_size)}){bound}")


def _bucket(settings: Settings) -> Iterator[Finding]:
    if (url := settings.snapshot_url()) is None:
        return
    from connectors.buckets.address import open_snapshot_bucket

    bucket, is_writer = open_snapshot_bucket(url), settings.warehouse.exists()
    if is_writer:
        asyncio.run(bucket.check())
    has_snapshot = asyncio.run(bucket.newest()) is not None
    if is_writer:
        yield ok("bucket", text=f"{url} can be written{'' if has_snapshot else ', and has no snapshot yet'}")
    elif has_snapshot:
        yield ok("bucket", text=f"{url} can be read; a copy is at {current_snapshot(settings)}")


def _snapshot(settings: Settings) -> Iterator[Finding]:
    at, place = None, settings.snapshot_file()
    if not place.exists():
        last = current(settings).last if settings.warehouse.exists() else None
        if last is not None and last["published_at"] is not None:
            yield bad("snapshot", text=f"{place} does not exist, but a run published it", fix="`gramhouse publish`")
        else:
            yield note("snapshot", text=f"{place} does not exist yet: the first sync publishes it")
        return
    with suppress(SnapshotUnreadable), open_snapshot(place) as snapshot:
        ((at,),) = snapshot.query("SELECT max(snapshot_at) FROM published").rows
    if isinstance(at, datetime):
        yield ok("snapshot", text=f"{place} was published at {moment(at.astimezone(UTC))} UTC")
    else:
        yield bad("snapshot", text=f"{place} is not a gramhouse snapshot", fix="check GRAMHOUSE_SNAPSHOT")


def _prefect(settings: Settings) -> Iterator[Finding]:
    from flows.orchestration.processes import check_database, import_prefect

    check_database(settings.prefect_home / "prefect.db")
    if (url := prefect_api_url()) is None:
        yield note("Prefect", text="PREFECT_API_URL is not set: syncs run directly, without Prefect")
        return
    import_prefect()
    from flows.orchestration.flow_run import check_tracker

    asyncio.run(check_tracker())
    yield ok("Prefect", text=f"{url} answers")


def _schedules(settings: Settings) -> Iterator[Finding]:
    now, name = datetime.now(UTC), "schedules"
    up = holder(settings.prefect_home / "up")
    who = f"{up}" if up else "`gramhouse up` is not running on this machine; it"
    due = moment(next(fires(settings.nightly, settings.time_zone, now)))
    yield ok(name, text=f"{who} {'runs' if up else 'would run'} the next nightly sync at {due} {settings.time_zone}")
    if warning := gap_warning(settings.nightly, settings.stories, settings.time_zone, now):
        yield from_message(name, warning, Severity.WARNING)


# In the order in which they are shown. An error that a check raises is its finding.
_CHECKS: Mapping[str, Callable[[Settings], Iterable[Finding]]] = {
    "address": _address,
    "key": _key,
    "network": _network,
    "API": check_api,
    "folders": lambda settings: (from_message("folders", text) for text in unwritable_folders(settings)),
    "disk": _disk,
    "configuration": _configuration,
    "warehouse": _warehouse,
    "bucket": _bucket,
    "snapshot": _snapshot,
    "Prefect": _prefect,
    "schedules": _schedules,
}

_ERRORS = (SettingsError, WarehouseError, BucketError, TrackerUnreachable, ProcessError, ClusterLost, OSError)


def list_findings(settings: Settings) -> Iterator[Finding]:
    """Yield the results of all checks."""
    if settings.credentials is not None and prefect_api_url() is not None:
        # Tracked runs use those of the block, even if others are set.
        settings = settings.model_copy(update=dict.fromkeys(("base_url", "api_key", "api_key_file")))
    for name, check in _CHECKS.items():
        try:
            yield from check(settings)
        except _ERRORS as error:
            yield from_message(name, error_line(error))


def _repair(settings: Settings, lift: Callable[[str], bool]) -> Iterator[Finding]:
    """Move times in the future to now, and lift long cooldowns if `lift`, called with what they are, says so."""
    from flows.engine.upkeep import lift_now, repair_now

    if moved := asyncio.run(repair_now(settings)):
        what = f"{count(moved.count, 'time')} in the future, up to {moment(moved.last)} UTC"
        yield ok("repair", text=f"moved back {what}, to now; cooldowns among them start now")
    else:
        yield ok("repair", text="no stored time lies in the future: nothing to repair")
    now = datetime.now(UTC)
    if (long := _inspect(settings, now)[1].long_cooldown(now)) is not None:
        what = f"the cooldown until {moment(long[0], seconds=True)} UTC of {long[1]}"
        if lift(what):
            asyncio.run(lift_now(settings, until=long[0], now=now))
            yield ok("repair", text=f"lifted {what}")
        else:
            yield note("repair", text=f"kept {what}", fix="lift it with `gramhouse doctor --repair --yes`")


def doctor(
    *,
    repair: Annotated[
        bool,
        Parameter(
            help="First correct stored times that are in the future because the clock was ahead, and restart the"
            " cooldowns that depend on them; then offer to lift cooldowns of more than a day.",
        ),
    ] = False,
    yes: Annotated[bool, Parameter(help="With --repair, lift such cooldowns without asking.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check configuration, API, warehouse, snapshot, Prefect: one line each.

    Exit codes: 0 all checks passed and --repair, if given, succeeded; 1 a check failed; 2 wrong usage or configuration;
    4 --repair found the warehouse held by another process.
    """
    settings = load()
    if yes and not repair:
        raise SettingsError("--yes is an answer to --repair. Fix: use both, or leave it out.")

    def lift(what: str) -> bool:
        question = f"The API asked for {what}. Lift it, so that the next sync sends requests again?"
        return yes or (not as_json and ask(question))

    found = []
    for finding in chain(_repair(settings, lift) if repair else (), list_findings(settings)):
        found.append(finding)
        if not as_json:
            print_check(finding)
    bad = {finding.code for finding in found if finding.severity is Severity.ACTION}
    exit_code = ExitCode.WRONG_USAGE if bad & _USAGE else ExitCode.FAILED if bad else ExitCode.COMPLETE
    if as_json:
        rows = ((one.code, _VERDICTS[one.severity], describe_check(one), one.fix or None) for one in found)
        findings = [dict(zip(("check", "verdict", "message", "fix"), row, strict=True)) for row in rows]
        print_json({"exit_code": exit_code, "findings": findings})
    raise SystemExit(exit_code)
