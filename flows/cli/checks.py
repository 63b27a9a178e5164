"""The checks of `gramhouse doctor`: the requirements of a run, one by one, with a fix for each."""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from humanize import naturalsize
from pydantic import SecretStr

from connectors.buckets.address import BucketError
from connectors.source.base_url import normalized
from connectors.source.endpoints import CATALOGUE_SCOPE, account_scope
from connectors.source.network import Network
from connectors.warehouse.maintenance.inspection import Inspection, inspect
from connectors.warehouse.publish.replaceable import another_warehouse
from connectors.warehouse.queries.reader import open_snapshot
from connectors.warehouse.storage.errors import SnapshotUnreadable, WarehouseError
from connectors.warehouse.storage.holder import holder
from flows.cli.current import current, current_snapshot
from flows.clock import SystemClock
from flows.config.errors import ClusterLost, SettingsError, TrackerUnreachable, error_line
from flows.config.setting_sources import exposed, origin
from flows.config.settings import Settings
from flows.config.tracker import prefect_api_url
from flows.engine.publishing import publication
from flows.engine.resources import check_clock, check_places, unwritable_folders
from flows.reporting.findings import LONG_COOLDOWN_FIX, LONG_COOLDOWN_WHY
from flows.reporting.schedules import fires, gap_warning
from flows.reporting.words import count, moment, span
from models.api import AccountPage
from models.checkpoint import mostly_rejected
from models.erasure import OPERATION, UNFINISHED
from models.feeds import FEEDS
from models.findings import several
from models.identity import NEW, Identity, service_refusal
from models.media_page import PagePaths
from models.runs import LONG_COOLDOWN

if TYPE_CHECKING:
    from connectors.source.errors import ApiError


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check: `verdict` is ok, note or bad; if it is bad, `message` contains the fix."""

    check: str
    verdict: str
    message: str


def _address(settings: Settings) -> Finding:
    if settings.base_url is None and settings.credentials is not None:
        return _in_block("address", settings)
    return Finding("address", "ok", settings.address())


def _in_block(check: str, settings: Settings) -> Finding:
    return Finding(check, "note", f"not checked: it is that of the Prefect block {settings.credentials}.")


def _key(settings: Settings) -> Iterator[Finding]:
    if settings.api_key is None and settings.api_key_file is None and settings.credentials is not None:
        yield _in_block("key", settings)
        return
    settings.key()
    file = settings.api_key_file
    yield Finding("key", "ok", f"from {file if settings.api_key is None else origin('api_key')}")
    if settings.api_key is None and file and file.stat().st_mode & 0o077:
        yield Finding("key", "note", f"other users can read {file}. Fix: chmod 600 {file}.")


def _network(settings: Settings) -> Iterator[Finding]:
    if settings.base_url is None:
        return
    network = settings.network()
    if network.proxy is not None:
        yield Finding("network", "ok", f"through the proxy {network.proxy.server} ({network.proxy.variable})")
    if network.certificates is not None:
        yield Finding("network", "ok", f"trusts the certificates of {network.variables}, not the public ones")


def _configuration(settings: Settings) -> Iterator[Finding]:
    if warning := exposed():
        yield Finding("configuration", "note", warning)
    check_places(settings)


@dataclass(frozen=True, slots=True)
class _Facts:
    """What the state says: the address of the service, and the end of each cooldown."""

    base_url: str | None = None
    cooldowns: Mapping[str, datetime] = field(default_factory=dict)
    is_erasing: bool = False


def _inspected(settings: Settings, now: datetime, *, is_whole: bool = False) -> tuple[Inspection, _Facts]:
    """Inspect the warehouse and the state.

    Raises WarehouseUnusable, also if they do not belong together, or if the clock is behind.
    """
    from connectors.state.database import state_path
    from connectors.state.identity import read_identity, read_service
    from connectors.state.inbox import Inbox
    from connectors.state.operations import operation_numbers, read_operations
    from connectors.state.progress import read_cooldowns
    from flows.engine.files import check_pair, open_existing_state

    inspected = partial(inspect, settings.warehouse, "gramhouse doctor", now=now, pause=time.sleep)
    with open_existing_state(settings.warehouse) as state:
        if is_whole:
            inbox = set() if state is None else {landing.seq for landing in Inbox(state).after(0)}
            if state is not None:
                inbox |= {*state.read(operation_numbers, "rebuild")}
            published = publication(settings, at=now)
            place = settings.snapshot_file()
            found = inspected(raw=settings.raw_folder(), snapshot=place, publication=published, inbox=inbox)
        else:
            found = inspected()
        of_state = Identity(NEW, 0) if state is None else state.read(read_identity)
        check_pair(state_path(settings.warehouse), of_state, settings.warehouse, found.identity)
        if state is None:
            return found, _Facts()
        state.read(check_clock, now=now)
        cooldowns = state.read(read_cooldowns, now=now)
        return found, _Facts(state.read(read_service), cooldowns, OPERATION in state.read(read_operations))


def _long(cooldowns: Mapping[str, datetime], now: datetime) -> tuple[datetime, str] | None:
    """Return the end of the long cooldowns, and the accounts that they concern, as text; None if there are none."""
    long = {scope: until for scope, until in sorted(cooldowns.items()) if until - now > LONG_COOLDOWN}
    names = [scope.partition(":")[2] or "the account catalogue" for scope in long]
    return (max(long.values()), several(names)) if long else None


def check_api(settings: Settings) -> Iterator[Finding]:
    """Request one page of accounts and one of media, once each, except during a cooldown."""
    now = datetime.now(UTC)
    try:
        inspected, facts = _inspected(settings, now)
        address, key, network = settings.address(), settings.key(), settings.network()
    except WarehouseError:
        yield Finding("API", "note", "not checked: cooldowns are in the warehouse, which cannot be read; see below.")
        return
    except SettingsError:
        yield Finding("API", "note", "not checked: see address, key and network above.")
        return
    cooldowns = facts.cooldowns
    if (long := _long(cooldowns, now)) is not None:
        text = f"no requests for {long[1]} until {moment(long[0], seconds=True)} UTC: {LONG_COOLDOWN_WHY}"
        yield Finding("cooldown", "bad", f"{text}. Fix: {LONG_COOLDOWN_FIX}.")
    if until := cooldowns.get(CATALOGUE_SCOPE):
        text = f"not checked: the account catalogue is rate-limited until {moment(until, seconds=True)} UTC."
        yield Finding("API", "note", text)
    else:
        is_own = inspected.is_current and service_refusal(facts.base_url, normalized(address)) is None
        asked = _asked(address, key, network, settings.page_paths(), cooldowns, settings if is_own else None)
        yield from asyncio.run(asked)


async def _rate_limited(error: "ApiError", scope: str, settings: Settings | None) -> str:
    """Store the wait that an answer asks for; return the message. `settings` are None if there is no place for it."""
    from flows.engine.upkeep import keep_cooldown

    if (seconds := error.retry_after) is None:
        return f"{error}. Rate-limited; not retried."
    kept = settings is not None and await keep_cooldown(settings, scope, seconds)
    advice = "Syncs wait as long." if kept else "Fix: wait as long before the next sync, which does not know of it."
    return f"{error}. Rate-limited for {span(seconds)}; not retried. {advice}"


async def _asked(
    address: str,
    key: SecretStr,
    network: Network,
    paths: PagePaths,
    cooldowns: Mapping[str, datetime],
    settings: Settings | None,
) -> list[Finding]:
    from connectors.source.client import ApiClient
    from connectors.source.endpoints import accounts_request, feed_request
    from connectors.source.errors import ApiError, Disposition

    found: list[Finding] = []
    check, request = "API", accounts_request(None, 50)
    certificates, proxy = network.certificates, network.proxy
    client = ApiClient(address, key, clock=SystemClock(), certificates=certificates, proxy=proxy, paths=paths)
    try:
        async with client:
            response = await client.send(request)
            page = response.page
            accounts = page.accounts if isinstance(page, AccountPage) else ()
            some = f"{count(len(accounts), 'account')}{' or more' if page.next_cursor else ''}"
            text = f"answers, and the key reaches {some} (correlation id {response.correlation_id})"
            found.append(Finding(check, "ok", text))
            if page.rejected:
                text = f"{len(page.rejected)} of {count(page.items, 'record')} on the first page are malformed"
                fix = "contact the service's support; `gramhouse quarantine` shows them after a sync"
                verdict = "bad" if mostly_rejected(len(page.rejected), page.items) else "note"
                found.append(Finding("accounts", verdict, f"{text}: {page.rejected[0].reason}. Fix: {fix}."))
            check = "media"
            free = (each for each in accounts if account_scope(each.id) not in cooldowns)
            if (account := next((each for each in free if each.status == "active"), None)) is None:
                text = "not checked: no account on the first page has a valid token and no cooldown."
                return [*found, Finding(check, "note", text)]
            request = feed_request(next(iter(FEEDS.values())), account.id, None, 1)
            await client.send(request)
            found.append(Finding(check, "ok", f"the key can list media (checked with {account.ig_username})"))
    except ApiError as error:
        if error.failure.disposition is Disposition.WAIT:
            found.append(Finding(check, "note", await _rate_limited(error, request.scope, settings)))
        else:
            # An account that no longer exists is not a problem of the key.
            verdict = "note" if error.failure.outcome == "not_found" and check == "media" else "bad"
            found.append(Finding(check, verdict, f"{error}. Fix: {error.failure.hint}."))
    return found


def _warehouse(settings: Settings) -> Finding:
    file = settings.warehouse
    if writing := holder(file):
        return Finding("warehouse", "note", f"{file} is locked by {writing}; a sync would wait or exit with code 4.")
    if not file.exists():
        snapshot = settings.snapshot_file()
        if settings.snapshot_url() is None and snapshot.exists():
            text = f"{file} does not exist yet, so {another_warehouse(str(snapshot))}"
            return Finding("warehouse", "bad", text)
        return Finding("warehouse", "note", f"{file} does not exist yet: the first sync creates it.")
    found, facts = _inspected(settings, SystemClock().now(), is_whole=True)
    if facts.is_erasing:
        return Finding("warehouse", "bad", UNFINISHED)
    if ahead := found.ahead:
        text = f"{ahead.count:,} times stored in {file} lie in the future, up to {moment(ahead.last)} UTC"
        fix = "check this machine's clock, then run `gramhouse doctor --repair`, which moves them to now"
        return Finding("warehouse", "bad", f"{text}. Fix: {fix}.")
    if settings.base_url and (refusal := service_refusal(facts.base_url, normalized(settings.base_url))):
        return Finding("warehouse", "bad", refusal)
    if found.refused is not None:
        return Finding("warehouse", "bad", f"its data cannot be published: {found.refused}")
    bound = f"; filled from {facts.base_url}" if facts.base_url else ""
    return Finding("warehouse", "ok", f"{file} opens ({naturalsize(file.stat().st_size)}){bound}")


def _bucket(settings: Settings) -> Iterator[Finding]:
    url = settings.snapshot_url()
    if url is None:
        return
    from connectors.buckets.address import open_snapshot_bucket

    bucket, is_writer = open_snapshot_bucket(url), settings.warehouse.exists()
    if is_writer:
        asyncio.run(bucket.check())
    has_snapshot = asyncio.run(bucket.newest()) is not None
    if is_writer:
        yield Finding("bucket", "ok", f"{url} can be written{'' if has_snapshot else ', and has no snapshot yet'}")
    elif has_snapshot:
        yield Finding("bucket", "ok", f"{url} can be read; a copy is at {current_snapshot(settings)}")


def _snapshot(settings: Settings) -> Finding:
    at, place = None, settings.snapshot_file()
    if not place.exists():
        last = current(settings).last if settings.warehouse.exists() else None
        if last is not None and last["published_at"] is not None:
            text = f"{place} does not exist, but a run published it. Fix: `gramhouse publish`."
            return Finding("snapshot", "bad", text)
        return Finding("snapshot", "note", f"{place} does not exist yet: the first sync publishes it.")
    with suppress(SnapshotUnreadable), open_snapshot(place) as snapshot:
        ((at,),) = snapshot.query("SELECT max(snapshot_at) FROM published").rows
    if not isinstance(at, datetime):
        return Finding("snapshot", "bad", f"{place} is not a gramhouse snapshot. Fix: check GRAMHOUSE_SNAPSHOT.")
    return Finding("snapshot", "ok", f"{place} was published at {moment(at.astimezone(UTC))} UTC")


def _prefect(_: Settings) -> Finding:
    url = prefect_api_url()
    if url is None:
        return Finding("Prefect", "note", "PREFECT_API_URL is not set: syncs run directly, without Prefect.")
    from flows.orchestration.processes import import_prefect

    import_prefect()
    from flows.orchestration.flow_run import check_tracker

    asyncio.run(check_tracker())
    return Finding("Prefect", "ok", f"{url} answers")


def _schedules(settings: Settings) -> Finding:
    now = datetime.now(UTC)
    if warning := gap_warning(settings.nightly, settings.stories, settings.time_zone, now):
        return Finding("schedules", "note", warning)
    due = moment(next(fires(settings.nightly, settings.time_zone, now)))
    text = (
        f"`gramhouse up` runs the next nightly sync at {due} {settings.time_zone}; stories are due before they expire"
    )
    return Finding("schedules", "ok", text)


# In the order in which they are shown. An error that a check raises is its finding.
_CHECKS: Mapping[str, Callable[[Settings], Finding | Iterable[Finding]]] = {
    "address": _address,
    "key": _key,
    "network": _network,
    "API": check_api,
    "folders": lambda settings: (Finding(name, "bad", text) for name, text in unwritable_folders(settings)),
    "configuration": _configuration,
    "warehouse": _warehouse,
    "bucket": _bucket,
    "snapshot": _snapshot,
    "Prefect": _prefect,
    "schedules": _schedules,
}

_ERRORS = (SettingsError, WarehouseError, BucketError, TrackerUnreachable, ClusterLost, OSError)


def findings(settings: Settings) -> Iterator[Finding]:
    """Yield the results of all checks."""
    if settings.credentials is not None and prefect_api_url() is not None:
        # Tracked runs use those of the block, even if others are set.
        settings = settings.model_copy(update=dict.fromkeys(("base_url", "api_key", "api_key_file")))
    for name, check in _CHECKS.items():
        try:
            found = check(settings)
            yield from [found] if isinstance(found, Finding) else found
        except _ERRORS as error:
            yield Finding(name, "bad", error_line(error))


def repair(settings: Settings, lift: Callable[[str], bool]) -> Iterator[Finding]:
    """Move times in the future to now, and lift long cooldowns if `lift`, called with what they are, says so."""
    from flows.engine.upkeep import lift_now, repair_now

    moved = asyncio.run(repair_now(settings))
    text = "no stored time lies in the future: nothing to repair"
    if moved:
        what = f"{count(moved.count, 'time')} in the future, up to {moment(moved.last)} UTC"
        text = f"moved back {what}, to now; cooldowns among them start now"
    yield Finding("repair", "ok", text)
    now = datetime.now(UTC)
    if (long := _long(_inspected(settings, now)[1].cooldowns, now)) is not None:
        what = f"the cooldown until {moment(long[0], seconds=True)} UTC of {long[1]}"
        if lift(what):
            asyncio.run(lift_now(settings, until=long[0], now=now))
            yield Finding("repair", "ok", f"lifted {what}")
        else:
            yield Finding("repair", "note", f"kept {what}. Fix: lift it with `gramhouse doctor --repair --yes`.")
